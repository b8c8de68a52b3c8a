"""Votes of known labels, against walking every path by hand."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import cge
from cge.models.label_propagation import closed_walk_weights, label_propagation, symmetric_weights
from cge.models.transitions import TransitionMatrix

HOPS = [1.0, 0.5, 2.0, 0.25]
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3), (6, 7)]  # 5 is alone; 6 and 7 are apart
KNOWN = np.array([0, 2, 4, 6])


def small(directed: bool = False) -> tuple[TransitionMatrix, np.ndarray]:
    steps = TransitionMatrix(cge.Graph.from_edges(EDGES, num_nodes=8, directed=directed))
    return steps, (np.random.default_rng(0).random(len(steps)) + 0.1).astype(np.float32)


def plain_sums(
    steps: TransitionMatrix, values: np.ndarray, hops: list[float], known: np.ndarray, members: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what all walks bring to each node, `(n, c)`, and how many labels they meet; never the node's own."""
    weight = {(int(u), int(v)): float(s) for u, v, s in zip(steps.rows, steps.indices, values, strict=True)}
    classes = {int(node): row for node, row in zip(known, members, strict=True)}
    votes, met = np.zeros((steps.num_nodes, members.shape[1])), np.zeros(steps.num_nodes)
    for start, (length, hop) in product(range(steps.num_nodes), enumerate(hops)):
        for rest in product(range(steps.num_nodes), repeat=length):
            walk = (start, *rest)
            made = hop * np.prod([weight.get(step, 0.0) for step in pairwise(walk)])
            if made and walk[-1] in classes and walk[-1] != start:
                votes[start] += made * classes[walk[-1]]
                met[start] += made
    return votes, met


@pytest.mark.parametrize("directed", [False, True])
def test_votes_of_one_label_are_those_of_all_walks(directed: bool) -> None:
    steps, values = small(directed)
    members = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    votes, met = plain_sums(steps, values, HOPS, KNOWN, members)
    expected = np.zeros((8, 3))
    heard = met > 0
    probabilities = 0.95 * votes[heard] / votes[heard].sum(1, keepdims=True) + 0.05 / 3
    expected[heard] = np.log(3 * probabilities)
    found = label_propagation(steps, values, HOPS, KNOWN, members, multilabel=False)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    deaf = [4, 5, 6, 7] if directed else [5, 6]
    assert np.flatnonzero(~heard).tolist() == deaf
    assert not found[deaf].any()


@pytest.mark.parametrize("directed", [False, True])
def test_votes_of_several_labels_are_those_of_all_walks(directed: bool) -> None:
    steps, values = small(directed)
    members = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    votes, met = plain_sums(steps, values, HOPS, KNOWN, members)
    found = label_propagation(steps, values, HOPS, KNOWN, members, multilabel=True)
    heard = met > 0
    assert heard.sum() >= 4
    share = 0.95 * votes[heard] / met[heard, None] + 0.025
    np.testing.assert_allclose(found[heard], np.log(share / (1 - share)), rtol=1e-4, atol=1e-5)
    assert not found[~heard].any()


def test_the_own_label_is_no_vote_even_on_the_way_back() -> None:
    steps, values = small()
    members = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    other = np.eye(3, dtype=int)[[2, 1, 1, 2]]
    before, after = (label_propagation(steps, values, HOPS, KNOWN, one, multilabel=False) for one in (members, other))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)
    for neighbor in (1, 2, 3, 4):
        assert np.abs(after[neighbor] - before[neighbor]).max() > 0.1
    assert np.array_equal(after[5:], before[5:])


def test_own_labels_are_no_vote_where_there_are_several() -> None:
    steps, values = small()
    members = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    other = members.copy()
    other[0] = [0, 1, 1]
    before, after = (label_propagation(steps, values, HOPS, KNOWN, one, multilabel=True) for one in (members, other))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)


def test_a_class_that_nobody_has_is_no_infinity() -> None:
    steps, values = small()
    members = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 1, 0]])
    assert np.isfinite(label_propagation(steps, values, HOPS, KNOWN, members, multilabel=True)).all()


def test_a_class_that_all_have_is_no_infinity() -> None:
    steps, values = small()
    members = np.array([[1, 1], [0, 1], [1, 1], [0, 1]])
    found = label_propagation(steps, values, HOPS, KNOWN, members, multilabel=True)
    np.testing.assert_allclose(found[1:4, 1], np.log(0.975 / 0.025), rtol=1e-4)


def test_without_known_labels_nobody_votes() -> None:
    steps, values = small()
    found = label_propagation(steps, values, HOPS, np.empty(0, int), np.empty((0, 3), int), multilabel=False)
    assert np.array_equal(found, np.zeros((8, 3)))


@pytest.mark.parametrize("hops", [[0.5], [0.0, 0.0, 3.0], [1.0, -0.5, 2.0, 0.25]])
def test_returning_paths_of_more_nodes_than_are_summed_at_once(hops: list[float]) -> None:
    random = np.random.default_rng(0)
    steps = TransitionMatrix(cge.Graph.from_edges(random.integers(0, 150, (400, 2)), num_nodes=150, directed=True))
    values = random.random(len(steps)).astype(np.float32)
    dense = steps.matrix(values.astype(float)).toarray()
    expected = sum(hop * np.diag(np.linalg.matrix_power(dense, k)) for k, hop in enumerate(hops))
    nodes = random.permutation(150)[:131]
    np.testing.assert_allclose(closed_walk_weights(steps, values, hops, nodes), expected[nodes], rtol=1e-4, atol=1e-5)


