"""Read a graph, labels and features from files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.checks import Features, checked_features
from cge.data.files.arrays import load_npy, load_npz
from cge.data.files.dialect import TextOptions, is_integer
from cge.data.files.edge_summary import EdgeSummary, summarize_edges
from cge.data.files.edges import EdgeOptions, EdgeTable, edges_from_array, read_parquet_edges, read_text_edges
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.matrix_market import read_matrix_market
from cge.data.files.node_tables import (
    ADD_NODES,
    FeatureTable,
    LabelTable,
    align,
    read_feature_table,
    read_label_table,
    read_node_list,
    refuse_unknown,
)
from cge.data.files.numbering import renumber
from cge.data.files.parquet import file_kind
from cge.errors import FileFormatError, InputError, Message, format_value
from cge.graph import Graph
from cge.ids import IdIndex

__all__ = ["read_features", "read_graph", "read_graph_with_summary", "read_labels", "read_labels_with_notes"]

Array = npt.NDArray[Any]

_UNKNOWN = ("nan", "na", "n/a", "none", "null")  # what tables write where nothing is known


def read_graph(
    edges: FilePath,
    features: FilePath | None = None,
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
) -> Graph:
    r"""Read a graph from a file of edges; `docs/graphs.md` describes the formats.

    Nodes are numbered as by `Graph.from_edges`: integer ids ascend, others keep the order of first appearance, first
    among sources, then among targets.

    Parameters
    ----------
    edges : path
        An edge list (text as `.csv`, `.tsv`, `.txt` …, plain or gzip; `.parquet`; `.npy`, or `.npz` with an array
        `edges`) or an adjacency matrix (`.npz` of SciPy, Matrix-Market `.mtx`).
    features : path, optional
        As for `read_features`. A node that has features but no edge becomes an isolated node.
    nodes : path, optional
        All node ids, one per row, in the order the graph shall have; isolated nodes are kept by it. Ids that occur
        in edges or features only are then an error.
    directed : bool
        False enters each edge in both directions; an adjacency matrix must then be symmetric.
    weighted : bool, optional
        None looks for weights, True demands them, False ignores them.
    source, target, weight, edge_type : str or int, optional
        Columns, by name or by number from 1.
    ids : {"auto", "int", "str"}
        "auto" takes ids as integers if those of the first row are.
    header : bool, optional
        Whether the first row names the columns; None looks.
    delimiter : str, optional
        One character; a space means runs of blanks; None looks.
    comment : str, optional
        Lines that begin with it are skipped; None means that there are none.
    self_loops : bool
        Keep edges from a node to itself.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "edges.csv"
    ...     _ = file.write_text("source,target,weight\nann,bob,1\nbob,cy,2\n")
    ...     read_graph(file)
    Graph(3 nodes, 2 undirected edges, weighted)
    """
    options = EdgeOptions(source, target, weight, edge_type, weighted, ids, TextOptions(header, delimiter, comment))
    return _read(edges, features, nodes, options, directed, self_loops)[0]


def read_graph_with_summary(
    edges: FilePath,
    features: FilePath | None = None,
    *,
    nodes: FilePath | None = None,
    options: EdgeOptions | None = None,
    directed: bool = False,
    self_loops: bool = False,
) -> tuple[Graph, EdgeSummary]:
    """Read a graph as `read_graph` does, and tell how its edges were read."""
    options = options or EdgeOptions()
    graph, loaded = _read(edges, features, nodes, options, directed, self_loops)
    node_list = None if nodes is None else file_path(nodes)
    return graph, summarize_edges(file_path(edges), loaded, graph, self_loops, options, node_list)


def _read(
    edges: FilePath,
    features: FilePath | None,
    nodes: FilePath | None,
    options: EdgeOptions,
    directed: bool,
    self_loops: bool,
) -> tuple[Graph, Any]:
    """Return the graph, and the `EdgeTable` or adjacency matrix that it is made of."""
    path = file_path(edges)
    node_path = None if nodes is None else file_path(nodes)
    feature_path = None if features is None else file_path(features)
    plain = TextOptions(comment=options.text.comment)
    try:
        loaded = _load(path, options)
        matrix = None if isinstance(loaded, EdgeTable) else loaded
        seen = np.arange(matrix.shape[0]) if matrix is not None else loaded.ids
        format_list = (
            None if node_path is None else _listed_nodes(node_path, seen, matrix is not None, plain, options.ids)
        )
        text_ids = (seen if format_list is None else format_list).dtype.kind == "O"
        rows = None if feature_path is None else read_feature_table(feature_path, text_ids, plain)
        if matrix is not None:
            graph = _from_matrix(path, matrix, format_list, directed, options.weighted, self_loops)
        else:
            graph = _from_table(path, loaded, _all_nodes(seen, format_list, rows), directed, self_loops)
        if feature_path is not None and rows is not None:
            graph = replace(graph, features=_checked(feature_path, rows, graph), feature_names=rows.names)
    except MemoryError:
        raise FileFormatError(path, "the graph needs more memory than this machine can give") from None
    return graph, loaded


def read_features(path: FilePath, graph: Graph, *, comment: str | None = "#") -> Features:
    """Read node features, float32, dense or `scipy.sparse.csr_array`, with a row for each of `graph.node_ids`.

    Parameters
    ----------
    path : path
        Text and Parquet files are keyed by node: one column of ids (named `node` or `id`, else the first), all others
        numbers; rows may come in any order. The rows of `.npy` (dense) and `.npz` (SciPy sparse, or an array
        `features`) are in the order of `graph.node_ids`. Every node must have a row, and every row a node.
    graph : Graph
        The graph to which they belong; `graph.with_features` puts them there.
    comment : str, optional
        As for `read_graph`.
    """
    path = file_path(path)
    rows = read_feature_table(path, graph.node_ids.dtype.kind == "O", TextOptions(comment=comment))
    return _checked(path, rows, graph)


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
    """Read a table of nodes and labels (text or Parquet): one label per row, nodes without a row are unlabeled.

    Parameters
    ----------
    path : path
        A table of text or Parquet.
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
        Single labels: the number of each node's class, −1 where it is unknown. With `multilabel`: 1 where the node is
        of the class; a node without a row has zeros only, so "unknown" and "none of these" are the same.
    class_names : tuple of str
        Ascending, as numbers if all are integers, else as text.
    """
    text = TextOptions(header, delimiter, comment)
    return read_labels_with_notes(path, graph, text, multilabel=multilabel, node=node, label=label)[:2]


def read_labels_with_notes(
    path: FilePath,
    graph: Graph,
    text: TextOptions,
    *,
    multilabel: bool,
    node: str | int | None,
    label: str | int | None,
) -> tuple[Array, tuple[str, ...], list[str]]:
    """Read labels as `read_labels` does, and tell what may not be as meant."""
    path = file_path(path)
    text_ids = graph.node_ids.dtype.kind == "O"
    table = read_label_table(path, text_ids, text, node, label)
    if not len(table.nodes):  # Parquet; text without rows is refused before
        raise FileFormatError(path, "the file holds no rows; write one for each node with a label")
    places = IdIndex(graph.node_ids).find(table.nodes)
    refuse_unknown(path, table.nodes, places, graph.node_ids, _hint(table, places))
    names, notes = tuple(table.names), list(_label_notes(path, table))
    if multilabel:
        matrix = np.zeros((graph.num_nodes, len(names)), np.uint8)
        matrix[places, table.classes] = 1
        return matrix, names, notes
    labels = np.full(graph.num_nodes, -1, np.int64)
    labels[places[::-1]] = table.classes[::-1]  # the first row of a node counts
    conflict = np.flatnonzero(labels[places] != table.classes)
    if len(conflict):
        second = int(conflict[0])
        first = int(np.flatnonzero(places == places[second])[0])
        labels_found = [format_value(names[table.classes[row]]) for row in (first, second)]
        node_id = format_value(graph.node_ids[[places[second]]].tolist()[0])
        raise FileFormatError(
            path,
            f"node {node_id} has the label {labels_found[1]}, but {labels_found[0]} in line {table.lines[first]:,}",
            int(table.lines[second]),
            parameter="multilabel",
            hint=Message.of("keep one, or pass {multilabel}", multilabel=True),
        )
    return labels, names, notes


def _label_notes(path: Path, table: LabelTable) -> Iterator[str]:
    """Tell of a first row that may be a header, and of classes that may mean that there is none."""
    if _may_be_header(table):
        node, label = format_value(table.nodes[:1].tolist()[0]), format_value(table.names[table.classes[0]])
        yield Message(
            f"{path}, line 1: {node} was read as a node of the class {label}, which stands nowhere else; if the line "
            "names the columns, name them too by ",
            Message.of("{node} and {label}"),
        )
    for place, name in enumerate(table.names):
        if name.casefold() in _UNKNOWN:
            count = int(np.count_nonzero(table.classes == place))
            yield (
                f"{path}: the label {format_value(name)} ({count:,} times) was read as a class like any other; remove "
                "its rows if it means that the class is not known"
            )


def _may_be_header(table: LabelTable) -> bool:
    """Say whether the first line has a class of its own, while all other classes have several nodes."""
    counts = np.bincount(table.classes)
    return bool(table.lines[0] == 1 and counts[table.classes[0]] == 1 and (counts == 1).sum() == 1 and len(counts) > 1)


def _hint(table: LabelTable, places: Array) -> str:
    """Return what to do about nodes that are not in the graph; the first row may be a header."""
    header = Message.of(f"if line {table.lines[0]:,} names the columns, name them too by {{node}} and {{label}}")
    if places[0] < 0 and len(places) > 1 and (places[1:] >= 0).all():
        return Message(header, ", else remove it")
    return Message(header, "; ", ADD_NODES) if places[0] < 0 and _may_be_header(table) else ADD_NODES


def _load(path: Path, options: EdgeOptions) -> Any:
    """Return an `EdgeTable`, or an adjacency matrix."""
    kind = file_kind(path, ("text", "parquet", "npy", "npz", "mtx"))
    if kind == "text":
        return read_text_edges(path, options)
    if kind == "parquet":
        return read_parquet_edges(path, options)
    columns = (options.source, options.target, options.weight, options.edge_type, options.text.header)
    if any(one is not None for one in columns):
        options_of_tables = Message.of("{source}, {target}, {weight}, {edge_type} and {header}")
        raise InputError(Message(options_of_tables, f" are for tables, but {path} holds an array"))
    if kind == "mtx":
        return read_matrix_market(path)
    loaded = load_npy(path) if kind == "npy" else load_npz(path, ("edges",))
    return edges_from_array(path, loaded) if isinstance(loaded, np.ndarray) else loaded


def _listed_nodes(path: Path, seen: Array, any_ids: bool, options: TextOptions, ids: str) -> Array:
    """Read the list of all nodes: with ids as seen in edges, or of either kind for the rows of a matrix."""
    format_list = read_node_list(path, any_ids or seen.dtype.kind == "O", options)
    if any_ids and ids != "str" and all(map(is_integer, format_list.tolist())):
        return format_list.astype(np.int64)
    return format_list


def _all_nodes(seen: Array, format_list: Array | None, rows: FeatureTable | None) -> Array:
    """Return the nodes of the graph: the list where there is one, else those seen in edges and features."""
    if format_list is not None:
        return format_list
    if rows is None:
        return seen
    if rows.keys is None:
        size = rows.values.shape[0]
        numbered = seen.dtype.kind == "i" and len(seen) and seen[0] >= 0 and seen[-1] < size
        return np.arange(size) if numbered else seen
    if seen.dtype.kind == "i":
        return np.union1d(seen, rows.keys)
    new = dict.fromkeys(rows.keys[IdIndex(seen).find(rows.keys) < 0].tolist())
    return np.concatenate([seen, np.array(list(new), object)])


def _from_table(path: Path, table: EdgeTable, node_ids: Array, directed: bool, self_loops: bool) -> Graph:
    if node_ids is not table.ids:
        places = IdIndex(node_ids).find(table.ids)
        refuse_unknown(path, table.ids, places, node_ids, "the list of nodes must hold every node")
        renumber([table.source, table.target], places)
    graph = Graph.from_codes(
        table.source,
        table.target,
        node_ids,
        weights=table.weights,
        edge_types=table.types,
        directed=directed,
        self_loops=self_loops,
    )
    # Types go in as numbers 0, 1, …, all in use, which keep their order: only the names are to be put in place.
    return graph if table.types is None else replace(graph, edge_type_names=table.type_names)


def _from_matrix(
    path: Path, matrix: Any, format_list: Array | None, directed: bool, weighted: bool | None, self_loops: bool
) -> Graph:
    try:
        return Graph.from_scipy(
            matrix, node_ids=format_list, directed=directed, weighted=weighted, self_loops=self_loops
        )
    except InputError as error:
        raise FileFormatError(path, error.message) from None


def _checked(path: Path, rows: FeatureTable, graph: Graph) -> Features:
    values = align(path, rows, graph.node_ids)
    try:
        return checked_features(values, graph.num_nodes, copy=False)  # read just now: nobody else has it
    except InputError as error:
        raise FileFormatError(path, error.message) from None
