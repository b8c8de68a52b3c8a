"""Files whose rows belong to nodes: lists of nodes, labels and features."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_features
from cge.data.files.dialect import Column, Dialect, TextOptions, column_index, find_column, is_integer
from cge.data.files.file_path import FilePath, file_path, name_file
from cge.data.files.formats import find_format
from cge.data.files.numbering import Names
from cge.data.files.table import Table, TextRules
from cge.data.files.text_fields import MISSING, NAME, NUMBER, Field, Fields, decode_names
from cge.data.files.tokenizer import INTEGER, comma_hint, parse_number
from cge.errors import FileFormatError, InputError, Message, UnknownNodeError, format_value
from cge.graph import Graph
from cge.ids import IdIndex, as_id_array

_NODE_NAMES = ("node", "node_id", "nodeid", "id", "nodes", "name")
_LABEL_NAMES = ("label", "labels", "class", "y", "target", "category")
_FIRST_NAMES = (*_NODE_NAMES, "label", "labels", "class")  # what the first field of a header may be
_MAX_LISTED = 5  # nodes in a message
_ADD_NODES = Message.of("remove these rows, add edges of these nodes, or pass all node ids with {nodes}")


@dataclass(frozen=True)
class FeatureTable:
    """Feature rows; `keys` are their nodes, None where row i belongs to node i; `names` are those of the columns."""

    values: Any
    keys: Array | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelTable:
    """Pairs of a node and a class; `classes` are indices into `names`."""

    nodes: Array
    classes: Array
    names: list[str]
    lines: Array


def read_node_list(path: Path, text_ids: bool, options: TextOptions) -> Array:
    """Read the first column (or the one named `node` or `id`) of a file as ids, which must be unique."""
    file_format = find_format(path, "nodes")
    if file_format.nodes is not None:
        with name_file(path):
            keys, lines = as_id_array(file_format.nodes(path)), None
    else:
        table = file_format.table(path, TextRules(options, _has_node_list_header, min_columns=1))
        fields, keys = _read(table, [_node_field(_node_column(table.names), text_ids)], text_ids, Names())
        lines = fields.lines
    _check_unique_nodes(path, keys, lines)
    return keys


def read_label_table(
    path: Path,
    text_ids: bool,
    options: TextOptions,
    node: Column = None,
    label: Column = None,
    what: str = "label",
    label_names: Collection[str] = _LABEL_NAMES,
) -> LabelTable:
    """Read a table of nodes and labels; messages call the second column `what`, its usual names are `label_names`."""

    def has_header(dialect: Dialect) -> bool:
        if isinstance(node, str) or isinstance(label, str):
            return True
        named = _has_node_column(dialect) and find_column(dialect.rows[0], label_names) is not None
        if named or _starts_with_column_name(dialect):
            return True
        only_row_is_text = len(dialect.rows) == 1 and not is_integer(dialect.rows[0][0])
        return not text_ids and (_only_second_row_is_integer(dialect) or only_row_is_text)

    table = find_format(path, "labels").table(path, TextRules(options, has_header))
    if table.width < 2:
        problem = f"expected two columns, a node and a {what}, found one; separate them by a comma or a tab"
        raise FileFormatError(path, problem)
    node_column, label_column = _label_columns(table, node, label, label_names)
    names = Names()
    fields, keys = _read(table, [_node_field(node_column, text_ids), Field(label_column, NAME, what)], text_ids, names)
    used, classes = np.unique(fields.columns[label_column], return_inverse=True)
    class_names = decode_names(path, names)[used].tolist()
    integers = all(map(is_integer, class_names))
    ordered = sorted(class_names, key=lambda name: (int(name) if integers else 0, name))
    rank = {name: k for k, name in enumerate(ordered)}
    ranks = np.array([rank[name] for name in class_names], np.int64)
    return LabelTable(keys, ranks[classes], ordered, fields.lines)


def _label_columns(table: Table, node: Column, label: Column, label_names: Collection[str]) -> tuple[int, int]:
    def by_option(option: str | int, what: str) -> int:
        return column_index(table.path, option, what, table.names, table.width)

    node_column = _node_column(table.names) if node is None else by_option(node, "node")
    label_column = find_column(table.names or (), label_names) if label is None else by_option(label, "label")
    if label_column is None:
        label_column = 1 if node_column == 0 else 0
    if node_column == label_column:
        raise InputError(Message.of("{node} and {label} must be different columns"))
    return node_column, label_column


def read_labels(
    path: FilePath,
    graph: Graph,
    *,
    multilabel: bool = False,
    node: str | int | None = None,
    label: str | int | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    comment: str | None = "#",
) -> tuple[Array, tuple[str, ...]]:
    """Read a table of nodes and labels: one label per row, nodes without a row are unlabeled.

    Parameters
    ----------
    path : path
        A table, such as CSV or Parquet.
    graph : Graph
        Every node of the table must be in it.
    multilabel : bool
        Whether a node may have several labels, each on a row of its own.
    node, label : str or int, optional
        Columns, by name or by number from 1; by default those with the usual names, else the first and the second.
    header, delimiter, comment
        As for `read_graph`.

    Returns
    -------
    labels : (n,) int64 or (n, c) uint8
        Single labels: the index of each node's class, −1 where it is unknown. With `multilabel`: 1 where the node is
        of the class; a node without a row has zeros only, so "unknown" and "none of these" are the same.
    class_names : tuple of str
        Ascending, as numbers if all are integers, else as text.
    """
    text = TextOptions(header, delimiter, comment)
    return read_labels_with_notes(path, graph, text, multilabel=multilabel, node=node, label=label)[:2]


def read_labels_with_notes(
    path: FilePath, graph: Graph, text: TextOptions, *, multilabel: bool, node: Column, label: Column
) -> tuple[Array, tuple[str, ...], list[str]]:
    """Read labels as `read_labels` does; also return notes on what may have been read wrongly."""
    path = file_path(path)
    text_ids = graph.node_ids.dtype.kind == "O"
    table = read_label_table(path, text_ids, text, node, label)
    if not len(table.nodes):  # Parquet; text without rows is refused before
        raise FileFormatError(path, "the file has no rows; write one for each node with a label")
    node_idx = IdIndex(graph.node_ids).find(table.nodes)
    check_nodes(path, table.nodes, node_idx, graph.node_ids, _unknown_node_hint(table, node_idx))
    names, notes = tuple(table.names), list(_notes(path, table))
    if multilabel:
        matrix = np.zeros((graph.num_nodes, len(names)), np.uint8)
        matrix[node_idx, table.classes] = 1
        return matrix, names, notes
    conflict = first_conflict(node_idx, table.classes, graph.num_nodes)
    if conflict is not None:
        first, second = conflict
        first_label, second_label = (format_value(names[table.classes[row]]) for row in (first, second))
        node_id = format_value(graph.node_ids[[node_idx[second]]].tolist()[0])
        problem = f"node {node_id} has the label {second_label}, but {first_label} in line {table.lines[first]:,}"
        hint = Message.of("keep one, or pass {multilabel}", multilabel=True)
        raise FileFormatError(path, problem, int(table.lines[second]), parameter="multilabel", hint=hint)
    labels = np.full(graph.num_nodes, -1, np.int64)
    labels[node_idx] = table.classes
    return labels, names, notes


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
    table = file_format.table(path, TextRules(options, _has_feature_header))
    key = _node_column(table.names)
    if table.width < 2:
        raise FileFormatError(path, "expected a node and its features, found one column; pass a wider table")
    others = [column for column in range(table.width) if column != key]
    names = tuple(table.names[column] for column in others) if table.names else ()
    labels = [*map(format_value, table.names)] if table.names else range(1, table.width + 1)
    fields = [_node_field(key, text_ids), *(Field(column, NUMBER, f"column {labels[column]}") for column in others)]
    rows, keys = _read(table, fields, text_ids, Names())
    _check_unique_nodes(path, keys, rows.lines)
    return FeatureTable(rows.numbers, keys, names)


def _read(table: Table, fields: list[Field], text_ids: bool, names: Names) -> tuple[Fields, Array]:
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
        check_nodes(path, table.keys, node_idx, node_ids, _ADD_NODES)
        if len(node_idx) < len(node_ids):
            missing = np.delete(node_ids, node_idx)
            first, count = ", ".join(map(format_value, missing[:_MAX_LISTED].tolist())), len(missing)
            nodes = "node of the graph has" if count == 1 else "nodes of the graph have"
            raise FileFormatError(path, f"{count:,} {nodes} no row, the first: {first}; give each node one row")
        values = np.empty_like(table.values)
        values[node_idx] = table.values
    with name_file(path):
        return checked_features(values, len(node_ids), copy=False)  # just read: no one else uses them


def check_nodes(path: Path, keys: Array, node_idx: Array, node_ids: Array, hint: str) -> None:
    """Raise if a key is not among `node_ids`, that is, if its index is −1."""
    if (node_idx < 0).any():
        unknown = list(dict.fromkeys(keys[node_idx < 0].tolist()))
        if (node_idx < 0).all() and len(unknown) > 1:
            first_ids = ", ".join(map(format_value, node_ids[:_MAX_LISTED].tolist()))
            hint = f"no row has a node of the graph, whose first ids are {first_ids}; write ids alike in both files"
        raise UnknownNodeError(str(path), unknown[:_MAX_LISTED], len(unknown), hint, node_ids[:2].tolist())


def _check_unique_nodes(path: Path, keys: Array, lines: Array | None) -> None:
    """Raise if a node has two rows."""
    duplicate = IdIndex(keys).first_duplicate()
    if duplicate is not None:
        first, second = (None, None) if lines is None else lines[np.flatnonzero(keys == duplicate)[:2]].tolist()
        place = "" if first is None else f", first in line {first:,}"
        raise FileFormatError(path, f"node {format_value(duplicate)} occurs twice{place}; keep one row", second)


def _node_field(column: int, text_ids: bool) -> Field:
    return Field(column, NAME if text_ids else INTEGER, "node id", " as in the graph")


def _node_column(names: list[str] | None) -> int:
    return find_column(names or (), _NODE_NAMES) or 0


def _has_node_list_header(dialect: Dialect) -> bool:
    return _has_node_column(dialect) or _only_second_row_is_integer(dialect)


def _has_feature_header(dialect: Dialect) -> bool:
    first = dialect.rows[0]
    if _has_node_column(dialect) or _starts_with_column_name(dialect) or first[0] == "":
        return True
    return all(parse_number(text) is None and comma_hint(text) is None for text in first[1:])


def _has_node_column(dialect: Dialect) -> bool:
    return find_column(dialect.rows[0], _NODE_NAMES) is not None


def _starts_with_column_name(dialect: Dialect) -> bool:
    return dialect.rows[0][0].strip().lower() in _FIRST_NAMES


def _only_second_row_is_integer(dialect: Dialect) -> bool:
    return len(dialect.rows) == 2 and not is_integer(dialect.rows[0][0]) and is_integer(dialect.rows[1][0])


def first_conflict(node_idx: Array, classes: Array, size: int) -> tuple[int, int] | None:
    """Return the first row that gives a node another class than an earlier row does: (earlier row, this row)."""
    first = np.full(size, -1)
    first[node_idx[::-1]] = np.arange(len(node_idx))[::-1]  # the first row of each node
    rows = np.flatnonzero(classes[first[node_idx]] != classes)
    return (int(first[node_idx[rows[0]]]), int(rows[0])) if len(rows) else None


def _notes(path: Path, table: LabelTable) -> Iterator[str]:
    """Yield notes on a first row that may be a header, and on classes that may mean a missing label."""
    if _may_be_header(table):
        node, label = format_value(table.nodes[:1].tolist()[0]), format_value(table.names[table.classes[0]])
        note = f"{path}, line 1: {node} was read as a node of the class {label}, which occurs nowhere else"
        yield Message(note, "; if the line names the columns, name them too by ", Message.of("{node} and {label}"))
    for code, name in enumerate(table.names):
        if name.casefold() in MISSING:
            label = f"the label {format_value(name)} ({np.count_nonzero(table.classes == code):,} times)"
            hint = "remove its rows if it means that the class is unknown"
            yield f"{path}: {label} was read as a class like any other; {hint}"


def _may_be_header(table: LabelTable) -> bool:
    """Return whether the class of the first line has one node, while all other classes have several."""
    counts = np.bincount(table.classes)
    return bool(table.lines[0] == 1 and counts[table.classes[0]] == 1 and (counts == 1).sum() == 1 and len(counts) > 1)


def _unknown_node_hint(table: LabelTable, node_idx: Array) -> str:
    """Return the hint for nodes that are not in the graph; the first row may be a header."""
    header = Message.of(f"if line {table.lines[0]:,} names the columns, name them too by {{node}} and {{label}}")
    if node_idx[0] < 0 and len(node_idx) > 1 and (node_idx[1:] >= 0).all():
        return Message(header, ", else remove it")
    return Message(header, "; ", _ADD_NODES) if node_idx[0] < 0 and _may_be_header(table) else _ADD_NODES
