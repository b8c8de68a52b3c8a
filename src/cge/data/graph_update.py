"""New nodes for a graph that is there already: their edges and features, alone or together, and the graph with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.checks import Features, checked_features, checked_weights, concatenate_ids, edge_columns
from cge.csr import build_rows
from cge.errors import InputError, format_list, format_value
from cge.graph import Graph
from cge.ids import as_id_array, factorize, unique_index

__all__ = ["ExtendedGraph", "GraphUpdate", "check_same_features", "extend_graph"]

Array = npt.NDArray[Any]

_UNTYPED = "(none)"  # the type of new edges that have none, in a graph with types
_MOST_TYPES = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class GraphUpdate:
    """New edges and new features, by node id; either may be missing.

    Attributes
    ----------
    edges : pairs of ids, as `Graph.from_edges` takes them
        Between new nodes, or between new and old ones.
    weights : (k,), edge_types : (k,) names
        Of the edges.
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

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(edge_columns(self.edges)[0])


@dataclass(frozen=True, eq=False)
class ExtendedGraph:
    """A graph with new nodes behind the old ones.

    Attributes
    ----------
    graph : Graph
    old : int
        How many nodes were there before: those with the first numbers.
    featured : (n,) bool
        Which nodes have features: the old ones, where the graph has any, and new ones with a row of their own.
    notes : list of str
        What was not taken as it came.
    """

    graph: Graph
    old: int
    featured: npt.NDArray[np.bool_]
    notes: list[str] = field(default_factory=list)


def extend_graph(graph: Graph, new: GraphUpdate, missing: Array | None = None) -> ExtendedGraph:
    """Return a graph with new nodes and edges.

    An edge that is there already stays as it is. Old nodes keep their features, and so does a graph without features:
    it takes none. New edges get the weight 1 where the old ones have weights and they have none; weights and types that
    the old edges do not have are left out.

    Parameters
    ----------
    missing : (f,), optional
        The features of nodes without a row; by default zeros.

    >>> new = GraphUpdate([("cy", "ann")], feature_ids=["dan"], features=[[5.0]])
    >>> grown = extend_graph(Graph.from_edges([("ann", "bob")], [[1.0], [2.0]], ["ann", "bob"]), new)
    >>> grown.graph.node_ids.tolist(), grown.graph.neighbors("ann"), grown.graph.features.ravel().tolist()
    (['ann', 'bob', 'cy', 'dan'], ['bob', 'cy'], [1.0, 2.0, 0.0, 5.0])
    """
    sources, targets = edge_columns(new.edges)
    keys = as_id_array(new.feature_ids)
    if new.features is not None:
        unique_index(keys)
    for what, ids in (("edges", concatenate_ids(sources, targets)), ("features", keys)):
        _same_kind(graph, ids, what)
    notes: list[str] = []
    named = np.concatenate([concatenate_ids(sources, targets), keys]).astype(graph.node_ids.dtype)
    places, found = _places(graph, named)
    node_ids = np.concatenate([graph.node_ids, found])
    first, second, at = np.split(places, [len(sources), 2 * len(sources)])
    if len(sources) and len(graph) and min(first.min(), second.min()) >= len(graph):
        known = format_list(graph.node_ids[:3].tolist())
        notes.append(f"none of the new edges leads to a node that was there before; ids of these are such as {known}")
    grown = _with_edges(graph, new, node_ids, (first, second), notes)
    featured = np.zeros(len(node_ids), bool)
    if graph.features is None:
        if new.features is not None:
            notes.append("the graph has no features, so those of new nodes are left out")
        return ExtendedGraph(grown, graph.num_nodes, featured, notes)
    featured[: graph.num_nodes] = True
    rows = _no_rows(graph, len(found), missing)
    if new.features is not None:
        matrix = checked_features(new.features, len(keys))
        width = graph.features.shape[1]
        if matrix.shape[1] != width:
            raise InputError(f"new nodes need {width:,} features, as the others have, found {matrix.shape[1]:,}")
        again = int(np.count_nonzero(at < graph.num_nodes))
        if again:
            notes.append(f"{again:,} of the nodes with new features are old ones, which keep the features they have")
        fresh = at >= graph.num_nodes
        rows = _placed(rows, matrix, at[fresh] - graph.num_nodes, np.flatnonzero(fresh))
        featured[at] = True
    stacked = sp.vstack([graph.features, rows], "csr") if sp.issparse(rows) else np.vstack([graph.features, rows])
    grown = replace(grown, features=stacked, feature_names=graph.feature_names)
    return ExtendedGraph(grown, graph.num_nodes, featured, notes)


def _same_kind(graph: Graph, ids: Array, what: str) -> None:
    """Refuse ids of another kind than those of the graph: 5 and "5" would be two nodes."""
    whole = graph.node_ids.dtype.kind == "i"
    if len(ids) and whole != (ids.dtype.kind == "i"):
        kinds = ("integers", "text") if whole else ("text", "integers")
        raise InputError(
            f"the node ids of the graph are {kinds[0]}, but the new {what} have {kinds[1]}, such as "
            f"{format_value(ids[:1].tolist()[0])}; write ids alike"
        )


