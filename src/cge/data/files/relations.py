"""A heterogeneous graph from several files: one file of edges per relation, types of nodes, features per node type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.data.files.dialect import TextOptions
from cge.data.files.edges import EdgeOptions, EdgeTable, load_edges
from cge.data.files.file_path import FilePath, file_path, name_file
from cge.data.files.formats import find_format
from cge.data.files.labels import LabelTable, first_conflict, read_label_table
from cge.data.files.node_tables import align_features, check_nodes, read_feature_table
from cge.data.files.table import TextRules
from cge.errors import FileFormatError, InputError, Message, Param, format_list, format_value
from cge.graph import Graph
from cge.ids import IdIndex, factorize

_TYPE_NAMES = ("type", "node_type", "types", "kind")
_ADD_NODES = "remove these rows, add edges of these nodes, or list all nodes"


def load_relations(files: Mapping[str, FilePath], options: EdgeOptions) -> EdgeTable:
    """Return the edges of several files as one table; the edge type is the name of the file's relation.

    A file may lack weights, which are then 1, or some edge features, which are then missing.
    """
    if not files:
        raise InputError(Message.of("{edges} has no relation; pass at least one file of edges"))
    paths = {str(name): file_path(path) for name, path in files.items()}
    tables = [_load(name, path, options) for name, path in paths.items()]
    kinds = [table.ids.dtype.kind for table in tables]
    if len(set(kinds)) > 1:
        first, other = (list(paths.values())[kinds.index(kind)] for kind in ("O", "i"))
        hint = Message.of("pass {ids} to read all ids as text", ids="str")
        raise FileFormatError(first, f"the node ids are text, but those of {other} are integers", hint=hint)
    counts = [len(table.source) for table in tables]
    parts = [part for table in tables for part in (table.ids[table.source], table.ids[table.target])]
    codes, ids = factorize(np.concatenate(parts))
    endpoints = np.split(codes, np.cumsum([len(part) for part in parts])[:-1])
    weights = None
    if any(table.weights is not None for table in tables):
        weights = np.concatenate([np.ones(len(t.source)) if t.weights is None else t.weights for t in tables])
    return EdgeTable(
        np.concatenate(endpoints[::2]),
        np.concatenate(endpoints[1::2]),
        ids,
        tables[0].layout,
        weights,
        np.repeat(np.arange(len(tables), dtype=np.int64), counts),
        tuple(paths),
        _features(tables, counts, options.edge_features),
    )


def _load(name: str, path: Path, options: EdgeOptions) -> EdgeTable:
    table = load_edges(path, replace(options, edge_type=None), optional_features=True)
    if not isinstance(table, EdgeTable):
        raise FileFormatError(path, "a relation needs a list of edges, found an adjacency matrix; save pairs of ids")
    if not len(table.source):
        problem = f"the relation {format_value(name)} has no edges"
        raise FileFormatError(path, problem, hint="add some, or leave the file out")
    return table


def _features(
    tables: Sequence[EdgeTable], counts: Sequence[int], requested: Sequence[str | int]
) -> dict[str, Array] | None:
    """Return the edge features of all files, NaN in those that lack a column."""
    names = dict.fromkeys(name for table in tables for name in table.features or {})
    missing = next((name for name in requested if str(name) not in names), None)
    if missing is not None:
        raise InputError(Message(f"no file of edges has a column {format_value(missing)} for ", Param("edge_features")))
    columns = {
        name: np.concatenate(
            [(t.features or {}).get(name, np.full(n, np.nan)) for t, n in zip(tables, counts, strict=True)]
        )
        for name in names
    }
    return columns or None


def read_node_types(
    node_types: FilePath, nodes: Path | None, text_ids: bool, options: TextOptions
) -> tuple[Path, LabelTable]:
    """Read the types of nodes from a column of the list of nodes, or from a table; also return its path."""
    if nodes is not None and isinstance(node_types, str):
        file_format = find_format(nodes, "nodes")
        if file_format.open_table is not None:
            names = file_format.table(nodes, TextRules(options, lambda _: True, min_columns=1)).names or []
            if node_types in names:
                return nodes, read_label_table(nodes, text_ids, options, label=node_types, what="type")
            if not file_path(node_types).exists():
                problem = f"there is no column {format_value(node_types)} of node types, and no such file"
                raise FileFormatError(nodes, f"{problem}; the columns are {format_list(names)}")
    path = file_path(node_types)
    return path, read_label_table(path, text_ids, options, what="type", label_names=_TYPE_NAMES)


def types_of_nodes(path: Path, table: LabelTable, node_ids: Array) -> list[str]:
    """Return the type of each node of a graph; every node has one, and every row of the table a node."""
    node_idx = IdIndex(node_ids).find(table.nodes)
    check_nodes(path, table.nodes, node_idx, node_ids, _ADD_NODES)
    conflict = first_conflict(node_idx, table.classes, len(node_ids))
    if conflict is not None:
        first, second = conflict
        names = [format_value(table.names[table.classes[row]]) for row in (second, first)]
        node = format_value(node_ids[[node_idx[second]]].tolist()[0])
        problem = f"node {node} has the type {names[0]}, but {names[1]} in line {table.lines[first]:,}; keep one"
        raise FileFormatError(path, problem, int(table.lines[second]))
    types = np.full(len(node_ids), -1)
    types[node_idx] = table.classes
    missing = node_ids[types < 0]
    if len(missing):
        nodes = "node of the graph has" if len(missing) == 1 else "nodes of the graph have"
        problem = f"{len(missing):,} {nodes} no type, the first: {format_list(missing[:3].tolist())}"
        raise FileFormatError(path, problem, hint="give each node one row")
    return [table.names[code] for code in types.tolist()]


def with_feature_files(graph: Graph, files: Mapping[str, FilePath], options: TextOptions) -> Graph:
    """Return the graph with the features of some node types, each from a file of its own."""
    if graph.node_types is None:
        hint = Message.of("pass {node_types}, or one file for all nodes")
        raise InputError(Message.of("{features} by node type need node types"), hint=hint)
    blocks = {}
    for name, value in files.items():
        if str(name) not in graph.node_type_names:
            problem = f"there are no nodes of the type {format_value(name)}; the types are "
            raise InputError(Message(Param("features"), ": ", problem, format_list(graph.node_type_names)))
        path, node_idx = file_path(value), graph.nodes_of_type(str(name))
        table = read_feature_table(path, graph.node_ids.dtype.kind == "O", options)
        with name_file(path):
            blocks[str(name)] = (align_features(path, table, graph.node_ids[node_idx]), table.names)
    return graph.with_features(blocks)
