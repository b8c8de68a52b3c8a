"""The sub-paths of walks, and the distinct ones among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import InputError
from cge.parallel import kernel, prefetch
from cge.randomness import STEP, mix

__all__ = ["PathBatch", "PathTable", "count_subpaths", "subpaths"]

Array = npt.NDArray[Any]

_PIECE = 1 << 17  # sub-paths that the table makes room for at once


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Paths of up to `window` nodes.

    Attributes
    ----------
    nodes : (b, window) int
        Node numbers, filled up with −1.
    length : (b,) int
        Nodes in each path.
    """

    nodes: Array
    length: Array

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def window(self) -> int:
        """Nodes in the longest path there is room for."""
        return int(self.nodes.shape[1])

    @property
    def start(self) -> Array:
        """First node of each path, `(b,)`."""
        first: Array = self.nodes[:, 0]
        return first

    @property
    def end(self) -> Array:
        """Last node of each path, `(b,)`; a path of one node ends where it starts."""
        last: Array = self.nodes[np.arange(len(self)), self.length - 1]
        return last

    @property
    def diversity(self) -> Array:
        """Number of distinct nodes in each path, `(b,)`."""
        ordered = np.sort(self.nodes, axis=1)
        fresh = np.ones(ordered.shape, bool)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        return np.asarray(np.count_nonzero(fresh & (ordered >= 0), axis=1))


def subpaths(walks: Any, window: int = 3, *, shortest: int = 1) -> PathBatch:
    """Return every contiguous sub-path of `shortest` … `window` nodes of each walk, `(b, length)`; −1 ends a walk.

    They come walk by walk, the shorter ones first, each length from left to right. A walk of L nodes gives
    L + (L−1) + … sub-paths. `window` counts nodes, as in the paper, so the ends are at most window − 1 steps apart.

    >>> subpaths(np.array([[4, 5, 6]]), window=2).nodes.tolist()
    [[4, -1], [5, -1], [6, -1], [4, 5], [5, 6]]
    """
    window, shortest = _checked_window(window), _checked_shortest(shortest, window)
    walks = _checked_walks(walks)
    total = int(count_subpaths(walks, shortest, window).sum())
    nodes = np.full((total, window), -1, walks.dtype)
    length = np.empty(total, np.int32)
    _extract(walks, shortest, window, nodes, length)
    return PathBatch(nodes, length)


