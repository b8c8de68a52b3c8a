"""Alias tables: draw from a discrete distribution in constant time (Walker 1977, Vose 1991).

A table over d outcomes has d slots. A draw picks a slot uniformly, then takes the slot's own outcome if a random 32-bit
integer is below the slot's threshold, and its alias otherwise. Probabilities are exact to 2^-32.
"""

from __future__ import annotations

import numpy as np

from cge.arrays import Array
from cge.parallel import kernel

_SCALE = 4294967296.0  # 2^32
_ALWAYS = np.uint32(0xFFFFFFFF)


def alias_table(weights: Array) -> tuple[Array, Array]:
    """Return `(threshold, alias)` of a distribution; `weights (d,)` are nonnegative and not all zero."""
    indptr = np.array([0, len(weights)], np.int64)
    return alias_tables(indptr, np.arange(len(weights), dtype=np.int64), np.asarray(weights, np.float64))


def alias_tables(indptr: Array, indices: Array, weights: Array) -> tuple[Array, Array]:
    """Return a table per row: `threshold (m,)` uint32, and `alias (m,)`, the *neighbor* to take above the threshold."""
    threshold = np.full(len(indices), _ALWAYS, np.uint32)
    alias = indices.copy()
    scaled, sums = scale_rows(indptr, weights)
    _fill(indptr, indices, scaled, sums, threshold, alias, np.empty(int(np.diff(indptr).max(initial=0)), np.int64))
    return threshold, alias


def scale_rows(indptr: Array, weights: Array) -> tuple[Array, Array]:
    """Return weights divided by the largest of their row, `(m,)`, and their sums by row, `(n,)`, float64.

    Only ratios within a row matter to a walk, and ratios do not overflow.
    """
    degrees, scaled = np.diff(indptr), weights.astype(np.float64)
    largest = np.maximum.reduceat(scaled, indptr[:-1][degrees > 0]) if len(scaled) else scaled
    scaled /= np.repeat(largest, degrees[degrees > 0])
    rows = np.repeat(np.arange(len(degrees)), degrees)
    return scaled, np.bincount(rows, scaled, minlength=len(degrees))


@kernel
def _fill(
    indptr: Array, indices: Array, weights: Array, sums: Array, threshold: Array, alias: Array, stack: Array
) -> None:
    for row in range(len(indptr) - 1):
        start = indptr[row]
        size = indptr[row + 1] - start
        scaled = weights[start : start + size]
        # Slots below the mean are stacked from the left, the others from the right.
        small, large = 0, size
        for k in range(size):
            scaled[k] = scaled[k] * size / sums[row]
            if scaled[k] < 1.0:
                stack[small] = k
                small += 1
            else:
                large -= 1
                stack[large] = k
        while small > 0 and large < size:
            small -= 1
            small_slot, large_slot = stack[small], stack[large]
            threshold[start + small_slot] = np.uint32(min(scaled[small_slot] * _SCALE, _SCALE - 1.0))
            alias[start + small_slot] = indices[start + large_slot]
            scaled[large_slot] = (scaled[large_slot] + scaled[small_slot]) - 1.0
            if scaled[large_slot] < 1.0:
                large += 1
                stack[small] = large_slot
                small += 1
        # The remaining slots equal the mean up to rounding: they keep their own outcome.
