"""Node features as column slabs, written from arrays or tables in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.files.dialect import TextOptions
from cge.data.files.formats import find_format
from cge.data.files.node_tables import ADD_NODES, feature_fields, open_feature_table
from cge.data.files.table import Table
from cge.data.files.text_fields import Field
from cge.data.stored.edge_chunks import checked
from cge.data.stored.folder import SLAB_COLUMNS
from cge.data.stored.id_table import IdTable
from cge.data.stored.work_files import create_array, renamed
from cge.errors import FileFormatError, InputError, Message, UnknownNodeError, format_value


@dataclass(frozen=True, eq=False)
class FeatureFiles:
    """Files of features with the same columns: one array whose row i belongs to node i, or tables with ids."""

    paths: list[Path]
    array: Array | None
    tables: list[tuple[Table, list[Field]]]
    names: tuple[str, ...]

    @classmethod
    def open(cls, paths: list[Path], text_ids: bool, text: TextOptions) -> FeatureFiles:
        """Inspect the files."""
        reader = find_format(paths[0], "features").features
        if reader is not None:
            if len(paths) > 1:
                raise InputError(f"{paths[0]} is an array, of which there may be only one; give tables with ids")
            array = np.load(paths[0], "r", allow_pickle=False) if paths[0].suffix == ".npy" else reader(paths[0])
            if sp.issparse(array):
                hint = "reduce them first, for example by a truncated SVD, or fit in memory without 'cge ingest'"
                raise FileFormatError(paths[0], "stored graphs have dense features, these are sparse", hint=hint)
            if array.ndim != 2 or array.dtype.kind not in "fiub":
                problem = f"expected numbers of shape (nodes, features), found {array.dtype} of shape {array.shape}"
                raise FileFormatError(paths[0], problem)
            return cls(paths, array, [], ())
        tables: list[tuple[Table, list[Field]]] = []
        names: tuple[str, ...] = ()
        for path in paths:
            table = open_feature_table(path, text)
            fields, names = feature_fields(table, text_ids)
            if tables and len(fields) != len(tables[0][1]):
                problem = f"expected {len(tables[0][1])} columns as in {paths[0].name}, found {len(fields)}"
                raise FileFormatError(path, problem)
            tables.append((table, fields))
        return cls(paths, None, tables, names)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.array.shape[1]) if self.array is not None else len(self.tables[0][1]) - 1

    def chunks(self, text_ids: bool, max_rows: int) -> Iterator[tuple[Path, Any, Array]]:
        """Yield path, ids and features of chunks of the tables; ids are an Arrow array."""
        for table, fields in self.tables:
            for read, names in table.chunks(fields, np.float32, max_rows):
                codes = read.columns[fields[0].column]
                ids = checked(table.path, names).take(pa.array(codes)) if text_ids else pa.array(codes, pa.int64())
                yield table.path, ids, read.numbers


def write_slabs(folder: Path, files: FeatureFiles, ids: IdTable, how: str, max_rows: int) -> None:
    """Write features as slabs of columns; nodes without a row are an error, or get zeros or the mean, by `how`."""
    count, width = len(ids), files.width
    bounds = [(first, min(first + SLAB_COLUMNS, width)) for first in range(0, width, SLAB_COLUMNS)]
    paths = [folder / f"x-{number:04d}.npy" for number in range(len(bounds))]
    shapes = [(count, stop - first) for first, stop in bounds]
    with ExitStack() as stack:
        temporary = [stack.enter_context(renamed(path)) for path in paths]
        slabs = [create_array(path, shape, np.float32) for path, shape in zip(temporary, shapes, strict=True)]
        _fill_slabs(slabs, bounds, files, ids, how, max_rows)


def _fill_slabs(
    slabs: list[Array], bounds: list[tuple[int, int]], files: FeatureFiles, ids: IdTable, how: str, max_rows: int
) -> None:
    count = len(ids)

    def put(rows: Any, values: Array, path: Path) -> None:
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(values, np.float32)
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
            place = ids.slice(*(int(np.arange(count)[rows][row]) + np.array([0, 1]))).tolist()[0]
            raise FileFormatError(path, f"the features of node {format_value(place)} are not finite in float32")
        for slab, (first, stop) in zip(slabs, bounds, strict=True):
            slab[rows] = numbers[:, first:stop]

    if files.array is not None:
        if len(files.array) != count:
            problem = f"found {len(files.array):,} rows for {count:,} nodes; give each node one row"
            raise FileFormatError(files.paths[0], problem)
        for first in range(0, count, max_rows):
            put(slice(first, first + max_rows), files.array[first : first + max_rows], files.paths[0])
    else:
        _write_tables(files, ids, how, max_rows, put, slabs)
    for slab in slabs:
        if isinstance(slab, np.memmap):
            slab.flush()


def _write_tables(files: FeatureFiles, ids: IdTable, how: str, max_rows: int, put: Any, slabs: list[Array]) -> None:
    present, total = np.zeros(len(ids), bool), np.zeros(files.width)
    for path, keys, values in files.chunks(ids.is_text, max_rows):
        rows = ids.find(keys.to_pylist())
        if (rows < 0).any():
            unknown = keys.filter(pa.array(rows < 0)).to_pylist()
            raise UnknownNodeError(str(path), unknown[:5], len(unknown), ADD_NODES)
        if present[rows].any() or len(np.unique(rows)) < len(rows):
            order = np.argsort(rows, kind="stable")
            twice = present[rows]
            twice[order[1:]] |= rows[order[1:]] == rows[order[:-1]]
            node = format_value(keys[int(np.flatnonzero(twice)[0])].as_py())
            raise FileFormatError(path, f"node {node} occurs twice; keep one row")
        present[rows] = True
        total += values.sum(axis=0, dtype=np.float64)
        put(rows, values, path)
    missing = np.flatnonzero(~present)
    if len(missing) and how == "error":
        node = format_value(ids.slice(int(missing[0]), int(missing[0]) + 1).tolist()[0])
        hint = Message.of("give each node one row, or pass {missing_features}", missing_features="mean")
        raise FileFormatError(files.paths[0], f"{len(missing):,} nodes have no row, the first: {node}", hint=hint)
    if len(missing) and how == "mean":
        mean = (total / max(int(present.sum()), 1)).astype(np.float32)
        for number, slab in enumerate(slabs):
            slab[missing] = mean[number * SLAB_COLUMNS : number * SLAB_COLUMNS + slab.shape[1]]
