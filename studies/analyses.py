"""The paper's five analyses of path weights: arrays in, arrays out.

Paths come as in `cge.sampling.PathBatch`: `nodes (b, window)` padded with −1 and `length (b,)`; `weights (b,)` are
their A. Where paths are distinct, `counts (b,)` are their numbers of occurrences in the walks: a path that was sampled
twice counts twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import InputError
from cge.sampling import PathBatch

__all__ = [
    "Distribution",
    "GroupMeans",
    "Relevance",
    "Trend",
    "against_diversity",
    "against_length",
    "class_relevance",
    "correlation",
    "distribution",
    "group_means",
    "path_relevance",
    "visits",
]

Array = npt.NDArray[Any]

_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_SAME = 1e-6  # relative difference due to rounding in 32 bits
_MIN_POINTS = 3  # of a correlation: two always lie on a line


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of weights: shares of paths in bins, and summary statistics.

    Attributes
    ----------
    edges : (bins + 1,) float64
        From 0 to 1.
    shares : (bins,) float64
        Shares of the paths; they add up to 1.
    mean, sd : float
    quantiles : {share: weight}
        The smallest weight that this share of the paths does not exceed.
    effective : float
        (ΣA)²/ΣA² as a share of the paths: 1 for uniform weights.
    """

    edges: Array
    shares: Array
    mean: float
    sd: float
    quantiles: dict[float, float]
    effective: float


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Mean weight (g,) of each group of paths, NaN where it is empty, and the number of its paths (g,)."""

    means: Array
    paths: Array


@dataclass(frozen=True)
class Relevance:
    """Mean weights of paths by the labels on them, NaN where there are none, and the number of paths of each kind.

    `with_label` have a node with a training label, `without_label` have none. Nodes whose labels were masked at random
    are the control: `seen` have a node with a training label and none with a masked label, `masked` the reverse,
    `neither` none of both.
    """

    with_label: float
    without_label: float
    seen: float
    masked: float
    neither: float
    paths: dict[str, int]


@dataclass(frozen=True, eq=False)
class Trend:
    """Weight against a property of paths.

    Attributes
    ----------
    values, means, paths : (g,)
        Each value that the property has, the mean weight of such paths, and their number.
    r : float or None
        Pearson's r of values and means, as in the paper's figures. None below three values, and where all means are
        the same.
    r_paths : float or None
        Pearson's r over single paths; it is smaller, because weights vary around the means.
    r_within : float or None
        The same within lengths: both sides minus their means at that length. None for the length itself.
    """

    values: Array
    means: Array
    paths: Array
    r: float | None
    r_paths: float | None
    r_within: float | None = None


def distribution(weights: Array, counts: Array | None = None, bins: int = 50) -> Distribution:
    """Return the distribution of weights in [0, 1] over paths.

    >>> summary = distribution(np.array([0.25, 0.25, 0.75, 1.0]), bins=2)
    >>> summary.shares.tolist(), summary.mean, summary.quantiles[0.5]
    ([0.5, 0.5], 0.5625, 0.25)
    """
    weights, counts = _checked(weights, counts)
    if weights.min() < 0 or weights.max() > 1:
        raise InputError(f"weights must be from 0 to 1, found {weights.min():g} to {weights.max():g}")
    shares, edges = np.histogram(weights, bins, (0.0, 1.0), weights=counts / counts.sum())
    mean, mean_square = np.average(weights, weights=counts), np.average(weights**2, weights=counts)
    order = np.argsort(weights, kind="stable")
    reached = np.cumsum(counts[order])
    places = np.searchsorted(reached, np.array(_QUANTILES) * reached[-1] * (1 - 1e-12))
    quantiles = dict(zip(_QUANTILES, weights[order][places].tolist(), strict=True))
    sd = float(np.sqrt(np.average((weights - mean) ** 2, weights=counts)))
    effective = float(mean**2 / mean_square) if mean_square > 0 else 1.0
    return Distribution(edges, shares, float(mean), sd, quantiles, effective)


def visits(nodes: Array, marked: Array) -> Array:
    """Return whether paths, `nodes (b, window)`, have at least one node of the mask `marked (n,)`, `(b,)`.

    >>> visits(np.array([[0, 1], [2, -1]]), np.array([True, False, False])).tolist()
    [True, False]
    """
    return np.asarray(np.append(np.asarray(marked, bool), False)[nodes].any(axis=1))  # −1 selects the False at the end


def group_means(weights: Array, member: Array, counts: Array | None = None) -> GroupMeans:
    """Return the mean weight of groups of paths, given as a mask `member (b, g)`; groups may overlap.

    >>> groups = group_means(np.array([0.2, 0.4]), np.array([[True, True], [False, True]]))
    >>> groups.means.round(3).tolist(), groups.paths.tolist()
    ([0.2, 0.3], [1, 2])
    """
    weights, counts = _checked(weights, counts)
    inside = np.asarray(member, bool)
    if inside.ndim != 2 or len(inside) != len(weights):
        raise InputError(f"member must have a row for each of {len(weights):,} paths, found shape {inside.shape}")
    paths = counts @ inside
    with np.errstate(invalid="ignore"):
        means = (counts * weights) @ inside / paths
    return GroupMeans(means, paths.astype(np.int64))


def path_relevance(nodes: Array, weights: Array, seen: Array, masked: Array, counts: Array | None = None) -> Relevance:
    """Compare paths that contain a target label with those that do not.

    `seen` and `masked` are the numbers of the nodes with training labels, and of those whose labels were masked.
    """
    size = int(max(nodes.max(initial=-1), np.max(seen, initial=-1), np.max(masked, initial=-1))) + 1
    masks = np.zeros((2, size), bool)
    masks[0, seen] = masks[1, masked] = True
    if (masks[0] & masks[1]).any():
        raise InputError("a node's label is either seen or masked, but some are both")
    label, hidden = visits(nodes, masks[0]), visits(nodes, masks[1])
    member = np.stack([label, ~label, label & ~hidden, hidden & ~label, ~label & ~hidden], axis=1)
    groups = group_means(weights, member, counts)
    names = ("with_label", "without_label", "seen", "masked", "neither")
    paths = dict(zip(names, groups.paths.tolist(), strict=True))
    return Relevance(**dict(zip(names, groups.means.tolist(), strict=True)), paths=paths)


def class_relevance(
    nodes: Array, weights: Array, labels: Array, classes: int, counts: Array | None = None
) -> GroupMeans:
    """Return the mean weight of paths that have at least one node of class i, for each i: a row of the paper's heatmap.

    `labels (n,)` are those of all nodes, −1 where unknown; the weights are those of a model whose target is class j.

    >>> groups = class_relevance(np.array([[0, 1], [1, 2]]), np.array([0.2, 0.4]), np.array([0, 1, 1]), 2)
    >>> groups.means.round(3).tolist()
    [0.2, 0.3]
    """
    member = np.stack([visits(nodes, np.asarray(labels) == code) for code in range(classes)], axis=1)
    return group_means(weights, member, counts)


def against_length(length: Array, weights: Array, counts: Array | None = None) -> Trend:
    """Return weight against the number of nodes in a path, j − i + 1 of (n_i, …, n_j).

    >>> against_length(np.array([1, 2, 2, 3]), np.array([0.9, 0.6, 0.8, 0.5])).means.round(3).tolist()
    [0.9, 0.7, 0.5]
    """
    return _trend(np.asarray(length), *_checked(weights, counts))


def against_diversity(nodes: Array, length: Array, weights: Array, counts: Array | None = None) -> Trend:
    """Return weight against diversity: the number of distinct nodes in a path, as the paper defines it."""
    weights, counts = _checked(weights, counts)
    return _trend(PathBatch(nodes, length).distinct_nodes, weights, counts, np.asarray(length))


def _trend(values: Array, weights: Array, counts: Array, length: Array | None = None) -> Trend:
    distinct, group = np.unique(values, return_inverse=True)
    paths = np.bincount(group, counts)
    means = np.bincount(group, counts * weights) / paths
    within = None
    if length is not None:
        within = correlation(_centered(values, length, counts), _centered(weights, length, counts), counts)
    overall = correlation(values, weights, counts)
    return Trend(distinct, means, paths.astype(np.int64), correlation(distinct, means), overall, within)


def _centered(values: Array, groups: Array, counts: Array) -> Array:
    """Subtract the mean of its group from each value."""
    group = np.unique(groups, return_inverse=True)[1]
    means = np.bincount(group, counts * values) / np.bincount(group, counts)
    centered: Array = values - means[group]
    # Rounding leaves small differences in a group whose values are all the same.
    centered[np.abs(centered) < _SAME * np.abs(values).max()] = 0
    return centered


def correlation(x: Array, y: Array, counts: Array | None = None) -> float | None:
    """Return Pearson's r; None below three points, or where a side is constant up to rounding.

    >>> round(correlation(np.array([1, 2, 3]), np.array([3.0, 2.5, 1.0])), 3)
    -0.961
    """
    second, counts = _checked(y, counts)
    first, _ = _checked(x, counts)
    if len(first) < _MIN_POINTS:
        return None
    sides = []
    for side in (first, second):
        centered = side - np.average(side, weights=counts)
        if np.abs(centered).max() <= _SAME * np.abs(side).max():
            return None
        sides.append(centered / np.sqrt(np.average(centered**2, weights=counts)))
    return float(np.clip(np.average(sides[0] * sides[1], weights=counts), -1, 1))


def _checked(weights: Array, counts: Array | None) -> tuple[Array, Array]:
    """Return weights and counts as float64."""
    values = np.asarray(weights, np.float64)
    numbers = np.ones(len(values)) if counts is None else np.asarray(counts, np.float64)
    if values.ndim != 1 or values.shape != numbers.shape or not len(values):
        raise InputError(
            f"each path needs a weight and a count, and at least one path: found {values.shape} and {numbers.shape}"
        )
    if not np.isfinite(values).all() or not (numbers > 0).all():
        raise InputError("weights must be finite and counts at least 1")
    return values, numbers
