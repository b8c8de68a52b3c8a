"""Products with dropped features and nodes: against dense masks, gradients, shares, threads."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from cge.models import sparse_products
from cge.models.dropped_products import Augmentations, dropout_mask, dropped_product
from cge.models.sparse_products import SparseFeatures

RANDOM = np.random.default_rng(0)
ROWS = sp.random_array((30, 12), density=0.4, format="csr", rng=RANDOM).astype(np.float64)


def masked(augmentations: Augmentations, number: int) -> np.ndarray:
    """Return the features of one augmentation, dense: read off the products with the identity."""
    product = dropped_product(SparseFeatures(ROWS, 1), torch.eye(12, dtype=torch.float64), augmentations)
    return product[:, number].numpy()


def test_features_and_nodes_are_dropped_or_scaled_up() -> None:
    augmentations = Augmentations.draw(RANDOM, 3, 0.25, 0.5)
    features, kept = ROWS.toarray(), augmentations.kept_nodes(30)
    for number in range(3):
        dense = masked(augmentations, number)
        assert not dense[~kept[:, number]].any()
        ratio = dense[kept[:, number]] / np.where(features == 0, 1, features)[kept[:, number]]
        scale = 1 / (0.75 * 0.5)
        assert set(np.unique(ratio.round(9))) == {0.0, round(scale, 9)}
    assert not np.array_equal(masked(augmentations, 0), masked(augmentations, 1))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_shares_are_those_asked_for(share: float) -> None:
    many = Augmentations.draw(np.random.default_rng(1), 1, share, share)
    assert many.kept_nodes(20_000).mean() == pytest.approx(1 - share, abs=0.01)
    ones = SparseFeatures(sp.csr_array(np.ones((1, 20_000))), 1)
    total = dropped_product(ones, torch.ones(20_000, 1, dtype=torch.float64), Augmentations(many.keys, share))
    assert total.item() == pytest.approx(20_000, rel=0.02)


def test_product_and_gradient_are_those_of_the_masked_features() -> None:
    augmentations = Augmentations.draw(RANDOM, 2, 0.5, 0.3)
    weight = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    product = dropped_product(SparseFeatures(ROWS, 1), weight, augmentations)
    dense = [torch.from_numpy(masked(augmentations, number)) for number in range(2)]
    torch.testing.assert_close(product, torch.stack([each @ weight for each in dense], dim=1))
    upstream = torch.randn_like(product)
    product.backward(upstream)
    expected = sum(each.T @ upstream[:, number] for number, each in enumerate(dense))
    torch.testing.assert_close(weight.grad, expected)


def test_dense_features_are_dropped_alike() -> None:
    augmentations = Augmentations.draw(RANDOM, 2, 0.5, 0.5)
    features, weight = torch.rand(40, 7) + 1, torch.eye(7)
    product = dropped_product(features, weight, augmentations)
    kept = torch.from_numpy(augmentations.kept_nodes(40))
    assert not product[~kept].any()
    ratio = (product / features[:, None])[kept]
    assert set(ratio.round(decimals=4).unique().tolist()) == {0.0, 4.0}


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_products, "_WORK", 10)
    augmentations, weight, results = Augmentations.draw(RANDOM, 2, 0.5, 0.3), torch.rand(12, 5), []
    for n_jobs in (1, 4):
        point = weight.clone().requires_grad_()
        product = dropped_product(SparseFeatures(ROWS.astype(np.float32), n_jobs), point, augmentations)
        product.backward(torch.ones_like(product))
        results.append((product.detach().numpy().tobytes(), point.grad.numpy().tobytes()))
    assert results[0] == results[1]


def test_a_mask_scales_what_it_keeps() -> None:
    mask = dropout_mask((500, 20), 0.2, RANDOM)
    assert mask is not None
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert mask.mean().item() == pytest.approx(1, abs=0.03)
    assert dropout_mask((5, 2), 0.0, RANDOM) is None
