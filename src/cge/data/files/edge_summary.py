"""How a file of edges was read, with notes on what may have been read wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.files.dialect import TextOptions, inspect_text
from cge.data.files.edges import EdgeOptions, EdgeTable, Layout
from cge.data.files.formats import find_format
from cge.data.files.node_tables import is_index_name
from cge.errors import Message, Param, format_list, format_value
from cge.graph import Graph

_NUM_FIRST_IDS = 5
_INSPECTED_IDS = 100
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+\Z")
_TIMESTAMP = 1e8  # seconds: 1973


@dataclass(frozen=True)
class EdgeSummary:
    """How a file of edges was read.

    `delimiter` (in words) and `header` are None unless the file is text. `columns` are those of sources, targets,
    weights and types, by name or by number from 1, and `unread` all others. `rows` is the number of edges, or of
    entries of a matrix, in the file. `notes` are sentences on what may have been read wrongly; those that mention
    options are `cge.errors.Message`s.
    """

    path: str
    delimiter: str | None
    header: bool | None
    columns: Mapping[str, str | int]
    unread: tuple[str | int, ...]
    ids: str
    first_ids: tuple[int | str, ...]
    rows: int
    duplicates_merged: int
    self_loops_dropped: int
    notes: tuple[str, ...] = ()


def summarize_edges(
    path: Path,
    loaded: Any,
    graph: Graph,
    self_loops: bool,
    options: EdgeOptions,
    nodes: Path | None = None,
    extended_graph: Graph | None = None,
) -> EdgeSummary:
    """Summarize how edges were read: `loaded` is an `EdgeTable` with node numbers of `graph`, or an adjacency matrix.

    `nodes` is the file of all nodes, where there is one; `extended_graph` a graph to which the edges are added.
    """
    table = loaded if isinstance(loaded, EdgeTable) else None
    layout = table.layout if table else Layout({})
    rows = len(table.source) if table else loaded.nnz
    loops = np.count_nonzero(table.source == table.target if table else loaded.diagonal())
    dropped = 0 if self_loops else int(loops)
    ids = graph.node_ids
    notes = (
        *_edge_notes(table, ids, rows, dropped, extended_graph),
        *_unread_column_note(layout, options.weighted),
        *_first_node_note(nodes, graph, TextOptions(comment=options.text.comment)),
    )
    read_as = (layout.delimiter, layout.header, layout.columns, layout.unread)
    id_type, first_ids = "text" if ids.dtype.kind == "O" else "integers", tuple(ids[:_NUM_FIRST_IDS].tolist())
    duplicates = rows - dropped - graph.num_edges if table else 0
    return EdgeSummary(str(path), *read_as, id_type, first_ids, rows, duplicates, dropped, notes)


def _edge_notes(
    table: EdgeTable | None, ids: Array, rows: int, dropped: int, extended_graph: Graph | None
) -> Iterator[str]:
    if rows and dropped == rows:
        template = "every row is a self-loop, so there are no edges; pass {self_loops} to keep them"
        yield Message.of(template, self_loops=True)
    if table is None:
        return
    if ids.dtype.kind == "O":
        first_ids = [ids[column[0]] for column in (table.source, table.target) if len(column)]
        in_graph = extended_graph is not None and bool(extended_graph.contains(first_ids).any())
        if table.layout.header is False and not in_graph and _first_ids_are_unique(table):
            endpoints = f"its ids {' and '.join(map(format_value, first_ids))} occur nowhere else"
            note = (
                f"line {table.layout.first_line:,} was read as an edge, but {endpoints}; if it names the columns, pass "
            )
            yield Message(note, Param("header", True))
        if len(ids) and all(_DECIMAL.match(str(node)) for node in ids[:_INSPECTED_IDS].tolist()):
            first = format_value(ids[0])
            yield f"ids look like decimal numbers, and {first} is read as text; write 1 where 1.0 is meant"
    weights = table.weights
    if table.layout.guessed_weight and weights is not None and _are_timestamps(weights):
        column, first = table.layout.columns["weight"], weights[0]
        note = f"column {column} was read as weights, but {first:.0f} looks like a timestamp; pass "
        yield Message(note, Param("weighted", False), " to ignore the column")


def _unread_column_note(layout: Layout, weighted: bool | None) -> Iterator[str]:
    """Note columns that were not read where neither weights nor types were found or mentioned by the caller."""
    if layout.skipped_index:
        names = " and ".join(format_value(layout.columns[part]) for part in ("source", "target"))
        note = f"the first column was read as an index, and the columns {names} as source and target; "
        yield Message(note, Message.of("{source} and {target} name others"))
        return
    unread = [column for column in layout.unread if not is_index_name(str(column))]
    if unread and len(layout.columns) == 2 and weighted is None:
        what = "column {} is" if len(unread) == 1 else "columns {} are"
        template = "{weight} or {edge_type} names one that holds weights or types, {weighted} says that none does"
        about = f"the {what.format(format_list(unread))} not read; "
        yield Message(about, Message.of(template, weighted=False))


def _first_node_note(path: Path | None, graph: Graph, text: TextOptions) -> Iterator[str]:
    """Note a first node that may be a header: text, and the only one of the list without an edge."""
    if path is None or graph.node_ids.dtype.kind != "O" or len(graph) < 3:
        return
    isolated = graph.degrees == 0
    isolated[graph.indices] = False
    if not isolated[0] or isolated.sum() > 1 or not find_format(path, "nodes").is_text:
        return
    dialect = inspect_text(path, text, min_columns=1)
    if graph.node_ids[0] in dialect.rows[0]:  # otherwise that row is a header
        note = "was read as a node, the only one without an edge; remove the line if it names the column"
        yield f"{path}, line {dialect.first_line:,}: {format_value(graph.node_ids[0])} {note}"


def _first_ids_are_unique(table: EdgeTable) -> bool:
    """Return whether the two ids of the first row occur in no other."""
    first = (table.source[0], table.target[0])
    counts = [np.count_nonzero(table.source == node) + np.count_nonzero(table.target == node) for node in first]
    return len(table.source) > 1 and counts == [1, 1]


def _are_timestamps(values: Array) -> bool:
    return bool(values.min() > _TIMESTAMP) and np.array_equal(values, np.rint(values))
