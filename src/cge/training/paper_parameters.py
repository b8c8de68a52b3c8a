"""What is learned: source vectors w, the encoder of target vectors e, the head θ, and the weighting network w_A."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cge.errors import InputError
from cge.models import FeatureEncoder, InductiveHead, PathWeighting, TableEncoder, TransductiveHead, make_weighting
from cge.models.sparse_products import NodeFeatures, take_rows
from cge.randomness import generator, key

__all__ = [
    "Parameters",
    "Shape",
    "load_module",
    "load_optimizer",
    "make_head",
    "make_optimizer",
    "module_arrays",
    "one_thread",
    "optimizer_arrays",
    "seeded",
]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Shape:
    """Which parts there are and how large they are; `features` is 0 where nodes have none."""

    encoder: str
    weighting: str | Callable[[int], PathWeighting]
    nodes: int
    features: int
    classes: int
    dim: int
    hidden: int


class Parameters:
    """The parts of a model. `sources (n, dim)` float32 is trained in place by kernels, the modules by PyTorch."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape = shape
        random = generator(seed, "sources")
        self.sources = (random.random((shape.nodes, shape.dim), np.float32) - np.float32(0.5)) / np.float32(shape.dim)
        with seeded(seed, "parameters"):
            self.encoder: Any = (
                TableEncoder(shape.nodes, shape.dim)
                if shape.encoder == "table"
                else FeatureEncoder(shape.features, shape.dim)
            )
            self.head: Any = make_head(shape)
            self.network = make_weighting(shape.weighting, shape.dim)
            if self.network is not None:
                self.network.eval()  # trains only in the outer problem

    def vectors(self, features: NodeFeatures | None, nodes: Tensor | None = None) -> Tensor:
        """Return e of all nodes or some, `(n, dim)`, without recording gradients."""
        with torch.no_grad():
            found: Tensor = self.encoder(features, nodes).detach()
            return found

    def scores(self, features: NodeFeatures | None, nodes: Tensor) -> Tensor:
        """Return the class scores of nodes, `(k, classes)`."""
        with torch.no_grad():
            x = None if features is None else take_rows(features, nodes)
            found: Tensor = self.head(x, self.vectors(features, nodes))
            return found

    def arrays(self) -> dict[str, Array]:
        """Return copies of all parameters by name."""
        found = {"sources": self.sources.copy()}
        for name, module in self._modules():
            found |= module_arrays(module, name)
        return found

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take parameters over; names and shapes must be those that `arrays` gives."""
        unknown = sorted(set(arrays) - set(self.arrays()))
        if unknown:
            raise InputError(f"the parameters {unknown[0]} belong to no part of this model")
        fitting(arrays, "sources", self.sources.shape)
        self.sources = np.array(arrays["sources"], np.float32)
        for name, module in self._modules():
            load_module(module, name, arrays)

    def _modules(self) -> Iterable[tuple[str, nn.Module]]:
        named = (("encoder", self.encoder), ("head", self.head), ("network", self.network))
        return [(name, module) for name, module in named if module is not None]


def make_head(shape: Shape) -> Any:
    """Return an untrained head of Eq. 8 (encoder "table") or Eq. 10 ("features")."""
    if shape.encoder == "table":
        return TransductiveHead(shape.features, shape.dim, shape.classes, shape.hidden)
    return InductiveHead(shape.features, shape.dim, shape.classes)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, PyTorch uses one thread: sums of several depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class seeded:  # noqa: N801 - reads as a word
    """Within it, PyTorch's own random numbers follow from a seed; afterwards they go on as before."""

    def __init__(self, seed: int, *names: str | int) -> None:
        self.number = int(key(seed, *names) >> np.uint64(1))

    def __enter__(self) -> None:
        self._before = torch.random.get_rng_state()
        torch.manual_seed(self.number)

    def __exit__(self, *_: object) -> None:
        torch.random.set_rng_state(self._before)


def module_arrays(module: nn.Module, name: str) -> dict[str, Array]:
    """Return copies of a module's parameters and buffers, called `name.parameter`."""
    return {f"{name}.{part}": value.detach().numpy().copy() for part, value in module.state_dict().items()}


def load_module(module: nn.Module, name: str, arrays: Mapping[str, Array]) -> None:
    """Take a module's parameters and buffers over from what `module_arrays` gave."""
    with torch.no_grad():
        for part, value in module.state_dict().items():
            fitting(arrays, f"{name}.{part}", tuple(value.shape))
            value.copy_(torch.tensor(arrays[f"{name}.{part}"]))


def fitting(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> None:
    """Refuse a missing array or one of another shape."""
    if name not in arrays:
        raise InputError(f"the parameters {name} are missing")
    if arrays[name].shape != shape:
        raise InputError(f"the parameters {name} must have shape {shape}, found {arrays[name].shape}")


def make_optimizer(
    kind: str, parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Return the optimizer called "sgd" (as in the paper), "adam" or "adagrad"."""
    if kind == "adam":
        return torch.optim.Adam(list(parameters), rate, weight_decay=weight_decay, fused=True)
    kinds: dict[str, Any] = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
    made: torch.optim.Optimizer = kinds[kind](list(parameters), lr=rate, weight_decay=weight_decay)
    return made


def optimizer_arrays(optimizer: torch.optim.Optimizer, name: str) -> dict[str, Array]:
    """Return copies of what an optimizer remembers, called `name.parameter.part`."""
    found: dict[str, Array] = {}
    for place, values in optimizer.state_dict()["state"].items():
        kept = {part: value for part, value in values.items() if value is not None}
        found |= {f"{name}.{place}.{part}": torch.as_tensor(value).numpy().copy() for part, value in kept.items()}
    return found


def load_optimizer(optimizer: torch.optim.Optimizer, name: str, arrays: Mapping[str, Array]) -> None:
    """Take over what `optimizer_arrays` gave."""
    given: dict[int, dict[str, Any]] = {}
    for full, array in arrays.items():
        if full.startswith(f"{name}."):
            number, part = full.removeprefix(f"{name}.").split(".")
            given.setdefault(int(number), {})[part] = torch.tensor(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": given})
