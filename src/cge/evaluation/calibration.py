"""Chances that mean what they say: of nodes given 80 %, about 80 % are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Reliability",
    "class_prior_ratio",
    "fit_temperature",
    "log_loss",
    "log_losses",
    "reliability",
    "scale_probabilities",
]

Array = npt.NDArray[Any]

_HEATS = 5.0 ** (np.arange(-97, 41) / 40)


def scale_probabilities(probabilities: Array, temperature: float | Array, several: bool = False) -> Array:
    """Return chances `(n, c)` made less certain (heat above 1) or more: in proportion to p^(1 / heat).

    The heat is that of all, or `(n,)`. With `several` a node may have several classes, and each chance stands against
    its own "no".

    >>> scale_probabilities(np.array([[0.9, 0.1]]), 2.0).round(2).tolist()  # √9 to 1
    [[0.75, 0.25]]
    """
    if np.all(temperature == 1.0):
        return probabilities
    exponent = 1 / np.reshape(temperature, (-1, 1))
    power = np.maximum(probabilities, 1e-12) ** exponent
    rest = np.maximum(1 - probabilities, 1e-12) ** exponent + power if several else power.sum(axis=1, keepdims=True)
    found: Array = power / rest
    return found


def log_losses(probabilities: Array, labels: Array) -> Array:
    """Return −log of the chance given to what is so: `labels (n,)`, or `(n, c)` of zeros and ones."""
    right = (
        probabilities[np.arange(len(labels)), labels]
        if labels.ndim == 1
        else np.where(labels > 0, probabilities, 1 - probabilities)
    )
    found: Array = -np.log(np.maximum(right, 1e-12))
    return found


def log_loss(probabilities: Array, labels: Array) -> float:
    """Return the mean of `log_losses`."""
    return float(log_losses(probabilities, labels).mean())


def fit_temperature(probabilities: Array, labels: Array) -> float:
    """Return the heat, between 0.02 and 5, at which labels surprise least; few labels move it little from 1."""
    found = np.array(
        [log_loss(scale_probabilities(probabilities, temperature, labels.ndim == 2), labels) for temperature in _HEATS]
    )
    doubt = 2 * np.log(_HEATS) ** 2 / len(labels)
    return float(_HEATS[int(np.argmin(found + doubt))])


def class_prior_ratio(labels: Array, trained: Array) -> tuple[Array, Array]:
    """Return how much commoner each class is among `labels (k,)` than among `trained (c,)` labels, as logarithms.

    The second, `(k, c)`, leaves each label itself out: what the others say before it is asked. A class counts one
    label more than it has, so that none is impossible.

    >>> whole, others = class_prior_ratio(np.array([0, 0, 0, 1]), np.array([2, 2]))
    >>> np.exp(whole).round(2).tolist(), np.exp(others[3]).round(2).tolist()
    ([1.33, 0.67], [1.6, 0.4])
    """
    counts, classes = np.bincount(labels, minlength=len(trained)), len(trained)

    def shares(counts: Array) -> Array:
        found: Array = np.log((counts + 1) / (counts.sum(axis=-1, keepdims=True) + classes))
        return found

    before = shares(trained)
    return shares(counts) - before, shares(counts - np.eye(classes)[labels]) - before


@dataclass(frozen=True, eq=False)
class Reliability:
    """Chances beside how often they came true, by bins that hold any: `chance`, `share` and `count`, `(b,)` each.

    `error` is the expected calibration error: the mean distance between the two (Naeini et al. 2015).
    """

    chance: Array
    share: Array
    count: Array
    error: float


def reliability(probabilities: Array, labels: Array, bins: int = 10) -> Reliability:
    """Say how far chances `(n, c)` can be trusted; `labels (n,)`, or `(n, c)` of zeros and ones.

    With one label per node, the largest chance and whether its class is right; with several, each chance and whether
    the node has that class.

    >>> found = reliability(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]))
    >>> found.share.tolist(), round(found.error, 2)
    ([0.0, 1.0], 0.4)
    """
    told = probabilities.max(axis=1) if labels.ndim == 1 else probabilities.ravel()
    true = probabilities.argmax(axis=1) == labels if labels.ndim == 1 else labels.ravel() > 0
    place = np.minimum((told.astype(np.float64) * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    there = np.flatnonzero(count)
    chance, share = (np.bincount(place, one, minlength=bins)[there] / count[there] for one in (told, true))
    error = float(np.abs(chance - share) @ count[there] / max(count.sum(), 1))
    return Reliability(chance, share, count[there], error)
