"""Files whose rows belong to nodes: lists of nodes, and features; `labels` reads those of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_features
from cge.data.files.dialect import Dialect, TextOptions, find_column, is_integer
from cge.data.files.file_path import name_file
from cge.data.files.formats import find_format
from cge.data.files.numbering import Names
from cge.data.files.table import Table, TextRules
from cge.data.files.text_fields import NAME, NUMBER, Field, Fields, decode_names
from cge.data.files.tokenizer import INTEGER, comma_hint, parse_number
from cge.errors import FileFormatError, InputError, Message, UnknownNodeError, counted, format_value
from cge.ids import IdIndex, as_id_array, similar_id

_NODE_NAMES = ("node", "node_id", "nodeid", "id", "nodes", "name")
_FIRST_NAMES = (*_NODE_NAMES, "label", "labels", "class")  # what the first field of a header may be
_INDEX_NAMES = ("", "unnamed: 0", "__index_level_0__")  # of pandas' index
MISSING_ROWS = ("error", "zero", "mean")
_MAX_LISTED = 5  # nodes in a message
ADD_NODES = Message.of("remove these rows, add edges of these nodes, or pass all node ids with {nodes}")


@dataclass(frozen=True)
class FeatureTable:
    """Feature rows; `keys` are their nodes, None where row i belongs to node i; `names` are those of the columns."""

    values: Any
    keys: Array | None = None
    names: tuple[str, ...] = ()


def read_node_list(path: Path, text_ids: bool, options: TextOptions) -> Array:
    """Read the first column (or the one named `node` or `id`) of a file as ids, which must be unique."""
    file_format = find_format(path, "nodes")
    if file_format.nodes is not None:
        with name_file(path):
            keys, lines = as_id_array(file_format.nodes(path)), None
    else:
        table = file_format.table(path, TextRules(options, _has_node_list_header, min_columns=1))
        fields, keys = read_rows(table, [node_field(node_column(table.names), text_ids)], text_ids, Names())
        lines = fields.lines
    check_unique_nodes(path, keys, lines)
    return keys


def read_feature_table(path: Path, text_ids: bool, options: TextOptions) -> FeatureTable:
    """Read features: rows keyed by node (tables) or in the order of the nodes (arrays)."""
    file_format = find_format(path, "features")
    if file_format.features is not None:
        values = file_format.features(path)
        values = values if sp.issparse(values) else np.asarray(values)
        if values.ndim != 2 or values.dtype.kind not in "fiub":
            problem = f"expected numbers of shape (nodes, features), found {values.dtype} of shape {values.shape}"
            raise FileFormatError(path, problem)
        return FeatureTable(values)
    table = open_feature_table(path, options)
    fields, names = feature_fields(table, text_ids)
    rows, keys = read_rows(table, fields, text_ids, Names())
    check_unique_nodes(path, keys, rows.lines)
    return FeatureTable(rows.numbers, keys, names)


def open_feature_table(path: Path, options: TextOptions) -> Table:
    """Open a table of nodes and features."""
    return find_format(path, "features").table(path, TextRules(options, _has_feature_header))


def feature_fields(table: Table, text_ids: bool) -> tuple[list[Field], tuple[str, ...]]:
    """Return the column of nodes and those of features, and the names of the latter."""
    key = node_column(table.names)
    if table.width < 2:
        raise FileFormatError(table.path, "expected a node and its features, found one column; pass a wider table")
    index = {0} if table.names and key and is_index_name(table.names[0]) else set()
    others = [column for column in range(table.width) if column not in {key, *index}]
    names = tuple(table.names[column] for column in others) if table.names else ()
    labels = [*map(format_value, table.names)] if table.names else range(1, table.width + 1)
    return [node_field(key, text_ids), *(Field(column, NUMBER, f"column {labels[column]}") for column in others)], names


def read_rows(table: Table, fields: list[Field], text_ids: bool, names: Names) -> tuple[Fields, Array]:
    """Read columns, the first of which is the node; its ids are returned too."""
    rows = table.read(fields, names, np.float32, True)
    keys = rows.columns[fields[0].column]
    return rows, decode_names(table.path, names)[keys] if text_ids else keys.astype(np.int64)


def align_features(path: Path, table: FeatureTable, node_ids: Array) -> Features:
    """Return feature rows in the order of `node_ids`, checked."""
    values = table.values
    if table.keys is None:
        if values.shape[0] != len(node_ids):
            problem = f"found {values.shape[0]:,} rows for {len(node_ids):,} nodes; give each node one row"
            raise FileFormatError(path, problem)
    else:
        node_idx = IdIndex(node_ids).find(table.keys)
        check_nodes(path, table.keys, node_idx, node_ids, ADD_NODES)
        if len(node_idx) < len(node_ids):
            missing = np.delete(node_ids, node_idx)
            first, count = ", ".join(map(format_value, missing[:_MAX_LISTED].tolist())), len(missing)
            nodes = "node of the graph has" if count == 1 else "nodes of the graph have"
            hint = Message.of("give each node one row, or pass {missing_features}", missing_features="mean")
            raise FileFormatError(path, f"{count:,} {nodes} no row, the first: {first}", hint=hint)
        values = np.empty_like(table.values)
        values[node_idx] = table.values
    with name_file(path):
        return checked_features(values, len(node_ids), copy=False)  # just read: no one else uses them


def fill_missing(path: Path, table: FeatureTable, node_ids: Array, how: str) -> tuple[FeatureTable, list[str]]:
    """Return features with a row of zeros, or of the column means, for each node that has none; and a note."""
    if how not in MISSING_ROWS:
        raise InputError(parameter="missing_features", expected="'error', 'zero' or 'mean'", found=how)
    if how == "error" or table.keys is None:
        return table, []
    missing = node_ids[IdIndex(table.keys).find(node_ids) < 0]
    if not len(missing) or not len(table.keys):
        return table, []
    mean = table.values.mean(axis=0, dtype=np.float64) if how == "mean" else np.zeros(table.values.shape[1])
    rows = np.tile(mean.astype(table.values.dtype), (len(missing), 1))
    text = "zero" if how == "zero" else "the mean of the others"
    nodes = f"the features of {counted(len(missing), 'node')} without a row are"
    filled = FeatureTable(np.concatenate([table.values, rows]), np.concatenate([table.keys, missing]), table.names)
    return filled, [f"{path}: {nodes} {text}"]


def check_nodes(path: Path, keys: Array, node_idx: Array, node_ids: Array, hint: str) -> None:
    """Raise if a key is not among `node_ids`, that is, if its index is −1."""
    if (node_idx < 0).any():
        unknown = list(dict.fromkeys(keys[node_idx < 0].tolist()))
        if (node_idx < 0).all() and len(unknown) > 1:
            first_ids = ", ".join(map(format_value, node_ids[:_MAX_LISTED].tolist()))
            hint = f"no row has a node of the graph, whose first ids are {first_ids}; write ids alike in both files"
        similar = similar_id(unknown[0], node_ids) if len(unknown) == 1 else None
        raise UnknownNodeError(str(path), unknown[:_MAX_LISTED], len(unknown), hint, node_ids[:2].tolist(), similar)


def check_unique_nodes(path: Path, keys: Array, lines: Array | None) -> None:
    """Raise if a node has two rows."""
    duplicate = IdIndex(keys).first_duplicate()
    if duplicate is not None:
        first, second = (None, None) if lines is None else lines[np.flatnonzero(keys == duplicate)[:2]].tolist()
        place = "" if first is None else f", first in line {first:,}"
        raise FileFormatError(path, f"node {format_value(duplicate)} occurs twice{place}; keep one row", second)


def node_field(column: int, text_ids: bool) -> Field:
    """Return the column of node ids."""
    return Field(column, NAME if text_ids else INTEGER, "node id", " as in the graph")


def node_column(names: list[str] | None, after_index: bool = False) -> int:
    """Return the column of nodes: by its name, else the first; the second `after_index`, if pandas' index is first."""
    by_name = find_column(names or (), _NODE_NAMES)
    has_index = after_index and names is not None and len(names) > 2 and is_index_name(names[0])
    return int(has_index) if by_name is None else by_name


