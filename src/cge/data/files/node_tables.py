"""Tables whose rows belong to nodes: lists of nodes, labels and features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.files.arrays import load_npy, load_npz
from cge.data.files.blocks import BLOCK_BYTES
from cge.data.files.dialect import (
    Dialect,
    TextOptions,
    as_number,
    column_place,
    decimal_comma,
    is_integer,
    known,
    look,
    unique_header,
)
from cge.data.files.interning import Names
from cge.data.files.parquet import file_kind, parquet_schema, read_parquet_fields
from cge.data.files.text_fields import NAME, NUMBER, Field, Fields, decoded, read_fields
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, InputError, Message, UnknownNodeError, format_value
from cge.ids import IdIndex, as_id_array

__all__ = [
    "ADD_NODES",
    "FeatureTable",
    "LabelTable",
    "align",
    "read_feature_table",
    "read_label_table",
    "read_node_list",
    "refuse_unknown",
]

Array = npt.NDArray[Any]

_NODES = ("node", "node_id", "nodeid", "id", "nodes", "name")
_LABELS = ("label", "labels", "class", "y", "target", "category")
_TITLES = (*_NODES, "label", "labels", "class")  # what a first field of a header may be
_LISTED = 5
ADD_NODES = "remove these rows, or add the nodes to the graph (isolated ones by a list of all nodes)"


@dataclass(frozen=True)
class FeatureTable:
    """Feature rows; `keys` are their nodes, None where row i belongs to node i. `lines` tell where a key stands.

    `names` are those of the columns; empty where the file has no header.
    """

    values: Any
    keys: Array | None = None
    lines: Array | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelTable:
    """Pairs of a node and a class; `classes` are numbers into `names`."""

    nodes: Array
    classes: Array
    names: list[str]
    lines: Array


def read_node_list(path: Path, text_ids: bool, options: TextOptions, block_size: int = BLOCK_BYTES) -> Array:
    """Read the first column (or the one named `node` or `id`) of a file as ids, which must be unique."""
    kind = file_kind(path, ("text", "parquet", "npy"))
    if kind == "npy":
        try:
            keys = as_id_array(load_npy(path))
        except InputError as error:
            raise error if isinstance(error, FileFormatError) else FileFormatError(path, error.message) from None
        lines = None
    else:

        def header(dialect: Dialect) -> bool:
            return _names_nodes(dialect) or _integers_follow(dialect)

        def fields(columns: list[str] | None, _: int) -> list[Field]:
            return [_node_field(_node_column(columns), text_ids)]

        read, keys = _read(path, kind, options, text_ids, header, fields, block_size, least=1)
        lines = read.lines
    _refuse_twice(path, keys, lines)
    return keys


def read_label_table(
    path: Path,
    text_ids: bool,
    options: TextOptions,
    node: str | int | None,
    label: str | int | None,
    block_size: int = BLOCK_BYTES,
    what: str = "label",
) -> LabelTable:
    """Read a table of nodes and labels; messages call the second column `what`."""
    kind = file_kind(path, ("text", "parquet"))
    places: list[int] = []

    def header(dialect: Dialect) -> bool:
        if isinstance(node, str) or isinstance(label, str):
            return True
        named = _names_nodes(dialect) and known(dialect.rows[0], _LABELS) is not None
        return named or _titled(dialect) or (not text_ids and (_integers_follow(dialect) or _is_words(dialect)))

    def fields(columns: list[str] | None, count: int) -> list[Field]:
        if count < 2:
            raise FileFormatError(
                path, f"expected two columns, a node and a {what}, found one; separate them by a comma or a tab"
            )
        first = _node_column(columns) if node is None else column_place(path, node, "node", columns, count)
        second = known(columns or (), _LABELS) if label is None else column_place(path, label, "label", columns, count)
        if second is None:
            second = 1 if first == 0 else 0
        if first == second:
            raise InputError(Message.of("{node} and {label} must be different columns"))
        places[:] = first, second
        return [_node_field(first, text_ids), Field(second, NAME, what)]

    names = Names()
    read, keys = _read(path, kind, options, text_ids, header, fields, block_size, names)
    classes = read.columns[int(places[1] > places[0])]
    used, classes = np.unique(classes, return_inverse=True)
    found = decoded(path, names)[used].tolist()
    order = sorted(range(len(found)), key=_class_order(found))
    rank = np.empty(len(found), np.int64)
    rank[order] = np.arange(len(found))
    return LabelTable(keys, rank[classes], [found[k] for k in order], read.lines)


def _class_order(names: list[str]) -> Callable[[int], Any]:
    if all(map(is_integer, names)):
        return lambda k: (int(names[k]), names[k])
    return lambda k: names[k]


def read_feature_table(path: Path, text_ids: bool, options: TextOptions, block_size: int = BLOCK_BYTES) -> FeatureTable:
    """Read features: rows keyed by node (text, Parquet) or in the order of the nodes (.npy, .npz)."""
    kind = file_kind(path, ("text", "parquet", "npy", "npz"))
    if kind in ("npy", "npz"):
        values = load_npy(path) if kind == "npy" else load_npz(path, ("features", "x", "X", "arr_0"))
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            raise FileFormatError(
                path, f"expected numbers of shape (nodes, features), found {values.dtype} of shape {values.shape}"
            )
        return FeatureTable(values)

    def header(dialect: Dialect) -> bool:
        first = dialect.rows[0]
        if _names_nodes(dialect) or _titled(dialect) or first[0] == "":
            return True
        return all(as_number(one) is None and decimal_comma(one) is None for one in first[1:])

    names: list[str] = []

    def fields(columns: list[str] | None, count: int) -> list[Field]:
        key = _node_column(columns)
        names.extend(name for place, name in enumerate(columns or ()) if place != key)
        if count < 2:
            raise FileFormatError(path, "expected a node and its features, found one column; pass a wider table")
        called = [f"column {format_value(columns[k])}" if columns else f"column {k + 1}" for k in range(count)]
        return [_node_field(key, text_ids)] + [Field(k, NUMBER, called[k]) for k in range(count) if k != key]

    read, keys = _read(path, kind, options, text_ids, header, fields, block_size)
    return FeatureTable(read.numbers, keys, read.lines, tuple(names))


def align(path: Path, table: FeatureTable, node_ids: Array) -> Any:
    """Return feature rows in the order of `node_ids`."""
    if table.keys is None:
        if table.values.shape[0] != len(node_ids):
            raise FileFormatError(
                path, f"found {table.values.shape[0]:,} rows for {len(node_ids):,} nodes; give each node one row"
            )
        return table.values
    places = IdIndex(node_ids).find(table.keys)
    refuse_unknown(
        path,
        table.keys,
        places,
        node_ids,
        "remove these rows, or add the nodes to the graph (isolated ones by a list of all nodes)",
    )
    _refuse_twice(path, table.keys, table.lines)
    if len(places) < len(node_ids):
        absent = np.ones(len(node_ids), bool)
        absent[places] = False
        first = ", ".join(map(format_value, node_ids[absent][:_LISTED].tolist()))
        count = int(absent.sum())
        nodes = "node of the graph has" if count == 1 else "nodes of the graph have"
        raise FileFormatError(path, f"{count:,} {nodes} no row, the first: {first}; give each node one row")
    values = np.empty_like(table.values)
    values[places] = table.values
    return values


def refuse_unknown(path: Path, keys: Array, places: Array, node_ids: Array, hint: str) -> None:
    """Raise if a key has no place among `node_ids`."""
    if (places < 0).any():
        unknown = list(dict.fromkeys(keys[places < 0].tolist()))
        if (places < 0).all() and len(unknown) > 1:
            there = ", ".join(map(format_value, node_ids[:_LISTED].tolist()))
            hint = f"no row has a node of the graph, whose first ids are {there}; write ids alike in both files"
        raise UnknownNodeError(str(path), unknown[:_LISTED], len(unknown), hint)


def _refuse_twice(path: Path, keys: Array, lines: Array | None) -> None:
    twice = IdIndex(keys).first_duplicate()
    if twice is not None:
        places = np.flatnonzero(keys == twice)[:2]
        if lines is None:
            raise FileFormatError(path, f"node {format_value(twice)} stands twice; keep one")
        first, second = (int(line) for line in lines[places])
        raise FileFormatError(
            path, f"node {format_value(twice)} stands twice, first in line {first:,}; keep one", second
        )


def _read(
    path: Path,
    kind: str,
    options: TextOptions,
    text_ids: bool,
    header: Callable[[Dialect], bool],
    choose: Callable[[list[str] | None, int], list[Field]],
    block_size: int,
    names: Names | None = None,
    least: int = 2,
) -> tuple[Fields, Array]:
    """Read the fields that `choose` picks by the header; the first of them is the node, whose ids are returned too."""
    names = Names() if names is None else names
    if kind == "parquet":
        columns = parquet_schema(path).names
        unique_header(path, columns)
        fields = choose(columns, len(columns))
        read = read_parquet_fields(path, fields, names, np.float32)
    else:
        dialect = look(path, options, least=least)
        dialect = replace(dialect, header=header(dialect) if options.header is None else options.header)
        if dialect.data is None:
            raise FileFormatError(path, "the file holds a header but no rows")
        if dialect.names:
            unique_header(path, dialect.names, dialect.first_line)
        fields = choose(dialect.names, dialect.columns)
        read = read_fields(path, dialect, fields, names, number_type=np.float32, keep_lines=True, block_size=block_size)
    # Columns come back in the order of the file.
    place = sorted(field.column for field in fields if field.kind != NUMBER).index(fields[0].column)
    keys = read.columns[place]
    return read, decoded(path, names)[keys] if text_ids else keys.astype(np.int64)


def _node_field(column: int, text_ids: bool) -> Field:
    return Field(column, NAME if text_ids else INTEGER, "node id", " as in the graph")


def _node_column(columns: list[str] | None) -> int:
    return known(columns or (), _NODES) or 0


def _names_nodes(dialect: Dialect) -> bool:
    return known(dialect.rows[0], _NODES) is not None


def _integers_follow(dialect: Dialect) -> bool:
    return len(dialect.rows) == 2 and not is_integer(dialect.rows[0][0]) and is_integer(dialect.rows[1][0])


def _titled(dialect: Dialect) -> bool:
    return dialect.rows[0][0].strip().lower() in _TITLES


def _is_words(dialect: Dialect) -> bool:
    """Say whether the only row has no integer where ids are integers."""
    return len(dialect.rows) == 1 and not is_integer(dialect.rows[0][0])