class PathTable:
    """Collects the distinct sub-paths of any number of walks and counts how often each occurs.

    Paths are numbered in the order of their first appearance, so that anything computed once per distinct path can be
    looked up for each occurrence. Memory grows with the distinct paths, not with the walks.

    Examples
    --------
    >>> table = PathTable(window=2)
    >>> table.add(np.array([[0, 1, 0]])).tolist()
    [0, 1, 0, 2, 3]
    >>> table.paths.nodes.tolist(), table.counts.tolist()
    ([[0, -1], [1, -1], [0, 1], [1, 0]], [2, 1, 1, 1])
    """

    def __init__(self, window: int = 3, *, shortest: int = 1) -> None:
        self.window = _checked_window(window)
        self.shortest = _checked_shortest(shortest, self.window)
        self._used = 0
        self._nodes = np.empty((0, window), np.int32)
        self._length = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int64)
        self._parents = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._slots = np.full(64, -1, np.int64)

    def __len__(self) -> int:
        return self._used

    def __repr__(self) -> str:
        return f"PathTable({self._used:,} distinct paths of {self.shortest} to {self.window} nodes)"

    @property
    def paths(self) -> PathBatch:
        """The distinct paths so far, by number; read-only."""
        nodes, length = self._nodes[: self._used], self._length[: self._used]
        nodes.setflags(write=False)
        length.setflags(write=False)
        return PathBatch(nodes, length)

    @property
    def counts(self) -> Array:
        """How often each distinct path was added so far, `(len(table),)`; a copy."""
        return self._counts[: self._used].copy()

    @property
    def parents(self) -> Array:
        """Number of each path without its last node, `(len(table),)`; −1 for the shortest; read-only.

        A path comes after its parent.
        """
        parents = self._parents[: self._used]
        parents.setflags(write=False)
        return parents

    def add(self, walks: Any) -> Array:
        """Add the sub-paths of `walks (b, length)`; return the number of each, in the order of `subpaths`."""
        walks = _checked_walks(walks)
        ends = np.concatenate([[0], np.cumsum(count_subpaths(walks, self.shortest, self.window))])
        numbers = np.empty(int(ends[-1]), np.int64)
        first = 0
        while first < len(walks):  # a piece at a time, so that room is made for what may come and not for all
            last = max(int(np.searchsorted(ends, ends[first] + _PIECE, side="right")) - 1, first + 1)
            piece = numbers[ends[first] : ends[last]]
            self._make_room(len(piece), walks.dtype)
            state = (self._nodes, self._length, self._counts, self._parents, self._hashes, self._slots)
            self._used = _collect(walks[first:last], self.shortest, self.window, self._used, *state, piece)
            first = last
        return numbers

    def _make_room(self, new: int, dtype: Any) -> None:
        """Grow the arrays so that `new` more paths fit and the hash table stays at most half full."""
        needed = self._used + new
        if self._nodes.dtype.itemsize < np.dtype(dtype).itemsize:
            self._nodes = self._nodes.astype(dtype)
        if needed > len(self._nodes):
            room = max(needed, 3 * self._used // 2)
            for name in ("_nodes", "_length", "_counts", "_parents", "_hashes"):
                old = getattr(self, name)
                grown = np.empty((room, *old.shape[1:]), old.dtype)
                grown[: self._used] = old[: self._used]
                setattr(self, name, grown)
        if 2 * needed > len(self._slots):
            self._slots = np.full(1 << (2 * needed).bit_length(), -1, np.int64)
            _refill(self._hashes[: self._used], self._slots)


def _checked_window(window: int) -> int:
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
        raise InputError(parameter="window", expected="a whole number of nodes, at least 1", found=window)
    return int(window)


def _checked_shortest(shortest: int, window: int) -> int:
    if isinstance(shortest, bool) or not isinstance(shortest, int | np.integer) or not 1 <= shortest <= window:
        raise InputError(
            parameter="shortest", expected=f"a whole number from 1 to {window}, the window", found=shortest
        )
    return int(shortest)


def _checked_walks(walks: Any) -> Array:
    array = np.asarray(walks)
    if array.ndim != 2 or array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        raise InputError(f"walks must be a table of node numbers, found shape {array.shape} of {array.dtype}")
    if array.dtype in (np.int32, np.int64):
        return array
    return array.astype(np.int32 if array.dtype.itemsize < 4 else np.int64)


@kernel
def _size(walks: Array, walk: int) -> int:
    """Return the number of nodes before the walk ends."""
    size = 0
    while size < walks.shape[1] and walks[walk, size] >= 0:
        size += 1
    return size


def count_subpaths(walks: Array, shortest: int, window: int) -> Array:
    """Return the number of sub-paths of `shortest` … `window` nodes of each walk, `(b,)`."""
    counts = np.empty(len(walks), np.int64)
    _count(walks, shortest, window, counts)
    return counts


@kernel
def _count(walks: Array, shortest: int, window: int, counts: Array) -> None:
    for walk in range(walks.shape[0]):
        size = _size(walks, walk)
        counts[walk] = 0
        for span in range(shortest, min(window, size) + 1):
            counts[walk] += size - span + 1


@kernel
def _extract(walks: Array, shortest: int, window: int, nodes: Array, length: Array) -> None:
    at = 0
    for walk in range(walks.shape[0]):
        size = _size(walks, walk)
        for span in range(shortest, min(window, size) + 1):
            for begin in range(size - span + 1):
                for k in range(span):
                    nodes[at, k] = walks[walk, begin + k]
                length[at] = span
                at += 1


@kernel
def _collect(
    walks: Array,
    shortest: int,
    window: int,
    used: int,
    nodes: Array,
    length: Array,
    counts: Array,
    parents: Array,
    hashes: Array,
    slots: Array,
    numbers: Array,
) -> int:
    mask = np.uint64(len(slots) - 1)
    marks = np.empty((window + 1, walks.shape[1]), np.uint64)
    at = 0
    for walk in range(walks.shape[0]):
        size = _size(walks, walk)
        # Hash every sub-path by extending its prefix, and fetch the slots they fall on.
        for begin in range(size):
            mark = np.uint64(0)
            for span in range(1, min(window, size - begin) + 1):
                mark = mix(mark * STEP + np.uint64(walks[walk, begin + span - 1]) + np.uint64(1))
                marks[span, begin] = mark
                if span >= shortest:
                    prefetch(slots, np.int64(mark & mask))
        for span in range(shortest, min(window, size) + 1):
            for begin in range(size - span + 1):
                mark = marks[span, begin]
                slot = mark & mask
                number = slots[slot]
                while number >= 0:
                    if hashes[number] == mark and length[number] == span:
                        same = True
                        for k in range(span):
                            same &= nodes[number, k] == walks[walk, begin + k]
                        if same:
                            break
                    slot = (slot + np.uint64(1)) & mask
                    number = slots[slot]
                if number < 0:
                    number = used
                    used += 1
                    slots[slot] = number
                    hashes[number] = mark
                    length[number] = span
                    counts[number] = 0
                    # The paths one node shorter stand just before, one more of them than of this length.
                    parents[number] = numbers[at - (size - span + 2)] if span > shortest else -1
                    for k in range(window):
                        nodes[number, k] = walks[walk, begin + k] if k < span else -1
                counts[number] += 1
                numbers[at] = number
                at += 1
    return used


@kernel
def _refill(hashes: Array, slots: Array) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in range(len(hashes)):
        slot = hashes[number] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
