"""Sampled paths and their weighted mean, against counting walks one by one."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.models.edge_weighting import make_edge_inputs
from cge.models.path_prefixes import Prefixes, PrefixPropagation, make_token_vectors, sample_prefixes
from cge.models.sparse_products import SparseFeatures
from cge.models.transitions import TransitionMatrix
from cge.models.weightings import make_network, network_descriptions
from cge.sampling import Walker
from cge.training.torch_state import seeded

Path = tuple[int, ...]


def small() -> cge.Graph:
    """Node 4 is a dead end, node 6 is alone, node 5 goes to itself."""
    edges = [(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 4), (0, 3), (5, 5), (5, 4)]
    return cge.Graph.from_edges(edges, num_nodes=7, directed=True, self_loops=True)


def sampled(graph: cge.Graph, hops: int = 3, walks: int = 6) -> tuple[np.ndarray, TransitionMatrix, Prefixes]:
    walker = Walker(graph, hops + 1, walks, seed=4)
    found, steps = walker.sample(0, walker.num_walks), TransitionMatrix(graph)
    return found, steps, sample_prefixes(found, steps)


def beginnings(walks: np.ndarray) -> Counter[Path]:
    cut = [[node for node in walk if node >= 0] for walk in walks.tolist()]
    return Counter(tuple(walk[:length]) for walk in cut for length in range(1, len(walk) + 1))


def paths_of(prefixes: Prefixes, steps: TransitionMatrix) -> list[Path]:
    """Read the nodes of each path off its items."""
    found = []
    for items, length in zip(prefixes.tokens, prefixes.length, strict=True):
        assert (items[length:] == -1).all()
        nodes = [int(items[0]) - len(steps)]
        for item in items[1:length]:
            assert steps.rows[item] == nodes[-1]
            nodes.append(int(steps.indices[item]))
        found.append(tuple(nodes))
    return found


def weighted_mean(prefixes: Prefixes, paths: list[Path], weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    above, below = np.zeros(inputs.shape), np.zeros((len(inputs), 1))
    for path, count, weight in zip(paths, prefixes.count, weights, strict=True):
        above[path[0]] += count * weight * inputs[path[-1]]
        below[path[0]] += count * weight
    return above / np.maximum(below, 1e-12)


def check_against_counts(prefixes: Prefixes, steps: TransitionMatrix, expected: dict[Path, int]) -> None:
    paths = paths_of(prefixes, steps)
    assert len(prefixes) == len(paths) == len(expected)
    assert dict(zip(paths, prefixes.count.tolist(), strict=True)) == expected
    assert [path[0] for path in paths] == prefixes.start.tolist() == sorted(prefixes.start.tolist())
    assert [path[-1] for path in paths] == prefixes.end.tolist()
    assert [len(path) for path in paths] == prefixes.length.tolist()
    for number, (path, parent) in enumerate(zip(paths, prefixes.parents.tolist(), strict=True)):
        assert parent < number
        assert parent == -1 if len(path) == 1 else paths[parent] == path[:-1]


@pytest.mark.parametrize("hops", [0, 1, 3, 5])
def test_distinct_beginnings_are_counted(hops: int) -> None:
    walks, steps, prefixes = sampled(small(), hops)
    check_against_counts(prefixes, steps, dict(beginnings(walks)))
    assert prefixes.tokens.shape == (len(prefixes), hops + 1)


def test_walks_that_end_early_and_in_any_order() -> None:
    steps = TransitionMatrix(small())
    walks = np.array([[2, 3, 4, -1], [0, 2, 3, 4], [6, -1, -1, -1], [2, 0, 1, 2], [0, 2, 0, 3], [2, 3, 4, -1]])
    prefixes = sample_prefixes(walks, steps)
    expected = {
        (0,): 2, (0, 2): 2, (0, 2, 3): 1, (0, 2, 3, 4): 1, (0, 2, 0): 1, (0, 2, 0, 3): 1,
        (2,): 3, (2, 3): 2, (2, 3, 4): 2, (2, 0): 1, (2, 0, 1): 1, (2, 0, 1, 2): 1, (6,): 1,
    }  # fmt: skip
    check_against_counts(prefixes, steps, expected)


def test_a_larger_graph_with_many_walks() -> None:
    random = np.random.default_rng(0)
    graph = cge.Graph.from_edges(random.integers(0, 60, (150, 2)), num_nodes=60)
    walks, steps, prefixes = sampled(graph, hops=4, walks=8)
    check_against_counts(prefixes, steps, dict(beginnings(walks)))


def test_paths_of_some_starts() -> None:
    walks, steps, prefixes = sampled(small())
    some = prefixes.of(np.array([6, 2, 5]), 7)
    check_against_counts(some, steps, {path: n for path, n in beginnings(walks).items() if path[0] in (2, 5, 6)})
    assert len(prefixes.of(np.empty(0, int), 7)) == 0


class LastItem(cge.PathWeighting):
    """Weighs a path by its last item alone."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.told = nn.Parameter(torch.linspace(-1, 1, dim))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return projected[torch.arange(len(length)), length - 1] @ self.told


