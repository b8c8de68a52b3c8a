"""Propagation against enumerating every path, transitions and edge features against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.models.autograd import propagate
from cge.models.edge_features import common_neighbors, cosines
from cge.models.propagation import UNREACHED, FixedPropagation, TransitionMatrix, normalized_weights, propagate_rows
from tests.fixtures import neighborhood_cosines

HOPS = [0.3, -0.7, 1.1, 0.5]


def small(directed: bool = False) -> cge.Graph:
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3)]
    return cge.Graph.from_edges(edges, num_nodes=6, directed=directed)  # node 5 is isolated


def several_types() -> cge.Graph:
    edges = [(0, 1), (0, 1), (1, 0), (1, 2), (2, 0), (3, 0), (4, 5), (5, 4), (3, 3), (2, 5)]
    edge_types = ["cites", "knows", "knows", *["cites"] * 7]
    weights = [1, 2, 0.5, 3, 1, 2, 1, 1, 4, 0.25]
    return cge.Graph.from_edges(edges, edge_types=edge_types, weights=weights, directed=True, self_loops=True)


def random_values(transitions: TransitionMatrix) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random(len(transitions)) + 0.1)


@pytest.mark.parametrize("directed", [False, True])
def test_propagation_sums_over_every_path(directed: bool) -> None:
    graph = small(directed)
    transitions = TransitionMatrix(graph)
    values = random_values(transitions)
    inputs = np.random.default_rng(1).normal(size=(6, 2))
    weight = {(int(u), int(v)): float(s) for u, v, s in zip(transitions.rows, transitions.indices, values, strict=True)}
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
    result = propagate(transitions, values, torch.from_numpy(inputs), HOPS)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_gradients_of_edge_weights_normalization_inputs_and_hops() -> None:
    transitions = TransitionMatrix(small(directed=True))
    edge_strengths = random_values(transitions).requires_grad_()
    normalization = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    hops = torch.tensor(HOPS, dtype=torch.float64, requires_grad=True)

    def value(g: torch.Tensor, b: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return propagate(transitions, normalized_weights(transitions, g, b), x, h)

    assert torch.autograd.gradcheck(value, (edge_strengths, normalization, inputs, hops))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_some_rows_are_those_of_all(directed: bool, hops: int, kind: torch.dtype) -> None:
    """Rows of a few nodes, one of them twice, and the gradient of the inputs."""
    random = np.random.default_rng(hops)
    edges = random.integers(0, 400, (500, 2))
    transitions = TransitionMatrix(cge.Graph.from_edges(edges, num_nodes=420, directed=directed))
    fixed = FixedPropagation(transitions, random_values(transitions).to(kind), [0.3, -0.7, 1.1, 0.5, 0.2][:hops])
    nodes = torch.tensor([7, 419, 3, 250, 7, 12])
    upstream = torch.from_numpy(random.normal(size=(6, 5))).to(kind)
    inputs = torch.from_numpy(random.normal(size=(420, 5))).to(kind).requires_grad_()
    whole, some = fixed(inputs)[nodes], propagate_rows(fixed, inputs, nodes)
    assert torch.equal(whole, some)
    gradients = [torch.autograd.grad((rows * upstream).sum(), inputs)[0] for rows in (whole, some)]
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6 if kind == torch.float32 else 1e-14, atol=1e-7)


def test_many_rows_are_taken_from_the_whole_propagation() -> None:
    transitions = TransitionMatrix(small())
    fixed, inputs = FixedPropagation(transitions, random_values(transitions), HOPS), torch.eye(6, dtype=torch.float64)
    assert torch.equal(propagate_rows(fixed, inputs, torch.tensor([0, 2, 3, 5])), fixed(inputs)[[0, 2, 3, 5]])


def test_neighborhoods_have_distances_in_hops() -> None:
    """0 → 1 → 2 → 3, and 4 isolated."""
    transitions = TransitionMatrix(cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=5, directed=True))
    fixed = FixedPropagation(transitions, random_values(transitions), [1.0, 1.0, 1.0])
    assert fixed.neighborhood(torch.tensor([0])).distance.tolist() == [0, 1, 2, UNREACHED, UNREACHED]
    assert fixed.neighborhood(torch.tensor([3, 1])).distance.tolist() == [UNREACHED, 0, 1, 0, UNREACHED]
    assert fixed.neighborhood(torch.tensor([3, 1])).within(1).tolist() == [1, 2, 3]


def test_normalized_weights_are_walks_and_convolutions() -> None:
    graph = small()
    transitions = TransitionMatrix(graph)
    dense = graph.to_scipy().toarray() + np.eye(6)
    degree = dense.sum(1)
    ones = torch.ones(len(transitions), dtype=torch.float64)
    walk = transitions.matrix(normalized_weights(transitions, ones, 0.0).numpy()).toarray()
    np.testing.assert_allclose(walk, dense / degree[:, None], rtol=1e-12)
    symmetric = transitions.matrix(normalized_weights(transitions, ones, 0.5).numpy()).toarray()
    np.testing.assert_allclose(symmetric, dense / np.sqrt(np.outer(degree, degree)), rtol=1e-12)
    np.testing.assert_allclose(transitions.transposed(ones.numpy() * 2).toarray(), 2 * dense.T)


def test_transitions_refer_to_the_entries_of_the_graph() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 1), (2, 0)], directed=True, self_loops=True, weights=[5, 6, 7])
    transitions = TransitionMatrix(graph)
    assert transitions.rows.tolist() == [0, 0, 1, 2, 2]
    assert transitions.indices.tolist() == [0, 1, 1, 0, 2]
    assert graph.weights is not None
    assert [0.0 if k < 0 else float(graph.weights[k]) for k in transitions.graph_entry] == [0, 5, 6, 7, 0]


def test_the_result_does_not_depend_on_threads() -> None:
    edges = np.random.default_rng(0).integers(0, 9000, (40_000, 2))
    graph = cge.Graph.from_edges(edges, num_nodes=9000)
    results = []
    for n_jobs in (1, 2):
        transitions = TransitionMatrix(graph, n_jobs)
        values = random_values(transitions).float().requires_grad_()
        inputs = torch.randn(9000, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        propagate(transitions, values, inputs, HOPS).square().sum().backward()
        assert values.grad is not None
        assert inputs.grad is not None
        results.append((values.grad.numpy().tobytes(), inputs.grad.numpy().tobytes()))
    assert results[0] == results[1]


def test_common_neighbors_by_hand() -> None:
    graph = small()
    result = {
        (int(u), int(v)): int(c)
        for u, v, c in zip(np.repeat(np.arange(6), graph.degrees), graph.indices, common_neighbors(graph), strict=True)
    }
    assert result[0, 1] == result[1, 0] == 1  # node 2
    assert result[0, 2] == 2  # nodes 1 and 3
    assert result[3, 4] == 0


def sparse_rows() -> np.ndarray:
    features = np.random.default_rng(0).random((6, 7)) * (np.random.default_rng(1).random((6, 7)) > 0.4)
    features[[4, 5]] = 0
    return features


@pytest.mark.parametrize("entries", [50_000_000, 10])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("graph", [small(), several_types()], ids=["simple", "several types, directed, weighted"])
def test_cosines_of_dense_and_sparse_features(
    graph: cge.Graph, n_jobs: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cge.models.edge_features._ENTRIES", entries)  # blocks of few columns
    features = sparse_rows()
    pairs = np.repeat(np.arange(6), np.diff(graph.indptr)), graph.indices
    edges = pairs[0] != pairs[1]

    def check(result: np.ndarray, matrix: np.ndarray) -> None:
        assert result.dtype == np.float32
        np.testing.assert_allclose(result[edges], neighborhood_cosines(graph, matrix)[pairs][edges], atol=1e-6)

    check(cosines(graph, features, n_jobs), features)
    idf = np.log1p(6 / np.maximum((features != 0).sum(0), 1))
    check(cosines(graph, sp.csr_array(features), n_jobs), features * idf)
    check(cosines(graph, sp.csr_array(features), n_jobs, np.ones(7)), features)


def test_cosines_of_hubs_with_long_rows() -> None:
    random = np.random.default_rng(3)
    features = (random.random((40, 300)) > 0.9) * random.random((40, 300))
    graph = cge.Graph.from_edges([(0, other) for other in range(1, 40)] + [(7, 9), (9, 11)])
    pairs = np.repeat(np.arange(40), np.diff(graph.indptr)), graph.indices
    result = cosines(graph, sp.csr_array(features), idf=np.ones(300))
    np.testing.assert_allclose(result, neighborhood_cosines(graph, features)[pairs], atol=1e-6)


@pytest.mark.parametrize("directed", [True, False])
def test_transitions_are_sorted_and_can_be_transposed(directed: bool) -> None:
    random = np.random.default_rng(3)
    edges = random.integers(0, 25, (90, 2))  # with loops, and edges of several types between the same nodes
    edge_types = random.integers(0, 3, 90).astype(str)
    graph = cge.Graph.from_edges(edges, edge_types=edge_types, num_nodes=30, directed=directed, self_loops=True)
    transitions = TransitionMatrix(graph, 1)
    own = np.repeat(np.arange(30), np.diff(graph.indptr))
    loops = np.setdiff1d(np.arange(30), own[own == graph.indices])
    source, target = np.r_[own, loops], np.r_[graph.indices, loops]
    order = np.lexsort((target, source))
    assert np.array_equal(transitions.rows, source[order])
    assert np.array_equal(transitions.indices, target[order])
    assert np.array_equal(transitions.graph_entry, np.r_[np.arange(len(own)), np.full(len(loops), -1)][order])
    assert np.array_equal(transitions.indptr, np.searchsorted(transitions.rows, np.arange(31)))
    values = random.random(len(transitions))
    assert np.array_equal(transitions.transposed(values).toarray(), transitions.matrix(values).toarray().T)
    assert np.array_equal(transitions.transposed(values).data, values[np.argsort(transitions.indices, kind="stable")])
