"""Files of labels: a table of nodes and labels, with notes on what may have been read wrongly."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.data.files.dialect import Column, Dialect, TextOptions, column_index, find_column, is_integer
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.formats import find_format
from cge.data.files.node_tables import (
    ADD_NODES,
    check_nodes,
    has_node_column,
    is_index_name,
    node_column,
    node_field,
    only_second_row_is_integer,
    read_rows,
    starts_with_column_name,
)
from cge.data.files.numbering import Names
from cge.data.files.table import Table, TextRules
from cge.data.files.text_fields import MISSING, NAME, Field, decode_names
from cge.errors import FileFormatError, InputError, Message, counted, format_list, format_value
from cge.graph import Graph
from cge.ids import IdIndex

_LABEL_NAMES = ("label", "labels", "class", "y", "target", "category")
_MISSING_LABELS = ("error", "skip")
_SKIP = Message.of("pass {missing_labels} to leave such rows out", missing_labels="skip")
_QUOTE = "put a label that contains the separator in double quotes"


@dataclass(frozen=True)
class LabelTable:
    """Pairs of a node and a class; `classes` are indices into `names`. `header`: the first row names the columns."""

    nodes: Array
    classes: Array
    names: list[str]
    lines: Array
    header: bool = True

    def kept(self, rows: Array) -> LabelTable:
        """Return some rows, and their classes only."""
        used, classes = np.unique(self.classes[rows], return_inverse=True)
        names = [self.names[code] for code in used.tolist()]
        return LabelTable(self.nodes[rows], classes, names, self.lines[rows], self.header)


def read_label_table(
    path: Path,
    text_ids: bool,
    options: TextOptions,
    node: Column = None,
    label: Column = None,
    what: str = "label",
    label_names: Collection[str] = _LABEL_NAMES,
    optional: bool = False,
) -> LabelTable:
    """Read a table of nodes and labels; messages call the second column `what`, its usual names are `label_names`.

    Labels may be empty if they are `optional`.
    """

    def has_header(dialect: Dialect) -> bool:
        if isinstance(node, str) or isinstance(label, str):
            return True
        named = has_node_column(dialect) and find_column(dialect.rows[0], label_names) is not None
        if named or starts_with_column_name(dialect) or is_index_name(dialect.rows[0][0]):
            return True
        only_row_is_text = len(dialect.rows) == 1 and not is_integer(dialect.rows[0][0])
        return not text_ids and (only_second_row_is_integer(dialect) or only_row_is_text)

    table = find_format(path, "labels").table(path, TextRules(options, has_header))
    if table.width < 2:
        problem = f"expected two columns, a node and a {what}, found one; separate them by a comma or a tab"
        raise FileFormatError(path, problem)
    if table.width > 2 and table.names is None and node is None and label is None:
        problem = f"found {table.width} columns without a header, expected a node and a {what}"
        hint = Message.of(f"{_QUOTE}, or name the columns by {{node}} and {{label}}", node=1, label=2)
        raise FileFormatError(path, problem, table.dialect.first_line if table.dialect else None, hint=hint)
    key, value = _columns(table, node, label, label_names)
    skip = _SKIP if what == "label" else ""
    field = Field(value, NAME, what, hint=skip, quote_hint=_QUOTE if what == "label" else "", optional=optional)
    names = Names()
    fields, keys = read_rows(table, [node_field(key, text_ids), field], text_ids, names)
    used, classes = np.unique(fields.columns[value], return_inverse=True)
    class_names = decode_names(path, names)[used].tolist()
    integers = all(map(is_integer, filter(None, class_names)))
    ordered = sorted(class_names, key=lambda name: (int(name or 0) if integers else 0, name))
    rank = {name: k for k, name in enumerate(ordered)}
    ranks = np.array([rank[name] for name in class_names], np.int64)
    return LabelTable(keys, ranks[classes], ordered, fields.lines, table.names is not None)


def _columns(table: Table, node: Column, label: Column, label_names: Collection[str]) -> tuple[int, int]:
    """Return the columns of nodes and labels: as given, by name, or else the first two after a pandas index."""

    def by_option(option: str | int, what: str) -> int:
        return column_index(table.path, option, what, table.names, table.width)

    key = node_column(table.names, after_index=True) if node is None else by_option(node, "node")
    value = find_column(table.names or (), label_names) if label is None else by_option(label, "label")
    if value is None:
        first = int(table.width > 2 and table.names is not None and is_index_name(table.names[0]))
        value = first if key != first else first + 1
    if key == value:
        raise InputError(Message.of("{node} and {label} must be different columns"))
    return key, value


def read_labels(
    path: FilePath,
    graph: Graph,
    *,
    multilabel: bool = False,
    node: str | int | None = None,
    label: str | int | None = None,
    missing_labels: str = "error",
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
    missing_labels : {"error", "skip"}
        "skip" leaves rows out whose label is empty or NaN, and those of nodes that are not in the graph.
    header, delimiter, comment
        As for `read_graph`. Without `header`, a first row whose node is not in the graph is one, if the next node is.

    Returns
    -------
    labels : (n,) int64 or (n, c) uint8
        Single labels: the index of each node's class, −1 where it is unknown. With `multilabel`: 1 where the node is
        of the class; a node without a row has zeros only, so "unknown" and "none of these" are the same.
    class_names : tuple of str
        Ascending, as numbers if all are integers, else as text.
    """
    text, columns = TextOptions(header, delimiter, comment), {"node": node, "label": label}
    how = {"multilabel": multilabel, "missing_labels": missing_labels}
    return read_labels_with_notes(path, graph, text, **columns, **how)[:2]  # type: ignore[arg-type]


