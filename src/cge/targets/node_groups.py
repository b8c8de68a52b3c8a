"""Groups of nodes that charts show in different colors: the classes, or ranges of values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cge.arrays import Array

MAX_RANGES = 5
_MIN_DIGITS, _MAX_DIGITS = 4, 17  # significant digits of values; with 17 every float64 has a text of its own


@dataclass(frozen=True, eq=False)
class NodeGroups(ABC):
    """Groups with `names`, by their number."""

    names: list[str]

    @abstractmethod
    def of_labels(self, matrix: Array) -> Array:
        """Return to which groups labels `(k, c)` belong, `(k, g)` of zeros and ones."""

    @abstractmethod
    def of_outputs(self, outputs: Array) -> Array:
        """Return the group of outputs `(k, c)`, `(k,)`; of several classes the most probable."""

    @abstractmethod
    def of_predictions(self, outputs: Array, indicators: Array) -> Array:
        """Return all groups of the predictions of outputs, `(k, g)` of True and False; `indicators` are the classes."""

    @abstractmethod
    def texts(self, matrix: Array) -> list[str] | None:
        """Return labels or outputs as text, None where the names of their groups say it."""


class ClassGroups(NodeGroups):
    """A group for each class; `names` are the classes as text."""

    def of_labels(self, matrix: Array) -> Array:
        """Return zeros and ones."""
        return np.asarray(matrix, np.int64)

    def of_outputs(self, outputs: Array) -> Array:
        """Return the most probable class."""
        return np.asarray(outputs.argmax(1))

    def of_predictions(self, outputs: Array, indicators: Array) -> Array:  # noqa: ARG002 - for values
        """Return the predicted classes."""
        return indicators

    def texts(self, matrix: Array) -> list[str] | None:  # noqa: ARG002 - for values
        """Return None."""
        return None


@dataclass(frozen=True, eq=False)
class ValueGroups(NodeGroups):
    """Ranges of values; `bounds` are between them, and texts of values have as many `digits` as those of bounds."""

    bounds: Array
    digits: int

    @classmethod
    def of_values(cls, values: Array) -> ValueGroups:
        """Return ranges with about as many of the `values (k,)` each, none of them empty: between their quantiles."""
        quantiles = np.linspace(0, 1, MAX_RANGES + 1)[1:-1]
        bounds = np.unique(np.quantile(values, quantiles)) if len(values) else np.empty(0)
        bounds = bounds[np.unique(np.searchsorted(bounds, values, side="right"))[1:] - 1]  # below each but the first
        digits = _digits_to_distinguish(bounds)
        texts = [_text(bound, digits) for bound in bounds.tolist()]
        if not texts:
            return cls(["all values"], bounds, digits)
        between = [f"{low} to {high}" for low, high in pairwise(texts)]
        return cls([f"below {texts[0]}", *between, f"from {texts[-1]}"], bounds, digits)

    def of_labels(self, matrix: Array) -> Array:
        """Return in which range the values `(k, 1)` are."""
        return np.asarray(np.eye(len(self.names), dtype=np.int64)[self.of_outputs(matrix)])

    def of_outputs(self, outputs: Array) -> Array:
        """Return the range of the values `(k, 1)`."""
        return np.searchsorted(self.bounds, outputs[:, 0], side="right")

    def of_predictions(self, outputs: Array, indicators: Array) -> Array:  # noqa: ARG002
        """Return the range of the values `(k, 1)`."""
        return self.of_labels(outputs) > 0

    def texts(self, matrix: Array) -> list[str] | None:
        """Return values `(k, 1)` as text, "" where unknown."""
        return ["" if np.isnan(value) else _text(value, self.digits) for value in matrix[:, 0].tolist()]


def _digits_to_distinguish(values: Array) -> int:
    """Return with how many significant digits the texts of different values differ."""
    numbers = values.tolist()
    for digits in range(_MIN_DIGITS, _MAX_DIGITS):
        if len({_text(number, digits) for number in numbers}) == len(numbers):
            return digits
    return _MAX_DIGITS


def _text(value: float, digits: int) -> str:
    return f"{value:.{digits}g}".replace("-", "−")
