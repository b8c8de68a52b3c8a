"""Weighting networks, encoders and heads against the modules of torch and against literals, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.models import FeatureEncoder, InductiveHead, PathWeighting, TableEncoder, TransductiveHead, make_weighting
from cge.models.path_networks import AverageWeighting, CnnWeighting, LstmWeighting
from cge.models.path_tree import PathTree, _tanh
from cge.models.sparse_products import SparseFeatures, feature_product, take_rows
from cge.sampling import PathTable, Walker
from tests.fixtures import directional_derivative

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


@pytest.mark.parametrize("kind", ["average", "cnn", "lstm"])
def test_weights_are_chances_and_do_not_train_the_vectors(kind: str, paths: tuple[Tensor, Tensor, Tensor]) -> None:
    network = make_weighting(kind, DIM)
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
@pytest.mark.parametrize("kind", ["average", "cnn", "lstm"])
def test_weighing_a_tree_is_weighing_its_paths(kind: str, shortest: int) -> None:
    edges = np.random.default_rng(0).integers(0, 40, (90, 2))
    table = PathTable(5, shortest=shortest)
    table.add(Walker(cge.Graph.from_edges(edges, num_nodes=42), 9, 30).sample(0, 42 * 30))
    tree = PathTree.grow(table.paths.nodes, table.paths.length, table.parents)
    torch.manual_seed(1)
    network, vectors = make_weighting(kind, DIM), 3 * torch.randn(42, DIM)
    assert network is not None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 3  # away from the linear part of the sigmoids
        nodes, length = (torch.tensor(one.astype(np.int64)) for one in (table.paths.nodes, table.paths.length))
        expected = network.double()(vectors.double(), nodes, length).numpy()
    network.float()
    assert expected.std() > 0.05
    for n_jobs in (1, 2):
        found = network.weigh(vectors, tree, n_jobs)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_an_empty_tree_has_no_weights() -> None:
    tree = PathTree.grow(np.empty((0, 3), np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
    assert LstmWeighting(DIM).weigh(torch.zeros(2, DIM), tree).shape == (0,)
    assert AverageWeighting(DIM).weigh(torch.zeros(2, DIM), tree).shape == (0,)


def test_hyperbolic_tangent_of_the_kernel() -> None:
    x = np.linspace(-30, 30, 20_001).astype(np.float32)
    found = np.array([_tanh(one) for one in x])
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), atol=2.5e-7)


def test_few_paths_look_at_their_nodes_only() -> None:
    network = LstmWeighting(DIM)
    vectors = torch.randn(50, DIM)
    vectors[10:] = torch.nan  # would spoil a product over all nodes
    nodes, length = torch.tensor([[3, 4, -1], [7, -1, -1]]), torch.tensor([2, 1])
    network(vectors, nodes, length).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


def test_choices_are_listed_and_own_networks_taken() -> None:
    assert make_weighting("none", DIM) is None
    with pytest.raises(cge.CgeError, match="weighting must be one of 'none', 'average', 'cnn', 'lstm' or make a"):
        make_weighting("gru", DIM)
    assert isinstance(make_weighting(AverageWeighting, DIM), AverageWeighting)
    with pytest.raises(cge.CgeError, match=r"must make a cge.PathWeighting, but .* made a Linear"):
        make_weighting(lambda dim: nn.Linear(dim, 1), DIM)
    with pytest.raises(cge.CgeError, match=r"PathWeighting must define score\(projected, length\)"):
        PathWeighting()(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64), torch.ones(1))


def test_sparse_features_give_what_dense_ones_give() -> None:
    torch.manual_seed(1)
    dense = torch.from_numpy(np.random.default_rng(1).random((6, 4)) * (np.random.default_rng(2).random((6, 4)) < 0.5))
    sparse = SparseFeatures(sp.csr_array(dense.numpy()))
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(6, 3, dtype=torch.float64)
    expected = torch.autograd.grad((dense @ weight * upstream).sum(), weight)
    found = torch.autograd.grad((feature_product(sparse, weight) * upstream).sum(), weight)
    torch.testing.assert_close(found, expected)
    picked = torch.tensor([4, 0])
    torch.testing.assert_close(torch.from_numpy(take_rows(sparse, picked).rows.toarray()), take_rows(dense, picked))


def test_sparse_products_do_not_depend_on_threads() -> None:
    random = np.random.default_rng(0)
    matrix = sp.random_array((3000, 400), density=0.5, rng=random, dtype=np.float32, format="csr")
    weight = random.random((400, 7)).astype(np.float32)
    upstream = random.random((3000, 7)).astype(np.float32)
    made = [SparseFeatures(sp.csr_array(matrix), n_jobs) for n_jobs in (1, 2, 3)]
    found = [(x.product(weight), x.transposed_product(upstream)) for x in made]
    first = found[0]
    for other in found[1:]:
        assert all(np.array_equal(*pair) for pair in zip(first, other, strict=True))
    np.testing.assert_allclose(first[0], matrix.astype(np.float64) @ weight, rtol=1e-4)
    np.testing.assert_allclose(first[1], matrix.astype(np.float64).T @ upstream, rtol=1e-4)
    half = SparseFeatures(sp.csr_array(matrix)).with_values(matrix.data / 2)
    np.testing.assert_allclose(half.product(weight), first[0] / 2, rtol=1e-5)
    np.testing.assert_allclose(half.transposed_product(upstream), first[1] / 2, rtol=1e-5)
    empty = SparseFeatures(sp.csr_array((5, 4), dtype=np.float32))
    assert empty.product(np.ones((4, 2), np.float32)).tolist() == [[0, 0]] * 5


def test_feature_encoder_and_its_tangent() -> None:
    torch.manual_seed(2)
    encoder, x = FeatureEncoder(4, DIM).double(), torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(encoder(x), torch.tanh(x @ encoder.weight + encoder.bias))
    direction = {name: torch.randn_like(value) for name, value in encoder.named_parameters()}
    slope = directional_derivative(encoder(x), list(encoder.parameters()), list(direction.values()))
    torch.testing.assert_close(encoder.tangent(x, direction), slope)
    table = TableEncoder(6, DIM)
    assert table().shape == (6, DIM)


def test_transductive_head_is_eq_8() -> None:
    """f of the concatenation of h^k(x) and h^l(e), written as the paper writes it."""
    torch.manual_seed(3)
    head = TransductiveHead(4, DIM, 3, hidden=6).double()
    x, e = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, DIM, dtype=torch.float64)
    joint = torch.cat([torch.relu(head.from_x(x)), torch.relu(head.from_e(e / e.norm(dim=1, keepdim=True)))], dim=1)
    weight = torch.cat([head.score_x.weight, head.score_e.weight], dim=1)
    torch.testing.assert_close(head(x, e), joint @ weight.T + head.score_e.bias)
    torch.testing.assert_close(torch.stack(head.branches(x, e)).sum(0), head(x, e))
    without = TransductiveHead(0, DIM, 3, hidden=6).double()
    assert without(None, e).shape == (7, 3)
    assert len(without.branches(None, e)) == 1


def test_inductive_head_is_eq_10() -> None:
    torch.manual_seed(4)
    head = InductiveHead(4, DIM, 3).double()
    x, e = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, DIM, dtype=torch.float64)
    weight = torch.cat([head.from_x.weight, head.from_e.weight], dim=1)
    unit = e / e.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head(x, e), torch.cat([x, unit], dim=1) @ weight.T + head.from_e.bias)