def read_labels_with_notes(
    path: FilePath,
    graph: Graph,
    text: TextOptions,
    *,
    multilabel: bool,
    node: Column,
    label: Column,
    missing_labels: str = "error",
) -> tuple[Array, tuple[str, ...], list[str]]:
    """Read labels as `read_labels` does; also return notes on what may have been read wrongly."""
    path, skip = file_path(path), missing_labels == "skip"
    if missing_labels not in _MISSING_LABELS:
        raise InputError(parameter="missing_labels", expected="'error' or 'skip'", found=missing_labels)
    table = read_label_table(path, graph.node_ids.dtype.kind == "O", text, node, label, optional=skip)
    if not len(table.nodes):  # Parquet; text without rows is refused before
        raise FileFormatError(path, "the file has no rows; write one for each node with a label")
    table, node_idx, notes = without_header(path, table, graph, infer=text.header is None)
    if skip:
        table, node_idx, skipped = _without_missing(path, table, node_idx)
        notes += skipped
    check_nodes(path, table.nodes, node_idx, graph.node_ids, _unknown_node_hint(table, node_idx))
    names, notes = tuple(table.names), [*notes, *_notes(path, table)]
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


def without_header(path: Path, table: LabelTable, graph: Graph, infer: bool) -> tuple[LabelTable, Array, list[str]]:
    """Return a table without a first row that names the columns, the indices of its nodes, and a note.

    It does if its node is not in the graph, unlike that of the second row, and if no other row has its class.
    """
    node_idx = IdIndex(graph.node_ids).find(table.nodes)
    may_be = infer and not table.header and len(node_idx) > 1 and node_idx[0] < 0 <= node_idx[1]
    if not may_be or (table.classes == table.classes[0]).sum() > 1:
        return table, node_idx, []
    names = format_list([*table.nodes[:1].tolist(), table.names[table.classes[0]]])
    note = f"{path}, line {table.lines[0]:,}: {names} were read as names of the columns, for there is no such node"
    return table.kept(np.arange(1, len(node_idx))), node_idx[1:], [note]


def _without_missing(path: Path, table: LabelTable, node_idx: Array) -> tuple[LabelTable, Array, list[str]]:
    """Return the rows that have a label and a node of the graph, and notes on how many were left out."""
    is_missing = np.array([not name.strip() or name.casefold() in MISSING for name in table.names], bool)
    empty, unknown = is_missing[table.classes], node_idx < 0
    kept = np.flatnonzero(~empty & ~unknown)
    if not len(kept):
        raise FileFormatError(path, "no row has both a label and a node of the graph; check the ids in both files")
    counts = {"without a label": empty.sum(), "whose node is not in the graph": (unknown & ~empty).sum()}
    notes = [f"{path}: {counted(int(n), 'row')} {what} left out" for what, n in counts.items() if n]
    return table.kept(kept), node_idx[kept], notes


def first_conflict(node_idx: Array, classes: Array, size: int) -> tuple[int, int] | None:
    """Return the first row that gives a node another class than an earlier row does: (earlier row, this row)."""
    first = np.full(size, -1)
    first[node_idx[::-1]] = np.arange(len(node_idx))[::-1]  # the first row of each node
    rows = np.flatnonzero(classes[first[node_idx]] != classes)
    return (int(first[node_idx[rows[0]]]), int(rows[0])) if len(rows) else None


def _notes(path: Path, table: LabelTable) -> Iterator[str]:
    """Yield notes on a first row that may be a header, on missing labels, and on labels that are almost equal."""
    if _may_be_header(table):
        node, label = format_value(table.nodes[:1].tolist()[0]), format_value(table.names[table.classes[0]])
        note = f"{path}, line 1: {node} was read as a node of the class {label}, which occurs nowhere else"
        yield Message(note, "; if the line names the columns, name them too by ", Message.of("{node} and {label}"))
    for code, name in enumerate(table.names):
        if name.casefold() in MISSING:
            label = f"the label {format_value(name)} ({np.count_nonzero(table.classes == code):,} times)"
            yield Message(f"{path}: {label} was read as a class like any other; if it means an unknown class, ", _SKIP)
    spellings: dict[str, list[str]] = {}
    for name in table.names:
        spellings.setdefault(" ".join(name.split()).casefold(), []).append(name)
    for alike in spellings.values():
        if len(alike) > 1:
            yield f"{path}: the labels {format_list(alike)} differ only in case or blanks, and are separate classes"


def _may_be_header(table: LabelTable) -> bool:
    """Return whether the class of the first line has one node, while all other classes have several."""
    counts = np.bincount(table.classes)
    return bool(table.lines[0] == 1 and counts[table.classes[0]] == 1 and (counts == 1).sum() == 1 and len(counts) > 1)


def _unknown_node_hint(table: LabelTable, node_idx: Array) -> str:
    """Return the hint for nodes that are not in the graph; the first row may be a header."""
    ways = Message(ADD_NODES, ", or ", _SKIP)
    header = Message.of(f"if line {table.lines[0]:,} names the columns, name them too by {{node}} and {{label}}")
    return Message(header, "; ", ways) if node_idx[0] < 0 and _may_be_header(table) else ways
