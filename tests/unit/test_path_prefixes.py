"""Sampled paths and their weighted mean, against counting the prefixes of walks."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.models.edge_weighting import make_edge_inputs
from cge.models.path_prefixes import Prefixes, PrefixPropagation, make_step_vectors, sample_prefixes
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import SparseFeatures
from cge.models.weightings import make_network, network_descriptions
from cge.sampling import Walker
from cge.training.torch_state import seeded

Path = tuple[int, ...]


def small() -> cge.Graph:
    """Node 4 is a dead end, node 6 is isolated, node 5 has a self-loop."""
    edges = [(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 4), (0, 3), (5, 5), (5, 4)]
    return cge.Graph.from_edges(edges, num_nodes=7, directed=True, self_loops=True)


def sampled(graph: cge.Graph, hops: int = 3, walks: int = 6) -> tuple[np.ndarray, TransitionMatrix, Prefixes]:
    walker = Walker(graph, hops + 1, walks, seed=4)
    result, transitions = walker.sample(0, walker.num_walks), TransitionMatrix(graph)
    return result, transitions, sample_prefixes(result, transitions)


def prefixes_of(walks: np.ndarray) -> Counter[Path]:
    cut = [[node for node in walk if node >= 0] for walk in walks.tolist()]
    return Counter(tuple(walk[:length]) for walk in cut for length in range(1, len(walk) + 1))


def paths_of(prefixes: Prefixes, transitions: TransitionMatrix) -> list[Path]:
    """Return the nodes of each path from its tokens."""
    result = []
    for tokens, length in zip(prefixes.tokens, prefixes.length, strict=True):
        assert (tokens[length:] == -1).all()
        nodes = [int(tokens[0]) - len(transitions)]
        for token in tokens[1:length]:
            assert transitions.rows[token] == nodes[-1]
            nodes.append(int(transitions.indices[token]))
        result.append(tuple(nodes))
    return result


def weighted_mean(prefixes: Prefixes, paths: list[Path], weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    above, below = np.zeros(inputs.shape), np.zeros((len(inputs), 1))
    for path, count, weight in zip(paths, prefixes.count, weights, strict=True):
        above[path[0]] += count * weight * inputs[path[-1]]
        below[path[0]] += count * weight
    return above / np.maximum(below, 1e-12)


def check_against_counts(prefixes: Prefixes, transitions: TransitionMatrix, expected: dict[Path, int]) -> None:
    paths = paths_of(prefixes, transitions)
    assert len(prefixes) == len(paths) == len(expected)
    assert dict(zip(paths, prefixes.count.tolist(), strict=True)) == expected
    assert [path[0] for path in paths] == prefixes.start.tolist() == sorted(prefixes.start.tolist())
    assert [path[-1] for path in paths] == prefixes.endpoint.tolist()
    assert [len(path) for path in paths] == prefixes.length.tolist()
    for number, (path, parent) in enumerate(zip(paths, prefixes.parents.tolist(), strict=True)):
        assert parent < number
        assert parent == -1 if len(path) == 1 else paths[parent] == path[:-1]


@pytest.mark.parametrize("hops", [0, 1, 3, 5])
def test_distinct_prefixes_are_counted(hops: int) -> None:
    walks, transitions, prefixes = sampled(small(), hops)
    check_against_counts(prefixes, transitions, dict(prefixes_of(walks)))
    assert prefixes.tokens.shape == (len(prefixes), hops + 1)


def test_walks_that_end_early_and_in_any_order() -> None:
    transitions = TransitionMatrix(small())
    walks = np.array([[2, 3, 4, -1], [0, 2, 3, 4], [6, -1, -1, -1], [2, 0, 1, 2], [0, 2, 0, 3], [2, 3, 4, -1]])
    prefixes = sample_prefixes(walks, transitions)
    expected = {
        (0,): 2, (0, 2): 2, (0, 2, 3): 1, (0, 2, 3, 4): 1, (0, 2, 0): 1, (0, 2, 0, 3): 1,
        (2,): 3, (2, 3): 2, (2, 3, 4): 2, (2, 0): 1, (2, 0, 1): 1, (2, 0, 1, 2): 1, (6,): 1,
    }  # fmt: skip
    check_against_counts(prefixes, transitions, expected)


def test_prefixes_of_a_larger_graph() -> None:
    random = np.random.default_rng(0)
    graph = cge.Graph.from_edges(random.integers(0, 60, (150, 2)), num_nodes=60)
    walks, transitions, prefixes = sampled(graph, hops=4, walks=8)
    check_against_counts(prefixes, transitions, dict(prefixes_of(walks)))


def test_prefixes_of_some_start_nodes() -> None:
    walks, transitions, prefixes = sampled(small())
    selected = prefixes.of(np.array([6, 2, 5]), 7)
    check_against_counts(
        selected, transitions, {path: n for path, n in prefixes_of(walks).items() if path[0] in (2, 5, 6)}
    )
    assert len(prefixes.of(np.empty(0, int), 7)) == 0


class LastToken(cge.PathWeighting):
    """Weighs a path by its last token."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, dim))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return projected[torch.arange(len(length)), length - 1] @ self.weight


