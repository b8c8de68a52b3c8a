"""95 % confidence intervals of the scores of a model on labeled nodes, and of the difference of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cge.errors import InputError
from cge.metrics import r2_score
from cge.randomness import generator

_DRAWS = 1000  # bootstrap samples of nodes


def wilson_interval(correct: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of an accuracy: `correct` of `n` test nodes."""
    if not 0 <= correct <= n or n < 1:
        raise InputError(f"an accuracy needs 0 to n correct of n ≥ 1, found {correct} of {n}")
    z = _normal_quantile()
    accuracy = correct / n
    center = (accuracy + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2))
    return float(center - half), float(center + half)


def f1_interval(predicted: Any, labels: Any, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval over nodes of micro-F1; both `(n, c)` of zeros and ones."""
    positive, true = np.asarray(predicted) > 0, np.asarray(labels) > 0
    sums = np.stack([2 * (positive & true).sum(1), positive.sum(1) + true.sum(1)], axis=1)

    def score(nodes: Any) -> float:
        hits, total = sums[nodes].sum(0)
        return float(hits / max(total, 1))

    return _bootstrap(score, len(sums), seed, "f1 interval")


def r2_interval(predicted: Any, labels: Any, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval over nodes of R²; both `(n,)`."""
    return _bootstrap(lambda nodes: r2_score(predicted[nodes], labels[nodes]), len(labels), seed, "r2 interval")


def _bootstrap(score: Callable[[Any], float], size: int, seed: int, name: str) -> tuple[float, float]:
    """Return the 95 % quantiles of a score of nodes drawn with replacement; a draw without a score is left out."""
    random = generator(seed, name)
    scores = [score(random.integers(0, size, size)) for _ in range(_DRAWS)]
    low, high = np.nanquantile(scores, [0.025, 0.975]) if np.isfinite(scores).any() else (np.nan, np.nan)
    return float(low), float(high)


def accuracy_difference_interval(mean: float, error: float, n: int) -> tuple[float, float]:
    """Return the interval of the difference of two accuracies on the same `n` nodes, from its standard error.

    That of Agresti and Min (2005, https://doi.org/10.1002/sim.1781) for proportions of the same nodes: a half is added
    to each of the four counts of nodes that both, one, the other or neither predicts correctly, so it has a width even
    where both are correct on the same nodes.
    """
    # Differences are 1, −1 and 0. The halves add 0 to their sum, 1 to the sum of squares, 2 to the nodes.
    total, nodes = n * mean, n + 2
    squares = n * (n - 1) * error**2 + n * mean**2 + 1
    half = _normal_quantile() * np.sqrt(max(squares - total**2 / nodes, 0.0)) / nodes
    return float(max(total / nodes - half, -1.0)), float(min(total / nodes + half, 1.0))


def normal_interval(mean: float, error: float) -> tuple[float, float]:
    """Return the interval of a mean with a standard error, for a normal distribution."""
    half = _normal_quantile() * error
    return float(mean - half), float(mean + half)


def _normal_quantile() -> float:
    from scipy.special import ndtri

    return float(ndtri(0.975))
