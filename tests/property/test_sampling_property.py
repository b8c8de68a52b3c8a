"""Properties of walks on every graph: steps are edges, results do not depend on batches or threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cge
from cge.sampling import Walker, subpaths


@st.composite
def graphs(draw: st.DrawFn) -> cge.Graph:
    size = draw(st.integers(1, 12))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=40))
    weights = draw(st.none() | st.lists(st.floats(0.01, 100), min_size=len(edges), max_size=len(edges)))
    return cge.Graph.from_edges(
        edges,
        weights=weights or None,
        directed=draw(st.booleans()),
        self_loops=draw(st.booleans()),
        num_nodes=size,
    )


ratios = st.sampled_from([1.0, 0.5, 3.0, 0.01, 1000.0])


@given(graphs(), ratios, ratios, st.integers(0, 5), st.integers(1, 9))
def test_every_step_is_an_edge_and_walks_stop_only_at_dead_ends(
    graph: cge.Graph, p: float, q: float, seed: int, length: int
) -> None:
    before = [array.copy() for array in (graph.indptr, graph.indices)]
    walks = Walker(graph, length, 3, p=p, q=q, seed=seed).sample(0, 3 * graph.num_nodes)
    assert np.array_equal(walks[:, 0], np.tile(np.arange(graph.num_nodes), 3))
    adjacency = graph.to_scipy().toarray() > 0
    for walk in walks.tolist():
        for node, successor in pairwise(walk):
            if successor >= 0:
                assert adjacency[node, successor]
            else:
                assert node < 0 or not adjacency[node].any()
    assert all(np.array_equal(a, b) for a, b in zip(before, (graph.indptr, graph.indices), strict=True))


@given(graphs(), ratios, st.integers(1, 40), st.sampled_from([1, 2, 4]))
def test_batches_and_threads_do_not_change_results(graph: cge.Graph, q: float, size: int, n_jobs: int) -> None:
    whole = Walker(graph, 6, 4, q=q, n_jobs=1).sample(0, 4 * graph.num_nodes)
    parts = list(Walker(graph, 6, 4, q=q, n_jobs=n_jobs).batches(size))
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@given(graphs(), st.integers(1, 7), st.integers(1, 6))
def test_number_of_subpaths(graph: cge.Graph, length: int, window: int) -> None:
    walks = Walker(graph, length, 1).sample(0, graph.num_nodes)
    expected = 0
    for walk in walks:
        nodes = int(np.count_nonzero(walk >= 0))
        expected += sum(nodes - span + 1 for span in range(1, min(window, nodes) + 1))
    assert len(subpaths(walks, window)) == expected
