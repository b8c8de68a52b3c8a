"""Eqs. 3 to 6 against literals worked by hand and against other forms, in float64."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from cge.losses import multilabel_loss, negative_sampling_loss, path_loss, softmax_loss, supervised_loss
from cge.training.pair_objectives import FullSoftmax, NegativeSampling
from tests.fixtures import directional_derivative

SOURCES = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
TARGETS = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)


def test_softmax_loss_by_hand() -> None:
    # w_0·e = (1, 0): −log(e⁰ / (e¹ + e⁰)); w_1·e = (2, 2): −log ½.
    losses = softmax_loss(SOURCES, TARGETS, torch.tensor([0, 1]), torch.tensor([1, 0]))
    expected = torch.tensor([math.log(math.e + 1), math.log(2)], dtype=torch.float64)
    torch.testing.assert_close(losses, expected)


def test_softmax_loss_is_the_cross_entropy_of_torch() -> None:
    torch.manual_seed(0)
    sources, targets = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    starts, endpoints = torch.randint(7, (20,)), torch.randint(7, (20,))
    expected = functional.cross_entropy(sources[starts] @ targets.T, endpoints, reduction="none")
    torch.testing.assert_close(softmax_loss(sources, targets, starts, endpoints), expected)


def test_negative_sampling_loss_by_hand() -> None:
    # w_0·e_0 = 1 is the pair, w_0·e_1 = 0 is drawn twice: log(1 + e⁻¹) + 2 log 2.
    losses = negative_sampling_loss(SOURCES, TARGETS, torch.tensor([0]), torch.tensor([0]), torch.tensor([[1, 1]]))
    torch.testing.assert_close(
        losses, torch.tensor([math.log(1 + math.exp(-1)) + 2 * math.log(2)], dtype=torch.float64)
    )


def test_path_loss_is_weighted() -> None:
    weights, losses = torch.tensor([0.5, 0.25]), torch.tensor([2.0, 4.0])
    assert path_loss(weights, losses).item() == 1.0


def test_supervised_loss_of_classes_and_of_multilabel_targets() -> None:
    scores = torch.tensor([[0.0, math.log(3)]], dtype=torch.float64)
    assert math.isclose(supervised_loss(scores, torch.tensor([1])).item(), math.log(4 / 3))
    multilabel = multilabel_loss(scores, torch.tensor([[1, 0]])).item()  # −log σ(0) and −log(1 − σ(log 3)), both
    assert math.isclose(multilabel, math.log(2) + math.log(4))


def test_objectives_agree_with_autograd() -> None:
    """Losses, gradients and directional derivatives of the kernels, float64."""
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    starts, endpoints, negatives = random.integers(0, 6, 15), random.integers(0, 6, 15), random.integers(0, 6, (15, 4))
    tables = [torch.randn(6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    direction = [torch.randn(6, 3, dtype=torch.float64) for _ in range(2)]
    weights = torch.rand(15, dtype=torch.float64)
    start, endpoint, negative = map(torch.from_numpy, (starts, endpoints, negatives))
    for objective, form in (
        (
            NegativeSampling(starts, endpoints, negatives),
            lambda w, e: negative_sampling_loss(w, e, start, endpoint, negative),
        ),
        (FullSoftmax(starts, endpoints), lambda w, e: softmax_loss(w, e, start, endpoint)),
    ):
        expected = form(*tables)
        torch.testing.assert_close(objective.losses(*tables), expected.detach(), rtol=1e-12, atol=0)
        gradients = torch.autograd.grad((weights * expected).sum(), tables)
        for gradient, by_autograd in zip(objective.gradient(weights, *tables), gradients, strict=True):
            torch.testing.assert_close(gradient, by_autograd, rtol=1e-10, atol=1e-14)
        derivative = directional_derivative(form(*tables), tables, direction)
        torch.testing.assert_close(objective.alignment(*tables, *direction), derivative, rtol=1e-10, atol=1e-14)
