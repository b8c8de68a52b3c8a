"""Sub-paths, their table, same-label pairs, negatives and alias tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

import cge
from cge.sampling import NegativeSampler, PathTable, Walker, label_pairs, subpaths
from cge.sampling.walk_kernels import alias_table, alias_tables


def test_the_papers_example_has_twelve_subpaths() -> None:
    paths = subpaths(np.array([[1, 2, 3, 4, 5]]), window=3)
    expected = [[1], [2], [3], [4], [5], [1, 2], [2, 3], [3, 4], [4, 5], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert [row[row >= 0].tolist() for row in paths.nodes] == expected
    assert paths.length.tolist() == [len(path) for path in expected]
    assert paths.start.tolist() == [path[0] for path in expected]
    assert paths.endpoint.tolist() == [path[-1] for path in expected]
    assert (len(paths), paths.window) == (12, 3)


def test_ended_walks_and_wide_windows() -> None:
    paths = subpaths(np.array([[7, -1, -1], [3, 7, -1]]), window=5)
    assert [row[row >= 0].tolist() for row in paths.nodes] == [[7], [3], [7], [3, 7]]


def test_a_walk_ends_at_its_first_negative_number() -> None:
    walks = [[7, -1, 9], [3, 7, -2]]
    assert [row[row >= 0].tolist() for row in subpaths(walks, window=2).nodes] == [[7], [3], [7], [3, 7]]
    path_table = PathTable(window=2)
    assert path_table.add(walks).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.uint32, np.int64])
def test_walks_of_every_integer_type(dtype: type) -> None:
    walks = np.array([[1, 2, 3]], dtype)
    assert subpaths(walks, window=2, shortest=2).nodes.tolist() == [[1, 2], [2, 3]]
    assert PathTable(2, shortest=2).add(walks).tolist() == [0, 1]


def test_large_node_numbers_survive() -> None:
    path_table = PathTable(1)
    path_table.add(np.array([[3]], np.int32))
    path_table.add(np.array([[3_000_000_000]], np.uint32))
    assert path_table.paths.nodes.ravel().tolist() == [3, 3_000_000_000]


@pytest.mark.parametrize(
    "walks", [np.zeros(3, int), np.array([[0.5]]), np.array([[True]]), np.zeros((1, 1), np.uint64)]
)
def test_walks_are_checked(walks: np.ndarray) -> None:
    for use in (subpaths, PathTable(2).add):
        with pytest.raises(cge.CgeError, match="walks must be a table of node numbers, found shape"):
            use(walks)


def test_memory_grows_with_distinct_paths_only() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2)])
    path_table = PathTable(3)
    before = path_table.counts
    path_table.add(Walker(graph, 10, 60_000).sample(0, 180_000))
    assert len(path_table._slots) <= 1 << 20
    assert len(before) == 0
    with pytest.raises(ValueError, match="read-only"):
        path_table.paths.nodes[0, 0] = 5


def test_distinct_nodes_are_counted() -> None:
    paths = subpaths(np.array([[1, 2, 1, 3]]), window=4)
    counts = zip(paths.nodes, paths.distinct_nodes.tolist(), strict=True)
    by_path = {tuple(row[row >= 0].tolist()): count for row, count in counts}
    assert by_path[(1, 2, 1, 3)] == 3
    assert by_path[(1, 2, 1)] == 2
    assert by_path[(3,)] == 1


@pytest.mark.parametrize("shortest", [1, 2, 3])
@pytest.mark.parametrize("window", [3, 5])
def test_table_equals_counting_in_python(window: int, shortest: int) -> None:
    edges = np.random.default_rng(0).integers(0, 30, (60, 2))
    walker = Walker(cge.Graph.from_edges(edges, num_nodes=32), 8, 20)
    path_table = PathTable(window, shortest=shortest)
    seen: Counter[tuple[int, ...]] = Counter()
    for walks in walker.batches(37):
        numbers = path_table.add(walks)
        paths = subpaths(walks, window)
        expected = [tuple(r[r >= 0].tolist()) for r, k in zip(paths.nodes, paths.length, strict=True) if k >= shortest]
        looked_up = path_table.paths.nodes[numbers]
        assert [tuple(r[r >= 0].tolist()) for r in looked_up] == expected
        seen.update(expected)
    assert len(path_table) == len(seen)
    counted = {
        tuple(r[r >= 0].tolist()): c for r, c in zip(path_table.paths.nodes, path_table.counts.tolist(), strict=True)
    }
    assert counted == dict(seen)
    assert list(counted) == list(seen)  # indexed by first appearance
    index_of = {path: index for index, path in enumerate(counted)}
    assert path_table.parents.tolist() == [index_of[path[:-1]] if len(path) > shortest else -1 for path in counted]


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_window_is_checked(value: object) -> None:
    with pytest.raises(cge.CgeError, match="window must be an integer of nodes, at least 1, found"):
        subpaths(np.zeros((1, 1), int), value)  # type: ignore[arg-type]
    with pytest.raises(cge.CgeError, match="shortest must be an integer from 1 to 3, the window, found 4"):
        PathTable(3, shortest=4)


def test_same_label_pairs_follow_the_documented_distribution() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, -1, -1])
    pairs = label_pairs(labels, 60_000, seed=3)
    counts = np.zeros((8, 8))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    expected = np.zeros((8, 8))
    for node in range(5):  # node 5 is alone in its class; 6 and 7 have none
        partners = [k for k in range(5) if k != node and labels[k] == labels[node]]
        expected[node, partners] = 1 / 5 / len(partners)
    assert not counts[expected == 0].any()
    assert chisquare(counts[expected > 0], 60_000 * expected[expected > 0]).pvalue > 0.001


def test_pairs_of_multilabel_targets() -> None:
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    pairs = label_pairs(labels, 60_000, seed=4)
    counts = np.zeros((5, 5))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    expected = np.zeros((5, 5))
    expected[0, 1], expected[0, [2, 3]] = 1 / 4 / 2, 1 / 4 / 2 / 2
    expected[1, 0], expected[2, [0, 3]], expected[3, [0, 2]] = 1 / 4, 1 / 8, 1 / 8
    assert not counts[expected == 0].any()
    assert chisquare(counts[expected > 0], 60_000 * expected[expected > 0]).pvalue > 0.001


def test_pairs_depend_on_the_seed_and_need_a_shared_label() -> None:
    labels = np.array([0, 0, 1, 1])
    assert np.array_equal(label_pairs(labels, 9, 1), label_pairs(labels, 9, 1))
    assert not np.array_equal(label_pairs(labels, 9, 1, stream=["a"]), label_pairs(labels, 9, 1, stream=["b"]))
    with pytest.raises(cge.CgeError, match="no two labeled nodes share a label"):
        label_pairs(np.array([0, 1, -1]), 1)
    for wrong in (np.zeros((1, 1, 1), int), np.array([0.0, np.nan])):
        with pytest.raises(cge.CgeError, match="labels must be integers"):
            label_pairs(wrong, 1)
    with pytest.raises(cge.CgeError, match="must be zeros and ones, found -1"):
        label_pairs(np.array([[-1, -1], [1, 1]]), 1)
    with pytest.raises(cge.CgeError, match="count must be an integer of at least 0, found -1"):
        label_pairs(labels, -1)
    assert set(label_pairs([10**12, 10**12, -1], 3).ravel().tolist()) == {0, 1}


def test_negatives_are_drawn_by_degree() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (1, 2), (4, 0)]
    graph = cge.Graph.from_edges(edges, num_nodes=6)
    sampler = NegativeSampler(graph, seed=5)
    drawn = sampler.draw(0, 100_000)
    expected = np.array([4, 2, 2, 1, 1]) ** 0.75
    counts = np.bincount(drawn, minlength=6)
    assert counts[5] == 0
    assert chisquare(counts[:5], 100_000 * expected / expected.sum()).pvalue > 0.001
    assert np.array_equal(sampler.draw(40, 60), drawn[40:100])
    with pytest.raises(cge.CgeError, match="no edges"):
        NegativeSampler(cge.Graph.from_edges([], num_nodes=3))
    with pytest.raises(cge.CgeError, match="power must be"):
        NegativeSampler(graph, power=-1)


def test_negatives_of_directed_graphs_count_incoming_edges() -> None:
    graph = cge.Graph.from_edges([(0, 2), (1, 2), (2, 3)], directed=True)
    assert np.allclose(NegativeSampler(graph, power=1).probability, [0, 0, 2 / 3, 1 / 3])


def test_alias_tables_hold_the_exact_distribution() -> None:
    random = np.random.default_rng(6)
    weights = random.exponential(size=50) ** 4
    weights[::7] = 0
    threshold, alias = alias_table(weights)
    probability = np.zeros(50)
    np.add.at(probability, np.arange(50), threshold / 2**32)
    np.add.at(probability, alias, 1 - threshold / 2**32)
    assert np.allclose(probability / 50, weights / weights.sum(), atol=1e-9)
    indptr, indices = np.array([0, 2, 2, 5]), np.array([1, 2, 0, 1, 2])
    row_threshold, row_alias = alias_tables(indptr, indices, np.array([1.0, 3.0, 1.0, 1.0, 1.0]))
    assert row_alias.tolist()[:2] == [2, 2]
    assert np.isclose(row_threshold[0] / 2**32, 0.5)
    assert np.all(row_threshold[2:] == 2**32 - 1)
