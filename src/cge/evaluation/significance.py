"""Whether a difference between two methods is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from cge.errors import InputError

__all__ = ["Interval", "McNemar", "Paired", "mcnemar", "mean_interval", "paired", "share_interval", "stars"]


@dataclass(frozen=True)
class Interval:
    """A mean over runs with its standard deviation (n − 1) and 95 % interval (Student's t); None for a single run."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class Paired:
    """Mean difference of paired runs, and the p-value of Student's paired t-test, two-sided; None where it is not."""

    gain: float
    p: float | None
    runs: int


def share_interval(right: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share: `right` of `of` test nodes.

    >>> [round(bound, 3) for bound in share_interval(850, 1000)]
    [0.827, 0.871]
    """
    if not 0 <= right <= of or of < 1:
        raise InputError(f"a share needs 0 to n right of n ≥ 1, found {right} of {of}")
    z = float(stats.norm.ppf(0.975))
    share = right / of
    middle = (share + z**2 / (2 * of)) / (1 + z**2 / of)
    half = z / (1 + z**2 / of) * np.sqrt(share * (1 - share) / of + z**2 / (4 * of**2))
    return float(middle - half), float(middle + half)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean, deviation and interval of runs.

    >>> mean_interval([0.8, 0.82, 0.84]).mean
    0.82
    """
    if not len(values):
        raise InputError("a mean needs at least one run")
    array = np.asarray(values, float)
    mean = float(array.mean())
    if len(array) == 1:
        return Interval(mean, None, None, None, 1)
    sd = float(array.std(ddof=1))
    half = float(stats.t.ppf(0.975, len(array) - 1)) * sd / np.sqrt(len(array))
    return Interval(mean, sd, mean - half, mean + half, len(array))


def paired(one: Sequence[float], other: Sequence[float]) -> Paired:
    """Compare two methods run by run: entry i of both comes from the same seed or split.

    >>> found = paired([0.82, 0.85, 0.83], [0.80, 0.81, 0.82])
    >>> round(found.gain, 4), round(found.p, 3)
    (0.0233, 0.118)
    """
    if len(one) != len(other):
        raise InputError(f"paired runs must be as many on both sides, found {len(one)} and {len(other)}")
    apart = np.asarray(one, float) - np.asarray(other, float)
    if len(apart) < 2 or np.ptp(apart) < 1e-12:
        return Paired(float(apart.mean()) if len(apart) else 0.0, None, len(apart))
    return Paired(float(apart.mean()), float(stats.ttest_1samp(apart, 0.0).pvalue), len(apart))


@dataclass(frozen=True)
class McNemar:
    """Nodes that only one of two methods has right, and the exact two-sided p-value that both are right as often."""

    only_one: int
    only_other: int
    p: float


def mcnemar(one: Any, other: Any) -> McNemar:
    """Compare two methods node by node: entry i of both says whether node i is right.

    >>> found = mcnemar([True] * 9 + [False], [False] * 9 + [True])
    >>> found.only_one, found.only_other, round(found.p, 4)
    (9, 1, 0.0215)
    """
    mine, theirs = np.asarray(one, bool), np.asarray(other, bool)
    if mine.shape != theirs.shape:
        raise InputError(f"both methods need the same nodes, found {len(mine)} and {len(theirs)}")
    first, second = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    p = float(stats.binomtest(first, first + second).pvalue) if first + second else 1.0
    return McNemar(first, second, p)


def stars(p: float | None) -> str:
    """Return the mark of a p-value in a table: ** below 0.01, * below 0.05."""
    return "" if p is None or p >= 0.05 else "**" if p < 0.01 else "*"
