"""Chances that mean what they say: of nodes given 80 %, about 80 % are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Reliability", "best_heat", "heated", "reliability", "surprise"]

Array = npt.NDArray[Any]

_HEATS = np.exp(np.linspace(np.log(0.2), np.log(5.0), 81))


def heated(chances: Array, heat: float, several: bool = False) -> Array:
    """Return chances `(n, c)` made less certain (heat above 1) or more: in proportion to p^(1 / heat).

    With `several` a node may have several classes, and each chance stands against its own "no".

    >>> heated(np.array([[0.9, 0.1]]), 2.0).round(2).tolist()  # √9 to 1
    [[0.75, 0.25]]
    """
    if heat == 1.0:
        return chances
    power = np.maximum(chances, 1e-12) ** (1 / heat)
    rest = np.maximum(1 - chances, 1e-12) ** (1 / heat) + power if several else power.sum(axis=1, keepdims=True)
    found: Array = power / rest
    return found


def surprise(chances: Array, labels: Array) -> float:
    """Return the mean of −log of the chance given to what is so; `labels (n,)`, or `(n, c)` of zeros and ones."""
    right = chances[np.arange(len(labels)), labels] if labels.ndim == 1 else np.where(labels > 0, chances, 1 - chances)
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def best_heat(chances: Array, labels: Array) -> float:
    """Return the heat, between 0.2 and 5, at which labels surprise least; few labels move it little from 1."""
    surprises = np.array([surprise(heated(chances, heat, labels.ndim == 2), labels) for heat in _HEATS])
    doubt = 2 * np.log(_HEATS) ** 2 / len(labels)
    return float(_HEATS[int(np.argmin(surprises + doubt))])


@dataclass(frozen=True, eq=False)
class Reliability:
    """Chances beside how often they came true, by bins that hold any: `chance`, `share` and `count`, `(b,)` each.

    `error` is the expected calibration error: the mean distance between the two (Naeini et al. 2015).
    """

    chance: Array
    share: Array
    count: Array
    error: float


def reliability(chances: Array, labels: Array, bins: int = 10) -> Reliability:
    """Say how far chances `(n, c)` can be trusted; `labels (n,)`, or `(n, c)` of zeros and ones.

    With one label per node, the largest chance and whether its class is right; with several, each chance and whether
    the node has that class.

    >>> found = reliability(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]))
    >>> found.share.tolist(), round(found.error, 2)
    ([0.0, 1.0], 0.4)
    """
    told = chances.max(axis=1) if labels.ndim == 1 else chances.ravel()
    true = chances.argmax(axis=1) == labels if labels.ndim == 1 else labels.ravel() > 0
    place = np.minimum((told.astype(np.float64) * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    there = np.flatnonzero(count)
    chance, share = (np.bincount(place, one, minlength=bins)[there] / count[there] for one in (told, true))
    error = float(np.abs(chance - share) @ count[there] / max(count.sum(), 1))
    return Reliability(chance, share, count[there], error)
