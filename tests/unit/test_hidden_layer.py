"""The fused hidden layer: against plain PyTorch in float64, shares of dropout, threads."""

import numpy as np
import pytest
import torch

from cge.models import hidden_layer
from cge.models.hidden_layer import hidden_scores

KEY = np.uint64(7)


def tensors(rows: int = 11, dim: int = 6, classes: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (rows, 2, dim), (dim,), (classes, dim), (classes,)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


def mask_of(shape: tuple[int, ...], dropout: float) -> torch.Tensor:
    """The mask, read off the scores of ones with the identity as layer."""
    dim = shape[-1]
    layer = torch.eye(dim, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64)
    ones, zeros = torch.ones(shape, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64)
    return hidden_scores(ones, zeros, layer, dropout, KEY)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("block", [4, 2048])
def test_scores_and_gradients_are_those_of_pytorch(dropout: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_layer, "_BLOCK", block)
    values = tensors()
    vectors, offset, weight, bias = values
    mask = mask_of(tuple(vectors.shape), dropout)
    expected = torch.relu(vectors + offset) * mask @ weight.T + bias
    upstream = torch.randn(expected.shape, dtype=torch.float64)
    gradients = torch.autograd.grad(expected, values, upstream)
    scores = hidden_scores(vectors, offset, (weight, bias), dropout, KEY)
    torch.testing.assert_close(scores, expected)
    for gradient, other in zip(torch.autograd.grad(scores, values, upstream), gradients, strict=True):
        torch.testing.assert_close(gradient, other)


def test_a_share_of_the_units_is_dropped_and_the_others_scaled_up() -> None:
    mask = mask_of((4000, 10), 0.2)
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert mask.mean().item() == pytest.approx(1, abs=0.02)
    assert (mask.mean(0) - 1).abs().max() < 0.05  # in every place


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_layer, "_BLOCK", 3)
    results = []
    for n_jobs in (1, 4):
        vectors, offset, weight, bias = (each.detach().float().requires_grad_() for each in tensors())
        scores = hidden_scores(vectors, offset, (weight, bias), 0.5, KEY, n_jobs)
        scores.backward(torch.ones_like(scores))
        results.append([each.numpy().tobytes() for each in (scores.detach(), vectors.grad, offset.grad, weight.grad)])
    assert results[0] == results[1]
