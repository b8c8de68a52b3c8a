"""Walks against exact transition probabilities, and their documented corner cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import cge
from cge.sampling import Walker

# Two triangles that share an edge, a tail, and a hub: every kind of node2vec step occurs.
EDGES = np.array([[0, 1], [1, 2], [0, 2], [1, 3], [2, 3], [3, 4], [4, 5], [3, 5], [5, 6], [3, 7], [3, 8]])
WEIGHTS = np.array([1.0, 0.2, 3.0, 0.5, 2.0, 1.5, 0.1, 4.0, 1.0, 0.7, 2.5])


def first_order(graph: cge.Graph) -> np.ndarray:
    dense = graph.to_scipy().toarray()
    return dense / dense.sum(axis=1, keepdims=True)


def second_order(graph: cge.Graph, p: float, q: float) -> np.ndarray:
    """Return the exact `P[t, v, x]` from node2vec's definition, node by node."""
    dense = graph.to_scipy().toarray()
    n = len(dense)
    table = np.zeros((n, n, n))
    for t in range(n):
        for v in range(n):
            if dense[t, v] == 0:
                continue
            for x in range(n):
                if dense[v, x] > 0:
                    bias = 1 / p if x == t else 1.0 if dense[t, x] > 0 else 1 / q
                    table[t, v, x] = dense[v, x] * bias
            if table[t, v].sum():
                table[t, v] /= table[t, v].sum()
    return table


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square test of all conditional distributions; impossible steps must not occur."""
    assert not np.any(observed[expected == 0])
    keep = expected > 0
    scaled = expected * observed.sum(axis=-1, keepdims=True)
    groups = int(np.count_nonzero(observed.sum(axis=-1)))
    return float(chisquare(observed[keep], scaled[keep], ddof=groups - 1, sum_check=False).pvalue)


def count_steps(walks: np.ndarray, n: int) -> np.ndarray:
    counts = np.zeros((n, n))
    np.add.at(counts, (walks[:, :-1].ravel(), walks[:, 1:].ravel()), 1)
    return counts


def count_triples(walks: np.ndarray, n: int) -> np.ndarray:
    counts = np.zeros((n, n, n))
    np.add.at(counts, (walks[:, :-2].ravel(), walks[:, 1:-1].ravel(), walks[:, 2:].ravel()), 1)
    return counts


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["uniform", "weighted"])
def test_first_order_walks_follow_the_exact_distribution(weights: np.ndarray | None) -> None:
    graph = cge.Graph.from_edges(EDGES, weights=weights)
    walks = Walker(graph, 20, 2000, seed=1).sample(0, 2000 * 9)
    assert p_value(count_steps(walks, 9), first_order(graph)) > 0.001


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.3, 2.0)], ids=["first order", "second order"])
def test_the_distribution_does_not_depend_on_node_numbers(weights: np.ndarray | None, p: float, q: float) -> None:
    rename = np.array([4, 7, 0, 2, 8, 1, 6, 3, 5])
    graph = cge.Graph.from_edges(rename[EDGES], weights=weights, num_nodes=9)
    original = cge.Graph.from_edges(EDGES, weights=weights)
    walks = Walker(graph, 20, 2000, p=p, q=q, seed=2).sample(0, 2000 * 9)
    observed = count_triples(walks, 9)[np.ix_(rename, rename, rename)]
    assert p_value(observed, second_order(original, p, q)) > 0.001


@pytest.mark.parametrize("far", [1e17, 1e300, 1e-300])
@pytest.mark.parametrize("p", [0.5, 1e-3])
def test_only_ratios_of_weights_within_a_row_matter(far: float, p: float) -> None:
    """A star with equal weights, beside an edge of another magnitude."""
    for near in (1.0, far):
        graph = cge.Graph.from_edges([(0, 1), (2, 3), (3, 4), (3, 5)], weights=[far, near, near, near])
        walks = Walker(graph, 3, 20_000, p=p, starts=[2]).sample(0, 20_000)
        back = (1 / p) / (1 / p + 2)
        assert np.isclose(np.mean(walks[:, 2] == 2), back, atol=0.012)


@pytest.mark.parametrize("options", [{}, {"p": 0.5, "q": 2.0}], ids=["uniform", "biased"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_wide_index_types_give_the_same_walks(options: dict[str, float], weights: np.ndarray | None) -> None:
    graph = cge.Graph.from_edges(EDGES, weights=weights)
    wide = cge.Graph(
        graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.node_ids, weights=graph.weights
    )
    narrow_walks = Walker(graph, 7, 50, **options).sample(0, 450)
    wide_walks = Walker(wide, 7, 50, **options).sample(0, 450)
    assert wide_walks.dtype == np.int64
    assert np.array_equal(narrow_walks, wide_walks)


@pytest.mark.parametrize("p", [1.0, 0.25])
def test_float32_weights_follow_the_exact_distribution(p: float) -> None:
    graph = cge.Graph.from_edges(EDGES, weights=WEIGHTS.astype(np.float32))
    walks = Walker(graph, 20, 2000, p=p, seed=9).sample(0, 2000 * 9)
    assert p_value(count_triples(walks, 9), second_order(graph, p, 1.0)) > 0.001


def test_epochs_and_streams_have_different_walks() -> None:
    graph = cge.Graph.from_edges(EDGES)
    walker = Walker(graph, 9, 20)
    other = Walker(graph, 9, 20, stream=["outer", 3])
    first, second = walker.sample(0, 180), walker.sample(0, 180, epoch=1)
    assert len({first.tobytes(), second.tobytes(), other.sample(0, 180).tobytes()}) == 3
    assert np.concatenate(list(walker.batches(50, epoch=1))).tobytes() == second.tobytes()


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("p", "q"), [(1.0, 0.5), (0.25, 4.0), (4.0, 0.25), (0.01, 1.0), (100.0, 100.0), (0.01, 0.02), (2000.0, 1e6)]
)
def test_second_order_walks_follow_the_exact_distribution(p: float, q: float, weights: np.ndarray | None) -> None:
    graph = cge.Graph.from_edges(EDGES, weights=weights)
    walks = Walker(graph, 20, 2000, p=p, q=q, seed=3).sample(0, 2000 * 9)
    assert p_value(count_triples(walks, 9), second_order(graph, p, q)) > 0.001


@pytest.mark.parametrize(("p", "q"), [(0.2, 3.0), (5.0, 0.5)])
def test_directed_second_order_walks_follow_the_exact_distribution(p: float, q: float) -> None:
    cycle = np.array([[0, 1], [1, 2], [2, 0], [1, 0], [2, 3], [3, 0], [0, 2], [3, 1], [1, 3]])
    graph = cge.Graph.from_edges(cycle, directed=True)
    walks = Walker(graph, 20, 4000, p=p, q=q, seed=4).sample(0, 4 * 4000)
    assert p_value(count_triples(walks, 4), second_order(graph, p, q)) > 0.001


def test_parallel_edges_of_different_types_each_count() -> None:
    edges, edge_types = [(0, 1), (0, 1), (0, 2), (1, 2)], ["a", "b", "a", "a"]
    graph = cge.Graph.from_edges(edges, edge_types=edge_types)
    for options in ({}, {"p": 0.1, "q": 2.0}):
        walks = Walker(graph, 3, 30_000, starts=[0], seed=5, **options).sample(0, 30_000)
        first = np.bincount(walks[:, 1], minlength=3) / len(walks)
        assert np.allclose(first, [0, 2 / 3, 1 / 3], atol=0.01)
    after_1 = walks[walks[:, 1] == 1, 2]  # 0 → 1 → x: back twice with 1/p, forward to 2, a neighbor of 0
    assert np.isclose(np.mean(after_1 == 0), 20 / 21, atol=0.01)


@pytest.mark.parametrize("options", [{}, {"p": 0.5, "q": 2.0}], ids=["uniform", "biased"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0]], ids=["unweighted", "weighted"])
def test_walks_end_at_nodes_without_outgoing_edges(options: dict[str, float], weights: list[float] | None) -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2)], weights=weights, directed=True, num_nodes=4)
    walks = Walker(graph, 4, 1, **options).sample(0, 4)
    assert walks.tolist() == [[0, 1, 2, -1], [1, 2, -1, -1], [2, -1, -1, -1], [3, -1, -1, -1]]


@pytest.mark.parametrize("options", [{}, {"p": 0.5, "q": 2.0}], ids=["uniform", "biased"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_same_bytes_for_any_threads_and_batches(options: dict[str, float], weights: np.ndarray | None) -> None:
    graph = cge.Graph.from_edges(EDGES, weights=weights)
    reference = Walker(graph, 7, 3000, seed=6, n_jobs=1, **options).sample(0, 27_000)
    for n_jobs in (1, 2, 4):
        for size in (1000, 8192, 27_000):
            walker = Walker(graph, 7, 3000, seed=6, n_jobs=n_jobs, **options)
            assert np.concatenate(list(walker.batches(size))).tobytes() == reference.tobytes()
    assert Walker(graph, 7, 3000, seed=7, **options).sample(0, 27_000).tobytes() != reference.tobytes()


def test_shuffling_changes_the_order_of_walks_and_nothing_else() -> None:
    graph = cge.Graph.from_edges(EDGES)
    unshuffled = Walker(graph, 5, 40, seed=8).sample(0, 360)
    shuffled = Walker(graph, 5, 40, seed=8, shuffle=True)
    whole = np.concatenate(list(shuffled.batches(360)))
    assert np.concatenate(list(shuffled.batches(7))).tobytes() == whole.tobytes()
    assert whole.tobytes() != unshuffled.tobytes()
    assert len({tuple(whole[start : start + 9, 0]) for start in range(0, 360, 9)}) > 30  # passes differ in their order
    for start in range(0, 360, 9):  # every pass still starts once from each node
        assert sorted(map(tuple, whole[start : start + 9])) == sorted(map(tuple, unshuffled[start : start + 9]))


def test_starts_are_ids_and_walk_numbers_run_over_them() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c")])
    walks = Walker(graph, 2, 3, starts=["c", "a"]).sample(0, 6)
    assert walks[:, 0].tolist() == [2, 0, 2, 0, 2, 0]
    with pytest.raises(cge.CgeError, match="node 'z' in starts is not in the graph"):
        Walker(graph, 2, starts=["z"])


def test_an_empty_graph_has_no_walks() -> None:
    assert list(Walker(cge.Graph.from_edges([])).batches()) == []


def test_weighted_can_be_switched_off() -> None:
    graph = cge.Graph.from_edges([(0, 1), (0, 2)], weights=[1.0, 1e6])
    walks = Walker(graph, 2, 1000, starts=[0], weighted=False).sample(0, 1000)
    assert 400 < np.count_nonzero(walks[:, 1] == 1) < 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length must be an integer of at least 1, found 0"),
        ({"walks_per_node": 1.5}, "walks_per_node must be an integer of at least 1, found 1.5"),
        ({"p": 0}, "p must be a number from 1e-09 to 1e+09, found 0"),
        ({"q": float("nan")}, "q must be a number from 1e-09 to 1e+09, found nan"),
        ({"q": "x"}, "q must be a number from 1e-09 to 1e+09, found 'x'"),
        ({"starts": "ab"}, "expected a sequence of node ids, found the single id 'ab'; put it in a list"),
        ({"starts": 3}, "expected a sequence of node ids, found the single id 3; put it in a list"),
        ({"seed": -1}, "the seed must be an integer of at least 0, found -1"),
        ({"n_jobs": 0}, "n_jobs must be an integer of at least 1, -1 or None, found 0"),
        ({"weighted": True}, "weighted walks need edge weights, and the graph has none; pass weighted=False"),
    ],
)
def test_settings_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        Walker(cge.Graph.from_edges(EDGES), **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_requests_out_of_range_are_refused() -> None:
    walker = Walker(cge.Graph.from_edges(EDGES), 3, 1)
    with pytest.raises(cge.CgeError, match=r"first \+ count must be at most the 9 walks, found 5 \+ 10"):
        walker.sample(5, 10)
    with pytest.raises(cge.CgeError, match=r"first must be an integer of at least 0, found 0.5"):
        walker.sample(0.5, 2)  # type: ignore[arg-type]
    with pytest.raises(
        cge.CgeError, match=r"graph must be a cge.Graph, found a list; build a graph with Graph.from_edges"
    ):
        Walker([(0, 1)])  # type: ignore[arg-type]
    with pytest.raises(cge.CgeError, match="size must be an integer of at least 1, found 0"):
        next(walker.batches(0))
