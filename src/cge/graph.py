"""The graph: compressed sparse rows, the user's own node ids, optional features, edge weights and edge types."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cge.checks import (
    Features,
    checked_features,
    checked_size,
    checked_weights,
    edge_columns,
    encoded_types,
    joined,
    row_count,
)
from cge.csr import Rows, build_rows
from cge.errors import InputError, UnknownNodeError, shown
from cge.ids import IdIndex, as_id_array, factorize

__all__ = ["Graph", "GraphSummary"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph in compressed sparse rows. Build it with one of the `from_…` methods, not with the constructor.

    Nodes are the numbers 0 … n-1 inside and `node_ids[number]` outside. An undirected edge stands in the rows of both
    its ends. No array is written to after construction.

    Attributes
    ----------
    indptr : (n+1,) int32 or int64
    indices : (m,) int32 or int64
        The neighbors of node v are `indices[indptr[v]:indptr[v+1]]`, ascending. m counts entries: twice the edges of an
        undirected graph.
    node_ids : (n,) int64 or object
    directed : bool
    weights : (m,) float or None
        Positive edge weights.
    edge_types : (m,) int16 or None
        Numbers into `edge_type_names`; edges of different types between the same two nodes are kept apart.
    edge_type_names : tuple
    features : (n, f) float32, dense array or `scipy.sparse.csr_array`, or None

    Examples
    --------
    >>> graph = Graph.from_edges([("ann", "bob"), ("bob", "cy")])
    >>> graph.num_nodes, graph.num_edges, graph.neighbors("bob")
    (3, 2, ['ann', 'cy'])
    """

    indptr: Array
    indices: Array
    node_ids: Array
    directed: bool = False
    weights: Array | None = None
    edge_types: Array | None = None
    edge_type_names: tuple[str, ...] = ()
    features: Features | None = None

    # ------------------------------------------------------------------ ways in

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        features: Any = None,
        node_ids: Iterable[Hashable] | None = None,
        weights: Any = None,
        directed: bool = False,
        *,
        edge_types: Sequence[Any] | Array | None = None,
        num_nodes: int | None = None,
        self_loops: bool = False,
    ) -> Graph:
        """Build a graph from pairs of node ids.

        Parameters
        ----------
        edges : (k, 2) array, a list of pairs, or a tuple of two arrays `(sources, targets)`
            Ids: integers (gaps allowed), strings or anything hashable.
        features : (n, f) array or SciPy sparse matrix, optional
            Row i belongs to node i: the i-th of `node_ids`, or the integer i where no `node_ids` are given.
        node_ids : sequence, optional
            All nodes, in order, isolated ones included. Without it nodes are those that occur in `edges` (integers
            ascending, others in order of first appearance), or 0 … n-1 where `features` or `num_nodes` tells n.
        weights : (k,) positive numbers, optional
        directed : bool
            False enters each edge in both directions.
        edge_types : (k,) names, optional
        num_nodes : int, optional
            Nodes are the integers 0 … num_nodes-1.
        self_loops : bool
            Keep edges from a node to itself; by default they are dropped.

        Duplicates are merged: weights add up, edges without weights collapse.
        """
        source_ids, target_ids = edge_columns(edges)
        ids = None if node_ids is None else as_id_array(node_ids)
        if ids is None:
            size = num_nodes if num_nodes is not None or features is None else row_count(features)
            ids = None if size is None else np.arange(checked_size(size), dtype=np.int64)
        ends = joined(source_ids, target_ids)
        codes, ids = factorize(ends) if ids is None else (_found(_unique_index(ids), ends, "edges"), ids)
        source, target = codes[: len(source_ids)], codes[len(source_ids) :]
        return cls.from_codes(
            source,
            target,
            ids,
            weights=None if weights is None else checked_weights(weights, len(source)),
            edge_types=edge_types,
            features=features,
            directed=directed,
            self_loops=self_loops,
        )

    @classmethod
    def from_codes(
        cls,
        source: Array,
        target: Array,
        node_ids: Array,
        *,
        weights: Array | None = None,
        edge_types: Sequence[Any] | Array | None = None,
        features: Any = None,
        directed: bool = False,
        self_loops: bool = False,
    ) -> Graph:
        """Build a graph from node *numbers*; readers use it, `from_edges` is the way in for ids."""
        types, names = (None, ()) if edge_types is None else encoded_types(edge_types, len(source))
        rows = build_rows(len(node_ids), source, target, weights, types, directed=directed, self_loops=self_loops)
        return cls._from_rows(rows, node_ids, directed, names, features)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        node_ids: Iterable[Hashable] | None = None,
        directed: bool | None = None,
        *,
        weighted: bool | None = None,
        self_loops: bool = False,
    ) -> Graph:
        """Build a graph from a square sparse adjacency matrix.

        `directed=None` looks: a symmetric matrix makes an undirected graph, any other a directed one. `weighted=None`
        looks as well: a matrix of equal values makes a graph without weights.
        """
        matrix = sp.csr_array(adjacency, copy=True)
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"an adjacency matrix must be square, found shape {matrix.shape}")
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        values = checked_weights(matrix.data, matrix.nnz)
        mirrored = sp.csr_array(matrix.T)
        mirrored.sort_indices()
        symmetric = (
            np.array_equal(matrix.indptr, mirrored.indptr)
            and np.array_equal(matrix.indices, mirrored.indices)
            and np.array_equal(matrix.data, mirrored.data)
        )
        if directed is False and not symmetric:
            raise InputError(
                "the adjacency matrix is not symmetric; "
                "pass directed=True, or adjacency + adjacency.T for an undirected graph"
            )
        if weighted is None:
            weighted = bool(len(values)) and not np.all(values == values[0])
        source = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        rows = build_rows(
            matrix.shape[0], source, matrix.indices, values if weighted else None, directed=True, self_loops=self_loops
        )
        ids = np.arange(matrix.shape[0], dtype=np.int64) if node_ids is None else as_id_array(node_ids)
        if len(ids) != matrix.shape[0]:
            raise InputError(f"the matrix has {matrix.shape[0]:,} rows, but there are {len(ids):,} node ids")
        _unique_index(ids)
        return cls._from_rows(rows, ids, not symmetric if directed is None else directed, (), features)

    @classmethod
    def from_networkx(
        cls, graph: Any, features: Any = None, weight: str | None = "weight", *, self_loops: bool = False
    ) -> Graph:
        """Build a graph from a NetworkX graph (anything with `nodes`, `edges(data=…)` and `is_directed`).

        `weight` names the edge attribute to read; where no edge has it, the graph has no weights, and where some have
        it the others count 1.
        """
        nodes = list(graph.nodes)
        triples = list(graph.edges(data=weight, default=None)) if weight else [(u, v, None) for u, v in graph.edges()]
        found = [triple[2] for triple in triples]
        weights = None if all(w is None for w in found) else [1.0 if w is None else w for w in found]
        return cls.from_edges(
            [triple[:2] for triple in triples],
            features,
            nodes,
            weights,
            bool(graph.is_directed()),
            self_loops=self_loops,
        )

    @classmethod
    def from_pyg(cls, data: Any, directed: bool | None = None, *, self_loops: bool = False) -> Graph:
        """Build a graph from a PyTorch Geometric `Data` (anything with `edge_index`, and maybe `x`, `edge_weight`).

        A one-dimensional `edge_attr` counts as weights where there is no `edge_weight`. `directed=None` looks whether
        every edge has its reverse.
        """
        pair = _to_numpy(data.edge_index)
        if pair.ndim != 2 or pair.shape[0] != 2:
            raise InputError(f"edge_index must have shape (2, edges), found {pair.shape}")
        features = getattr(data, "x", None)
        values = getattr(data, "edge_weight", None)
        attributes = getattr(data, "edge_attr", None)
        if values is None and attributes is not None and _to_numpy(attributes).squeeze().ndim == 1:
            values = _to_numpy(attributes).squeeze()
        size = int(getattr(data, "num_nodes", None) or (pair.max() + 1 if pair.size else 0))
        weights = np.ones(pair.shape[1]) if values is None else checked_weights(_to_numpy(values), pair.shape[1])
        if pair.size and (pair.min() < 0 or pair.max() >= size):
            raise InputError(f"edge_index holds {int(pair.max())}, but the graph has {size:,} nodes")
        matrix = sp.csr_array(sp.coo_array((weights, (pair[0], pair[1])), shape=(size, size)))
        if values is None:
            matrix.data[:] = 1
        return cls.from_scipy(
            matrix,
            None if features is None else _to_numpy(features),
            directed=directed,
            weighted=values is not None,
            self_loops=self_loops,
        )

    @classmethod
    def _from_rows(
        cls, rows: Rows, node_ids: Array, directed: bool, type_names: tuple[str, ...], features: Any
    ) -> Graph:
        return cls(
            rows.indptr,
            rows.indices,
            node_ids,
            directed,
            rows.weights,
            rows.types,
            type_names,
            None if features is None else checked_features(features, len(node_ids)),
        )

    # ------------------------------------------------------------------ looking at it

    @property
    def num_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return len(self.node_ids)

    @cached_property
    def num_edges(self) -> int:
        """Number of distinct edges: an undirected edge counts once, a self-loop once."""
        if self.directed:
            return len(self.indices)
        rows = np.repeat(np.arange(self.num_nodes, dtype=self.indices.dtype), self.degrees)
        return (len(self.indices) + int(np.count_nonzero(rows == self.indices))) // 2

    @cached_property
    def degrees(self) -> Array:
        """Number of neighbors of each node (of outgoing edges in a directed graph), `(n,)`."""
        return np.diff(self.indptr)

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.node_ids)

    def index_of(self, node: Hashable) -> int:
        """Return the number of one node.

        >>> Graph.from_edges([(10, 30)]).index_of(30)
        1
        """
        return int(self.indices_of([node])[0])

    def indices_of(self, nodes: Iterable[Hashable], where: str = "the request") -> Array:
        """Return the numbers of nodes, `(k,)`; unknown ids raise `UnknownNodeError`, which names them and `where`."""
        wanted = nodes if isinstance(nodes, np.ndarray) else list(nodes)
        return _found(self._index, wanted, where)

    def contains(self, nodes: Iterable[Hashable]) -> npt.NDArray[np.bool_]:
        """Say for each id whether it is a node, `(k,)`."""
        found: npt.NDArray[np.bool_] = self._index.find(nodes) >= 0
        return found

    def neighbors(self, node: Hashable) -> list[Any]:
        """Return the ids of a node's neighbors."""
        number = self.index_of(node)
        ids: list[Any] = self.node_ids[self.indices[self.indptr[number] : self.indptr[number + 1]]].tolist()
        return ids

    def to_scipy(self) -> sp.csr_array:
        """Return the adjacency matrix, float64; edges of several types between two nodes add up."""
        values = np.ones(len(self.indices)) if self.weights is None else self.weights.astype(np.float64)
        matrix = sp.csr_array((values, self.indices.copy(), self.indptr.copy()), shape=(self.num_nodes, self.num_nodes))
        matrix.sum_duplicates()
        return matrix

    def with_features(self, features: Any) -> Graph:
        """Return the same graph with these node features."""
        return Graph(
            self.indptr,
            self.indices,
            self.node_ids,
            self.directed,
            self.weights,
            self.edge_types,
            self.edge_type_names,
            None if features is None else checked_features(features, self.num_nodes),
        )

    def summary(self) -> GraphSummary:
        """Count what there is: nodes, edges, components, isolated nodes, degrees, memory."""
        quantiles = np.quantile(self.degrees, [0, 0.25, 0.5, 0.75, 0.9, 0.99, 1]) if self.num_nodes else np.zeros(7)
        touched = np.bincount(self.indices, minlength=self.num_nodes) + self.degrees
        structure = sp.csr_array(
            (np.ones(len(self.indices), np.int8), self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes)
        )
        components = int(connected_components(structure, directed=False)[0]) if self.num_nodes else 0
        return GraphSummary(
            nodes=self.num_nodes,
            edges=self.num_edges,
            directed=self.directed,
            components=components,
            isolated=int(np.count_nonzero(touched == 0)),
            degree_quantiles=tuple(float(q) for q in quantiles),
            weighted=self.weights is not None,
            edge_types=self.edge_type_names,
            features=0 if self.features is None else int(self.features.shape[1]),
            feature_density=_density(self.features),
            memory_bytes=sum(part.nbytes for part in self._arrays()),
        )

    def _arrays(self) -> list[Array]:
        parts = [self.indptr, self.indices, self.node_ids, self.weights, self.edge_types]
        if isinstance(self.features, sp.csr_array):
            parts += [self.features.data, self.features.indices, self.features.indptr]
        else:
            parts.append(self.features)
        return [part for part in parts if part is not None]


