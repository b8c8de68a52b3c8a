"""Read labels of nodes from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.data.files.dialect import Column, TextOptions
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.node_tables import ADD_NODES, LabelTable, check_nodes, read_label_table
from cge.errors import FileFormatError, Message, format_value
from cge.graph import Graph
from cge.ids import IdIndex

_MISSING_LABELS = ("nan", "na", "n/a", "none", "null")  # what tables write for an unknown value


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
    labels = np.full(graph.num_nodes, -1, np.int64)
    labels[node_idx[::-1]] = table.classes[::-1]  # the first row of a node counts
    conflict = np.flatnonzero(labels[node_idx] != table.classes)
    if len(conflict):
        second = int(conflict[0])
        first = int(np.flatnonzero(node_idx == node_idx[second])[0])
        first_label, second_label = (format_value(names[table.classes[row]]) for row in (first, second))
        node_id = format_value(graph.node_ids[[node_idx[second]]].tolist()[0])
        problem = f"node {node_id} has the label {second_label}, but {first_label} in line {table.lines[first]:,}"
        hint = Message.of("keep one, or pass {multilabel}", multilabel=True)
        raise FileFormatError(path, problem, int(table.lines[second]), parameter="multilabel", hint=hint)
    return labels, names, notes


def _notes(path: Path, table: LabelTable) -> Iterator[str]:
    """Yield notes on a first row that may be a header, and on classes that may mean a missing label."""
    if _may_be_header(table):
        node, label = format_value(table.nodes[:1].tolist()[0]), format_value(table.names[table.classes[0]])
        note = f"{path}, line 1: {node} was read as a node of the class {label}, which occurs nowhere else"
        yield Message(note, "; if the line names the columns, name them too by ", Message.of("{node} and {label}"))
    for code, name in enumerate(table.names):
        if name.casefold() in _MISSING_LABELS:
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
    return Message(header, "; ", ADD_NODES) if node_idx[0] < 0 and _may_be_header(table) else ADD_NODES
