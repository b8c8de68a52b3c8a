"""Ids to numbers: names are numbered as they are read, then nodes 0 … n-1 in place.

`Names` gives every distinct string the next number. Its open-addressing hash table of two words per slot (key; length
and number) indexes an arena of bytes. A string of up to 8 bytes *is* its key: padded with zeros and scrambled by a
bijection, which is exact because strings contain no zero byte. Longer strings are compared in the arena. Keys are
computed and their slots fetched for a whole batch before any is looked up, so that the processor waits for many memory
reads at once instead of one after the other.

The order of nodes is that of `cge.ids.factorize` on all sources followed by all targets: integer ids ascend, names keep
the order of first appearance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cge.arrays import Array
from cge.csr import index_dtype
from cge.memory import allocate, require_memory
from cge.parallel import kernel, prefetch
from cge.randomness import STEP, mix

# Integer ids are ranked by a table of their range if it is at most this many times their number; else sorted.
_DENSE_RANGE = 4
_BATCH = 256
_WORD = 8
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Names:
    """A growing set of distinct strings, numbered in the order of first appearance.

    >>> names = Names()
    >>> text = np.frombuffer(b"catdogcat", np.uint8)
    >>> names.intern(text, np.array([0, 3, 6]), np.array([3, 3, 3])).tolist()
    [0, 1, 0]
    >>> names.decoded().tolist()
    ['cat', 'dog']
    """

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.zeros((1 << 10, 2), np.uint64)
        self._offsets = np.zeros(1 << 9, np.int64)
        self._arena = np.empty(1 << 12, np.uint8)

    def intern(self, text: Array, starts: Array, lengths: Array) -> Array:
        """Return the number of each string `text[starts[k] : starts[k] + lengths[k]]` (no zero bytes), `(k,)` int32."""
        self._reserve(len(starts), int(lengths.sum()))
        codes = np.empty(len(starts), np.int32)
        self.count = _intern(text, starts, lengths, self._slots, self._offsets, self._arena, self.count, codes)
        return codes

    def _reserve(self, strings: int, size: int) -> None:
        max_count = self.count + strings
        if 2 * max_count > len(self._slots):
            slots = 1 << (4 * max_count - 1).bit_length()
            require_memory(16 * slots)
            larger = np.zeros((slots, 2), np.uint64)
            _move(self._slots, larger)
            self._slots = larger
        if max_count >= len(self._offsets):
            self._offsets = _enlarged(self._offsets, 2 * max_count, self.count + 1)
        used = int(self._offsets[self.count])
        if used + size > len(self._arena):
            self._arena = _enlarged(self._arena, 2 * (used + size), used)

    def strings(self) -> pa.LargeStringArray:
        """Return the strings as an Arrow array, which shares their memory and may not be UTF-8."""
        offsets = self._offsets[: self.count + 1]
        return strings_from(self._arena[: offsets[-1]], offsets)

    def decoded(self) -> Array:
        """Return the strings as an object array; raises `UnicodeDecodeError` at the first that is not UTF-8."""
        offsets, strings = self._offsets[: self.count + 1], self.strings()
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            for start, end in pairwise(offsets):
                self._arena[start:end].tobytes().decode()
            raise
        return np.asarray(strings.to_numpy(zero_copy_only=False))


def strings_from(text: Array, offsets: Array) -> pa.LargeStringArray:
    """Wrap bytes and the k+1 offsets at which strings start as an Arrow array of k strings, without a copy."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))


def _enlarged(array: Array, size: int, used: int) -> Array:
    larger = allocate((size,), array.dtype)
    larger[:used] = array[:used]
    return larger


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
        ids = np.unique(np.concatenate([np.unique(column) for column in filled])).astype(np.int64)
        for column in filled:
            column[:] = np.searchsorted(ids, column)
        return ids
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
def _key(text: Array, start: int, length: int) -> np.uint64:
    word = np.uint64(0)
    if length <= _WORD:
        for k in range(length):
            word |= np.uint64(text[start + k]) << np.uint64(8 * k)
        return mix(word)
    hashed = np.uint64(length) * STEP
    whole = length - length % _WORD
    for word_start in range(start, start + whole, _WORD):
        word = np.uint64(0)
        for k in range(_WORD):
            word |= np.uint64(text[word_start + k]) << np.uint64(8 * k)
        hashed = mix(hashed ^ word) + STEP
    word = np.uint64(0)
    for k in range(whole, length):
        word |= np.uint64(text[start + k]) << np.uint64(8 * (k - whole))
    return mix(hashed ^ word)


@kernel
def _same(text: Array, start: int, arena: Array, arena_start: int, length: int) -> bool:
    for k in range(length):  # noqa: SIM110 - compiled
        if text[start + k] != arena[arena_start + k]:
            return False
    return True


@kernel
def _intern(
    text: Array, starts: Array, lengths: Array, slots: Array, offsets: Array, arena: Array, count: int, codes: Array
) -> int:
    """Write the number of each string to `codes`. Returns how many distinct ones there are now."""
    mask = np.uint64(len(slots) - 1)
    keys, likely = np.empty(_BATCH, np.uint64), np.empty(_BATCH, np.int64)
    for first in range(0, len(starts), _BATCH):
        size = min(_BATCH, len(starts) - first)
        for t in range(size):
            keys[t] = _key(text, starts[first + t], lengths[first + t])
            prefetch(slots, 2 * np.int64(keys[t] & mask))
        # A long string is most likely the one whose key is in its first slot: fetch its offset, then its bytes.
        for t in range(size):
            slot = np.int64(keys[t] & mask)
            likely[t] = np.int64(slots[slot, 1] & _LOW) - 1 if lengths[first + t] > _WORD else -1
            if likely[t] >= 0:
                prefetch(offsets, likely[t])
        for t in range(size):
            if likely[t] >= 0:
                prefetch(arena, offsets[likely[t]])
        for t in range(size):
            key, length = keys[t], lengths[first + t]
            slot = np.int64(key & mask)
            while True:
                entry = slots[slot, 1]
                if entry == 0:
                    end = offsets[count]
                    for k in range(length):
                        arena[end + k] = text[starts[first + t] + k]
                    offsets[count + 1] = end + length
                    count += 1
                    slots[slot, 0] = key
                    slots[slot, 1] = np.uint64(length) << _32 | np.uint64(count)
                    codes[first + t] = count - 1
                    break
                if slots[slot, 0] == key and np.int64(entry >> _32) == length:
                    code = np.int64(entry & _LOW) - 1
                    if length <= _WORD or _same(text, starts[first + t], arena, offsets[code], length):
                        codes[first + t] = code
                        break
                slot = np.int64(np.uint64(slot + 1) & mask)
    return count


@kernel
def _move(slots: Array, larger: Array) -> None:
    mask = np.uint64(len(larger) - 1)
    for k in range(len(slots)):
        if slots[k, 1] != 0:
            slot = np.int64(slots[k, 0] & mask)
            while larger[slot, 1] != 0:
                slot = np.int64(np.uint64(slot + 1) & mask)
            larger[slot, 0] = slots[k, 0]
            larger[slot, 1] = slots[k, 1]


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
