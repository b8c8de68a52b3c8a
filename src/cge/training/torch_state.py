"""PyTorch modules as arrays by name; seeds and threads of PyTorch; epochs and state of a training."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from cge.arrays import Array
from cge.errors import InputError, Message, Param
from cge.randomness import key
from cge.training.stored_state import TrainerState, arrays_below, finite_array

_LOCK = threading.RLock()  # PyTorch has one generator and one number of threads for all threads of a process


def _new_lock() -> None:
    """Replace the lock in a child process, where no other thread of the parent can release it."""
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


Callback = Callable[[Any], None] | None  # of an epoch
StateCallback = Callable[[Callable[[], TrainerState]], None] | None  # of a function that returns the state


class EpochTrainer(ABC):
    """Runs epochs; keeps the parameters of the best one, and the state from which a later run continues."""

    def __init__(self, epoch_type: type, best: dict[str, Array], max_epochs: int) -> None:
        self._epoch_type, self.best, self.max_epochs = epoch_type, best, max_epochs
        self.epochs: list[Any] = []
        self.best_epoch, self.best_score = 0, (-np.inf, 0.0)  # accuracy, −loss

    @abstractmethod
    def run_epoch(self, number: int) -> None:
        """Run epoch `number` (from 0)."""

    @abstractmethod
    def out_of_patience(self) -> bool:
        """Return whether too many epochs were not better than the best one."""

    @abstractmethod
    def _parts(self) -> dict[str, Any]:
        """Return what training changes, by name: modules, and what has `arrays()` and `load()`."""

    def run(self, stop_after: int | None = None, callback: Callback = None, on_state: StateCallback = None) -> None:
        """Train up to the last epoch, up to epoch `stop_after`, or until patience ends; a later call continues."""
        last = self.max_epochs if stop_after is None else min(stop_after, self.max_epochs)
        with one_thread():
            while len(self.epochs) < last and not self.out_of_patience():
                self.run_epoch(len(self.epochs))
                if on_state is not None:
                    on_state(self.state)
                if callback is not None:
                    callback(self.epochs[-1])

    def state(self) -> TrainerState:
        """Return everything that a later run needs to continue to the same bytes."""
        arrays = {f"best.{name}": array for name, array in self.best.items()}
        for name, part in self._parts().items():
            if isinstance(part, nn.Module):
                arrays |= module_arrays(part, name)
            else:
                arrays |= {f"{name}.{key}": array for key, array in part.arrays().items()}
        arrays["best_score"] = np.array(self.best_score, np.float64)  # −∞ before the first eligible epoch
        return TrainerState({"epochs": [asdict(epoch) for epoch in self.epochs], "best_epoch": self.best_epoch}, arrays)

    def load(self, saved: TrainerState) -> None:
        """Restore what `state` returned."""
        try:
            for name, part in self._parts().items():
                if isinstance(part, nn.Module):
                    load_module(part, name, saved.arrays)
                else:
                    part.load(arrays_below(saved.arrays, f"{name}."))
            best = arrays_below(saved.arrays, "best.")
            if set(best) != set(self.best):
                raise ValueError("the best epoch is missing")
            self.epochs = [self._epoch_type(**row) for row in saved.metadata["epochs"]]
            self.best, self.best_epoch = best, int(saved.metadata["best_epoch"])
            score, negative_loss = saved.arrays["best_score"].tolist()
            self.best_score = (score, negative_loss)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"the saved state does not belong to this training: {error}") from error


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which PyTorch uses one thread: the rounding of sums depends on the number of threads.

    Other threads of the process wait, here and in `seeded`, so that fits in several threads do not affect each other.
    """
    with _LOCK:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def seeded(seed: int, *names: str | int) -> Iterator[None]:
    """Context in which PyTorch's global generator is seeded; its state is restored afterwards."""
    with _LOCK, torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(key(seed, *names) >> np.uint64(1)))
        yield


def module_arrays(module: nn.Module, name: str) -> dict[str, Array]:
    """Return copies of a module's parameters and buffers, named `name.parameter`."""
    return {f"{name}.{part}": value.detach().numpy().copy() for part, value in module.state_dict().items()}


def load_module(module: nn.Module, name: str, arrays: Mapping[str, Array]) -> None:
    """Load a module's parameters and buffers from the result of `module_arrays`."""
    with torch.no_grad():
        for part, value in module.state_dict().items():
            value.copy_(torch.from_numpy(finite_array(arrays, f"{name}.{part}", tuple(value.shape))))


def check_finite(value: float | Array, problem: str, parameter: str, now: float) -> None:
    """Raise an error if a training has overflowed; a tenth of `parameter`, which is `now`, may help."""
    if not np.isfinite(value).all():
        hint = Message("try a tenth of ", Param(parameter), f" (now {now:g})")
        raise InputError(problem, parameter=parameter, hint=hint)
