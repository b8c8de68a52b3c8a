"""Ids of edges to node numbers 0 … n-1, in place: a large edge list is never copied for it.

The order is that of `cge.ids.factorize` on all sources followed by all targets: integer ids ascend, names keep the
order of first appearance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cge.arrays import Array
from cge.csr import index_dtype
from cge.data.files.interning import Names
from cge.parallel import kernel

# Integer ids are ranked by a table of their range if it is at most this many times their number; else hashed.
_DENSE_RANGE = 2
_BATCH = 1 << 15


def number_integers(columns: Sequence[Array]) -> Array:
    """Overwrite integer ids by their ranks; return the distinct ids, ascending, `(n,)` int64.

    >>> columns = np.array([7, 3]), np.array([3, 900])
    >>> number_integers(columns).tolist(), [column.tolist() for column in columns]
    ([3, 7, 900], [[1, 0], [0, 2]])
    """
    filled = [column for column in columns if len(column)]
    if not filled:
        return np.empty(0, np.int64)
    low, high = min(int(column.min()) for column in filled), max(int(column.max()) for column in filled)
    width = high - low + 1
    if width > _DENSE_RANGE * sum(map(len, filled)) + 1024:
        return _number_scattered(filled)
    ranks = np.zeros(width, index_dtype(width))
    for column in filled:
        _mark(column, low, ranks)
    ids = np.flatnonzero(ranks) + low
    if low != 0 or len(ids) != width:
        np.cumsum(ranks, out=ranks)
        ranks -= 1
        for column in filled:
            _replace(column, low, ranks)
    return ids


def _number_scattered(columns: Sequence[Array]) -> Array:
    """Do the same for sparse ids: their eight bytes are interned like names, and only distinct ids are sorted."""
    names = Names()
    starts, lengths = np.arange(0, 8 * _BATCH, 8), np.full(_BATCH, 8)
    for column in columns:
        for start in range(0, len(column), _BATCH):
            part = column[start : start + _BATCH]
            part[:] = names.intern(part.astype(np.int64).view(np.uint8), starts[: len(part)], lengths[: len(part)])
    ids = names.content().view(np.int64)
    order = np.argsort(ids)
    ranks = np.empty(len(ids), np.int64)
    ranks[order] = np.arange(len(ids))
    renumber(columns, ranks)
    return ids[order]


def number_codes(columns: Sequence[Array], count: int) -> Array:
    """Overwrite codes below `count` by their order of first appearance; return the codes in that order.

    >>> columns = np.array([7, 3]), np.array([3, 5])
    >>> number_codes(columns, 8).tolist(), [column.tolist() for column in columns]
    ([7, 3, 5], [[0, 1], [1, 2]])
    """
    numbers = np.full(count, -1, index_dtype(count))
    seen = 0
    for column in columns:
        seen = _first_come(column, numbers, seen)
    order = np.empty(seen, np.int64)
    used = np.flatnonzero(numbers >= 0)
    order[numbers[used]] = used
    return order


def renumber(columns: Sequence[Array], numbers: Array) -> None:
    """Overwrite each number v by `numbers[v]`."""
    if not np.array_equal(numbers, np.arange(len(numbers))):
        for column in columns:
            _replace(column, 0, numbers)


@kernel
def _mark(values: Array, low: int, marks: Array) -> None:
    for k in range(len(values)):
        marks[values[k] - low] = 1


@kernel
def _replace(values: Array, low: int, numbers: Array) -> None:
    for k in range(len(values)):
        values[k] = numbers[values[k] - low]


@kernel
def _first_come(values: Array, numbers: Array, seen: int) -> int:
    for k in range(len(values)):
        number = numbers[values[k]]
        if number < 0:
            number = seen
            numbers[values[k]] = seen
            seen += 1
        values[k] = number
    return seen