class Equal(cge.PathWeighting):
    """Weighs all paths alike."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(-0.3))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return self.level.expand(len(length))


def vectors_of(steps: TransitionMatrix) -> Tensor:
    return torch.from_numpy(np.random.default_rng(1).normal(size=(len(steps) + steps.num_nodes, 5)).astype(np.float32))


def test_equal_weights_are_the_mean_over_walks() -> None:
    walks, steps, prefixes = sampled(small())
    propagation = PrefixPropagation(prefixes, vectors_of(steps), Equal(), steps)
    inputs = np.random.default_rng(2).normal(size=(7, 3))
    met = defaultdict(list)
    for walk in walks.tolist():
        met[walk[0]] += [inputs[node] for node in walk if node >= 0]
    expected = np.array([np.mean(met[node], axis=0) for node in range(7)])
    given = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(propagation.fixed()(given), expected, atol=1e-6)
    np.testing.assert_allclose(propagation.propagation()(given).detach(), expected, atol=1e-6)
    np.testing.assert_allclose(expected[[4, 6]], inputs[[4, 6]])  # nowhere to go


def test_the_weighted_mean_by_hand() -> None:
    _, steps, prefixes = sampled(small())
    vectors, network = vectors_of(steps), LastItem(5)
    propagation = PrefixPropagation(prefixes, vectors, network, steps)
    last = prefixes.tokens[np.arange(len(prefixes)), prefixes.length - 1]
    weights = 1 / (1 + np.exp(-vectors.double().numpy()[last] @ np.linspace(-1, 1, 5)))
    np.testing.assert_allclose(propagation.weights(), weights, rtol=1e-5)
    inputs = np.random.default_rng(2).normal(size=(7, 3))
    expected = weighted_mean(prefixes, paths_of(prefixes, steps), weights, inputs)
    given = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(propagation.fixed()(given), expected, atol=1e-5)
    np.testing.assert_allclose(propagation.propagation()(given).detach(), expected, atol=1e-5)


def test_nodes_without_paths_are_brought_nothing() -> None:
    _, steps, prefixes = sampled(small())
    some = np.array([1, 3])
    vectors, network = vectors_of(steps), LastItem(5)
    inputs = torch.from_numpy(np.random.default_rng(3).normal(size=(7, 2)).astype(np.float32))
    found = PrefixPropagation(prefixes.of(some, 7), vectors, network, steps).propagation()(inputs).detach()
    whole = PrefixPropagation(prefixes, vectors, network, steps).propagation()(inputs).detach()
    torch.testing.assert_close(found[some], whole[some])
    assert not found[[0, 2, 4, 5, 6]].any()
    torch.testing.assert_close(
        PrefixPropagation(prefixes, vectors, network, steps).propagation(some)(inputs).detach(), found
    )


def test_the_gradient_reaches_the_network_and_the_payload() -> None:
    _, steps, prefixes = sampled(small())
    vectors, network = vectors_of(steps), LastItem(5)
    propagation = PrefixPropagation(prefixes, vectors, network, steps)
    random = np.random.default_rng(2)
    inputs, aim = (torch.from_numpy(random.normal(size=(7, 3)).astype(np.float32)) for _ in range(2))
    inputs.requires_grad_()
    found = torch.autograd.grad((propagation.propagation()(inputs) * aim).sum(), [network.told, inputs])

    told = network.told.detach().double().requires_grad_()
    carried = inputs.detach().double().requires_grad_()
    last = prefixes.tokens[np.arange(len(prefixes)), prefixes.length - 1]
    weighed = torch.from_numpy(prefixes.count) * torch.sigmoid(vectors.double()[last] @ told)
    by_start = torch.from_numpy((prefixes.start[None, :] == np.arange(7)[:, None]).astype(float))  # (n, b)
    mean = (by_start * weighed) @ carried[torch.from_numpy(prefixes.end)] / (by_start @ weighed)[:, None]
    expected = torch.autograd.grad((mean * aim.double()).sum(), [told, carried])
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0.01
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(network_descriptions()))
def test_weights_along_shared_beginnings_are_those_of_the_network(kind: str) -> None:
    _, steps, prefixes = sampled(small(), hops=5, walks=12)
    vectors = 2 * vectors_of(steps)
    with seeded(0, kind):
        network = make_network(kind, 5)
    assert network is not None
    propagation = PrefixPropagation(prefixes, vectors, network, steps)
    items, length = torch.from_numpy(prefixes.tokens), torch.from_numpy(prefixes.length)
    expected = network(vectors, items, length).detach().numpy()
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(propagation.weights(), expected, atol=2e-6)
    some = prefixes.of(np.array([0, 5]), 7)
    kept = np.isin(prefixes.start, [0, 5])
    np.testing.assert_allclose(PrefixPropagation(some, vectors, network, steps).weights(), expected[kept], atol=2e-6)


def test_parameters_and_where_they_began() -> None:
    _, steps, prefixes = sampled(small())
    network = LastItem(5)
    propagation = PrefixPropagation(prefixes, vectors_of(steps), network, steps)
    with torch.no_grad():
        network.told.add_(1.0)
    assert [id(one) for one in propagation.parameters()] == [id(network.told)]
    torch.testing.assert_close(propagation.initial_parameters()[0], torch.linspace(-1, 1, 5))


def test_items_tell_the_step_and_where_it_leads() -> None:
    graph = small()
    steps = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, steps)[0]
    features = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    found = make_token_vectors(graph, steps, edge_inputs, torch.from_numpy(features), seed=1)
    known = edge_inputs.values.shape[1]
    assert found.shape == (len(steps) + 7, known + 1 + 8)
    assert torch.equal(found[: len(steps), :known], edge_inputs.values)
    assert not found[len(steps) :, :known].any()
    about = found[len(steps) :, known:]
    assert torch.equal(found[: len(steps), known:], about[steps.indices])
    degree = np.log([1 + 3, 1 + 1, 1 + 2, 1 + 1, 1 + 0, 1 + 2, 1 + 0])
    np.testing.assert_allclose(about[:, 0], (degree - degree.mean()) / degree.std(), rtol=1e-5)
    projection = np.linalg.lstsq(features.astype(float), about[:, 1:].double().numpy(), rcond=None)
    np.testing.assert_allclose(features @ projection[0], about[:, 1:], atol=1e-5)
    assert np.linalg.matrix_rank(projection[0]) == 3


def test_items_follow_from_seed_and_features_sparse_or_dense() -> None:
    graph = small()
    steps = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, steps)[0]
    features = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    dense = torch.from_numpy(features)
    found = make_token_vectors(graph, steps, edge_inputs, dense, seed=1)
    sparse = make_token_vectors(graph, steps, edge_inputs, SparseFeatures(sp.csr_array(features)), seed=1)
    torch.testing.assert_close(sparse, found)
    assert torch.equal(make_token_vectors(graph, steps, edge_inputs, dense, seed=1), found)
    assert not torch.allclose(make_token_vectors(graph, steps, edge_inputs, dense, seed=2)[:, -8:], found[:, -8:])
    nothing = make_token_vectors(graph, steps, edge_inputs, None, seed=1)
    assert torch.equal(nothing, found[:, :-8])
