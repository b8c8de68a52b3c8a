"""The scale of dense features: columns are centered and divided by their standard deviation, rows get unit length.

A constant column, and a row that differs from the mean by rounding only, become zero. A graph in memory and slabs of
columns, in memory or in files, follow the same rule. Slabs are summed by ranges of rows, so their means may differ from
those of a graph in memory by rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.parallel import split_blocks

ROW_RANGE = 1 << 16  # rows that are read at once
_MIN_LENGTH = 1e-5  # standard deviations: a row nearer to the mean differs from it by rounding only
_MIN_SPREAD = 1e-30  # standard deviation of a feature: below, float32 has few digits left
_ROUNDING = 1e-5  # of the mean: the standard deviation of a constant column is not exactly 0


def feature_scale(features: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation of each dense feature; both are empty for sparse features and for none."""
    if features is None or sp.issparse(features):
        return np.empty(0, np.float32), np.empty(0, np.float32)
    mean, std = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    return mean.astype(np.float32), _usable_spread(mean, std).astype(np.float32)


def scaled_unit_rows(features: Any, scale: tuple[Array, Array]) -> Array:
    """Return dense features, centered, scaled, and with rows of unit length, `(n, f)`."""
    rows = np.asarray(features - scale[0], np.float32)
    rows /= scale[1]
    rows /= _usable_lengths(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]
    return rows


def column_scale(slab: Any) -> Array:
    """Return mean and standard deviation of the columns of a slab, `(2, s)` float32; inf for a constant column."""
    ranges, count, width = split_blocks(len(slab), ROW_RANGE), max(len(slab), 1), slab.shape[1]
    mean = sum((slab[a:b].sum(axis=0, dtype=np.float64) for a, b in ranges), np.zeros(width)) / count
    squares = sum((np.square(slab[a:b] - mean).sum(axis=0) for a, b in ranges), np.zeros(width))
    return np.stack([mean, _usable_spread(mean, np.sqrt(squares / count))]).astype(np.float32)


def scaled_rows(slab: Any, scale: Array, first: int, stop: int) -> Array:
    """Return rows of a slab, centered and scaled."""
    return np.asarray((slab[first:stop] - scale[0]) / scale[1])


def squared_lengths(slab: Any, scale: Array) -> Array:
    """Return the squared length of the scaled rows of a slab, `(n,)` float64."""
    ranges = split_blocks(len(slab), ROW_RANGE)
    lengths = [np.square(scaled_rows(slab, scale, a, b), dtype=np.float64).sum(axis=1) for a, b in ranges]
    return np.concatenate([*lengths, np.empty(0)])


def inverse_lengths(squares: Array) -> Array:
    """Return one divided by the length of each row of scaled features, 0 where that is 0, `(n,)` float32."""
    return np.asarray(1 / _usable_lengths(np.sqrt(squares)), np.float32)


def _usable_spread(mean: Array, spread: Array) -> Array:
    """Return standard deviations; inf for a constant column."""
    return np.where(spread > np.maximum(_ROUNDING * np.abs(mean), _MIN_SPREAD), spread, np.inf)


def _usable_lengths(lengths: Array) -> Array:
    """Return lengths of rows; inf where a row is zero but for rounding."""
    return np.where(lengths > _MIN_LENGTH, lengths, lengths.dtype.type(np.inf))
