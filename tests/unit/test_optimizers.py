"""Optimizers: bytes of torch.optim, states that continue, and no import of PyTorch's compiler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from cge.errors import InputError
from cge.training.optimizers import OPTIMIZERS, Adam, Optimizer

PEERS: dict[str, Any] = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes: list[tuple[int, ...]] = [(7, 5), (5,), (), (3, 3)]
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


def set_gradients(points: list[torch.Tensor], step: int) -> None:
    """Different ones in every step; the last parameter has none in step 1."""
    random = torch.Generator().manual_seed(step + 1)
    for number, point in enumerate(points):
        gradient = torch.randn(point.shape, generator=random, dtype=point.dtype)
        point.grad = None if (number, step) == (3, 1) else gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_have_the_bytes_of_pytorch(name: str, dtype: torch.dtype) -> None:
    own, theirs = parameters(dtype), parameters(dtype)
    optimizer = OPTIMIZERS[name]([(own[:2], 0.01), (own[2:], 0.0)], 0.1)
    fused = {"fused": True} if name == "adam" else {}
    groups = [{"params": theirs[:2], "weight_decay": 0.01}, {"params": theirs[2:], "weight_decay": 0.0}]
    peer = PEERS[name](groups, lr=0.1, **fused)
    for step in range(5):
        if step == 3:  # the rate may change on the way
            optimizer.learning_rate = 0.03
            for group in peer.param_groups:
                group["lr"] = 0.03
        for points in (own, theirs):
            set_gradients(points, step)
        optimizer.step()
        peer.step()
        for mine, other in zip(own, theirs, strict=True):
            np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())
    assert optimizer.initial_rate == 0.1
    optimizer.zero_grad()
    assert all(point.grad is None for point in own)


def run(optimizer: Optimizer, points: list[torch.Tensor], steps: range) -> None:
    for step in steps:
        set_gradients(points, step)
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_loaded_state_continues_to_the_same_bytes(name: str) -> None:
    whole, stopped = parameters(), parameters()
    run(OPTIMIZERS[name]([(whole, 0.01)], 0.1), whole, range(5))
    first = OPTIMIZERS[name]([(stopped, 0.01)], 0.1)
    run(first, stopped, range(2))
    second = OPTIMIZERS[name]([(stopped, 0.01)], 0.1)
    second.load(first.arrays())
    run(second, stopped, range(2, 5))
    for one_run, two_runs in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(one_run.detach().numpy(), two_runs.detach().numpy())


def test_a_state_of_other_parameters_is_refused() -> None:
    points = parameters()
    optimizer = Adam([(points, 0.0)], 0.1)
    run(optimizer, points, range(1))
    with pytest.raises(InputError, match="exp_avg must have shape"):
        Adam([(points[::-1], 0.0)], 0.1).load(optimizer.arrays())


def test_a_fit_does_not_import_the_compiler_of_pytorch() -> None:
    code = (
        "import sys, cge\n"
        "graph = cge.Graph.from_edges([(i, (i + 1) % 12) for i in range(12)])\n"
        "labels = {i: 'ab'[i > 5] for i in range(12)}\n"
        "for classifier in ('mlp', 'logistic'):\n"
        "    validation = {i: labels[i] for i in range(0, 12, 2)}\n"
        "    train = {i: labels[i] for i in range(1, 12, 2)}\n"
        "    cge.CGE('degree', classifier=classifier, training={'max_epochs': 2}).fit(graph, train, validation)\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    outcome = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "False"
