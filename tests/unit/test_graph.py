"""`Graph`: construction, ids, duplicates, self-loops, checks and the summary."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.csr import index_dtype


def dense(graph: cge.Graph) -> list[list[float]]:
    return graph.to_scipy().toarray().tolist()


def test_integers_with_gaps_keep_their_ids_in_order() -> None:
    graph = cge.Graph.from_edges([(10, -3), (7, 10)])
    assert graph.node_ids.tolist() == [-3, 7, 10]
    assert graph.neighbors(10) == [-3, 7]
    assert graph.index_of(7) == 1
    assert graph.contains([7, 8, "x"]).tolist() == [True, False, False]


def test_wide_integer_ids() -> None:
    graph = cge.Graph.from_edges(np.array([[2**62, 5], [-(2**62), 5]]))
    assert graph.node_ids.tolist() == [-(2**62), 5, 2**62]
    huge = cge.Graph.from_edges([(2**70, 1), (1, 2)])
    assert huge.neighbors(1) == [2**70, 2]


def test_strings_keep_the_order_of_appearance() -> None:
    graph = cge.Graph.from_edges(np.array([["b", "a"], ["a", "ü 🙂"]]))
    assert graph.node_ids.tolist() == ["b", "a", "ü 🙂"]
    assert graph.neighbors("a") == ["b", "ü 🙂"]


def test_any_hashable_id() -> None:
    graph = cge.Graph.from_edges([(("x", 1), frozenset({2})), (("x", 1), 3)])
    assert graph.neighbors(("x", 1)) == [frozenset({2}), 3]
    mixed = cge.Graph.from_edges((np.array([1, 2]), np.array(["a", "b"])))
    assert mixed.node_ids.tolist() == [1, 2, "a", "b"]


def test_node_ids_fix_the_order_and_keep_isolated_nodes() -> None:
    graph = cge.Graph.from_edges([("a", "b")], node_ids=["z", "b", "a"])
    assert graph.node_ids.tolist() == ["z", "b", "a"]
    assert graph.degrees.tolist() == [0, 1, 1]
    unordered = cge.Graph.from_edges([(5, 3)], node_ids=[9, 5, 3])
    assert unordered.indices_of([3, 9, 5]).tolist() == [2, 0, 1]


def test_features_or_num_nodes_determine_the_nodes() -> None:
    assert cge.Graph.from_edges([(0, 2)], features=np.eye(4)).num_nodes == 4
    assert cge.Graph.from_edges([(0, 2)], num_nodes=5).degrees.tolist() == [1, 0, 1, 0, 0]
    assert cge.Graph.from_edges([], num_nodes=2).num_nodes == 2
    assert cge.Graph.from_edges([]).num_nodes == 0


def test_duplicates_merge() -> None:
    edges = [(0, 1), (1, 0), (0, 1), (1, 2)]
    assert dense(cge.Graph.from_edges(edges)) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    weighted = cge.Graph.from_edges(edges, weights=[1, 2, 4, 8])
    assert dense(weighted) == [[0, 7, 0], [7, 0, 8], [0, 8, 0]]
    directed = cge.Graph.from_edges(edges, weights=[1, 2, 4, 8], directed=True)
    assert dense(directed) == [[0, 5, 0], [2, 0, 8], [0, 0, 0]]
    assert (weighted.num_edges, directed.num_edges) == (2, 3)


def test_self_loops_are_dropped_or_kept_once() -> None:
    edges = [(0, 0), (0, 1), (0, 0)]
    assert dense(cge.Graph.from_edges(edges)) == [[0, 1], [1, 0]]
    graph = cge.Graph.from_edges(edges, self_loops=True)
    assert dense(graph) == [[1, 1], [1, 0]]
    assert graph.num_edges == 2
    assert dense(cge.Graph.from_edges(edges, weights=[1, 2, 4], self_loops=True)) == [[5, 2], [2, 0]]


def test_edge_types_keep_parallel_edges_apart() -> None:
    edges, kinds = [("a", "b"), ("b", "a"), ("a", "b"), ("a", "c")], ["knows", "likes", "knows", "likes"]
    graph = cge.Graph.from_edges(edges, weights=[1, 2, 4, 8], edge_types=kinds)
    assert graph.edge_type_names == ("knows", "likes")
    row = slice(graph.indptr[0], graph.indptr[1])
    assert graph.edge_types is not None
    assert graph.weights is not None
    entries = zip(graph.indices[row].tolist(), graph.edge_types[row].tolist(), graph.weights[row].tolist(), strict=True)
    assert sorted(entries) == [(1, 0, 5.0), (1, 1, 2.0), (2, 1, 8.0)]
    assert graph.num_edges == 3


def test_float32_weights_stay_float32() -> None:
    graph = cge.Graph.from_edges([(0, 1)], weights=np.array([0.5], np.float32))
    assert graph.weights is not None
    assert graph.weights.dtype == np.float32


def test_rows_ascend_and_are_symmetric() -> None:
    edges = np.random.default_rng(0).integers(0, 200, (3000, 2))
    graph = cge.Graph.from_edges(edges)
    matrix = sp.coo_array((np.ones(3000), edges.T), shape=(200, 200)).toarray()
    matrix = ((matrix + matrix.T) > 0) & ~np.eye(200, dtype=bool)
    assert np.array_equal(graph.to_scipy().toarray() > 0, matrix)
    for node in range(200):
        row = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        assert np.all(np.diff(row) > 0)
    assert graph.indices.dtype == graph.indptr.dtype == np.int32


def test_index_type_is_the_smallest_that_fits() -> None:
    assert (index_dtype(2**31 - 1), index_dtype(2**31)) == (np.int32, np.int64)


# ---------------------------------------------------------------------- other libraries


def test_from_scipy_infers_directions_and_weights() -> None:
    symmetric = sp.csr_array(np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]))
    graph = cge.Graph.from_scipy(symmetric)
    assert not graph.directed
    assert dense(graph) == symmetric.toarray().tolist()
    arrow = sp.coo_array(np.array([[0, 1], [0, 0]]))
    assert cge.Graph.from_scipy(arrow).directed
    assert cge.Graph.from_scipy(arrow).weights is None
    assert cge.Graph.from_scipy(sp.csr_matrix(symmetric), node_ids=["a", "b", "c"]).neighbors("b") == ["a", "c"]
    loop = sp.csr_array(np.eye(2))
    assert cge.Graph.from_scipy(loop).num_edges == 0
    assert cge.Graph.from_scipy(loop, self_loops=True).num_edges == 2
    with pytest.raises(cge.CgeError, match="not symmetric; pass directed=True"):
        cge.Graph.from_scipy(arrow, directed=False)
    with pytest.raises(cge.CgeError, match=r"must be square, found shape \(2, 3\)"):
        cge.Graph.from_scipy(sp.csr_array(np.zeros((2, 3))))
    with pytest.raises(cge.CgeError, match="3 rows, but there are 2 node ids"):
        cge.Graph.from_scipy(symmetric, node_ids=["a", "b"])


def test_from_scipy_does_not_write_to_the_matrix() -> None:
    matrix = sp.csr_array((np.array([1.0, 0.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    data, indices = matrix.data.copy(), matrix.indices.copy()
    cge.Graph.from_scipy(matrix)
    assert np.array_equal(matrix.data, data)
    assert np.array_equal(matrix.indices, indices)


def test_from_networkx() -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0)])
    graph.add_node("alone")
    graph.add_edge("a", "c")
    converted = cge.Graph.from_networkx(graph)
    assert converted.node_ids.tolist() == ["a", "b", "c", "alone"]
    assert dense(converted) == nx.to_numpy_array(graph).tolist()
    assert cge.Graph.from_networkx(nx.path_graph(3)).weights is None
    assert cge.Graph.from_networkx(nx.DiGraph([(0, 1)])).directed
    multi = cge.Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1)]))
    assert multi.num_edges == 1
    assert cge.Graph.from_networkx(graph, weight=None).weights is None


def test_from_pyg_by_its_shape() -> None:
    data = SimpleNamespace(edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), x=np.eye(4), num_nodes=4)
    graph = cge.Graph.from_pyg(data)
    assert (graph.num_nodes, graph.num_edges, graph.directed) == (4, 2, False)
    assert graph.features is not None
    one_way = SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]]), edge_attr=np.array([[0.5], [2.0]]), num_nodes=3)
    directed = cge.Graph.from_pyg(one_way)
    assert directed.directed
    assert dense(directed) == [[0, 0.5, 0], [0, 0, 2.0], [0, 0, 0]]

    class Tensor:
        """What a torch tensor offers without being one."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def detach(self) -> Tensor:
            return self

        def cpu(self) -> Tensor:
            return self

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return self.array

    tensors = SimpleNamespace(edge_index=Tensor(np.array([[0, 1], [1, 0]])), x=Tensor(np.ones((2, 3))), num_nodes=2)
    assert cge.Graph.from_pyg(tensors).num_edges == 1
    with pytest.raises(cge.CgeError, match=r"edge_index must have shape \(2, edges\), found \(3, 2\)"):
        cge.Graph.from_pyg(SimpleNamespace(edge_index=np.zeros((3, 2), int)))
    with pytest.raises(cge.CgeError, match="edge_index contains 5, but the graph has 3 nodes"):
        cge.Graph.from_pyg(SimpleNamespace(edge_index=np.array([[0], [5]]), num_nodes=3))


