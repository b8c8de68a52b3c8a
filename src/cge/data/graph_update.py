"""New nodes, edges and features for an existing graph, edges that are removed, and the resulting graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.arrays import Array
from cge.cached_values import set_cached
from cge.checks import Features, checked_features, concatenate_ids, edge_columns
from cge.csr import splice_rows
from cge.data.edge_update import updated_edges
from cge.errors import InputError, format_list, format_value
from cge.graph import Graph
from cge.ids import as_id_array, factorize, unique_index


@dataclass(frozen=True, eq=False)
class GraphUpdate:
    """New edges, edges to remove and new features, by node id; each may be omitted.

    Attributes
    ----------
    edges : pairs of ids, as for `Graph.from_edges`
        Between new nodes, or between new and existing ones.
    weights : (k,), edge_types : (k,) names, edge_features : (k, d) numbers or {name: (k,) numbers}
        Of the edges. Without edge features, they count as missing.
    node_types : {node id: type}
        Of new nodes. Others get the type that nodes with such edges have.
    self_loops : bool
        Keep edges from a node to itself; by default they are dropped.
    feature_ids : (r,) ids, features : (r, f)
        Rows of features, dense or sparse, and the nodes they belong to.
    remove_edges : pairs of ids
        Of existing nodes: edges of all types between the two, in an undirected graph in both directions. They are
        removed before `edges` are added.
    """

    edges: Any = ()
    weights: Any = None
    edge_types: Sequence[str] | None = None
    self_loops: bool = False
    feature_ids: Any = ()
    features: Any = None
    node_types: Mapping[Any, str] | None = None
    edge_features: Any = None
    remove_edges: Any = ()

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(edge_columns(self.edges)[0])


@dataclass(frozen=True, eq=False)
class ExtendedGraph:
    """A graph with new nodes after the existing ones, of which there are `num_existing_nodes`.

    `has_features`, `(n,)`, is true for existing nodes, if the graph has features, and for new ones with a row of their
    own. `changed` are the nodes whose edges or features differ, new ones included, ascending. `notes` say what of the
    update was ignored or filled in.
    """

    graph: Graph
    num_existing_nodes: int
    has_features: npt.NDArray[np.bool_]
    changed: Array
    notes: list[str] = field(default_factory=list)


def extend_graph(
    graph: Graph, update: GraphUpdate, default_features: Array | None = None, *, replace_features: bool = False
) -> ExtendedGraph:
    """Return a graph with new nodes and edges, and without the edges that are removed.

    An edge that the graph has already is not changed. A graph without features, weights or types ignores those of the
    update; where only the graph has weights, new edges get the weight 1. Rows that do not change are copied in blocks.

    Parameters
    ----------
    default_features : (f,), optional
        The features of nodes without a row; by default zeros.
    replace_features : bool
        Whether features of existing nodes are replaced by those of the update; by default they are kept.

    >>> update = GraphUpdate([("cy", "ann")], feature_ids=["dan"], features=[[5.0]])
    >>> extended = extend_graph(Graph.from_edges([("ann", "bob")], [[1.0], [2.0]], ["ann", "bob"]), update)
    >>> extended.graph.node_ids.tolist(), extended.graph.neighbors("ann"), extended.graph.features.ravel().tolist()
    (['ann', 'bob', 'cy', 'dan'], ['bob', 'cy'], [1.0, 2.0, 0.0, 5.0])
    """
    sources, targets = edge_columns(update.edges)
    endpoints, feature_ids = concatenate_ids(sources, targets), as_id_array(update.feature_ids)
    if update.features is not None:
        unique_index(feature_ids)
    _check_id_type(graph, endpoints, "edges")
    _check_id_type(graph, feature_ids, "features")
    notes: list[str] = []
    indices, new_ids = _index_ids(graph, np.concatenate([endpoints, feature_ids]).astype(graph.node_ids.dtype))
    node_ids = np.concatenate([graph.node_ids, new_ids]) if len(new_ids) else graph.node_ids
    source, target, feature_idx = np.split(indices, [len(sources), 2 * len(sources)])
    if len(sources) and len(graph) and min(source.min(), target.min()) >= len(graph):
        examples = f"ids of existing nodes are, for example, {format_list(graph.node_ids[:3].tolist())}"
        notes.append(f"no new edge is connected to an existing node; {examples}")
    removed = _removed_pairs(graph, update)
    extended, changed = updated_edges(graph, update, node_ids, (source, target), removed, notes)
    extended = replace(extended, encoder=graph.encoder)
    if not len(new_ids):
        set_cached(extended, "id_index", graph.id_index)  # of the same ids
    if graph.node_types is not None:
        extended = _with_node_types(graph, extended, update.node_types or {}, notes)
    elif update.node_types:
        notes.append("the graph has no node types, so those of new nodes are ignored")
    has_features, new_nodes = np.zeros(len(node_ids), bool), np.arange(graph.num_nodes, len(node_ids))
    if graph.features is None:
        if update.features is not None:
            notes.append("the graph has no features, so those of new nodes are ignored")
        return ExtendedGraph(extended, graph.num_nodes, has_features, np.union1d(changed, new_nodes), notes)
    has_features[: graph.num_nodes] = True
    rows, replaced = _default_rows(graph, len(new_ids), default_features), new_nodes
    if update.features is not None:
        matrix = checked_features(update.features, len(feature_ids))
        width = graph.features.shape[1]
        if matrix.shape[1] != width:
            raise InputError(f"new nodes need {width:,} features, as the others have, found {matrix.shape[1]:,}")
        is_new = feature_idx >= graph.num_nodes
        if not is_new.all() and not replace_features:
            count = int(np.count_nonzero(~is_new))
            notes.append(f"{count:,} of the nodes with new features exist already and keep their features")
        rows = _replace_rows(rows, feature_idx[is_new] - graph.num_nodes, matrix[np.flatnonzero(is_new)])
        has_features[feature_idx] = True
        if replace_features and not is_new.all():
            existing = np.flatnonzero(~is_new)
            existing = existing[np.argsort(feature_idx[existing])]
            replaced = np.concatenate([feature_idx[existing], new_nodes])
            old_rows = sp.csr_array(matrix[existing]) if sp.issparse(rows) else _dense(matrix[existing])
            rows = sp.vstack([old_rows, rows], "csr") if sp.issparse(rows) else np.vstack([old_rows, rows])
    features = _with_rows(graph.features, len(node_ids), replaced, rows) if len(replaced) else graph.features
    extended = replace(extended, features=features, feature_names=graph.feature_names)
    if not len(new_ids):
        set_cached(extended, "id_index", graph.id_index)
    return ExtendedGraph(extended, graph.num_nodes, has_features, np.union1d(changed, replaced), notes)


def _removed_pairs(graph: Graph, update: GraphUpdate) -> tuple[Array, Array]:
    """Return the edges to remove as node indices; unknown ids are refused."""
    columns = edge_columns(update.remove_edges)
    for column in columns:
        _check_id_type(graph, as_id_array(column), "edges to remove")
    first, second = (graph.indices_of(column, "the edges to remove") for column in columns)
    return first, second


def _with_rows(features: Any, count: int, nodes: Array, rows: Any) -> Features:
    """Return features of `count` nodes in which those of some nodes, ascending, are replaced or added at the end."""
    if not sp.issparse(features):
        stacked = np.empty((count, features.shape[1]), features.dtype)
        stacked[: len(features)] = features
        stacked[nodes] = rows
        return stacked
    sizes = np.zeros(count, np.int64)
    sizes[: features.shape[0]] = np.diff(features.indptr)
    sizes[nodes] = np.diff(rows.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    data, indices = (
        splice_rows(features.indptr, old, nodes, indptr, new)
        for old, new in ((features.data, rows.data), (features.indices, rows.indices))
    )
    return sp.csr_array((data, indices, indptr), shape=(count, features.shape[1]))


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if sp.issparse(values) else values)


def _check_id_type(graph: Graph, ids: Array, what: str) -> None:
    """Refuse ids of another type than those of the graph: 5 and "5" would be two nodes."""
    integers = graph.node_ids.dtype.kind == "i"
    if len(ids) and integers != (ids.dtype.kind == "i"):
        types = ("integers", "text") if integers else ("text", "integers")
        example = format_value(ids[:1].tolist()[0])
        problem = f"the node ids of the graph are {types[0]}, but the new {what} have {types[1]}, such as {example}"
        raise InputError(problem, hint="use the same type")


def _index_ids(graph: Graph, ids: Array) -> tuple[Array, Array]:
    """Return the index of each id, `(k,)`, and the ids that are new, in the order of their first appearance."""
    exists = graph.contains(ids)
    indices = np.empty(len(ids), np.int64)
    indices[exists] = graph.indices_of(ids[exists])
    codes, new_ids = factorize(ids[~exists])
    first = np.full(len(new_ids), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    order = np.argsort(first)
    indices[~exists] = graph.num_nodes + np.argsort(order)[codes]
    return indices, new_ids[order]


def _with_node_types(graph: Graph, extended: Graph, node_types: Mapping[Any, str], notes: list[str]) -> Graph:
    """Return an extended graph with node types: of new nodes as given, or most frequent at the ends of such edges."""
    size, names = len(graph), graph.node_type_names
    types = np.concatenate([graph.node_types, np.full(len(extended) - size, -1, np.int16)])
    for node, name in node_types.items():
        if str(name) not in names:
            known = format_list(names)
            raise InputError(f"node {format_value(node)} is of the type {format_value(name)}; the types are {known}")
        if node in extended and extended.index_of(node) >= size:
            types[extended.index_of(node)] = names.index(str(name))
    unknown = np.flatnonzero(types < 0)
    if len(unknown):
        notes.append(f"{len(unknown):,} new nodes have no type, so each gets that of nodes with such edges")
        types[unknown] = _types_by_edges(graph, extended, types, unknown)
    return replace(extended, node_types=types, node_type_names=names)


def _types_by_edges(graph: Graph, extended: Graph, types: Array, nodes: Array) -> Array:
    """Return for each of some nodes the type that is most frequent at that end of such edges; else of all nodes."""
    kinds = len(graph.node_type_names)
    frequency = np.zeros((len(extended.edge_type_names) or 1, kinds, kinds))  # by edge type, type there, type here
    for here, there, edge in _directions(graph):
        np.add.at(frequency, (edge, types[there], types[here]), 1)
    total = np.zeros((len(extended), kinds))
    for here, there, edge in _directions(extended):
        used = (types[here] < 0) & (types[there] >= 0)
        np.add.at(total, here[used], frequency[edge[used], types[there[used]]])
    common = np.bincount(types[types >= 0]).argmax()
    return np.where(total[nodes].any(axis=1), total[nodes].argmax(axis=1), common).astype(np.int16)


def _directions(graph: Graph) -> list[tuple[Array, Array, Array]]:
    """Return both ends of all entries and their edge types; those of a directed graph also the other way round."""
    rows = np.repeat(np.arange(len(graph)), graph.degrees)
    edge = np.zeros(len(rows), np.int64) if graph.edge_types is None else graph.edge_types
    return [(rows, graph.indices, edge), *([(graph.indices, rows, edge)] if graph.directed else [])]


def _default_rows(graph: Graph, count: int, default_features: Array | None) -> Features:
    """Return features of nodes without a row, sparse or dense as in the graph."""
    width = graph.features.shape[1] if graph.features is not None else 0
    if sp.issparse(graph.features):
        return sp.csr_array((count, width), dtype=np.float32)
    rows = np.zeros((count, width), np.float32)
    return rows if default_features is None else rows + np.asarray(default_features, np.float32)


def _replace_rows(rows: Features, row_idx: Array, values: Any) -> Features:
    """Return `rows` with `values` in the rows `row_idx`; sparse rows are zero before."""
    if sp.issparse(rows):
        entries = sp.coo_array(values)
        rows = sp.csr_array((entries.data, (row_idx[entries.row], entries.col)), shape=rows.shape)
        rows.sort_indices()
        return rows
    rows[row_idx] = _dense(values)
    return rows


def check_same_features(trained: Graph, new: Graph) -> None:
    """Refuse a graph whose features differ from those of the training graph in number, names or order."""
    width, new_width = (0 if graph.features is None else int(graph.features.shape[1]) for graph in (trained, new))
    if new_width != width:
        raise InputError(f"new nodes need {width:,} features, as in training, found {new_width:,}")
    pairs = zip(trained.feature_names, new.feature_names, strict=False)
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if different is not None:
        expected, name = map(format_value, different)
        problem = "new nodes need the features of the training graph in the same order"
        raise InputError(f"{problem}, expected {expected}, found {name}")
