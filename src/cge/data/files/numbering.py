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

# Integer ids are marked in a table of bits if their range is at most this many times their number; else hashed.
_DENSE_RANGE = 32
_BATCH = 1 << 15
_1, _2, _4, _6, _56, _63 = (np.uint64(n) for n in (1, 2, 4, 6, 56, 63))
_PAIRS, _NIBBLES, _BYTES, _SUM = (
    np.uint64(0x0101010101010101 * byte) for byte in (0b01010101, 0b00110011, 0b00001111, 1)
)


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
    bits = np.zeros(width // 64 + 1, np.uint64)
    for column in filled:
        _mark(column, low, bits)
    ranks = np.cumsum(np.bitwise_count(bits), dtype=np.int64)
    ids = np.empty(int(ranks[-1]), np.int64)
    _list(bits, low, ids)
    ranks -= np.bitwise_count(bits)
    if low != 0 or len(ids) != width:
        for column in filled:
            _rank(column, low, bits, ranks)
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
            _replace(column, numbers)


@kernel
def _mark(values: Array, low: int, bits: Array) -> None:
    for k in range(len(values)):
        bit = np.uint64(np.int64(values[k]) - low)
        bits[np.int64(bit >> _6)] |= _1 << (bit & _63)


@kernel
def _rank(values: Array, low: int, bits: Array, ranks: Array) -> None:
    """Overwrite each marked value by the number of marks before it."""
    for k in range(len(values)):
        bit = np.uint64(np.int64(values[k]) - low)
        word = np.int64(bit >> _6)
        before = bits[word] & ((_1 << (bit & _63)) - _1)
        # Count the bits of a word: in pairs, in fours, in bytes, then add the bytes by one multiplication.
        before = before - ((before >> _1) & _PAIRS)
        before = (before & _NIBBLES) + ((before >> _2) & _NIBBLES)
        before = (before + (before >> _4)) & _BYTES
        values[k] = ranks[word] + np.int64((before * _SUM) >> _56)


@kernel
def _list(bits: Array, low: int, ids: Array) -> None:
    count = 0
    for word in range(len(bits)):
        remaining = bits[word]
        value = low + 64 * word
        while remaining != 0:
            if remaining & _1:
                ids[count] = value
                count += 1
            remaining >>= _1
            value += 1


@kernel
def _replace(values: Array, numbers: Array) -> None:
    for k in range(len(values)):
        values[k] = numbers[values[k]]


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
