"""Properties of every edge list: ids round-trip, order does not matter, inputs are not changed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cge
from cge.ids import IdIndex, as_id_array, factorize

ids = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 20))
names = st.text(max_size=6)


@given(st.lists(st.tuples(ids, ids)) | st.lists(st.tuples(names, names)) | st.lists(st.tuples(ids, names)))
def test_ids_round_trip(edges: list[tuple[object, object]]) -> None:
    graph = cge.Graph.from_edges(edges)
    seen = {end for edge in edges for end in edge}
    assert set(graph.node_ids.tolist()) == seen
    assert len(graph.node_ids) == len(seen)
    neighbors: dict[object, set[object]] = {node: set() for node in seen}
    for node, other in edges:
        if node != other:
            neighbors[node].add(other)
            neighbors[other].add(node)
    for node in seen:
        assert set(graph.neighbors(node)) == neighbors[node]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 5)), max_size=50), st.randoms())
def test_order_of_edges_does_not_matter(edges: list[tuple[int, int, int]], random: object) -> None:
    def build(rows: list[tuple[int, int, int]]) -> cge.Graph:
        pairs = np.array([row[:2] for row in rows], int).reshape(-1, 2)
        return cge.Graph.from_edges(pairs, weights=[row[2] for row in rows], num_nodes=10, self_loops=True)

    shuffled = list(edges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = build(edges), build(shuffled)
    assert np.array_equal(first.indptr, second.indptr)
    assert np.array_equal(first.indices, second.indices)
    assert np.array_equal(first.weights, second.weights)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.permutations(range(10)))
def test_renaming_nodes_permutes_the_matrix(edges: list[tuple[int, int]], rename: list[int]) -> None:
    array = np.array(edges)
    original = cge.Graph.from_edges(array, num_nodes=10).to_scipy().toarray()
    renamed = cge.Graph.from_edges(np.array(rename)[array], num_nodes=10).to_scipy().toarray()
    assert np.array_equal(renamed[np.ix_(rename, rename)], original)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_nothing_is_written_to(edges: list[tuple[int, int]]) -> None:
    array = np.array(edges)
    array.setflags(write=False)
    weights = np.ones(len(edges))
    weights.setflags(write=False)
    features = np.eye(10, dtype=np.float32)
    features.setflags(write=False)
    cge.Graph.from_edges(array, features, weights=weights, num_nodes=10).summary()


@given(st.lists(ids) | st.lists(names))
def test_factorize_and_find(values: list[object]) -> None:
    array = as_id_array(values)
    codes, distinct = factorize(array)
    assert distinct[codes].tolist() == array.tolist()
    assert len(set(distinct.tolist())) == len(distinct)
    assert IdIndex(distinct).find(array).tolist() == codes.tolist()