# ---------------------------------------------------------------------- checks


COMPLEX = "features must be real numbers, found complex ones"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"edges": np.zeros((2, 3))},
            "edges must have shape (edges, 2), found (2, 3); pass the third column as weights=",
        ),
        ({"edges": [(0, 1), (2,)]}, "edge 1 must be a pair of node ids, found (2,)"),
        ({"edges": ["ab"]}, "edge 0 must be a pair of node ids, found 'ab'"),
        ({"edges": [(0, None)]}, "edge targets contain None at position 0; every node needs a name"),
        ({"edges": [(0, float("nan"))]}, "edge targets contain nan at position 0; use integers or strings"),
        ({"edges": [(0.5, 1.0)]}, "edge sources contain 0.5 at position 0; use integers or strings"),
        ({"edges": [([1], "a")]}, "edge sources contain [1] at position 0, which is not hashable"),
        (
            {"edges": np.array([[True, False]])},
            "edge sources must be integers, strings or other names, found booleans",
        ),
        ({"edges": [(0, 1)], "weights": [0.0]}, "edge weights must be positive and finite, found 0.0 at edge 0"),
        (
            {"edges": [(0, 1), (1, 2)], "weights": [-1, np.nan]},
            "edge weights must be positive and finite, found -1.0 at edge 0 and 1 more",
        ),
        ({"edges": [(0, 1)], "weights": [1, 2]}, "there are 1 edges, but the weights have shape (2,)"),
        ({"edges": [(0, 1)], "weights": ["x"]}, "edge weights must be numbers, found 'x'"),
        ({"edges": [(0, 1)], "edge_types": ["a", "b"]}, "there are 1 edges, but 2 edge types"),
        ({"edges": [(0, 1)], "node_ids": [0, 1, 0]}, "node ids must be unique, but 0 occurs twice"),
        ({"edges": [("a", "b")], "node_ids": ["a", "b", "a"]}, "node ids must be unique, but 'a' occurs twice"),
        ({"edges": [("a", "b")], "node_ids": ["a"]}, "node 'b' in edges is not in the graph (ids look like 'a')"),
        (
            {"edges": [(0, 7), (8, 9), (9, 7)], "num_nodes": 3},
            (
                "without node_ids the nodes are the numbers 0 to 2, but the edges contain 8; "
                "pass node_ids= with the id of each node"
            ),
        ),
        ({"edges": [(0, 1)], "num_nodes": -1}, "num_nodes must be an integer of at least 0, found -1"),
        (
            {"edges": [(0, 1)], "features": np.ones(2)},
            "features must have one row for each of 2 nodes, found shape (2,)",
        ),
        (
            {"edges": [(0, 1)], "features": [[1.0, np.inf], [0, 0]]},
            "features must be finite as float32, found inf in row 0, column 1",
        ),
        (
            {"edges": [(0, 1)], "features": sp.csr_array(np.array([[0, 0], [0, np.nan]]))},
            "features must be finite as float32, found nan in row 1, column 1",
        ),
        (
            {"edges": [(0, 1)], "features": np.array([["a"], ["b"]])},
            "features must be numbers; turn text and categories into numbers first",
        ),
        ({"edges": [(0, 1)], "features": np.ones((2, 1), complex)}, COMPLEX),
        ({"edges": [(0, 1)], "features": sp.csr_array(np.ones((2, 1), complex))}, COMPLEX),
        (
            {"edges": (np.zeros(2, int), np.zeros(3, int))},
            "sources and targets must be flat and equally long, found (2,) and (3,)",
        ),
    ],
)
def test_messages_name_what_is_wrong(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        cge.Graph.from_edges(**arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_whole_floats_become_integers() -> None:
    assert cge.Graph.from_edges(np.array([[1.0, 4.0]])).node_ids.tolist() == [1, 4]
    assert cge.Graph.from_edges(np.array([[1, 4]], np.uint64)).node_ids.tolist() == [1, 4]


def test_unknown_nodes_are_listed_and_counted() -> None:
    graph = cge.Graph.from_edges([(0, 1)])
    with pytest.raises(cge.CgeError) as caught:
        graph.indices_of(range(9), "labels")
    assert str(caught.value) == "7 nodes in labels are not in the graph, the first: 2, 3, 4, 5, 6"


def test_features_dense_and_sparse() -> None:
    table = np.array([[1.0, 0.0], [0.0, 2.0]])
    plain = cge.Graph.from_edges([(0, 1)], features=table)
    sparse = cge.Graph.from_edges([(0, 1)], features=sp.coo_matrix(table))
    assert isinstance(sparse.features, sp.csr_array)
    assert plain.features is not None
    assert plain.features.dtype == sparse.features.dtype == np.float32
    assert np.array_equal(sparse.features.toarray(), plain.features)
    assert plain.with_features(None).features is None


def test_summary_counts() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (4, 5)], num_nodes=7, features=np.eye(7))
    summary = graph.summary()
    assert (summary.nodes, summary.edges, summary.components, summary.isolated) == (7, 3, 4, 2)
    assert summary.degree_quantiles[0] == 0
    assert summary.degree_quantiles[-1] == 2
    assert summary.memory_bytes == 8 * 4 + 6 * 4 + 7 * 8 + 49 * 4
    text = str(summary)
    assert "nodes            7" in text
    assert "7 per node, 14.3% nonzero" in text
    directed = cge.Graph.from_edges([(0, 1)], directed=True, num_nodes=3).summary()
    assert (directed.isolated, directed.components) == (1, 2)
    assert cge.Graph.from_edges([]).summary().components == 0
    typed = cge.Graph.from_edges([(0, 1)], edge_types=["cites"]).summary()
    assert "1: cites" in str(typed)


