"""The graph: compressed sparse rows, the user's own node ids, optional features, edge weights and edge types."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge import checks
from cge.arrays import Array
from cge.csr import build_rows, check_endpoints, check_order, check_rows
from cge.errors import InputError, Param, counted, format_value
from cge.graph_summary import GraphSummary, summarize
from cge.ids import IdIndex, as_id_array, find_nodes, id_sequence, unique_index


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph in compressed sparse rows. Build it with one of the `from_…` methods, not with the constructor.

    Arrays use node indices 0 … n-1; `node_ids[index]` is the id of a node. An undirected edge is in the rows of both
    endpoints. Arrays are copies of the arguments, and read-only.

    Attributes
    ----------
    indptr : (n+1,) int32 or int64
        Where the row of each node starts in `indices`.
    indices : (m,) int32 or int64
        The neighbors of node v are `indices[indptr[v]:indptr[v+1]]`, ascending. m counts entries: twice the edges of an
        undirected graph.
    node_ids : (n,) int64 or object
        Ids of the nodes.
    directed : bool
        Whether edges have directions.
    weights : (m,) float or None
        Positive edge weights.
    edge_types : (m,) int16 or None
        Indices into `edge_type_names`; edges of different types between the same two nodes are kept apart.
    edge_type_names : tuple
        Names of the types; empty where there are none.
    features : (n, f) float32, or None
        Node features: a dense array or a `scipy.sparse.csr_array`.
    feature_names : tuple
        Names of the feature columns, where the file has a header; features of new nodes are put in this order.

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
    features: checks.Features | None = None
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rows(self.indptr, self.indices, len(self.node_ids))
        check_order(self.indptr, self.indices)
        for name in ("indptr", "indices", "node_ids", "weights", "edge_types", "features"):
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                array = array.view()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    # ------------------------------------------------------------------ construction

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

        Duplicates are merged: weights add up, edges without weights collapse.

        Parameters
        ----------
        edges : (k, 2) array, a list of pairs, or a tuple of two arrays (sources, targets)
            Ids: integers (gaps allowed), strings or anything hashable.
        features : (n, f) array or SciPy sparse matrix, optional
            Row i belongs to node i: the i-th of `node_ids`, or the integer i where no `node_ids` are given.
        node_ids : sequence, optional
            All nodes, in order, isolated ones included. Without it nodes are those that occur in `edges` (integers
            ascending, others in order of first appearance), or 0 … n-1 where `features` or `num_nodes` determines n.
        weights : (k,) positive numbers, optional
            Of the edges; without them all edges are equal.
        directed : bool
            False enters each edge in both directions.
        edge_types : (k,) names, optional
            Of the edges; those of different types between the same two nodes are kept apart.
        num_nodes : int, optional
            Nodes are the integers 0 … num_nodes-1.
        self_loops : bool
            Keep edges from a node to itself; by default they are dropped.

        Examples
        --------
        >>> Graph.from_edges([(1, 5), (5, 9)], weights=[1, 0.5])
        Graph(3 nodes, 2 undirected edges, weighted)
        >>> Graph.from_edges([("a", "b"), ("b", "c")], node_ids=["a", "b", "c", "d"], features=np.eye(4))
        Graph(4 nodes, 2 undirected edges, 4 features)
        """
        if node_ids is not None and num_nodes is not None:
            raise InputError("pass node_ids or num_nodes, not both")
        size = num_nodes if num_nodes is not None or features is None else checks.row_count(features)
        source, target, ids = checks.number_edges(edges, node_ids, size)
        graph = cls.from_codes(
            source, target, ids, weights=weights, edge_types=edge_types, directed=directed, self_loops=self_loops
        )
        return graph.with_features(features)

    @classmethod
    def from_codes(
        cls,
        source: Array,
        target: Array,
        node_ids: Array,
        *,
        weights: Array | None = None,
        edge_types: Sequence[Any] | Array | None = None,
        directed: bool = False,
        self_loops: bool = False,
    ) -> Graph:
        """Build a graph from node *indices* into `node_ids`, which must be unique and are not copied.

        For readers of files; `from_edges` takes ids.
        """
        check_endpoints(source, target, len(node_ids))
        types, names = (None, ()) if edge_types is None else checks.encode_types(edge_types, len(source))
        values = None if weights is None else checks.checked_weights(weights, len(source))
        rows = build_rows(len(node_ids), source, target, values, types, directed=directed, self_loops=self_loops)
        return cls(rows.indptr, rows.indices, node_ids, directed, rows.weights, rows.types, names)

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

        Parameters
        ----------
        adjacency : (n, n) SciPy sparse matrix or array
            Entry (u, v) is the weight of the edge from u to v.
        features, node_ids, self_loops
            As for `from_edges`; without `node_ids` nodes are the integers 0 … n-1.
        directed : bool, optional
            None: a symmetric matrix makes an undirected graph, any other a directed one.
        weighted : bool, optional
            None: a matrix of equal values makes a graph without weights.

        Examples
        --------
        >>> Graph.from_scipy(sp.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
        Graph(3 nodes, 2 directed edges)
        """
        rows, directed = checks.scipy_rows(adjacency, directed, weighted, self_loops)
        size = len(rows.indptr) - 1
        ids = np.arange(size, dtype=np.int64) if node_ids is None else as_id_array(node_ids).copy()
        if len(ids) != size:
            raise InputError(f"the matrix has {size:,} rows, but there are {len(ids):,} node ids")
        unique_index(ids)
        return cls(rows.indptr, rows.indices, ids, directed, rows.weights).with_features(features)

    @classmethod
    def from_networkx(
        cls, graph: Any, features: Any = None, weight: str | None = "weight", *, self_loops: bool = False
    ) -> Graph:
        """Build a graph from a NetworkX graph (anything with `nodes`, `edges(data=…)` and `is_directed`).

        Parameters
        ----------
        graph : networkx.Graph or DiGraph
            Its nodes become the ids.
        features : (n, f) array or SciPy sparse matrix, optional
            A row for each of `graph.nodes`, in their order.
        weight : str, optional
            The edge attribute to read; where no edge has it, the graph has no weights, and where some have it, the
            weight of the others is 1. None reads no weights.
        self_loops : bool
            As for `from_edges`.
        """
        edges, nodes, weights, directed = checks.networkx_edges(graph, weight)
        return cls.from_edges(edges, features, nodes, weights, directed, self_loops=self_loops)

    @classmethod
    def from_pyg(cls, data: Any, directed: bool | None = None, *, self_loops: bool = False) -> Graph:
        """Build a graph from a PyTorch Geometric `Data` (anything with `edge_index`; `x`, `edge_weight` are optional).

        Parameters
        ----------
        data : torch_geometric.data.Data
            `x` are the features. A one-dimensional `edge_attr` is read as weights where there is no `edge_weight`.
        directed : bool, optional
            None: undirected if every edge has its reverse.
        self_loops : bool
            As for `from_edges`.
        """
        matrix, weighted = checks.pyg_adjacency(data)
        features = getattr(data, "x", None)
        features = None if features is None else checks.to_numpy(features)
        return cls.from_scipy(matrix, features, directed=directed, weighted=weighted, self_loops=self_loops)

    # ------------------------------------------------------------------ queries

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
        """Entries in each node's row, `(n,)`: its edges (outgoing ones if directed), each type on its own."""
        return np.diff(self.indptr)

    def __len__(self) -> int:
        return self.num_nodes

    def __contains__(self, node: Hashable) -> bool:
        return bool(self._index.find([node])[0] >= 0)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        parts = [counted(self.num_nodes, "node"), counted(self.num_edges, f"{kind} edge")]
        parts += ["weighted"] if self.weights is not None else []
        parts += [counted(len(self.edge_type_names), "edge type")] if self.edge_type_names else []
        parts += [counted(self.features.shape[1], "feature")] if self.features is not None else []
        return f"Graph({', '.join(parts)})"

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.node_ids)

    def index_of(self, node: Hashable) -> int:
        """Return the index of a node.

        >>> Graph.from_edges([(10, 30)]).index_of(30)
        1
        """
        return int(find_nodes(self._index, [node], "")[0])

    def indices_of(self, nodes: Iterable[Hashable], where: str | Param = "") -> Array:
        """Return the indices of nodes, `(k,)`; unknown ids raise `UnknownNodeError`, which names them and `where`."""
        return find_nodes(self._index, id_sequence(nodes), where)

    def contains(self, nodes: Iterable[Hashable]) -> npt.NDArray[np.bool_]:
        """Return for each id whether it is a node, `(k,)`."""
        return np.asarray(self._index.find(id_sequence(nodes)) >= 0)

    def neighbors(self, node: Hashable) -> list[Any]:
        """Return the ids of a node's neighbors, each once."""
        index = self.index_of(node)
        row = self.indices[self.indptr[index] : self.indptr[index + 1]]
        return list(self.node_ids[np.unique(row)].tolist())

    def to_scipy(self) -> sp.csr_array:
        """Return the adjacency matrix, float64; the weights of edges of different types between two nodes add up."""
        values = np.ones(len(self.indices)) if self.weights is None else self.weights.astype(np.float64)
        matrix = sp.csr_array((values, self.indices.copy(), self.indptr.copy()), shape=(self.num_nodes, self.num_nodes))
        matrix.sum_duplicates()
        return matrix

    def with_features(self, features: Any) -> Graph:
        """Return the same graph with a copy of these node features."""
        if features is None and self.features is None:
            return self
        checked = None if features is None else checks.checked_features(features, self.num_nodes)
        return replace(self, features=checked, feature_names=())

    def subgraph(self, nodes: Any) -> Graph:
        """Return the induced subgraph of nodes, given by index, with their ids and features.

        >>> Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a")]).subgraph([0, 2]).neighbors("c")
        ['a']
        """
        node_idx = np.unique(np.asarray(nodes))
        is_index = node_idx.dtype.kind in "iu"
        wrong = node_idx[(node_idx < 0) | (node_idx >= self.num_nodes)] if is_index else node_idx
        if len(wrong):
            value = format_value(wrong.tolist()[0])
            raise InputError(f"a subgraph takes node indices from 0 to {self.num_nodes - 1:,}, found {value}")
        node_idx = node_idx.astype(np.int64)
        new_index = np.full(self.num_nodes, -1, np.int64)
        new_index[node_idx] = np.arange(len(node_idx))
        source = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        inside = (new_index[source] >= 0) & (new_index[self.indices] >= 0)
        sizes = np.bincount(new_index[source[inside]], minlength=len(node_idx))
        features: Any = self.features
        return replace(
            self,
            indptr=np.r_[0, np.cumsum(sizes)].astype(self.indptr.dtype),
            indices=new_index[self.indices[inside]].astype(self.indices.dtype),
            node_ids=self.node_ids[node_idx],
            weights=None if self.weights is None else self.weights[inside],
            edge_types=None if self.edge_types is None else self.edge_types[inside],
            features=None if features is None else features[node_idx],
        )

    def summary(self) -> GraphSummary:
        """Return counts of nodes, edges, components and isolated nodes, quantiles of degrees, and memory."""
        return summarize(self)
