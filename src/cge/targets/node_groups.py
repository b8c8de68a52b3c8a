"""Groups of nodes that charts show in different colors: the classes, or ranges of values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cge.arrays import Array

MAX_RANGES = 5


@dataclass(frozen=True)
class ClassGroups:
    """A group for each class; `names` are the classes as text."""

    names: list[str]

    def of_labels(self, matrix: Array) -> Array:
        """Return to which groups labels `(k, c)` belong, `(k, g)` of zeros and ones."""
        return np.asarray(matrix, np.int64)

    def of_outputs(self, outputs: Array) -> Array:
        """Return the group of outputs `(k, c)`, `(k,)`: the most probable class."""
        return np.asarray(outputs.argmax(1))

    def of_predictions(self, outputs: Array, indicators: Array) -> Array:  # noqa: ARG002 - for values
        """Return all groups of the predictions of outputs, `(k, g)` of True and False; `indicators` are the classes."""
        return indicators

    def texts(self, matrix: Array) -> list[str] | None:  # noqa: ARG002 - for values
        """Return labels or outputs as text, None where the names of their groups say it."""
        return None


@dataclass(frozen=True, eq=False)
class ValueGroups(ClassGroups):
    """Ranges of values with about as many known labels each; `bounds` are between them."""

    bounds: Array

    @classmethod
    def of_values(cls, values: Array) -> ValueGroups:
        """Return the ranges between the quantiles of `values (k,)`."""
        quantiles = np.linspace(0, 1, MAX_RANGES + 1)[1:-1]
        bounds = np.unique(np.quantile(values, quantiles)) if len(values) else np.empty(0)
        texts = [_text(bound) for bound in bounds.tolist()]
        if not texts:
            return cls(["all values"], bounds)
        between = [f"{low} to {high}" for low, high in pairwise(texts)]
        return cls([f"below {texts[0]}", *between, f"from {texts[-1]}"], bounds)

    def of_labels(self, matrix: Array) -> Array:
        """Return in which range the values `(k, 1)` are, `(k, g)` of zeros and ones."""
        return np.asarray(np.eye(len(self.names), dtype=np.int64)[self.of_outputs(matrix)])

    def of_outputs(self, outputs: Array) -> Array:
        """Return the range of the values `(k, 1)`, `(k,)`."""
        return np.searchsorted(self.bounds, outputs[:, 0], side="right")

    def of_predictions(self, outputs: Array, indicators: Array) -> Array:  # noqa: ARG002
        """Return the range of the values `(k, 1)`."""
        return self.of_labels(outputs) > 0

    def texts(self, matrix: Array) -> list[str] | None:
        """Return values `(k, 1)` as text, "" where unknown."""
        return ["" if np.isnan(value) else _text(value) for value in matrix[:, 0].tolist()]


def _text(value: Any) -> str:
    return f"{value:.4g}".replace("-", "−")
