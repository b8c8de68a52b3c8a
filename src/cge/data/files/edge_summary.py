"""How a file of edges was read, and what about it may not be as meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.files.dialect import TextOptions, look
from cge.data.files.edges import EdgeOptions, EdgeTable, Layout
from cge.data.files.parquet import file_kind
from cge.errors import Message, Param, format_list, format_value
from cge.graph import Graph

__all__ = ["EdgeSummary", "summarize_edges"]

Array = npt.NDArray[Any]

_FIRST = 5
_LOOKED_AT = 100  # ids
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+\Z")
_TIMESTAMP = 1e8  # seconds: 1973


@dataclass(frozen=True)
class EdgeSummary:
    """How a file of edges was read.

    `delimiter` (in words) and `header` are None for what is no text. `columns` tells the column, by name or by number
    from 1, of sources, targets, weights and types, and `unread` those that were left alone. `rows` are edges, or
    entries of a matrix, as they stand in the file.
    `notes` are sentences about what may not be as meant; those that mention options are `cge.errors.Message`s.
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
    before: Graph | None = None,
) -> EdgeSummary:
    """Gather the facts: `loaded` is an `EdgeTable` with the numbers of `graph`, or an adjacency matrix.

    `nodes` is the list of all nodes, where there is one, and `before` a graph to which the edges are added.
    """
    table = loaded if isinstance(loaded, EdgeTable) else None
    rows = loaded.nnz if table is None else len(table.source)
    looped = np.count_nonzero(loaded.diagonal() if table is None else table.source == table.target)
    dropped = 0 if self_loops else int(looped)
    layout = None if table is None else table.layout
    ids = graph.node_ids
    return EdgeSummary(
        path=str(path),
        delimiter=layout.delimiter if layout else None,
        header=layout.header if layout else None,
        columns=layout.columns if layout else {},
        unread=layout.unread if layout else (),
        ids="text" if ids.dtype.kind == "O" else "integers",
        first_ids=tuple(ids[:_FIRST].tolist()),
        rows=rows,
        duplicates_merged=0 if table is None else rows - dropped - graph.num_edges,
        self_loops_dropped=dropped,
        notes=(
            *_notes(table, ids, rows, dropped, before),
            *_unread(layout, options.weighted),
            *_first_node(nodes, graph, TextOptions(comment=options.text.comment)),
        ),
    )


def _notes(table: EdgeTable | None, ids: Array, rows: int, dropped: int, before: Graph | None) -> Iterator[str]:
    if rows and dropped == rows:
        yield Message.of(
            "every row is a self-loop, so no edge is left; pass {self_loops} to keep them", self_loops=True
        )
    if table is None or table.layout is None:
        return
    if ids.dtype.kind == "O":
        met = [ids[end[0]] for end in (table.source, table.target) if len(end)]
        known = before is not None and bool(before.contains(met).any())
        if table.layout.header is False and not known and _strangers(table):
            ends = " and ".join(map(format_value, met))
            yield Message(
                f"line {table.layout.first_line:,} was read as an edge, but its ids {ends} occur nowhere else; if it "
                "names the columns, pass ",
                Param("header", True),
            )
        if len(ids) and all(_DECIMAL.match(str(one)) for one in ids[:_LOOKED_AT].tolist()):
            first = format_value(ids[0])
            yield f"ids look like decimal numbers, and {first} is read as text; write 1 where 1.0 is meant"
    weights = table.weights
    if table.layout.guessed_weight and weights is not None and _are_timestamps(weights):
        column, first = table.layout.columns["weight"], weights[0]
        yield Message(
            f"column {column} was read as weights, but {first:.0f} looks like a timestamp; pass ",
            Message.of("{weighted} to ignore the column", weighted=False),
        )


def _unread(layout: Layout | None, weighted: bool | None) -> Iterator[str]:
    """Tell of columns that were left alone where neither weights nor types were found, or spoken of."""
    if layout is not None and layout.unread and len(layout.columns) == 2 and weighted is None:
        what = "column {} is" if len(layout.unread) == 1 else "columns {} are"
        yield Message(
            f"the {what.format(format_list(layout.unread))} not read; ",
            Message.of(
                "{weight} or {edge_type} names one that holds weights or types, {weighted} says that none does",
                weighted=False,
            ),
        )


def _first_node(path: Path | None, graph: Graph, text: TextOptions) -> Iterator[str]:
    """Tell of a first node that may be a header: text, and the only one of the list without an edge."""
    if path is None or graph.node_ids.dtype.kind != "O" or len(graph) < 3:
        return
    alone = graph.degrees == 0
    alone[graph.indices] = False
    if not alone[0] or alone.sum() > 1 or file_kind(path, ("text", "parquet", "npy")) != "text":
        return
    dialect = look(path, text, least=1)
    if graph.node_ids[0] in dialect.rows[0]:  # otherwise that row is a header
        yield (
            f"{path}, line {dialect.first_line:,}: {format_value(graph.node_ids[0])} was read as a node, the only one "
            "without an edge; remove the line if it names the column"
        )


def _strangers(table: EdgeTable) -> bool:
    """Say whether the two ids of the first row occur in no other."""
    ends = table.source[0], table.target[0]
    if len(table.source) < 2 or ends[0] == ends[1]:
        return False
    return all(sum(np.count_nonzero(side == end) for side in (table.source, table.target)) == 1 for end in ends)


def _are_timestamps(values: Array) -> bool:
    return bool(values.min() > _TIMESTAMP) and np.array_equal(values, np.rint(values))