def _places(graph: Graph, ids: Array) -> tuple[Array, Array]:
    """Return the number of each id, `(k,)`, and the ids that are new, in the order of their first appearance."""
    known = graph.contains(ids)
    places = np.empty(len(ids), np.int64)
    places[known] = graph.indices_of(ids[known])
    codes, found = factorize(ids[~known])
    first = np.full(len(found), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    order = np.argsort(first)
    places[~known] = graph.num_nodes + np.argsort(order)[codes]
    return places, found[order]


def _with_edges(graph: Graph, new: GraphUpdate, node_ids: Array, ends: tuple[Array, Array], notes: list[str]) -> Graph:
    """Return the graph with new nodes and edges, without features."""
    own = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    weights, (types, names) = _weights(graph, new, len(ends[0]), notes), _types(graph, new, len(ends[0]), notes)
    fresh = ~_stand_already(graph, own, *ends, types) & (new.self_loops | (ends[0] != ends[1]))
    # The rows of an undirected graph hold both directions; a loop stands once.
    back = fresh & (not graph.directed) & (ends[0] != ends[1])
    source = np.r_[own, ends[0][fresh], ends[1][back]]
    target = np.r_[graph.indices, ends[1][fresh], ends[0][back]]
    if graph.weights is not None and weights is not None:
        weights = np.r_[graph.weights, weights[fresh], weights[back]].astype(graph.weights.dtype)
    if graph.edge_types is not None and types is not None:
        types = np.r_[graph.edge_types, types[fresh], types[back]].astype(np.int16)
    rows = build_rows(len(node_ids), source, target, weights, types, directed=True, self_loops=True)
    return Graph(rows.indptr, rows.indices, node_ids, graph.directed, rows.weights, rows.types, names)


def _weights(graph: Graph, new: GraphUpdate, count: int, notes: list[str]) -> Array | None:
    """Return weights of new edges, where the graph has weights."""
    given = None if new.weights is None else checked_weights(new.weights, count)
    if graph.weights is None:
        if given is not None:
            notes.append("the graph has no edge weights, so those of new edges are left out")
        return None
    if given is None and count:
        notes.append("the new edges have no weights, so each counts 1")
    return np.ones(count) if given is None else given


def _types(graph: Graph, new: GraphUpdate, count: int, notes: list[str]) -> tuple[Array | None, tuple[str, ...]]:
    """Return types of new edges as numbers, where the graph has types, and the names of all types."""
    if graph.edge_types is None:
        if new.edge_types is not None:
            notes.append("the graph has no types of edges, so those of new edges are left out")
        return None, ()
    told = [_UNTYPED] * count if new.edge_types is None else [str(one) for one in new.edge_types]
    if len(told) != count:
        raise InputError(f"there are {count:,} new edges, but {len(told):,} edge types")
    if new.edge_types is None and count:
        notes.append("the new edges have no types, so they count as edges of a type of their own")
    names = tuple(dict.fromkeys([*graph.edge_type_names, *told]))
    strange = [] if new.edge_types is None else [one for one in names if one not in graph.edge_type_names]
    if strange:
        notes.append(f"the graph has no edges of type {format_list(strange)}, so what such a type means is not known")
    if len(names) > _MOST_TYPES:
        raise InputError(f"there are {len(names):,} edge types; at most {_MOST_TYPES:,} can be told apart")
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[one] for one in told], np.int64), names


def _stand_already(
    graph: Graph, own: Array, source: Array, target: Array, types: Array | None
) -> npt.NDArray[np.bool_]:
    """Say which edges are in a graph already, `(k,)`; edges of another type are others."""
    size = graph.num_nodes
    between = np.flatnonzero((source < size) & (target < size))  # only old nodes have edges already
    looked_at = np.zeros(size, bool)
    looked_at[source[between]] = True
    near = looked_at[own]

    def keys(u: Array, v: Array, kind: Array | None) -> Array:
        pair: Array = u.astype(np.int64) * size + v
        return pair if kind is None else pair * (_MOST_TYPES + 1) + kind

    def of(kinds: Array | None, some: Array) -> Array | None:
        return None if kinds is None else kinds[some]

    found = np.zeros(len(source), bool)
    there = keys(own[near], graph.indices[near], of(graph.edge_types, near))
    found[between] = np.isin(keys(source[between], target[between], of(types, between)), there)
    return found


def _no_rows(graph: Graph, count: int, missing: Array | None) -> Features:
    """Return features of nodes that have none, in the form that the graph has."""
    width = graph.features.shape[1] if graph.features is not None else 0
    if sp.issparse(graph.features):
        return sp.csr_array((count, width), dtype=np.float32)
    rows = np.zeros((count, width), np.float32)
    return rows if missing is None else rows + np.asarray(missing, np.float32)


def _placed(rows: Features, matrix: Any, at: Array, taken: Array) -> Features:
    """Return `rows` with rows `taken` of a matrix in the places `at`."""
    if sp.issparse(rows):
        chosen = sp.csr_array(matrix if sp.issparse(matrix) else sp.csr_array(matrix))[taken]
        put = sp.csr_array((np.ones(len(at), np.float32), (at, np.arange(len(at)))), shape=(rows.shape[0], len(at)))
        found = sp.csr_array(put @ chosen)
        found.sort_indices()
        return found
    chosen = matrix[taken]
    rows[at] = chosen.toarray() if sp.issparse(chosen) else chosen
    return rows


def check_same_features(trained: Graph, new: Graph) -> None:
    """Refuse a graph whose features are not those of the trained one: as many, and of the same names in one order."""
    width, found = (0 if one.features is None else int(one.features.shape[1]) for one in (trained, new))
    if found != width:
        raise InputError(f"new nodes need {width:,} features, as in training, found {found:,}")
    both = zip(trained.feature_names, new.feature_names, strict=False)
    wrong = next((pair for pair in both if pair[0] != pair[1]), None)
    if wrong is not None:
        raise InputError(
            f"new nodes need the features of training in the same order, but {format_value(wrong[1])} stands where "
            f"{format_value(wrong[0])} was"
        )
