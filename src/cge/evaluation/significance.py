"""Whether a difference between two methods is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from cge.errors import InputError
from cge.randomness import generator

__all__ = [
    "Interval",
    "McNemar",
    "Paired",
    "f1_interval",
    "mcnemar",
    "mean_interval",
    "paired",
    "share_interval",
    "stars",
]

_DRAWS = 1000  # of nodes, with replacement


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


def f1_interval(told: Any, true: Any, seed: int = 0) -> tuple[float, float]:
    """Return a 95 % interval of micro-F1 over nodes that are drawn anew; both `(n, c)` of zeros and ones.

    >>> f1_interval(np.eye(3), np.eye(3))
    (1.0, 1.0)
    """
    mine, theirs = np.asarray(told) > 0, np.asarray(true) > 0
    sums = np.stack([2 * (mine & theirs).sum(1), mine.sum(1) + theirs.sum(1)], axis=1)
    random, scores = generator(seed, "f1 interval"), []
    for _ in range(_DRAWS):
        hits, all_of = sums[random.integers(0, len(sums), len(sums))].sum(0)
        scores.append(hits / max(all_of, 1))
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)


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


def paired(one: Sequence[float], other: Sequence[float], overlap: float = 0.0) -> Paired:
    """Compare two methods run by run: entry i of both comes from the same seed or split.

    Splits of the same nodes overlap, so that their results are alike; `overlap`, the number of test nodes over that of
    training nodes, makes up for it (the corrected resampled t-test of Nadeau and Bengio 2003).

    >>> found = paired([0.82, 0.85, 0.83], [0.80, 0.81, 0.82])
    >>> round(found.gain, 4), round(found.p, 3)
    (0.0233, 0.118)
    """
    if len(one) != len(other):
        raise InputError(f"paired runs must be as many on both sides, found {len(one)} and {len(other)}")
    apart = np.asarray(one, float) - np.asarray(other, float)
    if len(apart) < 2 or np.ptp(apart) < 1e-12:
        return Paired(float(apart.mean()) if len(apart) else 0.0, None, len(apart))
    error = float(apart.std(ddof=1)) * np.sqrt(1 / len(apart) + overlap)
    return Paired(float(apart.mean()), float(2 * stats.t.sf(abs(apart.mean()) / error, len(apart) - 1)), len(apart))


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
