"""New nodes, edges and features for an existing graph, and the graph extended by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_features, checked_weights, concatenate_ids, edge_columns
from cge.csr import build_rows
from cge.errors import InputError, format_list, format_value
from cge.graph import Graph
from cge.graph_types import checked_edge_features, entry_features
from cge.ids import as_id_array, factorize, unique_index

_UNTYPED = "(none)"  # the type of new edges without a type, in a graph with types
_MAX_TYPES = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class GraphUpdate:
    """New edges and new features, by node id; either may be omitted.

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
    """

    edges: Any = ()
    weights: Any = None
    edge_types: Sequence[str] | None = None
    self_loops: bool = False
    feature_ids: Any = ()
    features: Any = None
    node_types: Mapping[Any, str] | None = None
    edge_features: Any = None

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(edge_columns(self.edges)[0])


@dataclass(frozen=True, eq=False)
class ExtendedGraph:
    """A graph with new nodes after the existing ones, of which there are `num_existing_nodes`.

    `has_features`, `(n,)`, is true for existing nodes, if the graph has features, and for new ones with a row of their
    own. `notes` say what of the update was ignored or filled in.
    """

    graph: Graph
    num_existing_nodes: int
    has_features: npt.NDArray[np.bool_]
    notes: list[str] = field(default_factory=list)


def extend_graph(graph: Graph, update: GraphUpdate, default_features: Array | None = None) -> ExtendedGraph:
    """Return a graph with new nodes and edges.

    Existing edges and features of existing nodes are not changed. A graph without features, weights or types ignores
    those of the update; where only the graph has weights, new edges get the weight 1.

    Parameters
    ----------
    default_features : (f,), optional
        The features of nodes without a row; by default zeros.

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
    node_ids = np.concatenate([graph.node_ids, new_ids])
    source, target, feature_idx = np.split(indices, [len(sources), 2 * len(sources)])
    if len(sources) and len(graph) and min(source.min(), target.min()) >= len(graph):
        examples = f"ids of existing nodes are, for example, {format_list(graph.node_ids[:3].tolist())}"
        notes.append(f"no new edge is connected to an existing node; {examples}")
    extended = _with_edges(graph, update, node_ids, (source, target), notes)
    if graph.node_types is not None:
        extended = _with_node_types(graph, extended, update.node_types or {}, notes)
    elif update.node_types:
        notes.append("the graph has no node types, so those of new nodes are ignored")
    has_features = np.zeros(len(node_ids), bool)
    if graph.features is None:
        if update.features is not None:
            notes.append("the graph has no features, so those of new nodes are ignored")
        return ExtendedGraph(extended, graph.num_nodes, has_features, notes)
    has_features[: graph.num_nodes] = True
    rows = _default_rows(graph, len(new_ids), default_features)
    if update.features is not None:
        matrix = checked_features(update.features, len(feature_ids))
        width = graph.features.shape[1]
        if matrix.shape[1] != width:
            raise InputError(f"new nodes need {width:,} features, as the others have, found {matrix.shape[1]:,}")
        is_new = feature_idx >= graph.num_nodes
        if not is_new.all():
            count = int(np.count_nonzero(~is_new))
            notes.append(f"{count:,} of the nodes with new features exist already and keep their features")
        rows = _replace_rows(rows, feature_idx[is_new] - graph.num_nodes, matrix[np.flatnonzero(is_new)])
        has_features[feature_idx] = True
    stacked = sp.vstack([graph.features, rows], "csr") if sp.issparse(rows) else np.vstack([graph.features, rows])
    extended = replace(extended, features=stacked, feature_names=graph.feature_names)
    return ExtendedGraph(extended, graph.num_nodes, has_features, notes)


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


def _with_edges(
    graph: Graph, update: GraphUpdate, node_ids: Array, endpoints: tuple[Array, Array], notes: list[str]
) -> Graph:
    """Return the graph with new nodes and edges, without features."""
    source, target = endpoints
    old_source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    weights = _weights(graph, update, len(source), notes)
    types, names = _types(graph, update, len(source), notes)
    is_new = ~_already_present(graph, old_source, source, target, types) & (update.self_loops | (source != target))
    # The rows of an undirected graph have both directions; a self-loop has one entry.
    reverse = is_new & (not graph.directed) & (source != target)
    all_sources = np.r_[old_source, source[is_new], target[reverse]]
    all_targets = np.r_[graph.indices, target[is_new], source[reverse]]
    if graph.weights is not None and weights is not None:
        weights = np.r_[graph.weights, weights[is_new], weights[reverse]].astype(graph.weights.dtype)
    if graph.edge_types is not None and types is not None:
        types = np.r_[graph.edge_types, types[is_new], types[reverse]].astype(np.int16)
    rows = build_rows(len(node_ids), all_sources, all_targets, weights, types, directed=True, self_loops=True)
    extended = Graph(rows.indptr, rows.indices, node_ids, graph.directed, rows.weights, rows.types, names)
    table = _edge_features(graph, update, len(source), notes)
    if table is None:
        return extended
    values = np.concatenate([graph.edge_features, table[is_new], table[reverse]])
    values = entry_features(rows, all_sources, all_targets, types, values, directed=True)
    return replace(extended, edge_features=values, edge_feature_names=graph.edge_feature_names)