def test_a_graph_keeps_copies_and_cannot_be_written_to() -> None:
    features, ids, weights = np.ones((2, 2), np.float32), np.array([4, 7]), np.array([2.0])
    graph = cge.Graph.from_edges([(4, 7)], features, ids, weights)
    features[:], ids[:], weights[:] = 9, 9, 9
    assert graph.features is not None
    assert graph.weights is not None
    assert graph.features.max() == 1
    assert graph.node_ids.tolist() == [4, 7]
    assert graph.weights.max() == 2
    for array in (graph.indptr, graph.indices, graph.node_ids, graph.weights, graph.features):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_sparse_features_are_not_written_to() -> None:
    matrix = sp.csr_array(
        (np.array([1, 2, 3], np.float32), np.array([2, 0, 0]), np.array([0, 3, 3])), shape=(2, 3), copy=True
    )
    originals = [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]
    graph = cge.Graph.from_edges([(0, 1)], features=matrix)
    assert graph.features.toarray().tolist() == [[5, 0, 1], [0, 0, 0]]
    for part, before in zip((matrix.data, matrix.indices, matrix.indptr), originals, strict=True):
        assert np.array_equal(part, before)


@pytest.mark.parametrize(
    ("source", "target"), [([0, 10**9], [1, 1]), ([0, -1], [1, 1]), ([0], [1, 1])], ids=["large", "negative", "lengths"]
)
def test_codes_out_of_range_are_refused(source: list[int], target: list[int]) -> None:
    with pytest.raises(cge.CgeError, match=r"edges contain node index|equally long"):
        cge.Graph.from_codes(np.array(source), np.array(target), np.arange(2))


