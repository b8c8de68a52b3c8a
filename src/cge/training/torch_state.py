"""PyTorch modules and optimizers as arrays by name; seeds and threads of PyTorch; the state of a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.errors import InputError
from cge.randomness import key


@dataclass(frozen=True, eq=False)
class TrainerState:
    """The state of a training after an epoch, from which it continues to the same bytes."""

    metadata: dict[str, Any]
    arrays: Mapping[str, Array]


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which PyTorch uses one thread: the rounding of sums depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class seeded:  # noqa: N801 - a context manager
    """Context in which PyTorch's global generator is seeded; its state is restored afterwards."""

    def __init__(self, seed: int, *names: str | int) -> None:
        self.number = int(key(seed, *names) >> np.uint64(1))

    def __enter__(self) -> None:
        self._before = torch.random.get_rng_state()
        torch.manual_seed(self.number)

    def __exit__(self, *_: object) -> None:
        torch.random.set_rng_state(self._before)


def module_arrays(module: nn.Module, name: str) -> dict[str, Array]:
    """Return copies of a module's parameters and buffers, named `name.parameter`."""
    return {f"{name}.{part}": value.detach().numpy().copy() for part, value in module.state_dict().items()}


def load_module(module: nn.Module, name: str, arrays: Mapping[str, Array]) -> None:
    """Load a module's parameters and buffers from the result of `module_arrays`."""
    with torch.no_grad():
        for part, value in module.state_dict().items():
            check_array(arrays, f"{name}.{part}", tuple(value.shape))
            value.copy_(torch.tensor(arrays[f"{name}.{part}"]))


def check_array(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> None:
    """Raise an error if an array is missing or has another shape."""
    if name not in arrays:
        raise InputError(f"the parameters {name} are missing")
    if arrays[name].shape != shape:
        raise InputError(f"the parameters {name} must have shape {shape}, found {arrays[name].shape}")


def make_optimizer(
    kind: str, parameters: Iterable[Tensor], learning_rate: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Return an optimizer: "sgd" (as in the paper), "adam" or "adagrad"."""
    if kind == "adam":
        return torch.optim.Adam(list(parameters), learning_rate, weight_decay=weight_decay, fused=True)
    kinds: dict[str, Any] = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
    optimizer: torch.optim.Optimizer = kinds[kind](list(parameters), lr=learning_rate, weight_decay=weight_decay)
    return optimizer


def optimizer_arrays(optimizer: torch.optim.Optimizer, name: str) -> dict[str, Array]:
    """Return copies of the state of an optimizer, named `name.parameter.key`."""
    arrays: dict[str, Array] = {}
    for number, state in optimizer.state_dict()["state"].items():
        present = {key: value for key, value in state.items() if value is not None}
        arrays |= {f"{name}.{number}.{key}": torch.as_tensor(value).numpy().copy() for key, value in present.items()}
    return arrays


def load_optimizer(optimizer: torch.optim.Optimizer, name: str, arrays: Mapping[str, Array]) -> None:
    """Load the result of `optimizer_arrays`."""
    state: dict[int, dict[str, Any]] = {}
    for full, array in arrays.items():
        if full.startswith(f"{name}."):
            number, part = full.removeprefix(f"{name}.").split(".")
            state.setdefault(int(number), {})[part] = torch.tensor(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
