"""Products with sparse features against dense ones, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from cge.models.autograd import feature_product, mean_squares, take_rows
from cge.models.dropped_products import keyed_dropout
from cge.models.sparse_products import SparseFeatures, dense_product, unit_rows
from cge.randomness import STEP, STEP32, mix


def test_sparse_and_dense_features_give_the_same() -> None:
    torch.manual_seed(1)
    dense = torch.from_numpy(np.random.default_rng(1).random((6, 4)) * (np.random.default_rng(2).random((6, 4)) < 0.5))
    sparse = SparseFeatures(sp.csr_array(dense.numpy()))
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(6, 3, dtype=torch.float64)
    expected = torch.autograd.grad((dense @ weight * upstream).sum(), weight)
    gradient = torch.autograd.grad((feature_product(sparse, weight) * upstream).sum(), weight)
    torch.testing.assert_close(gradient, expected)
    picked = torch.tensor([4, 0])
    torch.testing.assert_close(torch.from_numpy(take_rows(sparse, picked).csr.toarray()), take_rows(dense, picked))


def test_sparse_products_do_not_depend_on_threads() -> None:
    random = np.random.default_rng(0)
    matrix = sp.random_array((3000, 400), density=0.5, rng=random, dtype=np.float32, format="csr")
    weight = random.random((400, 7)).astype(np.float32)
    upstream = random.random((3000, 7)).astype(np.float32)
    features = [SparseFeatures(sp.csr_array(matrix), n_jobs) for n_jobs in (1, 2, 3)]
    first, *others = [(x.product(weight), x.transposed_product(upstream)) for x in features]
    for other in others:
        assert all(np.array_equal(*pair) for pair in zip(first, other, strict=True))
    np.testing.assert_allclose(first[0], matrix.astype(np.float64) @ weight, rtol=1e-4)
    np.testing.assert_allclose(first[1], matrix.astype(np.float64).T @ upstream, rtol=1e-4)
    half = SparseFeatures(sp.csr_array(matrix)).with_values(matrix.data / 2)
    np.testing.assert_allclose(half.product(weight), first[0] / 2, rtol=1e-5)
    np.testing.assert_allclose(half.transposed_product(upstream), first[1] / 2, rtol=1e-5)
    empty = SparseFeatures(sp.csr_array((5, 4), dtype=np.float32))
    assert empty.product(np.ones((4, 2), np.float32)).tolist() == [[0, 0]] * 5


def test_mean_squares_of_dense_and_sparse_features() -> None:
    dense = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    dense[:, 2] = 0
    for features in (torch.from_numpy(dense), SparseFeatures(sp.csr_array(dense))):
        np.testing.assert_allclose(mean_squares(features).numpy(), (dense.astype(np.float64) ** 2).mean(0), rtol=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_rows_have_unit_length_whatever_their_scale(norm: str) -> None:
    dense = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    dense[1] = 0
    sizes = np.array([1, 1, 1e30, 1e-30, 1], np.float32)[:, None]
    for rows in (unit_rows(dense, norm), unit_rows(sp.csr_array(dense * sizes), norm).toarray()):
        assert rows.dtype == np.float32
        lengths = np.linalg.norm(rows.astype(np.float64), 1 if norm == "l1" else 2, axis=1)
        np.testing.assert_allclose(lengths, [1, 0, 1, 1, 1], rtol=1e-6)
        np.testing.assert_allclose(np.sign(rows), np.sign(dense))


def test_dropout_is_determined_by_its_key() -> None:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(40_001, 33)).astype(np.float32))
    dropped, again = (keyed_dropout(values, 0.3, np.uint64(7), n_jobs) for n_jobs in (1, 2))
    assert dropped.numpy().tobytes() == again.numpy().tobytes()
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], values[kept] / 0.7)
    assert float(kept.double().mean()) == pytest.approx(0.7, abs=0.002)
    for axis in (0, 1):  # neither rows, columns nor adjacent numbers are dropped together
        expected = (0.21 / values.shape[axis]) ** 0.5
        assert float(kept.double().mean(axis).std()) == pytest.approx(expected, rel=0.35)
    flat = kept.flatten().double()
    assert abs(float(torch.corrcoef(torch.stack([flat[:-1], flat[1:]]))[0, 1])) < 0.005
    other = (keyed_dropout(values, 0.3, np.uint64(8), 1) != 0).flatten().double()
    assert abs(float(torch.corrcoef(torch.stack([flat, other]))[0, 1])) < 0.005
    for run in (0, 3):  # a run of 256 numbers has a key of its own
        first = int(mix(np.uint64((7 + run * int(STEP)) % 2**64))) % 2**32
        bits = [murmur((first + place * int(STEP32)) % 2**32) for place in range(8)]
        assert kept.flatten()[256 * run :][:8].tolist() == [each >= 0.3 * 2**32 for each in bits]


def murmur(z: int) -> int:
    """The finalizer of MurmurHash3, with Python's integers."""
    z = (z ^ z >> 16) * 0x85EBCA6B % 2**32
    z = (z ^ z >> 13) * 0xC2B2AE35 % 2**32
    return z ^ z >> 16


def test_dense_products_are_summed_in_blocks() -> None:
    """Longer sums of a library of linear algebra depend on the number of its threads."""
    random = np.random.default_rng(0)
    for columns, width in ((1, 3), (128, 3), (129, 3), (300, 1), (700, 5)):
        lhs, rhs = random.normal(size=(20, columns)), random.normal(size=(columns, width))
        np.testing.assert_allclose(dense_product(lhs, rhs), lhs @ rhs, rtol=1e-12, atol=1e-13)
