"""The graph: compressed sparse rows, the user's own node ids, optional features, edge weights and edge types."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cge.checks import (
    Features,
    checked_features,
    checked_integer,
    checked_weights,
    concatenate_ids,
    edge_columns,
    encode_types,
    row_count,
    to_numpy,
)
from cge.csr import Rows, build_rows, check_order, check_rows
from cge.errors import InputError, Message, Param, format_value
from cge.graph_summary import GraphSummary, density
from cge.ids import IdIndex, as_id_array, check_node_range, factorize, find_nodes, id_sequence, unique_index

__all__ = ["Graph", "GraphSummary"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph in compressed sparse rows. Build it with one of the `from_…` methods, not with the constructor.

    Nodes are the numbers 0 … n-1 inside and `node_ids[number]` outside. An undirected edge stands in the rows of both
    its ends. Arrays are copies of what you gave, and read-only.

    Attributes
    ----------
    indptr : (n+1,) int32 or int64
        Where the row of each node begins in `indices`.
    indices : (m,) int32 or int64
        The neighbors of node v are `indices[indptr[v]:indptr[v+1]]`, ascending. m counts entries: twice the edges of an
        undirected graph.
    node_ids : (n,) int64 or object
        The ids that you gave.
    directed : bool
        Whether edges have directions.
    weights : (m,) float or None
        Positive edge weights.
    edge_types : (m,) int16 or None
        Numbers into `edge_type_names`; edges of different types between the same two nodes are kept apart.
    edge_type_names : tuple
        Names of the types; empty where there are none.
    features : (n, f) float32, or None
        Of the nodes: a dense array or a `scipy.sparse.csr_array`.
    feature_names : tuple
        What the columns of features are called, where a file says so; by them those of new nodes are put in order.

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

        Duplicates are merged: weights add up, edges without weights collapse.

        Parameters
        ----------
        edges : (k, 2) array, a list of pairs, or a tuple of two arrays (sources, targets)
            Ids: integers (gaps allowed), strings or anything hashable.
        features : (n, f) array or SciPy sparse matrix, optional
            Row i belongs to node i: the i-th of `node_ids`, or the integer i where no `node_ids` are given.
        node_ids : sequence, optional
            All nodes, in order, isolated ones included. Without it nodes are those that occur in `edges` (integers
            ascending, others in order of first appearance), or 0 … n-1 where `features` or `num_nodes` tells n.
        weights : (k,) positive numbers, optional
            Of the edges; without them all count alike.
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
        source_ids, target_ids = edge_columns(edges)
        if node_ids is not None and num_nodes is not None:
            raise InputError("pass node_ids or num_nodes, not both")
        ids = None if node_ids is None else as_id_array(node_ids).copy()
        size = num_nodes if num_nodes is not None or features is None else row_count(features)
        ends = concatenate_ids(source_ids, target_ids)
        if ids is None and size is not None:
            ids = np.arange(checked_integer("num_nodes", size, 0), dtype=np.int64)
            check_node_range(ends, len(ids))
        codes, ids = factorize(ends) if ids is None else (find_nodes(unique_index(ids), ends, "edges"), ids)
        source, target = codes[: len(source_ids)], codes[len(source_ids) :]
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
        """Build a graph from node *numbers*, below the number of `node_ids`, which must be unique.

        Readers use it; `from_edges` is the way in for ids. `node_ids` are taken over, not copied.
        """
        if source.shape != target.shape or source.ndim != 1:
            raise InputError(f"sources and targets must be flat and equally long, found {source.shape}, {target.shape}")
        for column in (source, target):
            if len(column) and (column.min() < 0 or column.max() >= len(node_ids)):
                wrong = column[(column < 0) | (column >= len(node_ids))][0]
                raise InputError(f"edges hold node number {wrong:,}, but there are {len(node_ids):,} nodes")
        types, names = (None, ()) if edge_types is None else encode_types(edge_types, len(source))
        values = None if weights is None else checked_weights(weights, len(source))
        rows = build_rows(len(node_ids), source, target, values, types, directed=directed, self_loops=self_loops)
        return cls._from_rows(rows, node_ids, directed, names)

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
        features, node_ids
            As for `from_edges`; without `node_ids` nodes are the integers 0 … n-1.
        directed : bool, optional
            None looks: a symmetric matrix makes an undirected graph, any other a directed one.
        weighted : bool, optional
            None looks: a matrix of equal values makes a graph without weights.
        self_loops : bool
            Keep edges from a node to itself; by default they are dropped.

        Examples
        --------
        >>> Graph.from_scipy(sp.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
        Graph(3 nodes, 2 directed edges)
        """
        matrix = sp.csr_array(adjacency, copy=True)
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"an adjacency matrix must be square, found shape {matrix.shape}")
        check_rows(matrix.indptr, matrix.indices, matrix.shape[0])
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
                "the adjacency matrix is not symmetric",
                hint=Message.of("pass {directed}, or add the transpose for an undirected graph", directed=True),
            )
        if weighted is None:
            weighted = bool(len(values)) and not np.all(values == values[0])
        source = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        rows = build_rows(
            matrix.shape[0], source, matrix.indices, values if weighted else None, directed=True, self_loops=self_loops
        )
        ids = np.arange(matrix.shape[0], dtype=np.int64) if node_ids is None else as_id_array(node_ids).copy()
        if len(ids) != matrix.shape[0]:
            raise InputError(f"the matrix has {matrix.shape[0]:,} rows, but there are {len(ids):,} node ids")
        unique_index(ids)
        graph = cls._from_rows(rows, ids, not symmetric if directed is None else directed, ())
        return graph.with_features(features)

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
            The edge attribute to read; where no edge has it, the graph has no weights, and where some have it the
            others count 1. None reads no weights.
        self_loops : bool
            Keep edges from a node to itself; by default they are dropped.
        """
        if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
            raise InputError(f"from_networkx takes a NetworkX graph, found a {type(graph).__name__}")
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

        Parameters
        ----------
        data : torch_geometric.data.Data
            `x` becomes the features. A one-dimensional `edge_attr` counts as weights where there is no `edge_weight`.
        directed : bool, optional
            None looks whether every edge has its reverse.
        self_loops : bool
            Keep edges from a node to itself; by default they are dropped.
        """
        if getattr(data, "edge_index", None) is None:
            raise InputError(f"from_pyg takes an object with edge_index, found a {type(data).__name__} without")
        pair = to_numpy(data.edge_index)
        if pair.ndim != 2 or pair.shape[0] != 2:
            raise InputError(f"edge_index must have shape (2, edges), found {pair.shape}")
        features = getattr(data, "x", None)
        values = getattr(data, "edge_weight", None)
        attributes = getattr(data, "edge_attr", None)
        if values is None and attributes is not None and to_numpy(attributes).size == pair.shape[1]:
            values = to_numpy(attributes).reshape(-1)
        size = int(getattr(data, "num_nodes", None) or (pair.max() + 1 if pair.size else 0))
        weights = np.ones(pair.shape[1]) if values is None else checked_weights(to_numpy(values), pair.shape[1])
        if pair.size and (pair.min() < 0 or pair.max() >= size):
            wrong = pair[(pair < 0) | (pair >= size)][0]
            raise InputError(f"edge_index holds {int(wrong)}, but the graph has {size:,} nodes")
        matrix = sp.csr_array(sp.coo_array((weights, (pair[0], pair[1])), shape=(size, size)))
        if values is None:
            matrix.data[:] = 1
        return cls.from_scipy(
            matrix,
            None if features is None else to_numpy(features),
            directed=directed,
            weighted=values is not None,
            self_loops=self_loops,
        )

    @classmethod
    def _from_rows(cls, rows: Rows, node_ids: Array, directed: bool, type_names: tuple[str, ...]) -> Graph:
        return cls(rows.indptr, rows.indices, node_ids, directed, rows.weights, rows.types, type_names)

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
        """Entries in each node's row, `(n,)`: its edges (outgoing ones if directed), each type on its own."""
        return np.diff(self.indptr)

    def __len__(self) -> int:
        return self.num_nodes

    def __contains__(self, node: Hashable) -> bool:
        return bool(self._index.find([node])[0] >= 0)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        facts = [f"{self.num_nodes:,} nodes", f"{self.num_edges:,} {kind} edges"]
        facts += ["weighted"] if self.weights is not None else []
        facts += [f"{len(self.edge_type_names)} edge types"] if self.edge_type_names else []
        facts += [f"{self.features.shape[1]:,} features"] if self.features is not None else []
        return f"Graph({', '.join(facts)})"

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.node_ids)

    def index_of(self, node: Hashable) -> int:
        """Return the number of one node.

        >>> Graph.from_edges([(10, 30)]).index_of(30)
        1
        """
        return int(find_nodes(self._index, [node], "")[0])

    def indices_of(self, nodes: Iterable[Hashable], where: str | Param = "") -> Array:
        """Return the numbers of nodes, `(k,)`; unknown ids raise `UnknownNodeError`, which names them and `where`."""
        return find_nodes(self._index, id_sequence(nodes), where)

    def contains(self, nodes: Iterable[Hashable]) -> npt.NDArray[np.bool_]:
        """Say for each id whether it is a node, `(k,)`."""
        found: npt.NDArray[np.bool_] = self._index.find(id_sequence(nodes)) >= 0
        return found

    def neighbors(self, node: Hashable) -> list[Any]:
        """Return the ids of a node's neighbors, each once."""
        number = self.index_of(node)
        row = self.indices[self.indptr[number] : self.indptr[number + 1]]
        ids: list[Any] = self.node_ids[np.unique(row)].tolist()
        return ids

    def to_scipy(self) -> sp.csr_array:
        """Return the adjacency matrix, float64; edges of several types between two nodes add up."""
        values = np.ones(len(self.indices)) if self.weights is None else self.weights.astype(np.float64)
        matrix = sp.csr_array((values, self.indices.copy(), self.indptr.copy()), shape=(self.num_nodes, self.num_nodes))
        matrix.sum_duplicates()
        return matrix

    def with_features(self, features: Any) -> Graph:
        """Return the same graph with a copy of these node features."""
        if features is None and self.features is None:
            return self
        checked = None if features is None else checked_features(features, self.num_nodes)
        return replace(self, features=checked, feature_names=())

    def subgraph(self, nodes: Any) -> Graph:
        """Return the graph of some nodes, by number, and of the edges among them; ids and features come along.

        >>> Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a")]).subgraph([0, 2]).neighbors("c")
        ['a']
        """
        kept = np.unique(np.asarray(nodes))
        wrong = kept if kept.dtype.kind not in "iu" else kept[(kept < 0) | (kept >= self.num_nodes)]
        if len(wrong):
            found = format_value(wrong.tolist()[0])
            raise InputError(f"a subgraph takes node numbers from 0 to {self.num_nodes - 1:,}, found {found}")
        kept = kept.astype(np.int64)
        place = np.full(self.num_nodes, -1, np.int64)
        place[kept] = np.arange(len(kept))
        source = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        stays = (place[source] >= 0) & (place[self.indices] >= 0)
        sizes = np.bincount(place[source[stays]], minlength=len(kept))
        features: Any = self.features
        return replace(
            self,
            indptr=np.r_[0, np.cumsum(sizes)].astype(self.indptr.dtype),
            indices=place[self.indices[stays]].astype(self.indices.dtype),
            node_ids=self.node_ids[kept],
            weights=None if self.weights is None else self.weights[stays],
            edge_types=None if self.edge_types is None else self.edge_types[stays],
            features=None if features is None else features[kept],
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
            feature_density=density(self.features),
            memory_bytes=sum(part.nbytes for part in self._arrays()),
        )

    def _arrays(self) -> list[Array]:
        parts = [self.indptr, self.indices, self.node_ids, self.weights, self.edge_types]
        if isinstance(self.features, sp.csr_array):
            parts += [self.features.data, self.features.indices, self.features.indptr]
        else:
            parts.append(self.features)
        return [part for part in parts if part is not None]
