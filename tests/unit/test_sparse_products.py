"""Products with sparse features against dense ones, for any number of threads."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from cge.models.sparse_products import SparseFeatures, feature_product, take_rows


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
    torch.testing.assert_close(torch.from_numpy(take_rows(sparse, picked).rows.toarray()), take_rows(dense, picked))


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
