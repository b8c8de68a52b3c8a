"""Read edges and features of nodes that come to a graph later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.checks import checked_features
from cge.data.files.arrays import load_npy, load_npz
from cge.data.files.dialect import TextOptions
from cge.data.files.edge_summary import summarize_edges
from cge.data.files.edges import AS_TEXT, EdgeOptions, EdgeTable, edges_from_array, read_parquet_edges, read_text_edges
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.node_tables import FeatureTable, read_feature_table, read_node_list
from cge.data.files.parquet import file_kind
from cge.data.graph_update import GraphUpdate
from cge.errors import FileFormatError, InputError, Message, format_value
from cge.graph import Graph
from cge.ids import IdIndex

__all__ = ["read_graph_update"]

Array = npt.NDArray[Any]


def read_graph_update(
    graph: Graph,
    edges: FilePath | None = None,
    features: FilePath | None = None,
    *,
    feature_nodes: FilePath | None = None,
    options: EdgeOptions | None = None,
    self_loops: bool = False,
) -> tuple[GraphUpdate, list[str]]:
    """Read what there is of new nodes, and tell what may not be as meant.

    Parameters
    ----------
    graph : Graph
        Where they come to; ids are read as integers if its ids are.
    edges : path, optional
        An edge list, as `read_graph` takes it. Adjacency matrices have no ids by which old nodes are known.
    features : path, optional
        A table keyed by node, or rows in `.npy` or `.npz`, which need `feature_nodes`. Columns are put in the order
        of `graph.feature_names` where both tables have a header.
    feature_nodes : path, optional
        A list of nodes, one for each row of such features.
    """
    text_ids, options = graph.node_ids.dtype.kind == "O", options or EdgeOptions()
    plain, found = TextOptions(comment=options.text.comment), GraphUpdate(self_loops=self_loops)
    notes: list[str] = []
    if edges is not None:
        path = file_path(edges)
        table = _edges(path, replace(options, ids="str" if text_ids else "int"), text_ids)
        alone = Graph.from_codes(table.source, table.target, table.ids, directed=True, self_loops=self_loops)
        useless = graph.weights is None and graph.edge_types is None  # so are columns that nobody reads
        told = replace(options, weighted=False, weight=None) if useless else options
        notes += summarize_edges(path, table, alone, self_loops, told, before=graph).notes
        kinds = None if table.types is None else [table.type_names[one] for one in table.types.tolist()]
        ends = table.ids[table.source], table.ids[table.target]
        found = replace(found, edges=ends, weights=table.weights, edge_types=kinds)
    if features is not None:
        path = file_path(features)
        rows = _in_order(path, read_feature_table(path, text_ids, plain), graph.feature_names)
        keys = _keys(path, rows, None if feature_nodes is None else file_path(feature_nodes), text_ids, plain)
        width = None if graph.features is None else int(graph.features.shape[1])
        if width is not None and rows.values.shape[1] != width:
            raise FileFormatError(
                path,
                f"found {rows.values.shape[1]:,} features, expected {width:,} as in training; "
                "give the same ones in the same order",
            )
        try:
            found = replace(found, feature_ids=keys, features=checked_features(rows.values, len(keys), copy=False))
        except InputError as error:
            raise FileFormatError(path, error.message) from None
    elif feature_nodes is not None:
        raise InputError(Message.of("{feature_nodes} needs {features}"), hint=Message.of("pass {features}, too"))
    return found, notes


def _edges(path: Path, options: EdgeOptions, text_ids: bool) -> EdgeTable:
    kind = file_kind(path, ("text", "parquet", "npy", "npz"))
    try:
        if kind in ("text", "parquet"):
            return read_text_edges(path, options) if kind == "text" else read_parquet_edges(path, options)
    except FileFormatError as error:
        if text_ids or error.hint != AS_TEXT:
            raise
        raise FileFormatError(path, error.problem, error.line, hint="the ids of the graph are integers") from None
    loaded = load_npy(path) if kind == "npy" else load_npz(path, ("edges",))
    if not isinstance(loaded, np.ndarray):
        raise FileFormatError(
            path, "an adjacency matrix has no ids by which old nodes are known; save new edges as a list of pairs"
        )
    table = edges_from_array(path, loaded)
    if len(table.ids) and text_ids != (table.ids.dtype.kind == "O"):
        wanted = "text" if text_ids else "integers"
        raise FileFormatError(
            path,
            f"expected node ids that are {wanted}, as in the graph, found {format_value(table.ids[:1].tolist()[0])}",
        )
    return table


def _in_order(path: Path, rows: FeatureTable, names: tuple[str, ...]) -> FeatureTable:
    """Return features with their columns in the order of `names`; as they are where either has none."""
    if not names or not rows.names or rows.names == names:
        return rows
    place = {name: column for column, name in enumerate(rows.names)}
    missing = next((name for name in names if name not in place), None)
    if missing is not None:
        raise FileFormatError(
            path, f"the column {format_value(missing)}, which there was in training, is missing; add it"
        )
    if len(rows.names) > len(names):
        strange = next(name for name in rows.names if name not in set(names))
        raise FileFormatError(path, f"the column {format_value(strange)} was not there in training; remove it")
    return replace(rows, values=rows.values[:, [place[name] for name in names]], names=names)


def _keys(path: Path, rows: FeatureTable, format_list: Path | None, text_ids: bool, options: TextOptions) -> Array:
    """Return the node of each row of features."""
    if rows.keys is not None:
        if format_list is not None:
            hint = Message.of("leave {feature_nodes} out")
            raise FileFormatError(path, "this table is keyed by node itself", hint=hint)
        twice = IdIndex(rows.keys).first_duplicate()
        if twice is not None:
            places = np.flatnonzero(rows.keys == twice)[:2]
            line = None if rows.lines is None else int(rows.lines[places[1]])
            raise FileFormatError(path, f"node {format_value(twice)} stands twice; keep one", line)
        return rows.keys
    if format_list is None:
        hint = Message.of("pass {feature_nodes}, a list of nodes, or a table keyed by node")
        raise FileFormatError(path, "its rows have no node ids", hint=hint)
    keys = read_node_list(format_list, text_ids, options)
    if len(keys) != rows.values.shape[0]:
        raise FileFormatError(format_list, f"found {len(keys):,} nodes for {rows.values.shape[0]:,} rows in {path}")
    return keys