def test_a_label_alone_in_its_part_of_the_graph_is_not_heard_by_its_own_node() -> None:
    random = np.random.default_rng(0)
    edges = random.integers(0, 20, (60, 2))
    steps = TransitionMatrix(cge.Graph.from_edges(np.concatenate([edges, edges + 20]), num_nodes=40))
    values = random.random(len(steps)).astype(np.float32)
    found = label_propagation(steps, values, [1.0] * 11, np.array([3, 27]), np.eye(2, dtype=int), multilabel=False)
    assert not found[[3, 27]].any()
    assert (found[np.setdiff1d(np.arange(20), 3), 0] > 0).all()
    assert (found[np.setdiff1d(np.arange(20, 40), 27), 1] > 0).all()


@pytest.mark.parametrize("leaves", [300, 600])
def test_rounding_lets_no_own_label_through_hubs(leaves: int) -> None:
    edges, next_node = [(0, 1), (1, 2), (2, 3)], 4
    for hub in (1, 2, 3):
        edges += [(hub, next_node + k) for k in range(leaves)]
        next_node += leaves
    far = list(range(next_node, next_node + 6))
    near = list(range(next_node + 6, next_node + 9))
    edges += [(3, node) for node in far] + [(0, node) for node in near]
    steps = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=next_node + 9))
    degree = np.bincount(steps.rows)
    values = (1 / np.sqrt(degree[steps.rows] * degree[steps.indices])).astype(np.float32)
    known = np.array([0, *far])
    found = []
    for own in (0, 1):
        members = np.eye(2, dtype=int)[[own, 0, 0, 0, 1, 1, 1]]
        found.append(label_propagation(steps, values, [1.0] * 11, known, members, multilabel=False)[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


@pytest.mark.parametrize("several", [False, True])
def test_some_nodes_are_told_what_all_are_told(several: bool) -> None:
    steps, values = small()
    members = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    whole = label_propagation(steps, values, HOPS, KNOWN, members, several)
    for asked in (np.array([1, 2, 4, 7]), np.array([1, 3]), np.empty(0, np.int64)):
        assert np.array_equal(
            label_propagation(steps, values, HOPS, KNOWN, members, several, asked)[asked], whole[asked]
        )


@pytest.mark.parametrize("normalization", [0.0, 0.5, 1.3])
@pytest.mark.parametrize("count", [2, 3, 10, 11])
def test_a_mirror_has_the_same_returning_paths(normalization: float, count: int) -> None:
    random = np.random.default_rng(1)
    edges, kinds = random.integers(0, 20, (50, 2)), random.integers(0, 2, 50).astype(str)
    graph = cge.Graph.from_edges(edges, edge_types=kinds, num_nodes=24, self_loops=True)
    steps, hops, nodes = TransitionMatrix(graph), random.random(count).tolist(), np.arange(24)
    keys = {pair: random.random() + 0.1 for pair in sorted(map(tuple, np.sort(edges).tolist()))}
    pairs = np.sort(np.stack([steps.rows, steps.indices], axis=1)).tolist()
    gates = np.array([keys.get(tuple(pair), 1.0) for pair in pairs])
    gates *= 1 + 1e-7 * random.random(len(steps))  # as rounding leaves them
    values, mirror = symmetric_weights(steps, gates, normalization)
    dense = steps.matrix(gates).toarray()
    dense = (dense + dense.T) / 2
    total = dense.sum(1)
    dense *= np.outer(total ** (normalization - 1), total**-normalization)
    np.testing.assert_allclose(steps.matrix(values).toarray(), dense, rtol=1e-12)
    expected = sum(hop * np.linalg.matrix_power(dense, k).diagonal() for k, hop in enumerate(hops))
    for found in (
        closed_walk_weights(steps, values, hops, nodes),
        closed_walk_weights(steps, values, hops, nodes, mirror),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    members = np.eye(3, dtype=int)[random.integers(0, 3, 24)]
    votes = [
        label_propagation(steps, values, hops, nodes, members, multilabel=False, symmetric=one)
        for one in (None, mirror)
    ]
    np.testing.assert_allclose(votes[0], votes[1], rtol=1e-5, atol=1e-5)


def test_who_meets_only_its_own_label_hears_nothing_of_a_mirror() -> None:
    """Its own label is a difference of large sums: what rounding leaves of it must not be taken for a vote."""
    random = np.random.default_rng(2)
    edges = [(2 * pair, 2 * pair + 1) for pair in range(200)]
    steps = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=400))
    gates = random.random(len(steps)).astype(np.float32).astype(np.float64) + 0.01
    values, mirror = symmetric_weights(steps, gates, 0.5)
    known = np.arange(0, 400, 2)  # one of each pair
    found = label_propagation(
        steps, values, [1.0] * 11, known, np.eye(2, dtype=int)[known // 2 % 2], False, mirror=mirror
    )
    assert not found[known].any()
    assert (found[known + 1].argmax(1) == known // 2 % 2).all()