class Equal(cge.PathWeighting):
    """Gives all paths the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(-0.3))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return self.level.expand(len(length))


def vectors_of(transitions: TransitionMatrix) -> Tensor:
    return torch.from_numpy(
        np.random.default_rng(1).normal(size=(len(transitions) + transitions.num_nodes, 5)).astype(np.float32)
    )


def test_equal_weights_are_the_mean_over_walks() -> None:
    walks, transitions, prefixes = sampled(small())
    propagation = PrefixPropagation(prefixes, vectors_of(transitions), Equal(), transitions)
    inputs = np.random.default_rng(2).normal(size=(7, 3))
    visited = defaultdict(list)
    for walk in walks.tolist():
        visited[walk[0]] += [inputs[node] for node in walk if node >= 0]
    expected = np.array([np.mean(visited[node], axis=0) for node in range(7)])
    x = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(propagation.fixed()(x), expected, atol=1e-6)
    np.testing.assert_allclose(propagation.propagation()(x).detach(), expected, atol=1e-6)
    np.testing.assert_allclose(expected[[4, 6]], inputs[[4, 6]])  # no edges


def test_the_weighted_mean_by_hand() -> None:
    _, transitions, prefixes = sampled(small())
    vectors, network = vectors_of(transitions), LastToken(5)
    propagation = PrefixPropagation(prefixes, vectors, network, transitions)
    last = prefixes.tokens[np.arange(len(prefixes)), prefixes.length - 1]
    weights = 1 / (1 + np.exp(-vectors.double().numpy()[last] @ np.linspace(-1, 1, 5)))
    np.testing.assert_allclose(propagation.weights(), weights, rtol=1e-5)
    inputs = np.random.default_rng(2).normal(size=(7, 3))
    expected = weighted_mean(prefixes, paths_of(prefixes, transitions), weights, inputs)
    x = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(propagation.fixed()(x), expected, atol=1e-5)
    np.testing.assert_allclose(propagation.propagation()(x).detach(), expected, atol=1e-5)


def test_nodes_without_paths_get_zeros() -> None:
    _, transitions, prefixes = sampled(small())
    selected = np.array([1, 3])
    vectors, network = vectors_of(transitions), LastToken(5)
    inputs = torch.from_numpy(np.random.default_rng(3).normal(size=(7, 2)).astype(np.float32))
    result = PrefixPropagation(prefixes.of(selected, 7), vectors, network, transitions).propagation()(inputs).detach()
    whole = PrefixPropagation(prefixes, vectors, network, transitions).propagation()(inputs).detach()
    torch.testing.assert_close(result[selected], whole[selected])
    assert not result[[0, 2, 4, 5, 6]].any()
    torch.testing.assert_close(
        PrefixPropagation(prefixes, vectors, network, transitions).propagation(selected)(inputs).detach(), result
    )


def test_the_gradient_reaches_the_network_and_the_inputs() -> None:
    _, transitions, prefixes = sampled(small())
    vectors, network = vectors_of(transitions), LastToken(5)
    propagation = PrefixPropagation(prefixes, vectors, network, transitions)
    random = np.random.default_rng(2)
    inputs, upstream = (torch.from_numpy(random.normal(size=(7, 3)).astype(np.float32)) for _ in range(2))
    inputs.requires_grad_()
    result = torch.autograd.grad((propagation.propagation()(inputs) * upstream).sum(), [network.weight, inputs])

    weight = network.weight.detach().double().requires_grad_()
    x_double = inputs.detach().double().requires_grad_()
    last = prefixes.tokens[np.arange(len(prefixes)), prefixes.length - 1]
    weighed = torch.from_numpy(prefixes.count) * torch.sigmoid(vectors.double()[last] @ weight)
    by_start = torch.from_numpy((prefixes.start[None, :] == np.arange(7)[:, None]).astype(float))  # (n, b)
    mean = (by_start * weighed) @ x_double[torch.from_numpy(prefixes.endpoint)] / (by_start @ weighed)[:, None]
    expected = torch.autograd.grad((mean * upstream.double()).sum(), [weight, x_double])
    for gradient, other in zip(result, expected, strict=True):
        assert other.abs().max() > 0.01
        torch.testing.assert_close(gradient.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(network_descriptions()))
def test_weights_along_shared_prefixes_are_those_of_the_network(kind: str) -> None:
    _, transitions, prefixes = sampled(small(), hops=5, walks=12)
    vectors = 2 * vectors_of(transitions)
    with seeded(0, kind):
        network = make_network(kind, 5)
    assert network is not None
    propagation = PrefixPropagation(prefixes, vectors, network, transitions)
    tokens, length = torch.from_numpy(prefixes.tokens), torch.from_numpy(prefixes.length)
    expected = network(vectors, tokens, length).detach().numpy()
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(propagation.weights(), expected, atol=2e-6)
    selected = prefixes.of(np.array([0, 5]), 7)
    kept = np.isin(prefixes.start, [0, 5])
    np.testing.assert_allclose(
        PrefixPropagation(selected, vectors, network, transitions).weights(), expected[kept], atol=2e-6
    )


def test_initial_parameters_are_those_before_training() -> None:
    _, transitions, prefixes = sampled(small())
    network = LastToken(5)
    propagation = PrefixPropagation(prefixes, vectors_of(transitions), network, transitions)
    with torch.no_grad():
        network.weight.add_(1.0)
    assert [id(parameter) for parameter in propagation.parameters()] == [id(network.weight)]
    torch.testing.assert_close(propagation.initial_parameters()[0], torch.linspace(-1, 1, 5))


def test_tokens_contain_the_edge_inputs_and_the_end_of_a_transition() -> None:
    graph = small()
    transitions = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, transitions)[0]
    features = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    result = make_step_vectors(graph, transitions, edge_inputs, features, seed=1)
    width = edge_inputs.values.shape[1]
    assert result.shape == (len(transitions) + 7, width + 1 + 8)
    assert np.array_equal(result[: len(transitions), :width], edge_inputs.values)
    assert not result[len(transitions) :, :width].any()
    about = result[len(transitions) :, width:]
    assert torch.equal(result[: len(transitions), width:], about[transitions.indices])
    degree = np.log([1 + 3, 1 + 1, 1 + 2, 1 + 1, 1 + 0, 1 + 2, 1 + 0])
    np.testing.assert_allclose(about[:, 0], (degree - degree.mean()) / degree.std(), rtol=1e-5)
    projection = np.linalg.lstsq(features.astype(float), about[:, 1:].double().numpy(), rcond=None)
    np.testing.assert_allclose(features @ projection[0], about[:, 1:], atol=1e-5)
    assert np.linalg.matrix_rank(projection[0]) == 3


def test_tokens_depend_on_seed_and_features_sparse_or_dense() -> None:
    graph = small()
    transitions = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, transitions)[0]
    features = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    result = make_step_vectors(graph, transitions, edge_inputs, features, seed=1)
    sparse = make_step_vectors(graph, transitions, edge_inputs, SparseFeatures(sp.csr_array(features)), seed=1)
    torch.testing.assert_close(sparse, result)
    assert torch.equal(make_step_vectors(graph, transitions, edge_inputs, features, seed=1), result)
    other = make_step_vectors(graph, transitions, edge_inputs, features, seed=2)
    assert not torch.allclose(other[:, -8:], result[:, -8:])
    nothing = make_step_vectors(graph, transitions, edge_inputs, None, seed=1)
    assert torch.equal(nothing, result[:, :-8])
