"""Weighting networks against the modules of torch, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cge
from cge.models.path_networks import AverageWeighting, CnnWeighting, LstmWeighting, PathTree, PathWeighting, _tanh
from cge.models.weightings import WEIGHTINGS, WeightingSpec, make_network, network_descriptions, register_weighting
from cge.sampling import PathTable, Walker
from tests.fixtures import SMALL_PAPER, paper_cge, partial_labels, quick_cge, two_groups

DIM = 5


@pytest.fixture
def paths() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    vectors = torch.randn(8, DIM, dtype=torch.float64)
    nodes = torch.tensor([[0, -1, -1, -1, -1], [1, 2, -1, -1, -1], [3, 4, 3, -1, -1], [5, 6, 7, 0, 2]])
    return vectors, nodes, torch.tensor([1, 2, 3, 5])


def rows(vectors: Tensor, nodes: Tensor, length: Tensor) -> list[Tensor]:
    return [vectors[path[:size]] for path, size in zip(nodes, length.tolist(), strict=True)]


def test_average_is_the_layer_of_the_mean(paths: tuple[Tensor, Tensor, Tensor]) -> None:
    network = AverageWeighting(DIM).double()
    expected = torch.stack([torch.sigmoid(network.layer(path.mean(0))) for path in rows(*paths)]).squeeze(1)
    torch.testing.assert_close(network(*paths), expected)


def test_cnn_is_two_convolutions_of_torch(paths: tuple[Tensor, Tensor, Tensor]) -> None:
    network = CnnWeighting(DIM).double()
    with torch.no_grad():
        network.along_bias.fill_(0.3)
    expected = []
    for path in rows(*paths):
        padded = nn.functional.pad(path, (0, 0, 0, max(3 - len(path), 0)))  # (positions, DIM)
        # The first convolution: one filter along the path, the same for each dimension.
        first = nn.functional.conv1d(padded.T[:, None], network.along[None, None]).squeeze(1) + network.along_bias
        second = nn.functional.conv1d(first.mean(1)[None, :, None], network.across.weight[:, :, None]).squeeze()
        expected.append(torch.sigmoid(second + network.across.bias[0]))
    torch.testing.assert_close(network(*paths), torch.stack(expected))


def test_lstm_is_the_one_of_torch(paths: tuple[Tensor, Tensor, Tensor]) -> None:
    network = LstmWeighting(DIM, hidden=3).double()
    reference = nn.LSTM(DIM, 3, batch_first=True).double()
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(reference, f"{name}_l0").copy_(getattr(network.cell, name))
    expected = [torch.sigmoid(network.linear(reference(path[None])[1][0][0, 0])) for path in rows(*paths)]
    torch.testing.assert_close(network(*paths), torch.cat(expected))


@pytest.mark.parametrize("kind", sorted(network_descriptions()))
def test_weights_are_between_0_and_1_and_vectors_get_no_gradient(
    kind: str, paths: tuple[Tensor, Tensor, Tensor]
) -> None:
    network = make_network(kind, DIM)
    assert network is not None
    vectors, nodes, length = paths
    vectors = vectors.float().requires_grad_()
    weights = network(vectors, nodes, length)
    weights.sum().backward()
    assert weights.shape == (4,)
    assert 0 < weights.min() <= weights.max() < 1
    assert vectors.grad is None
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("shortest", [1, 2])
@pytest.mark.parametrize("kind", sorted(network_descriptions()))
def test_weights_of_a_tree_are_those_of_its_paths(kind: str, shortest: int) -> None:
    edges = np.random.default_rng(0).integers(0, 40, (90, 2))
    table = PathTable(5, shortest=shortest)
    table.add(Walker(cge.Graph.from_edges(edges, num_nodes=42), 9, 30).sample(0, 42 * 30))
    tree = PathTree.grow(table.paths.nodes, table.paths.length, table.parents)
    torch.manual_seed(1)
    network, vectors = make_network(kind, DIM), 3 * torch.randn(42, DIM)
    assert network is not None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 3  # away from the linear part of the sigmoids
        nodes, length = (torch.tensor(array.astype(np.int64)) for array in (table.paths.nodes, table.paths.length))
        expected = network.double()(vectors.double(), nodes, length).numpy()
    network.float()
    assert expected.std() > 0.05
    for n_jobs in (1, 2):
        weights = network.weigh(vectors, tree, n_jobs)
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights, expected, atol=2e-6)


def test_an_empty_tree_has_no_weights() -> None:
    tree = PathTree.grow(np.empty((0, 3), np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
    assert LstmWeighting(DIM).weigh(torch.zeros(2, DIM), tree).shape == (0,)
    assert AverageWeighting(DIM).weigh(torch.zeros(2, DIM), tree).shape == (0,)


def test_hyperbolic_tangent_of_the_kernel() -> None:
    x = np.linspace(-30, 30, 20_001).astype(np.float32)
    values = np.array([_tanh(value) for value in x])
    np.testing.assert_allclose(values, np.tanh(x.astype(np.float64)), atol=2.5e-7)


def test_only_nodes_of_the_paths_are_projected() -> None:
    network = LstmWeighting(DIM)
    vectors = torch.randn(50, DIM)
    vectors[10:] = torch.nan  # would spoil a product over all nodes
    nodes, length = torch.tensor([[3, 4, -1], [7, -1, -1]]), torch.tensor([2, 1])
    network(vectors, nodes, length).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


def test_networks_by_name_and_by_class() -> None:
    assert make_network("uniform", DIM) is None
    with pytest.raises(cge.CgeError, match="weighting must be one of 'uniform', 'average', 'cnn', 'lstm' or a "):
        make_network("gru", DIM)
    assert isinstance(make_network(AverageWeighting, DIM), AverageWeighting)
    with pytest.raises(cge.CgeError, match=r"must return a cge.PathWeighting, found a Linear"):
        make_network(lambda dim: nn.Linear(dim, 1), DIM)
    with pytest.raises(cge.CgeError, match=r"PathWeighting must define score\(projected, length\)"):
        PathWeighting()(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64), torch.ones(1))


class LastNodeWeighting(PathWeighting):
    """The weight of a path depends on its last node only."""

    summary = "the vector of the last node"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 1)

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return self.layer(projected[torch.arange(len(length)), length - 1]).squeeze(-1)


@pytest.fixture
def registered() -> Iterator[str]:
    register_weighting(WeightingSpec("last", "a linear layer on the last node", network=LastNodeWeighting))
    yield "last"
    del WEIGHTINGS["last"]


def test_a_registered_network_is_accepted_by_name(registered: str, tmp_path: Path) -> None:
    model = paper_cge(weighting=registered, weighting_lr=0.1, **SMALL_PAPER).fit(two_groups(), partial_labels())
    assert model.weighting_ == registered
    weights = model.path_weights([[0, 2], [1, 2, 1], [2, 1]])
    assert weights[1] == weights[2] != weights[0]
    model.save(tmp_path / "model")
    assert np.array_equal(cge.load(tmp_path / "model").predict_proba(), model.predict_proba())
    encoder = quick_cge(weighting=registered, classifier="mlp", label_propagation=False)
    assert encoder.fit(two_groups(), partial_labels()).weighting_ == registered


def test_a_network_must_be_registered_to_be_accepted_by_name() -> None:
    with pytest.raises(cge.CgeError, match=r"weighting must be one of .*, found 'last'"):
        paper_cge(weighting="last").fit(two_groups(), partial_labels())
