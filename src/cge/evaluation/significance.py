"""Confidence intervals of means over runs, and tests of the difference between two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from cge.errors import InputError


@dataclass(frozen=True)
class Interval:
    """Mean over runs, standard deviation (n − 1) and 95 % confidence interval (Student's t); None for a single run."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class PairedTest:
    """Mean difference of paired runs, and the two-sided p-value of Student's paired t-test; None where undefined."""

    gain: float
    p: float | None
    runs: int


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean, standard deviation and 95 % confidence interval of runs."""
    if not len(values):
        raise InputError("a mean needs at least one run")
    array = np.asarray(values, float)
    mean = float(array.mean())
    if len(array) == 1:
        return Interval(mean, None, None, None, 1)
    sd = float(array.std(ddof=1))
    half = float(stats.t.ppf(0.975, len(array) - 1)) * sd / np.sqrt(len(array))
    return Interval(mean, sd, mean - half, mean + half, len(array))


def paired_t_test(first: Sequence[float], second: Sequence[float], overlap: float = 0.0) -> PairedTest:
    """Compare two methods run by run: entry i of both comes from the same seed or split.

    Results on splits of the same nodes are correlated; `overlap`, the number of test nodes over that of training
    nodes, corrects for it (the corrected resampled t-test of Nadeau and Bengio 2003).
    """
    if len(first) != len(second):
        raise InputError(f"both methods need the same number of runs, found {len(first)} and {len(second)}")
    gains = np.asarray(first, float) - np.asarray(second, float)
    n = len(gains)
    if n < 2 or np.ptp(gains) < 1e-12:
        return PairedTest(float(gains.mean()) if n else 0.0, None, n)
    mean, error = float(gains.mean()), float(gains.std(ddof=1)) * np.sqrt(1 / n + overlap)
    return PairedTest(mean, float(2 * stats.t.sf(abs(mean) / error, n - 1)), n)


@dataclass(frozen=True)
class McNemar:
    """Nodes that only one of two methods predicts correctly, and the exact two-sided p-value of equal accuracy."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: Any, second: Any) -> McNemar:
    """Compare two methods node by node: entry i of both says whether node i is predicted correctly."""
    correct, other = np.asarray(first, bool), np.asarray(second, bool)
    if correct.shape != other.shape:
        raise InputError(f"both methods need the same nodes, found {len(correct)} and {len(other)}")
    only_first, only_second = int((correct & ~other).sum()), int((other & ~correct).sum())
    different = only_first + only_second
    p = float(stats.binomtest(only_first, different).pvalue) if different else 1.0
    return McNemar(only_first, only_second, p)


def stars(p: float | None) -> str:
    """Return the mark of a p-value in a table: ** below 0.01, * below 0.05."""
    return "" if p is None or p >= 0.05 else "**" if p < 0.01 else "*"


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected by Holm's method for the number of tests; None stays None and is not counted.

    The i-th smallest of m p-values is multiplied by m − i + 1, and none may be smaller than one before it.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        corrected[index] = largest
    return corrected
