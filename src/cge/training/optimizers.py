"""SGD, Adam and Adagrad with the results of `torch.optim`, to the bit.

Those of `torch.optim` import PyTorch's compiler when they are made, which takes as long as importing PyTorch itself,
and their bookkeeping takes longer than a step on a small graph. A step with Adam is the same fused operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from cge.arrays import Array
from cge.training.stored_state import arrays_below, finite_array

_ADAM_EPSILON, _ADAGRAD_EPSILON = 1e-8, 1e-10  # as in torch.optim


class Optimizer(ABC):
    """Changes parameters by their gradients; `groups` are lists of parameters, each with its weight decay (L2).

    Parameters without a gradient are left as they are. `states` has the state of each parameter that was changed, by
    its position in all groups.
    """

    def __init__(self, groups: Iterable[tuple[Iterable[Tensor], float]], learning_rate: float) -> None:
        self.groups = [(list(parameters), weight_decay) for parameters, weight_decay in groups]
        self.parameters = [parameter for parameters, _ in self.groups for parameter in parameters]
        self.initial_rate = self.learning_rate = learning_rate
        self.states: dict[int, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step."""
        first = 0
        for parameters, weight_decay in self.groups:
            numbers = [first + number for number, each in enumerate(parameters) if each.grad is not None]
            first += len(parameters)
            for number in numbers:
                if number not in self.states:
                    self.states[number] = self._initial_state(self.parameters[number])
            self._step(numbers, weight_decay)

    @abstractmethod
    def _initial_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the state of a parameter before its first step."""

    @abstractmethod
    def _step(self, numbers: list[int], weight_decay: float) -> None:
        """Take a step of the parameters with these positions, which have a gradient and a state."""

    def _decayed(self, number: int, weight_decay: float) -> tuple[Tensor, Tensor]:
        """Return a parameter and its gradient, weight decay included."""
        parameter: Any = self.parameters[number]
        gradient: Tensor = parameter.grad
        return parameter, gradient.add(parameter, alpha=weight_decay) if weight_decay else gradient

    def arrays(self) -> dict[str, Array]:
        """Return copies of the states, named `position.name`."""
        states = self.states.items()
        return {f"{number}.{name}": each.numpy().copy() for number, state in states for name, each in state.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned."""
        self.states = {}
        for number, parameter in enumerate(self.parameters):
            own = arrays_below(arrays, f"{number}.")
            if own:
                shapes = {name: tuple(each.shape) for name, each in self._initial_state(parameter).items()}
                self.states[number] = {
                    name: torch.from_numpy(finite_array(own, name, shape)) for name, shape in shapes.items()
                }


class SGD(Optimizer):
    """Stochastic gradient descent without momentum."""

    def _initial_state(self, parameter: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {}

    def _step(self, numbers: list[int], weight_decay: float) -> None:
        for number in numbers:
            parameter, gradient = self._decayed(number, weight_decay)
            parameter.add_(gradient, alpha=-self.learning_rate)


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011)."""

    def _initial_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"sum": torch.zeros_like(parameter)}

    def _step(self, numbers: list[int], weight_decay: float) -> None:
        for number in numbers:
            parameter, gradient = self._decayed(number, weight_decay)
            squares = self.states[number]["sum"].addcmul_(gradient, gradient)
            parameter.addcdiv_(gradient, squares.sqrt().add_(_ADAGRAD_EPSILON), value=-self.learning_rate)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015); `betas` are the decay rates of the two moments."""

    def __init__(
        self,
        groups: Iterable[tuple[Iterable[Tensor], float]],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(groups, learning_rate)
        self.betas = betas

    def _initial_state(self, parameter: Tensor) -> dict[str, Tensor]:
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.zeros(()), **moments}

    def _step(self, numbers: list[int], weight_decay: float) -> None:
        if not numbers:
            return
        steps, means, squares = (
            [self.states[number][name] for number in numbers] for name in ("step", "exp_avg", "exp_avg_sq")
        )
        parameters: list[Any] = [self.parameters[number] for number in numbers]
        gradients: list[Any] = [parameter.grad for parameter in parameters]
        for step in steps:
            step += 1
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            steps,
            lr=self.learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=weight_decay,
            eps=_ADAM_EPSILON,
            amsgrad=False,
            maximize=False,
        )


OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adagrad": Adagrad}
