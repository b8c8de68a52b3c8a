"""Files of nodes, edges and features that are added to a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cge.arrays import Array
from cge.checks import checked_features
from cge.data.files.attribute_tables import read_attributes
from cge.data.files.dialect import TextOptions
from cge.data.files.edge_summary import summarize_edges
from cge.data.files.edges import EdgeOptions, EdgeTable, load_edges
from cge.data.files.file_path import FilePath, file_path, name_file
from cge.data.files.node_tables import (
    FeatureTable,
    read_feature_table,
    read_node_list,
)
from cge.data.files.relations import read_node_types
from cge.data.graph_update import GraphUpdate
from cge.errors import FileFormatError, InputError, Message, format_value
from cge.graph import Graph


def read_graph_update(
    graph: Graph,
    edges: FilePath | None = None,
    features: FilePath | None = None,
    *,
    feature_nodes: FilePath | None = None,
    options: EdgeOptions | None = None,
    self_loops: bool = False,
    node_types: FilePath | None = None,
    remove_edges: FilePath | None = None,
) -> tuple[GraphUpdate, list[str]]:
    """Read new nodes, edges and features for a graph; also return notes on what may have been read wrongly.

    Edges are a list: adjacency matrices have no ids that identify nodes of the graph. Features are a table keyed by
    node, whose columns are put in the order of `graph.feature_names` where both have a header, or an array, which needs
    `feature_nodes`, a list of nodes, one for each row. Edge features are the columns with the names of the graph's;
    `node_types` is a table of new nodes and types, `remove_edges` a list of edges that are removed.
    """
    text_ids, options = graph.node_ids.dtype.kind == "O", options or EdgeOptions()
    text, update = TextOptions(comment=options.text.comment), GraphUpdate(self_loops=self_loops)
    notes: list[str] = []
    if edges is not None:
        path = file_path(edges)
        names = graph.edge_feature_names
        table = _new_edges(path, replace(options, ids="str" if text_ids else "int", edge_features=names), text_ids)
        new_graph = Graph.from_codes(table.source, table.target, table.ids, directed=True, self_loops=self_loops)
        if graph.weights is None and graph.edge_types is None:  # no note on columns that are not read
            options = replace(options, weighted=False, weight=None)
        notes += summarize_edges(path, table, new_graph, self_loops, options, extended_graph=graph).notes
        types = None if table.types is None else [table.type_names[code] for code in table.types.tolist()]
        endpoints = table.ids[table.source], table.ids[table.target]
        parts = {"weights": table.weights, "edge_types": types, "edge_features": table.features}
        update = replace(update, edges=endpoints, **parts)  # type: ignore[arg-type]
    if remove_edges is not None:
        only_pairs = replace(options, ids="str" if text_ids else "int", weighted=False, weight=None, edge_type=None)
        pairs = _new_edges(file_path(remove_edges), only_pairs, text_ids)
        update = replace(update, remove_edges=(pairs.ids[pairs.source], pairs.ids[pairs.target]))
    if node_types is not None:
        _, rows_of_types = read_node_types(node_types, None, text_ids, text)
        types = [rows_of_types.names[code] for code in rows_of_types.classes.tolist()]
        update = replace(update, node_types=dict(zip(rows_of_types.nodes.tolist(), types, strict=True)))
    if features is not None:
        path = file_path(features)
        if graph.encoder is None:
            rows = _in_order(path, read_feature_table(path, text_ids, text), graph.feature_names)
        else:
            new_keys, columns = read_attributes(path, text_ids, text)
            with name_file(path):
                rows = FeatureTable(graph.encoder.transform(columns), new_keys, graph.feature_names)
        keys = _keys(path, rows, None if feature_nodes is None else file_path(feature_nodes), text_ids, text)
        width = None if graph.features is None else int(graph.features.shape[1])
        if width is not None and rows.values.shape[1] != width:
            problem = f"found {rows.values.shape[1]:,} features, expected {width:,} as in training"
            raise FileFormatError(path, problem, hint="give the same ones in the same order")
        with name_file(path):
            update = replace(update, feature_ids=keys, features=checked_features(rows.values, len(keys), copy=False))
    elif feature_nodes is not None:
        raise InputError(Message.of("{feature_nodes} needs {features}"), hint=Message.of("pass {features}, too"))
    return update, notes


def _new_edges(path: Path, options: EdgeOptions, text_ids: bool) -> EdgeTable:
    try:
        table = load_edges(path, options, optional_features=True)
    except FileFormatError as error:
        if text_ids or error.parameter != "ids":
            raise
        raise FileFormatError(path, error.problem, error.line, hint="the ids of the graph are integers") from None
    if not isinstance(table, EdgeTable):
        problem = "an adjacency matrix has no ids that identify nodes of the graph"
        raise FileFormatError(path, problem, hint="save new edges as a list of pairs")
    if len(table.ids) and text_ids != (table.ids.dtype.kind == "O"):
        expected, first_id = "text" if text_ids else "integers", format_value(table.ids[:1].tolist()[0])
        raise FileFormatError(path, f"expected node ids that are {expected}, as in the graph, found {first_id}")
    return table


def _in_order(path: Path, rows: FeatureTable, names: tuple[str, ...]) -> FeatureTable:
    """Return features with their columns in the order of `names`; unchanged where either has no names."""
    if not names or not rows.names or rows.names == names:
        return rows
    columns = {name: column for column, name in enumerate(rows.names)}
    missing = next((name for name in names if name not in columns), None)
    if missing is not None:
        raise FileFormatError(path, f"the column {format_value(missing)} of the training features is missing; add it")
    if len(rows.names) > len(names):
        extra = next(name for name in rows.names if name not in set(names))
        raise FileFormatError(path, f"the column {format_value(extra)} is not in the training features; remove it")
    return replace(rows, values=rows.values[:, [columns[name] for name in names]], names=names)


def _keys(path: Path, rows: FeatureTable, node_list: Path | None, text_ids: bool, options: TextOptions) -> Array:
    """Return the node of each row of features."""
    if rows.keys is not None:
        if node_list is not None:
            hint = Message.of("leave {feature_nodes} out")
            raise FileFormatError(path, "this table is keyed by node itself", hint=hint)
        return rows.keys
    if node_list is None:
        hint = Message.of("pass {feature_nodes}, a list of nodes, or a table keyed by node")
        raise FileFormatError(path, "its rows have no node ids", hint=hint)
    keys = read_node_list(node_list, text_ids, options)
    if len(keys) != rows.values.shape[0]:
        raise FileFormatError(node_list, f"found {len(keys):,} nodes for {rows.values.shape[0]:,} rows in {path}")
    return keys
