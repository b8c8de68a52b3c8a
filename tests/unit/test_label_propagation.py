"""Leave-one-out label propagation, against enumerating every walk."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import cge
from cge.models.propagation import TransitionMatrix, closed_walk_weights, label_propagation, symmetric_weights
from cge.targets import MultiLabel, SingleLabel

HOPS = [1.0, 0.5, 2.0, 0.25]
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3), (6, 7)]  # 5 is isolated; 6 and 7 are apart
NODES = np.array([0, 2, 4, 6])


def small(directed: bool = False) -> tuple[TransitionMatrix, np.ndarray]:
    transitions = TransitionMatrix(cge.Graph.from_edges(EDGES, num_nodes=8, directed=directed))
    return transitions, (np.random.default_rng(0).random(len(transitions)) + 0.1).astype(np.float32)


def label_scores(
    transitions: TransitionMatrix, values: Any, hops: Any, nodes: Any, classes: Any, multilabel: bool, **options: Any
) -> Any:
    target = (MultiLabel if multilabel else SingleLabel)(np.arange(classes.shape[1]))
    return target.label_scores(*label_propagation(transitions, values, hops, nodes, classes, **options))


def plain_sums(
    transitions: TransitionMatrix, values: np.ndarray, hops: list[float], nodes: np.ndarray, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over all walks from each node to another labeled one, `(n, c)`, and of their weights, `(n,)`."""
    weight = {(int(u), int(v)): float(s) for u, v, s in zip(transitions.rows, transitions.indices, values, strict=True)}
    class_row = {int(node): row for node, row in zip(nodes, classes, strict=True)}
    sums, weights = np.zeros((transitions.num_nodes, classes.shape[1])), np.zeros(transitions.num_nodes)
    for start, (length, hop) in product(range(transitions.num_nodes), enumerate(hops)):
        for rest in product(range(transitions.num_nodes), repeat=length):
            walk = (start, *rest)
            weight_of_walk = hop * np.prod([weight.get(step, 0.0) for step in pairwise(walk)])
            if weight_of_walk and walk[-1] in class_row and walk[-1] != start:
                sums[start] += weight_of_walk * class_row[walk[-1]]
                weights[start] += weight_of_walk
    return sums, weights


@pytest.mark.parametrize("directed", [False, True])
def test_single_labels_are_summed_over_all_walks(directed: bool) -> None:
    transitions, values = small(directed)
    classes = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    sums, weights = plain_sums(transitions, values, HOPS, NODES, classes)
    expected = np.zeros((8, 3))
    reachable = weights > 0
    probabilities = 0.95 * sums[reachable] / sums[reachable].sum(1, keepdims=True) + 0.05 / 3
    expected[reachable] = np.log(3 * probabilities)
    result = label_scores(transitions, values, HOPS, NODES, classes, multilabel=False)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    unreachable = [4, 5, 6, 7] if directed else [5, 6]
    assert np.flatnonzero(~reachable).tolist() == unreachable
    assert not result[unreachable].any()


@pytest.mark.parametrize("directed", [False, True])
def test_multilabels_are_summed_over_all_walks(directed: bool) -> None:
    transitions, values = small(directed)
    classes = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    sums, weights = plain_sums(transitions, values, HOPS, NODES, classes)
    result = label_scores(transitions, values, HOPS, NODES, classes, multilabel=True)
    reachable = weights > 0
    assert reachable.sum() >= 4
    share = 0.95 * sums[reachable] / weights[reachable, None] + 0.025
    np.testing.assert_allclose(result[reachable], np.log(share / (1 - share)), rtol=1e-4, atol=1e-5)
    assert not result[~reachable].any()


def test_the_own_label_is_left_out_of_closed_walks() -> None:
    transitions, values = small()
    classes = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    other = np.eye(3, dtype=int)[[2, 1, 1, 2]]
    before, after = (
        label_scores(transitions, values, HOPS, NODES, each, multilabel=False) for each in (classes, other)
    )
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)
    for neighbor in (1, 2, 3, 4):
        assert np.abs(after[neighbor] - before[neighbor]).max() > 0.1
    assert np.array_equal(after[5:], before[5:])


def test_own_multilabels_are_left_out() -> None:
    transitions, values = small()
    classes = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    other = classes.copy()
    other[0] = [0, 1, 1]
    before, after = (label_scores(transitions, values, HOPS, NODES, each, multilabel=True) for each in (classes, other))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)


def test_a_class_of_no_node_has_finite_scores() -> None:
    transitions, values = small()
    classes = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 1, 0]])
    assert np.isfinite(label_scores(transitions, values, HOPS, NODES, classes, multilabel=True)).all()


def test_a_class_of_all_nodes_has_finite_scores() -> None:
    transitions, values = small()
    classes = np.array([[1, 1], [0, 1], [1, 1], [0, 1]])
    result = label_scores(transitions, values, HOPS, NODES, classes, multilabel=True)
    np.testing.assert_allclose(result[1:4, 1], np.log(0.975 / 0.025), rtol=1e-4)


def test_without_labels_all_scores_are_zero() -> None:
    transitions, values = small()
    result = label_scores(transitions, values, HOPS, np.empty(0, int), np.empty((0, 3), int), multilabel=False)
    assert np.array_equal(result, np.zeros((8, 3)))


