"""Read a graph and its features from files; `update_files` reads edges and features of nodes that are added later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.checks import Features
from cge.data.files.attribute_tables import read_attributes, with_attributes
from cge.data.files.dialect import TextOptions, is_integer
from cge.data.files.edge_summary import EdgeSummary, summarize_edges
from cge.data.files.edges import EdgeOptions, EdgeTable, load_edges
from cge.data.files.file_path import FilePath, file_path, name_file
from cge.data.files.labels import LabelTable
from cge.data.files.node_tables import (
    FeatureTable,
    align_features,
    check_nodes,
    fill_missing,
    read_feature_table,
    read_node_list,
)
from cge.data.files.numbering import renumber
from cge.data.files.relations import load_relations, read_node_types, types_of_nodes, with_feature_files
from cge.errors import FileFormatError, InputError, Message
from cge.graph import Graph
from cge.ids import IdIndex


def read_graph(
    edges: FilePath | Mapping[str, FilePath],
    features: FilePath | Mapping[str, FilePath] | None = None,
    *,
    nodes: FilePath | None = None,
    directed: bool = False,
    weighted: bool | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | None = None,
    edge_type: str | int | None = None,
    ids: str = "auto",
    header: bool | None = None,
    delimiter: str | None = None,
    comment: str | None = "#",
    self_loops: bool = False,
    node_types: FilePath | None = None,
    edge_features: Sequence[str | int] = (),
    reverse_edges: bool = False,
    missing_features: str = "error",
    attributes: FilePath | None = None,
    attribute_columns: Sequence[str] = (),
) -> Graph:
    r"""Read a graph from a file of edges; `docs/graphs.md` describes the formats.

    Nodes are numbered as by `Graph.from_edges`: integer ids ascend, others keep the order of first appearance, first
    among sources, then among targets.

    Parameters
    ----------
    edges : path
        An edge list (text as `.csv`, `.tsv`, `.txt` …, plain or gzip; `.parquet`; `.npy`, or `.npz` with an array
        `edges`), an adjacency matrix (`.npz` of SciPy, Matrix-Market `.mtx`), or a format added by
        `cge.data.register_format`. {edge type: path} reads one edge list per relation.
    features : path, optional
        As for `read_features`. A node that has features but no edge becomes an isolated node. {node type: path} reads
        features per node type, of different widths.
    nodes : path, optional
        All node ids, one per row, in the order of the graph, isolated ones included; other ids are then an error.
    directed : bool
        False enters each edge in both directions; an adjacency matrix must then be symmetric.
    weighted : bool, optional
        None looks for weights, True requires them, False ignores them.
    source, target, weight, edge_type : str or int, optional
        Columns, by name or by number from 1.
    ids : {"auto", "int", "str"}
        "auto" reads ids as integers if those of the first row are.
    header, delimiter : optional
        Whether the first row names the columns, and one character (a space: runs of blanks); None infers them.
    comment : str, optional
        Lines that start with it are skipped; None means that there are none.
    self_loops : bool
        Keep edges from a node to itself.
    node_types : path or str, optional
        A table of nodes and types, or the name of a column of `nodes`.
    edge_features : sequence of str or int, optional
        Columns of numbers of the edges; values may be missing.
    reverse_edges : bool
        With `directed`: also enter each edge in reverse, with the edge type "rev_…".
    missing_features : {"error", "zero", "mean"}
        Features of nodes that have no row in the table: an error, zeros, or the mean of the other rows.
    attributes, attribute_columns : path and sequence of str, optional
        A table of nodes and their attributes, instead of `features`: numbers, dates, categories and text become
        features (scaled, one-hot, TF-IDF); only these columns, and none whose name follows a minus sign.
        `graph.encoder` makes those of new nodes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "edges.csv"
    ...     _ = file.write_text("source,target,weight\nann,bob,1\nbob,cy,2\n")
    ...     read_graph(file)
    Graph(3 nodes, 2 undirected edges, weighted)
    """
    text = TextOptions(header, delimiter, comment)
    options = EdgeOptions(source, target, weight, edge_type, weighted, ids, text, edge_features)
    flags: dict[str, Any] = {"directed": directed, "self_loops": self_loops, "reverse_edges": reverse_edges}
    flags |= {"nodes": nodes, "node_types": node_types, "missing_features": missing_features}
    return _read(edges, features, options, attributes, attribute_columns, **flags)[0]


def read_graph_with_summary(
    edges: FilePath | Mapping[str, FilePath],
    features: FilePath | Mapping[str, FilePath] | None = None,
    *,
    nodes: FilePath | None = None,
    options: EdgeOptions | None = None,
    directed: bool = False,
    self_loops: bool = False,
    node_types: FilePath | None = None,
    reverse_edges: bool = False,
    missing_features: str = "error",
    attributes: FilePath | None = None,
    attribute_columns: Sequence[str] = (),
) -> tuple[Graph, EdgeSummary]:
    """Read a graph as `read_graph` does; also return how its edges were read."""
    flags: dict[str, Any] = {"directed": directed, "self_loops": self_loops, "reverse_edges": reverse_edges}
    flags |= {"nodes": nodes, "node_types": node_types, "missing_features": missing_features}
    graph, summarize = _read(edges, features, options or EdgeOptions(), attributes, attribute_columns, **flags)
    return graph, summarize()


def _read(
    edges: FilePath | Mapping[str, FilePath],
    features: FilePath | Mapping[str, FilePath] | None,
    options: EdgeOptions,
    attributes: FilePath | None,
    attribute_columns: Sequence[str],
    **flags: Any,
) -> tuple[Graph, Callable[[], EdgeSummary]]:
    """Return a graph, from files or stored, and a function that summarizes how its edges were read."""
    nodes, directed = flags["nodes"], flags["directed"]
    if not isinstance(edges, Mapping) and (file_path(edges) / "graph.json").is_file():
        arguments = {"features": features, "nodes": nodes, "node_types": flags["node_types"], "attributes": attributes}
        stored, stored_summary = _read_stored(edges, arguments | {"directed": directed or None, "options": options})
        return stored, lambda: stored_summary
    tables: dict[str, Any] = {"attributes": attributes, "attribute_columns": attribute_columns}
    graph, loaded, forward, notes = _read_files(edges, features, options=options, **flags, **tables)

    def summarize() -> EdgeSummary:
        node_path = None if nodes is None else file_path(nodes)
        summary = summarize_edges(_path_of(edges), loaded, forward, flags["self_loops"], options, node_path)
        return replace(summary, notes=(*summary.notes, *notes))

    return graph, summarize


def _read_stored(folder: Any, arguments: Mapping[str, Any]) -> tuple[Graph, EdgeSummary]:
    """Open a stored graph, which has its own features and directions."""
    from cge.data.stored import open_graph

    options = arguments["options"]
    used = [name for name, value in arguments.items() if value is not None and name != "options"]
    used += [name for name in ("source", "target", "weight", "edge_type") if getattr(options, name) is not None]
    if used:
        problem = Message.of(f"{{{used[0]}}} is for files of edges, and {folder} is a stored graph")
        raise InputError(problem, parameter=used[0], hint="leave it out, or pass it to 'cge ingest'")
    stored = open_graph(folder)
    ids = "text" if stored.ids.is_text else "integers"
    first = tuple(stored.ids.slice(0, min(5, len(stored))).tolist())
    rows: int = stored.metadata["rows"]
    return stored.load(), EdgeSummary(str(folder), None, None, {}, (), ids, first, rows, 0, 0)


def _path_of(edges: FilePath | Mapping[str, FilePath]) -> Path:
    """Return the path of the edges, as messages name it."""
    paths = edges.values() if isinstance(edges, Mapping) else [edges]
    return Path(", ".join(str(file_path(each)) for each in paths))


def _read_files(
    edges: FilePath | Mapping[str, FilePath],
    features: FilePath | Mapping[str, FilePath] | None,
    *,
    nodes: FilePath | None,
    options: EdgeOptions,
    directed: bool,
    self_loops: bool,
    node_types: FilePath | None,
    reverse_edges: bool,
    missing_features: str,
    attributes: FilePath | None,
    attribute_columns: Sequence[str],
) -> tuple[Graph, Any, Graph, list[str]]:
    """Return a graph, its edges as they were loaded, the graph without reverse edges, and notes."""
    path = _path_of(edges)
    by_type = features if isinstance(features, Mapping) else None
    node_path = None if nodes is None else file_path(nodes)
    feature_path = None if features is None or by_type is not None else file_path(features)  # type: ignore[arg-type]
    text = TextOptions(comment=options.text.comment)
    flags: dict[str, Any] = {"directed": directed, "self_loops": self_loops}
    notes: list[str] = []
    if attributes is not None and features is not None:
        raise InputError(Message.of("{attributes} and {features} both give features; pass one of them"))
    try:
        loaded: Any = load_relations(edges, options) if isinstance(edges, Mapping) else load_edges(path, options)
        is_matrix = not isinstance(loaded, EdgeTable)
        edge_ids = np.arange(loaded.shape[0]) if is_matrix else loaded.ids
        node_ids = None if node_path is None else _node_list(node_path, edge_ids, is_matrix, text, options.ids)
        text_ids = (edge_ids if node_ids is None else node_ids).dtype.kind == "O"
        rows = None if feature_path is None else read_feature_table(feature_path, text_ids, text)
        if attributes is not None:
            table = read_attributes(file_path(attributes), text_ids, text)
            rows = FeatureTable(None, table[0])
        types = None if node_types is None else read_node_types(node_types, node_path, text_ids, text)
        if is_matrix:
            with name_file(path):
                graph = Graph.from_scipy(loaded, node_ids=node_ids, weighted=options.weighted, **flags)
        else:
            all_ids = _all_nodes(edge_ids, rows, types and types[1]) if node_ids is None else node_ids
            graph = _from_table(path, loaded, all_ids, **flags)
        if types is not None:
            graph = graph.with_node_types(types_of_nodes(*types, graph.node_ids))
        if by_type is not None:
            graph = with_feature_files(graph, by_type, text)
        if attributes is not None:
            graph = with_attributes(graph, file_path(attributes), *table, attribute_columns)
        if feature_path is not None and rows is not None:
            rows, notes = fill_missing(feature_path, rows, graph.node_ids, missing_features)
            features_read = align_features(feature_path, rows, graph.node_ids)
            graph = replace(graph, features=features_read, feature_names=rows.names)
    except MemoryError:
        raise FileFormatError(path, "the graph needs more memory than this machine has") from None
    if reverse_edges and not directed:
        raise InputError(
            Message.of("{reverse_edges} needs {directed}; an undirected graph has both directions already")
        )
    return graph.with_reverse_edges() if reverse_edges else graph, loaded, graph, notes


def read_features(path: FilePath, graph: Graph, *, comment: str | None = "#") -> Features:
    """Read node features, float32, dense or `scipy.sparse.csr_array`, with a row for each of `graph.node_ids`.

    Parameters
    ----------
    path : path
        Tables (text, Parquet) are keyed by node: one column of ids (named `node` or `id`, else the first), all others
        numbers; rows may come in any order. The rows of arrays (`.npy`; `.npz` with a SciPy sparse matrix or an array
        `features`) are in the order of `graph.node_ids`. Every node must have a row, and every row a node.
    graph : Graph
        The graph to which they belong; `graph.with_features` adds them.
    comment : str, optional
        As for `read_graph`.
    """
    path = file_path(path)
    table = read_feature_table(path, graph.node_ids.dtype.kind == "O", TextOptions(comment=comment))
    return align_features(path, table, graph.node_ids)


def _node_list(path: Path, edge_ids: Array, is_matrix: bool, text: TextOptions, ids: str) -> Array:
    """Read the list of all nodes: with the type of ids that edges have, or of either type for the rows of a matrix."""
    node_ids = read_node_list(path, is_matrix or edge_ids.dtype.kind == "O", text)
    if is_matrix and ids != "str" and all(map(is_integer, node_ids.tolist())):
        return node_ids.astype(np.int64)
    return node_ids


def _all_nodes(edge_ids: Array, rows: FeatureTable | None, types: LabelTable | None = None) -> Array:
    """Return the nodes of edges, features and node types."""
    if types is not None:
        edge_ids = _all_nodes(edge_ids, FeatureTable(None, types.nodes))
    if rows is None:
        return edge_ids
    if rows.keys is None:
        size = rows.values.shape[0]
        numbered = edge_ids.dtype.kind == "i" and len(edge_ids) and edge_ids[0] >= 0 and edge_ids[-1] < size
        return np.arange(size) if numbered else edge_ids
    if edge_ids.dtype.kind == "i":
        return np.union1d(edge_ids, rows.keys)
    new = dict.fromkeys(rows.keys[IdIndex(edge_ids).find(rows.keys) < 0].tolist())
    return np.concatenate([edge_ids, np.array(list(new), object)])


def _from_table(path: Path, table: EdgeTable, node_ids: Array, **flags: Any) -> Graph:
    if node_ids is not table.ids:
        node_idx = IdIndex(node_ids).find(table.ids)
        check_nodes(path, table.ids, node_idx, node_ids, "the list of nodes must contain every node")
        renumber([table.source, table.target], node_idx)
    source, target, types = table.source, table.target, table.types
    flags |= {"weights": table.weights, "edge_features": table.features}
    graph = Graph.from_codes(source, target, node_ids, edge_types=types, **flags)
    # Types are passed as numbers 0, 1, …, all in use, which keep their order: only their names are replaced.
    return graph if table.types is None else replace(graph, edge_type_names=table.type_names)