def test_matrices_with_indices_out_of_range_are_refused() -> None:
    matrix = sp.csr_array((2, 2))
    matrix.indptr, matrix.indices, matrix.data = np.array([0, 1, 1]), np.array([50_000_000]), np.array([1.0])
    with pytest.raises(cge.CgeError, match="an entry has node index 50,000,000, but there are 2 nodes"):
        cge.Graph.from_scipy(matrix)
    for indptr in ([0, 2, 1], [0, 1, -1], [1, 1, 1], [0, 1]):
        with pytest.raises(cge.CgeError, match="pointers"):
            cge.Graph(np.array(indptr), np.array([0]), np.arange(2))


def test_merged_weights_do_not_round_or_overflow() -> None:
    weights = np.array([2**24, *[1] * 8], np.float32)  # in float32, 2^24 + 1 is 2^24
    graph = cge.Graph.from_edges([(0, 1)] * 9, weights=weights)
    assert graph.weights is not None
    assert graph.weights.tolist() == [2**24 + 8] * 2
    with pytest.raises(cge.CgeError, match="the weights of an edge of node index 0 add up to infinity"):
        cge.Graph.from_edges([(0, 1), (1, 0)], weights=[1e308, 1e308])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(1e300, 2.0)], "edge sources contain 1e+300 at position 0; use integers or strings"),
        (
            np.array([[3, 1], [2048, 2]], np.float16),
            "edge sources contain 2048.0 at position 1; use integers or strings",
        ),
        (
            np.array([[3, 2**24]], np.float32),
            "edge targets contain 16777216.0 at position 0; use integers or strings",
        ),
        ([(True, 2)], "edge sources contain True at position 0; every node needs a name"),
        ([(float("-inf"), 2.0)], "edge sources contain -inf at position 0; use integers or strings"),
        (
            [("a", "b", 2.0)],
            "edge 0 must be a pair of node ids, found ('a', 'b', 2.0); pass the third values as weights=",
        ),
        (5, "edges must be an array or pairs, found a int; pass its two columns as NumPy arrays"),
    ],
)
def test_odd_edges_are_refused(edges: object, message: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        cge.Graph.from_edges(edges)
    assert str(caught.value) == message


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(cge.CgeError, match="pass node_ids or num_nodes, not both"):
        cge.Graph.from_edges([(0, 1)], node_ids=[0, 1], num_nodes=50)
    with pytest.raises(cge.CgeError, match="the edges contain 'a'; pass node_ids= with the id of each node"):
        cge.Graph.from_edges([("a", "b")], features=np.ones((2, 3)))
    with pytest.raises(cge.CgeError, match="edge types must differ as text"):
        cge.Graph.from_edges([(0, 1), (1, 2)], edge_types=[1, "1"])
    with pytest.raises(cge.CgeError, match="from_networkx takes a NetworkX graph, found a list"):
        cge.Graph.from_networkx([(0, 1)])
    with pytest.raises(cge.CgeError, match="from_pyg takes an object with edge_index, found a dict without"):
        cge.Graph.from_pyg({})
    data = SimpleNamespace(edge_index=np.array([[0], [1]]), edge_attr=np.array([[3.0]]), num_nodes=2)
    assert cge.Graph.from_pyg(data).weights is not None


def test_graphs_are_containers() -> None:
    graph = cge.Graph.from_edges([("ann", "bob")], weights=[2.0], features=np.ones((2, 3)), node_ids=["ann", "bob"])
    assert len(graph) == 2
    assert "ann" in graph
    assert "eve" not in graph
    assert repr(graph) == "Graph(2 nodes, 1 undirected edge, weighted, 3 features)"
    with pytest.raises(cge.CgeError, match="found the single id 'ann'; put it in a list"):
        graph.contains("ann")
    with pytest.raises(cge.CgeError, match="must be hashable"):
        graph.neighbors(["ann"])
    typed = cge.Graph.from_edges([(0, 1), (0, 1)], edge_types=["a", "b"])
    assert typed.neighbors(0) == [1]
    surrogate = cge.Graph.from_edges([("\ud800", "b")])
    assert surrogate.node_ids.tolist() == ["\ud800", "b"]


def test_infinite_features_of_both_signs_are_refused() -> None:
    with pytest.raises(cge.CgeError, match="features must be finite as float32, found inf in row 0, column 0"):
        cge.Graph.from_edges([(0, 1)], features=np.array([[np.inf], [-np.inf]]))
