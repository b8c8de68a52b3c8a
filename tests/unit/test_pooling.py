"""The exact sum over weighted paths, against walking every path by hand; what is known of steps, against plain code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.models.edge_features import common_neighbors, cosines
from cge.models.propagation import UNREACHED, FixedPropagation, normalized_weights, propagate, propagate_to
from cge.models.transitions import TransitionMatrix
from tests.fixtures import neighborhood_cosines

HOPS = [0.3, -0.7, 1.1, 0.5]


def small(directed: bool = False) -> cge.Graph:
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3)]
    return cge.Graph.from_edges(edges, num_nodes=6, directed=directed)  # node 5 is alone


def several_types() -> cge.Graph:
    edges = [(0, 1), (0, 1), (1, 0), (1, 2), (2, 0), (3, 0), (4, 5), (5, 4), (3, 3), (2, 5)]
    kinds = ["cites", "knows", "knows", *["cites"] * 7]
    weights = [1, 2, 0.5, 3, 1, 2, 1, 1, 4, 0.25]
    return cge.Graph.from_edges(edges, edge_types=kinds, weights=weights, directed=True, self_loops=True)


def random_values(steps: TransitionMatrix) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random(len(steps)) + 0.1)


@pytest.mark.parametrize("directed", [False, True])
def test_pooling_walks_every_path(directed: bool) -> None:
    graph = small(directed)
    steps = TransitionMatrix(graph)
    values = random_values(steps)
    inputs = np.random.default_rng(1).normal(size=(6, 2))
    weight = {(int(u), int(v)): float(s) for u, v, s in zip(steps.rows, steps.indices, values, strict=True)}
    assert set(weight) == {(u, u) for u in range(6)} | set(map(tuple, np.argwhere(graph.to_scipy().toarray()).tolist()))
    expected = np.zeros((6, 2))
    for start in range(6):
        paths = [((start,), 1.0)]
        for hop in HOPS:
            for path, product in paths:
                expected[start] += hop * product * inputs[path[-1]]
            paths = [
                ((*path, v), product * s) for path, product in paths for (u, v), s in weight.items() if u == path[-1]
            ]
    found = propagate(steps, values, torch.from_numpy(inputs), HOPS)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_gradients_of_steps_payload_hops_and_discount() -> None:
    steps = TransitionMatrix(small(directed=True))
    gate = random_values(steps).requires_grad_()
    normalization = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    hops = torch.tensor(HOPS, dtype=torch.float64, requires_grad=True)

    def value(g: torch.Tensor, b: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return propagate(steps, normalized_weights(steps, g, b), x, h)

    assert torch.autograd.gradcheck(value, (gate, normalization, inputs, hops))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_some_rows_are_those_of_all(directed: bool, hops: int, kind: torch.dtype) -> None:
    """Rows of a few nodes, one of them twice, and the gradient of the payload: not a bit differs."""
    random = np.random.default_rng(hops)
    edges = random.integers(0, 400, (500, 2))
    steps = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=420, directed=directed))
    fixed = FixedPropagation(steps, random_values(steps).to(kind), [0.3, -0.7, 1.1, 0.5, 0.2][:hops])
    nodes = torch.tensor([7, 419, 3, 250, 7, 12])
    aim = torch.from_numpy(random.normal(size=(6, 5))).to(kind)
    inputs = torch.from_numpy(random.normal(size=(420, 5))).to(kind).requires_grad_()
    whole, some = fixed(inputs)[nodes], propagate_to(fixed, inputs, nodes)
    assert torch.equal(whole, some)
    slopes = [torch.autograd.grad((one * aim).sum(), inputs)[0] for one in (whole, some)]
    assert slopes[0].abs().sum() > 0
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-6 if kind == torch.float32 else 1e-14, atol=1e-7)


def test_many_rows_are_taken_from_all() -> None:
    steps = TransitionMatrix(small())
    fixed, inputs = FixedPropagation(steps, random_values(steps), HOPS), torch.eye(6, dtype=torch.float64)
    assert torch.equal(propagate_to(fixed, inputs, torch.tensor([0, 2, 3, 5])), fixed(inputs)[[0, 2, 3, 5]])


def test_a_reach_counts_steps() -> None:
    """0 → 1 → 2 → 3, and 4 alone."""
    steps = TransitionMatrix(cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=5, directed=True))
    fixed = FixedPropagation(steps, random_values(steps), [1.0, 1.0, 1.0])
    assert fixed.reach(torch.tensor([0])).level.tolist() == [0, 1, 2, UNREACHED, UNREACHED]
    assert fixed.reach(torch.tensor([3, 1])).level.tolist() == [UNREACHED, 0, 1, 0, UNREACHED]
    assert fixed.reach(torch.tensor([3, 1])).within(1).tolist() == [1, 2, 3]


def test_step_weights_are_walks_and_convolutions() -> None:
    graph = small()
    steps = TransitionMatrix(graph)
    dense = graph.to_scipy().toarray() + np.eye(6)
    degree = dense.sum(1)
    ones = torch.ones(len(steps), dtype=torch.float64)
    walk = steps.matrix(normalized_weights(steps, ones, 0.0).numpy()).toarray()
    np.testing.assert_allclose(walk, dense / degree[:, None], rtol=1e-12)
    symmetric = steps.matrix(normalized_weights(steps, ones, 0.5).numpy()).toarray()
    np.testing.assert_allclose(symmetric, dense / np.sqrt(np.outer(degree, degree)), rtol=1e-12)
    np.testing.assert_allclose(steps.transposed(ones.numpy() * 2).toarray(), 2 * dense.T)


def test_steps_know_the_entries_of_the_graph() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 1), (2, 0)], directed=True, self_loops=True, weights=[5, 6, 7])
    steps = TransitionMatrix(graph)
    assert steps.rows.tolist() == [0, 0, 1, 2, 2]
    assert steps.indices.tolist() == [0, 1, 1, 0, 2]
    assert graph.weights is not None
    assert [0.0 if k < 0 else float(graph.weights[k]) for k in steps.graph_entry] == [0, 5, 6, 7, 0]


def test_threads_do_not_change_a_bit() -> None:
    edges = np.random.default_rng(0).integers(0, 9000, (40_000, 2))
    graph = cge.Graph.from_edges(edges, num_nodes=9000)
    results = []
    for n_jobs in (1, 2):
        steps = TransitionMatrix(graph, n_jobs)
        values = random_values(steps).float().requires_grad_()
        inputs = torch.randn(9000, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        propagate(steps, values, inputs, HOPS).square().sum().backward()
        assert values.grad is not None
        assert inputs.grad is not None
        results.append((values.grad.numpy().tobytes(), inputs.grad.numpy().tobytes()))
    assert results[0] == results[1]


def test_common_neighbors_by_hand() -> None:
    graph = small()
    found = {
        (int(u), int(v)): int(c)
        for u, v, c in zip(np.repeat(np.arange(6), graph.degrees), graph.indices, common_neighbors(graph), strict=True)
    }
    assert found[0, 1] == found[1, 0] == 1  # node 2
    assert found[0, 2] == 2  # nodes 1 and 3
    assert found[3, 4] == 0


def patchy() -> np.ndarray:
    features = np.random.default_rng(0).random((6, 7)) * (np.random.default_rng(1).random((6, 7)) > 0.4)
    features[[4, 5]] = 0
    return features


@pytest.mark.parametrize("entries", [50_000_000, 10])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("graph", [small(), several_types()], ids=["mlp", "several types, directed, weighted"])
def test_cosines_of_dense_and_sparse_features(
    graph: cge.Graph, n_jobs: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cge.models.edge_features._ENTRIES", entries)  # a few columns at once lead to the same
    features = patchy()
    pairs = np.repeat(np.arange(6), np.diff(graph.indptr)), graph.indices
    moves = pairs[0] != pairs[1]

    def check(found: np.ndarray, told: np.ndarray) -> None:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[moves], neighborhood_cosines(graph, told)[pairs][moves], atol=1e-6)

    check(cosines(graph, features, n_jobs), features)
    idf = np.log1p(6 / np.maximum((features != 0).sum(0), 1))
    check(cosines(graph, sp.csr_array(features), n_jobs), features * idf)
    check(cosines(graph, sp.csr_array(features), n_jobs, np.ones(7)), features)


def test_cosines_find_words_of_hubs_far_down_their_rows() -> None:
    random = np.random.default_rng(3)
    features = (random.random((40, 300)) > 0.9) * random.random((40, 300))
    graph = cge.Graph.from_edges([(0, other) for other in range(1, 40)] + [(7, 9), (9, 11)])
    pairs = np.repeat(np.arange(40), np.diff(graph.indptr)), graph.indices
    found = cosines(graph, sp.csr_array(features), idf=np.ones(300))
    np.testing.assert_allclose(found, neighborhood_cosines(graph, features)[pairs], atol=1e-6)


@pytest.mark.parametrize("directed", [True, False])
def test_steps_stand_in_order_and_turned_they_are_the_transpose(directed: bool) -> None:
    random = np.random.default_rng(3)
    edges = random.integers(0, 25, (90, 2))  # with loops, and edges of several types between the same nodes
    kinds = random.integers(0, 3, 90).astype(str)
    graph = cge.Graph.from_edges(edges, edge_types=kinds, num_nodes=30, directed=directed, self_loops=True)
    steps = TransitionMatrix(graph, 1)
    own = np.repeat(np.arange(30), np.diff(graph.indptr))
    loops = np.setdiff1d(np.arange(30), own[own == graph.indices])
    source, target = np.r_[own, loops], np.r_[graph.indices, loops]
    order = np.lexsort((target, source))
    assert np.array_equal(steps.rows, source[order])
    assert np.array_equal(steps.indices, target[order])
    assert np.array_equal(steps.graph_entry, np.r_[np.arange(len(own)), np.full(len(loops), -1)][order])
    assert np.array_equal(steps.indptr, np.searchsorted(steps.rows, np.arange(31)))
    values = random.random(len(steps))
    assert np.array_equal(steps.transposed(values).toarray(), steps.matrix(values).toarray().T)
    assert np.array_equal(steps.transposed(values).data, values[np.argsort(steps.indices, kind="stable")])