@dataclass(frozen=True)
class GraphSummary:
    """What `Graph.summary` counts; `str()` of it is a small table.

    `degree_quantiles` are the 0, 25, 50, 75, 90, 99 and 100 % quantiles; `isolated` nodes have no edge in or out;
    `components` ignore directions.
    """

    nodes: int
    edges: int
    directed: bool
    components: int
    isolated: int
    degree_quantiles: tuple[float, ...]
    weighted: bool
    edge_types: tuple[str, ...]
    features: int
    feature_density: float
    memory_bytes: int

    def rows(self) -> list[tuple[str, str]]:
        """Return the table as (name, value) pairs of text."""
        places = ("min", "25%", "median", "75%", "90%", "99%", "max")
        degrees = (f"{place} {value:,.0f}" for place, value in zip(places, self.degree_quantiles, strict=True))
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"{self.edges:,} {'directed' if self.directed else 'undirected'}"),
            ("components", f"{self.components:,}"),
            ("isolated nodes", f"{self.isolated:,}"),
            ("degree", " · ".join(degrees)),
            ("edge weights", "yes" if self.weighted else "no"),
        ]
        if self.edge_types:
            rows.append(("edge types", f"{len(self.edge_types)}: {', '.join(self.edge_types[:8])}"))
        shape = f"{self.features:,} per node, {self.feature_density:.1%} nonzero" if self.features else "none"
        return [*rows, ("features", shape), ("memory", f"{self.memory_bytes / 1e6:,.1f} MB")]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _unique_index(ids: Array) -> IdIndex:
    index = IdIndex(ids)
    twice = index.first_duplicate()
    if twice is not None:
        raise InputError(f"node ids must be unique, but {shown(twice)} stands twice")
    return index


def _found(index: IdIndex, wanted: Any, where: str) -> Array:
    numbers = index.find(wanted)
    unknown = np.flatnonzero(numbers < 0)
    if len(unknown):
        missing = list(dict.fromkeys(wanted[place] for place in unknown.tolist()))
        plain = [one.item() if isinstance(one, np.generic) else one for one in missing]
        raise UnknownNodeError(where, plain)
    return numbers


def _density(features: Features | None) -> float:
    if features is None or 0 in features.shape:
        return 0.0
    stored = features.nnz if isinstance(features, sp.csr_array) else int(np.count_nonzero(features))
    return float(stored / (features.shape[0] * features.shape[1]))


def _to_numpy(tensor: Any) -> Array:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return np.asarray(tensor)
