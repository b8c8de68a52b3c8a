"""Edges of many files in chunks of rows, each with its own sorted table of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cge.arrays import Array
from cge.data.files.edges import EdgeOptions, choose_columns, edge_fields, has_edge_header, has_integer_ids
from cge.data.files.formats import find_format
from cge.data.files.numbering import Names
from cge.data.files.table import Table, TextRules
from cge.data.files.text_fields import decode_names
from cge.errors import FileFormatError
from cge.ids import factorize


@dataclass(frozen=True, eq=False)
class EdgeChunk:
    """Edges as positions in `ids`, which ascend; `types` are positions in `type_names`."""

    source: Array
    target: Array
    ids: pa.Array
    weights: Array | None
    types: Array | None
    type_names: list[str]


@dataclass(frozen=True)
class EdgeFiles:
    """Files of edges with the same columns; the ids of the first file decide whether all are integers."""

    tables: list[tuple[Table, dict[str, int]]]
    integer_ids: bool
    reason: str

    @classmethod
    def open(cls, paths: Sequence[Path], options: EdgeOptions) -> EdgeFiles:
        """Inspect the first rows of each file."""
        tables = []
        for path in paths:
            file_format = find_format(path, "edges")
            rules = TextRules(options.text, partial(has_edge_header, options=options), id_columns=2)
            table = file_format.table(path, rules)
            if table.width < 2:
                raise FileFormatError(path, "expected a source and a target, found one column")
            tables.append((table, choose_columns(table, options)))
        first, columns = tables[0]
        for table, others in tables[1:]:
            if set(others) != set(columns):
                parts = ", ".join(sorted(columns))
                raise FileFormatError(table.path, f"expected the columns {parts} as in {first.path.name}")
        integers = options.ids == "int" or (options.ids == "auto" and has_integer_ids(first, columns))
        return cls(tables, integers, f" as in the first row of {first.path.name}" if options.ids == "auto" else "")

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return "weight" in self.tables[0][1]

    @property
    def typed(self) -> bool:
        """Whether edges have types."""
        return "edge_type" in self.tables[0][1]

    def chunks(self, max_rows: int) -> Iterator[EdgeChunk]:
        """Yield the edges of all files, in their order."""
        for table, columns in self.tables:
            fields = edge_fields(columns, self.integer_ids, self.reason)
            for read, names in table.chunks(fields, np.float64, max_rows):
                endpoints = np.concatenate([read.columns[columns[part]] for part in ("source", "target")])
                codes, ids = (
                    _integers(endpoints) if self.integer_ids else _strings(endpoints, checked(table.path, names))
                )
                weights = read.numbers[:, 0] if self.weighted else None
                types, type_names = None, []
                if self.typed:
                    used, types = np.unique(read.columns[columns["edge_type"]], return_inverse=True)
                    type_names = names.strings().take(pa.array(used)).to_pylist()
                half = len(codes) // 2
                yield EdgeChunk(codes[:half], codes[half:], ids, weights, types, type_names)


def checked(path: Path, names: Names) -> pa.Array:
    """Return the names in a file as Arrow strings; the error for one that is not UTF-8 has its line."""
    strings = names.strings()
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        decode_names(path, names)
    return strings


def _integers(values: Array) -> tuple[Array, pa.Array]:
    codes, ids = factorize(values.astype(np.int64, copy=False))
    return codes.astype(np.int32), pa.array(ids)


def _strings(codes: Array, strings: pa.Array) -> tuple[Array, pa.Array]:
    """Return codes into the strings that occur, sorted, and these strings."""
    used = np.zeros(len(strings), bool)
    used[codes] = True
    occurring: Any = np.flatnonzero(used)
    order = pc.sort_indices(strings.take(pa.array(occurring))).to_numpy()
    rank = np.empty(len(strings), np.int32)
    rank[occurring[order]] = np.arange(len(order), dtype=np.int32)
    return rank[codes], strings.take(pa.array(occurring[order]))
