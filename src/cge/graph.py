"""The graph: compressed sparse rows, the user's own node ids, optional features, weights, types and edge features."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge import checks
from cge.arrays import Array
from cge.csr import build_rows, check_endpoints, check_order, check_rows, entries_of
from cge.errors import InputError, Param, counted, format_list, format_value
from cge.graph_conversions import GraphConversions
from cge.graph_summary import Summarized
from cge.graph_types import (
    Relations,
    block_features,
    checked_edge_features,
    encode_node_types,
    entry_features,
    relations_of,
    with_reverse_entries,
)
from cge.ids import IdIndex, find_nodes, id_sequence

EDGE_ARRAYS = ("weights", "edge_types", "edge_features")  # attributes with an item for each entry of the rows


@dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphConversions, Summarized):
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
    node_types : (n,) int16 or None
        Indices into `node_type_names`.
    edge_features : (m, d) float32 or None
        Numbers of each edge, such as its age; NaN where a value is missing. `edge_feature_names` are their names.
    encoder : AttributeEncoder or None, which makes features of attributes, also of new nodes

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
    node_types: Array | None = None
    node_type_names: tuple[str, ...] = ()
    edge_features: Array | None = None
    edge_feature_names: tuple[str, ...] = ()
    encoder: Any = None

    def __post_init__(self) -> None:
        check_rows(self.indptr, self.indices, len(self.node_ids))
        check_order(self.indptr, self.indices)
        for name in ("indptr", "indices", "node_ids", "features", "node_types", *EDGE_ARRAYS):
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
        node_types: Any = None,
        edge_features: Any = None,
    ) -> Graph:
        """Build a graph from pairs of node ids.

        Duplicates are merged: weights add up, edge features are averaged.

        Parameters
        ----------
        edges : (k, 2) array, a list of pairs, or a tuple of two arrays (sources, targets)
            Ids: integers (gaps allowed), strings or anything hashable.
        features : (n, f) array or SciPy sparse matrix, optional
            Row i belongs to node i: the i-th of `node_ids`, or the integer i where no `node_ids` are given. With
            `node_types` also {type: matrix}, of any width, whose rows are the nodes of that type; the result is sparse,
            with columns of its own for each type.
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
        node_types : (n,) names, or {node id: name}, optional
            Of the nodes, in their order.
        edge_features : (k, d) numbers or {name: (k,) numbers}, optional
            Of the edges; NaN or None is a missing value.

        Examples
        --------
        >>> Graph.from_edges([(1, 5), (5, 9)], weights=[1, 0.5])
        Graph(3 nodes, 2 undirected edges, weighted)
        >>> Graph.from_edges([("a", "b"), ("b", "c")], node_ids=["a", "b", "c", "d"], features=np.eye(4))
        Graph(4 nodes, 2 undirected edges, 4 features)
        """
        if node_ids is not None and num_nodes is not None:
            raise InputError("pass node_ids or num_nodes, not both")
        size, rows = num_nodes, next((each for each in (features, node_types) if _has_rows(each)), None)
        if size is None and rows is not None:
            size = checks.row_count(rows)
        source, target, ids = checks.number_edges(edges, node_ids, size)
        options: dict[str, Any] = {"directed": directed, "self_loops": self_loops, "edge_features": edge_features}
        graph = cls.from_codes(source, target, ids, weights=weights, edge_types=edge_types, **options)
        return graph.with_node_types(node_types).with_features(features)

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
        edge_features: Any = None,
    ) -> Graph:
        """Build a graph from node *indices* into `node_ids`, which must be unique and are not copied.

        For readers of files; `from_edges` takes ids.
        """
        check_endpoints(source, target, len(node_ids))
        types, names = (None, ()) if edge_types is None else checks.encode_types(edge_types, len(source))
        values = None if weights is None else checks.checked_weights(weights, len(source))
        rows = build_rows(len(node_ids), source, target, values, types, directed=directed, self_loops=self_loops)
        graph = cls(rows.indptr, rows.indices, node_ids, directed, rows.weights, rows.types, names)
        if edge_features is None:
            return graph
        table, columns = checked_edge_features(edge_features, len(source))
        table = entry_features(rows, source, target, types, table, directed=directed)
        return replace(graph, edge_features=table, edge_feature_names=columns)

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

    def __deepcopy__(self, _: Any) -> Graph:
        return self  # it does not change

    def __len__(self) -> int:
        return self.num_nodes

    def __contains__(self, node: Hashable) -> bool:
        return bool(self.id_index.find([node])[0] >= 0)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        parts = [counted(self.num_nodes, "node"), counted(self.num_edges, f"{kind} edge")]
        parts += ["weighted"] if self.weights is not None else []
        parts += [counted(len(self.node_type_names), "node type")] if self.node_type_names else []
        parts += [counted(len(self.edge_type_names), "edge type")] if self.edge_type_names else []
        parts += [counted(len(self.edge_feature_names), "edge feature")] if self.edge_feature_names else []
        parts += [counted(self.features.shape[1], "feature")] if self.features is not None else []
        return f"Graph({', '.join(parts)})"

    @cached_property
    def id_index(self) -> IdIndex:
        """The numbers of ids, as `index_of` finds them."""
        return IdIndex(self.node_ids)

    def index_of(self, node: Hashable) -> int:
        """Return the index of a node.

        >>> Graph.from_edges([(10, 30)]).index_of(30)
        1
        """
        return int(find_nodes(self.id_index, [node], "")[0])

    def indices_of(self, nodes: Iterable[Hashable], where: str | Param = "") -> Array:
        """Return the indices of nodes, `(k,)`; unknown ids raise `UnknownNodeError`, which names them and `where`."""
        return find_nodes(self.id_index, id_sequence(nodes), where)

    def contains(self, nodes: Iterable[Hashable]) -> npt.NDArray[np.bool_]:
        """Return for each id whether it is a node, `(k,)`."""
        return np.asarray(self.id_index.find(id_sequence(nodes)) >= 0)

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

    @cached_property
    def relations(self) -> Relations:
        """The relation of each entry of the rows: node type of the source, edge type, node type of the target."""
        node_types, edge_types = (self.node_types, self.node_type_names), (self.edge_types, self.edge_type_names)
        return relations_of(self.indptr, self.indices, node_types, edge_types)

    @property
    def num_relations(self) -> int:
        """Number of relations; 1 in a graph without types."""
        return 1 if self.node_types is None and self.edge_types is None else len(self.relations.names)

    def nodes_of_type(self, name: str) -> Array:
        """Return the indices of the nodes of a type, `(k,)`."""
        if name not in self.node_type_names or self.node_types is None:
            expected = f"one of {format_list(self.node_type_names)}" if self.node_type_names else "None: there are none"
            raise InputError(parameter="node_type", expected=expected, found=name)
        return np.flatnonzero(self.node_types == self.node_type_names.index(name))

    def with_node_types(self, node_types: Any) -> Graph:
        """Return the same graph with types of its nodes: `(n,)` names, or {node id: name}."""
        if node_types is None and self.node_types is None:
            return self
        codes, names = (None, ()) if node_types is None else encode_node_types(node_types, self)
        return replace(self, node_types=codes, node_type_names=names)

    def with_reverse_edges(self) -> Graph:
        """Return a directed graph that also has each edge in reverse, as an edge of the type "rev_…", as in PyG.

        Paths can then go against the direction of edges, and an edge and its reverse have weights of their own.

        >>> graph = Graph.from_edges([("ann", "x")], edge_types=["writes"], directed=True).with_reverse_edges()
        >>> graph.neighbors("x"), graph.edge_type_names
        (['ann'], ('writes', 'rev_writes'))
        """
        return replace(self, **with_reverse_entries(self))

    def edge_arrays(self) -> list[tuple[str, Any]]:
        """Return name and value of the attributes with an item for each entry of the rows: `(m, …)` or None."""
        return [(name, getattr(self, name)) for name in EDGE_ARRAYS]

    def with_features(self, features: Any) -> Graph:
        """Return the same graph with a copy of these node features: a matrix, or {node type: matrix}."""
        if features is None and self.features is None:
            return self
        if isinstance(features, Mapping):
            if self.node_types is None:
                raise InputError("features by node type need node_types; pass them, or one matrix for all nodes")
            blocks, names = block_features(features, self.node_types, self.node_type_names)
            return replace(self, features=blocks, feature_names=names, encoder=None)
        checked = None if features is None else checks.checked_features(features, self.num_nodes)
        return replace(self, features=checked, feature_names=(), encoder=None)

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
        entries, source = entries_of(self.indptr, node_idx), np.repeat(node_idx, self.degrees[node_idx])
        inside = new_index[self.indices[entries]] >= 0
        entries = entries[inside]
        sizes, features = np.bincount(new_index[source[inside]], minlength=len(node_idx)), self.features
        parts: dict[str, Any] = {name: None if part is None else part[entries] for name, part in self.edge_arrays()}
        return replace(
            self,
            indptr=np.r_[0, np.cumsum(sizes)].astype(self.indptr.dtype),
            indices=new_index[self.indices[entries]].astype(self.indices.dtype),
            node_ids=self.node_ids[node_idx],
            features=None if features is None else features[node_idx],
            node_types=None if self.node_types is None else self.node_types[node_idx],
            **parts,
        )


def _has_rows(values: Any) -> bool:
    """Return whether features or node types are in the order of the nodes, not by id or type."""
    return values is not None and not isinstance(values, Mapping)