def is_index_name(name: str) -> bool:
    """Return whether a column has the name that pandas gives to its index: none.

    >>> is_index_name(""), is_index_name("Unnamed: 0"), is_index_name("id")
    (True, True, False)
    """
    return name.strip().lower() in _INDEX_NAMES


def look_like_ids(values: Sequence[str]) -> bool:
    """Return whether values are integers, or text that is no number."""
    return all(is_integer(value) for value in values) or all(parse_number(value) is None for value in values)


def counts_up(values: Sequence[str]) -> bool:
    """Return whether values count from 0 or 1."""
    return any(values == [str(k) for k in range(start, start + len(values))] for start in (0, 1))


def _has_node_list_header(dialect: Dialect) -> bool:
    return has_node_column(dialect) or only_second_row_is_integer(dialect)


def _has_feature_header(dialect: Dialect) -> bool:
    first = dialect.rows[0]
    if has_node_column(dialect) or starts_with_column_name(dialect) or first[0] == "":
        return True
    numbered = len(first) > 3 and first[1:] == [str(k) for k in range(len(first) - 1)]  # as pandas names columns
    return numbered or all(parse_number(text) is None and comma_hint(text) is None for text in first[1:])


def has_node_column(dialect: Dialect) -> bool:
    """Return whether the first row names a column of nodes."""
    return find_column(dialect.rows[0], _NODE_NAMES) is not None


def starts_with_column_name(dialect: Dialect) -> bool:
    """Return whether the first field is a usual name of a column."""
    return dialect.rows[0][0].strip().lower() in _FIRST_NAMES


def only_second_row_is_integer(dialect: Dialect) -> bool:
    """Return whether the second row starts with an integer, and the first does not."""
    return len(dialect.rows) == 2 and not is_integer(dialect.rows[0][0]) and is_integer(dialect.rows[1][0])