@pytest.mark.parametrize("hops", [[0.5], [0.0, 0.0, 3.0], [1.0, -0.5, 2.0, 0.25]])
def test_closed_walks_of_more_nodes_than_a_batch(hops: list[float]) -> None:
    random = np.random.default_rng(0)
    transitions = TransitionMatrix(
        cge.Graph.from_edges(random.integers(0, 150, (400, 2)), num_nodes=150, directed=True)
    )
    values = random.random(len(transitions)).astype(np.float32)
    dense = transitions.matrix(values.astype(float)).toarray()
    expected = sum(hop * np.diag(np.linalg.matrix_power(dense, k)) for k, hop in enumerate(hops))
    nodes = random.permutation(150)[:131]
    np.testing.assert_allclose(
        closed_walk_weights(transitions, values, hops, nodes), expected[nodes], rtol=1e-4, atol=1e-5
    )


def test_the_only_label_of_a_component_does_not_reach_its_own_node() -> None:
    random = np.random.default_rng(0)
    edges = random.integers(0, 20, (60, 2))
    transitions = TransitionMatrix(cge.Graph.from_edges(np.concatenate([edges, edges + 20]), num_nodes=40))
    values = random.random(len(transitions)).astype(np.float32)
    result = label_scores(transitions, values, [1.0] * 11, np.array([3, 27]), np.eye(2, dtype=int), multilabel=False)
    assert not result[[3, 27]].any()
    assert (result[np.setdiff1d(np.arange(20), 3), 0] > 0).all()
    assert (result[np.setdiff1d(np.arange(20, 40), 27), 1] > 0).all()


@pytest.mark.parametrize("leaves", [300, 600])
def test_rounding_at_hubs_lets_no_own_label_through(leaves: int) -> None:
    edges, next_node = [(0, 1), (1, 2), (2, 3)], 4
    for hub in (1, 2, 3):
        edges += [(hub, next_node + k) for k in range(leaves)]
        next_node += leaves
    far = list(range(next_node, next_node + 6))
    near = list(range(next_node + 6, next_node + 9))
    edges += [(3, node) for node in far] + [(0, node) for node in near]
    transitions = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=next_node + 9))
    degree = np.bincount(transitions.rows)
    values = (1 / np.sqrt(degree[transitions.rows] * degree[transitions.indices])).astype(np.float32)
    nodes = np.array([0, *far])
    result = []
    for own in (0, 1):
        classes = np.eye(2, dtype=int)[[own, 0, 0, 0, 1, 1, 1]]
        result.append(label_scores(transitions, values, [1.0] * 11, nodes, classes, multilabel=False)[0])
    np.testing.assert_allclose(result[0], result[1], atol=1e-3)


@pytest.mark.parametrize("multilabel", [False, True])
def test_scores_of_some_targets_are_those_of_all(multilabel: bool) -> None:
    transitions, values = small()
    classes = np.eye(3, dtype=int)[[0, 1, 1, 2]]
    whole = label_scores(transitions, values, HOPS, NODES, classes, multilabel)
    for targets in (np.array([1, 2, 4, 7]), np.array([1, 3]), np.empty(0, np.int64)):
        assert np.array_equal(
            label_scores(transitions, values, HOPS, NODES, classes, multilabel, leave_one_out=targets)[targets],
            whole[targets],
        )


@pytest.mark.parametrize("normalization", [0.0, 0.5, 1.3])
@pytest.mark.parametrize("count", [2, 3, 10, 11])
def test_the_symmetric_form_has_the_same_closed_walks(normalization: float, count: int) -> None:
    random = np.random.default_rng(1)
    edges, edge_types = random.integers(0, 20, (50, 2)), random.integers(0, 2, 50).astype(str)
    graph = cge.Graph.from_edges(edges, edge_types=edge_types, num_nodes=24, self_loops=True)
    transitions, hops, nodes = TransitionMatrix(graph), random.random(count).tolist(), np.arange(24)
    keys = {pair: random.random() + 0.1 for pair in sorted(map(tuple, np.sort(edges).tolist()))}
    pairs = np.sort(np.stack([transitions.rows, transitions.indices], axis=1)).tolist()
    edge_strengths = np.array([keys.get(tuple(pair), 1.0) for pair in pairs])
    edge_strengths *= 1 + 1e-7 * random.random(len(transitions))  # symmetric but for rounding
    values, symmetric = symmetric_weights(transitions, edge_strengths, normalization)
    dense = transitions.matrix(edge_strengths).toarray()
    dense = (dense + dense.T) / 2
    total = dense.sum(1)
    dense *= np.outer(total ** (normalization - 1), total**-normalization)
    np.testing.assert_allclose(transitions.matrix(values).toarray(), dense, rtol=1e-12)
    expected = sum(hop * np.linalg.matrix_power(dense, k).diagonal() for k, hop in enumerate(hops))
    for result in (
        closed_walk_weights(transitions, values, hops, nodes),
        closed_walk_weights(transitions, values, hops, nodes, symmetric),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    classes = np.eye(3, dtype=int)[random.integers(0, 3, 24)]
    sums = [
        label_scores(transitions, values, hops, nodes, classes, multilabel=False, symmetric=form)
        for form in (None, symmetric)
    ]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-5, atol=1e-5)


def test_a_node_that_reaches_only_its_own_label_has_no_scores() -> None:
    """The own label is a difference of large sums: what rounding leaves of it must not count."""
    random = np.random.default_rng(2)
    edges = [(2 * pair, 2 * pair + 1) for pair in range(200)]
    transitions = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=400))
    edge_strengths = random.random(len(transitions)).astype(np.float32).astype(np.float64) + 0.01
    values, symmetric = symmetric_weights(transitions, edge_strengths, 0.5)
    nodes = np.arange(0, 400, 2)  # a node of each pair
    result = label_scores(
        transitions, values, [1.0] * 11, nodes, np.eye(2, dtype=int)[nodes // 2 % 2], False, symmetric=symmetric
    )
    assert not result[nodes].any()
    assert (result[nodes + 1].argmax(1) == nodes // 2 % 2).all()
