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
    longest = int(np.diff(indptr).max(initial=0))
    _fill(indptr, indices, weights, threshold, alias, np.empty(longest), np.empty(longest, np.int64))
    return threshold, alias


def scale_rows(indptr: Array, weights: Array) -> tuple[Array, Array]:
    """Return weights divided by the largest of their row, `(m,)`, and their sums by row, `(n,)`, float64.

    Only ratios within a row matter to a walk, and ratios do not overflow.
    """
    scaled = weights.astype(np.float64)
    sums = np.zeros(len(indptr) - 1)
    _scale(indptr, scaled, sums)
    return scaled, sums


@kernel
def _scale(indptr: Array, weights: Array, sums: Array) -> None:
    for row in range(len(sums)):
        largest = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            largest = max(largest, weights[k])
        for k in range(indptr[row], indptr[row + 1]):
            weights[k] /= largest
            sums[row] += weights[k]


@kernel
def _fill(
    indptr: Array, indices: Array, weights: Array, threshold: Array, alias: Array, scaled: Array, stack: Array
) -> None:
    for row in range(len(indptr) - 1):
        start = indptr[row]
        size = indptr[row + 1] - start
        largest, total = 0.0, 0.0
        for k in range(size):
            largest = max(largest, weights[start + k])
        for k in range(size):
            total += weights[start + k] / largest
        # Slots below the mean are stacked from the left, the others from the right.
        small, large = 0, size
        for k in range(size):
            scaled[k] = weights[start + k] / largest * size / total
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