def _edge_features(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> Array | None:
    """Return features of new edges in the order of those of the graph, NaN where missing; None if it has none."""
    names = graph.edge_feature_names
    if not names:
        if update.edge_features is not None:
            notes.append("the graph has no edge features, so those of new edges are ignored")
        return None
    table = np.full((count, len(names)), np.nan, np.float32)
    if update.edge_features is None:
        if count:
            notes.append("the new edges have no edge features, so they count as missing")
        return table
    values, columns = checked_edge_features(update.edge_features, count)
    by_name = isinstance(update.edge_features, Mapping) or hasattr(update.edge_features, "columns")
    if not by_name and values.shape[1] != len(names):
        raise InputError(f"new edges need {len(names):,} features, as the others have, found {values.shape[1]:,}")
    unknown = next((name for name in columns if by_name and name not in names), None)
    if unknown is not None:
        raise InputError(f"the graph has no edge feature {format_value(unknown)}; it has {format_list(names)}")
    table[:, [names.index(name) for name in columns] if by_name else slice(None)] = values
    return table


def _with_node_types(graph: Graph, extended: Graph, given: Mapping[Any, str], notes: list[str]) -> Graph:
    """Return an extended graph with node types: of new nodes as given, or most frequent at the ends of such edges."""
    size, names = len(graph), graph.node_type_names
    types = np.concatenate([graph.node_types, np.full(len(extended) - size, -1, np.int16)])
    for node, name in given.items():
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


def _weights(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> Array | None:
    """Return weights of new edges, if the graph has weights."""
    weights = None if update.weights is None else checked_weights(update.weights, count)
    if graph.weights is None:
        if weights is not None:
            notes.append("the graph has no edge weights, so those of new edges are ignored")
        return None
    if weights is None and count:
        notes.append("the new edges have no weights, so each has the weight 1")
    return np.ones(count) if weights is None else weights


def _types(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> tuple[Array | None, tuple[str, ...]]:
    """Return types of new edges as indices, if the graph has types, and the names of all types."""
    if graph.edge_types is None:
        if update.edge_types is not None:
            notes.append("the graph has no edge types, so those of new edges are ignored")
        return None, ()
    types = [_UNTYPED] * count if update.edge_types is None else [str(name) for name in update.edge_types]
    if len(types) != count:
        raise InputError(f"there are {count:,} new edges, but {len(types):,} edge types")
    names = tuple(dict.fromkeys([*graph.edge_type_names, *types]))
    unknown = format_list(names[len(graph.edge_type_names) :])
    if update.edge_types is None and count:
        notes.append("the new edges have no types, so they get the type '(none)'")
    elif unknown:
        notes.append(f"the graph has no edges of type {unknown}, so the model has not seen this type")
    if len(names) > _MAX_TYPES:
        raise InputError(f"there are {len(names):,} edge types; at most {_MAX_TYPES:,} are supported")
    index = {name: position for position, name in enumerate(names)}
    return np.array([index[name] for name in types], np.int64), names


def _already_present(
    graph: Graph, old_source: Array, source: Array, target: Array, types: Array | None
) -> npt.NDArray[np.bool_]:
    """Return which edges the graph has already, `(k,)`; an edge of another type counts as new."""
    size = graph.num_nodes
    candidates = np.flatnonzero((source < size) & (target < size))  # only existing nodes have edges
    is_source = np.zeros(size, bool)
    is_source[source[candidates]] = True
    entries = is_source[old_source]
    old_codes = old_source[entries].astype(np.int64) * size + graph.indices[entries]
    new_codes = source[candidates].astype(np.int64) * size + target[candidates]
    if graph.edge_types is not None and types is not None:
        old_codes = old_codes * (_MAX_TYPES + 1) + graph.edge_types[entries]
        new_codes = new_codes * (_MAX_TYPES + 1) + types[candidates]
    exist = np.zeros(len(source), bool)
    exist[candidates] = np.isin(new_codes, old_codes)
    return exist


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
    rows[row_idx] = values.toarray() if sp.issparse(values) else values
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
