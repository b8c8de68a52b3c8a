"""Alias tables: draw from a discrete distribution in constant time (Walker 1977, Vose 1991).

A table over d outcomes has d slots. A draw picks a slot uniformly, then takes the slot's own outcome with the slot's
chance and its alias otherwise. Chances are kept as 32-bit integers: they are exact to 2^-32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import kernel

__all__ = ["row_tables", "scaled_rows", "table"]

Array = npt.NDArray[Any]

_SCALE = 4294967296.0  # 2^32
_SURE = np.uint32(0xFFFFFFFF)


def table(weights: Array) -> tuple[Array, Array]:
    """Return `(chance, alias)` of one distribution; `weights (d,)` are nonnegative and not all zero."""
    indptr = np.array([0, len(weights)], np.int64)
    return row_tables(indptr, np.arange(len(weights), dtype=np.int64), np.asarray(weights, np.float64))


def row_tables(indptr: Array, indices: Array, weights: Array) -> tuple[Array, Array]:
    """Return a table per row: `chance (m,) uint32`, and `alias (m,)`, the *neighbor* to take in the other case."""
    chance = np.full(len(indices), _SURE, np.uint32)
    alias = indices.copy()
    longest = int(np.diff(indptr).max(initial=0))
    _fill(indptr, indices, weights, chance, alias, np.empty(longest), np.empty(longest, np.int64))
    return chance, alias


def scaled_rows(indptr: Array, weights: Array) -> tuple[Array, Array]:
    """Return weights divided by the largest of their row, `(m,)`, and the sums of these by row, `(n,)`, float64.

    Only ratios within a row matter to a walk, and ratios neither overflow nor drown in the weights of other rows.
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
    indptr: Array, indices: Array, weights: Array, chance: Array, alias: Array, share: Array, stack: Array
) -> None:
    for row in range(len(indptr) - 1):
        begin = indptr[row]
        size = indptr[row + 1] - begin
        largest, total = 0.0, 0.0
        for k in range(size):
            largest = max(largest, weights[begin + k])
        for k in range(size):
            total += weights[begin + k] / largest
        # Slots with less than an equal share grow from the left of the stack, the others from its right.
        small, large = 0, size
        for k in range(size):
            share[k] = weights[begin + k] / largest * size / total
            if share[k] < 1.0:
                stack[small] = k
                small += 1
            else:
                large -= 1
                stack[large] = k
        while small > 0 and large < size:
            small -= 1
            poor, rich = stack[small], stack[large]
            chance[begin + poor] = np.uint32(min(share[poor] * _SCALE, _SCALE - 1.0))
            alias[begin + poor] = indices[begin + rich]
            share[rich] = (share[rich] + share[poor]) - 1.0
            if share[rich] < 1.0:
                large += 1
                stack[small] = rich
                small += 1
        # What is left has exactly an equal share, up to rounding: it keeps its own outcome.
