"""The hidden layer with dropout: against plain PyTorch in float64, shares of dropout, threads."""

import numpy as np
import pytest
import torch

from cge.models import hidden_layer
from cge.models.hidden_layer import hidden_units

KEY = np.uint64(7)


def mask_of(shape: tuple[int, ...], dropout: float) -> torch.Tensor:
    """The mask, read off the hidden units of ones."""
    return hidden_units(
        torch.ones(shape, dtype=torch.float64), torch.zeros(shape[-1], dtype=torch.float64), dropout, KEY
    )


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_hidden_units_and_gradients_are_those_of_pytorch(dropout: float) -> None:
    generator = torch.Generator().manual_seed(0)
    values = [
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in ((11, 2, 6), 6)
    ]
    vectors, offset = values
    expected = torch.relu(vectors + offset) * mask_of((11, 2, 6), dropout)
    hidden, upstream = hidden_units(vectors, offset, dropout, KEY), torch.randn(11, 2, 6, dtype=torch.float64)
    torch.testing.assert_close(hidden, expected)
    gradients = (torch.autograd.grad(each, values, upstream) for each in (hidden, expected))
    for gradient, other in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, other)


def test_a_share_of_the_units_is_dropped_and_the_others_scaled_up() -> None:
    mask = mask_of((4000, 10), 0.2)
    assert set(mask.unique().tolist()) == {0.0, 1.25}
    assert mask.mean().item() == pytest.approx(1, abs=0.02)
    assert (mask.mean(0) - 1).abs().max() < 0.05  # in every place
    assert np.abs(np.corrcoef(mask.T.numpy()) - np.eye(10)).max() < 0.06  # places are independent


def test_overflow_stays_visible() -> None:
    hidden = hidden_units(torch.tensor([[torch.nan, torch.inf, -torch.inf]]), torch.zeros(3), 0.0, KEY)
    assert hidden[0].isnan().tolist() == [True, False, False]
    assert hidden[0, 1:].tolist() == [torch.inf, 0.0]


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_layer, "_BLOCK", 3)
    monkeypatch.setattr(hidden_layer, "_NUMBERS", 7)
    results = []
    for n_jobs in (1, 4):
        vectors, offset = torch.linspace(-1, 1, 88).view(11, 8).requires_grad_(), torch.zeros(8, requires_grad=True)
        hidden = hidden_units(vectors, offset, 0.5, KEY, n_jobs)
        hidden.backward(torch.ones_like(hidden))
        results.append([each.numpy().tobytes() for each in (hidden.detach(), vectors.grad, offset.grad)])
    assert results[0] == results[1]
