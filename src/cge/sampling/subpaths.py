"""Sub-paths of walks, and a table of the distinct ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.parallel import kernel, prefetch
from cge.randomness import STEP, mix

_CHUNK = 1 << 17  # sub-paths for which the table allocates memory at once


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Paths of up to `window` nodes.

    Attributes
    ----------
    nodes : (b, window) int
        Node numbers, padded with −1.
    length : (b,) int
        Number of nodes of each path.
    """

    nodes: Array
    length: Array

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def window(self) -> int:
        """Maximum number of nodes of a path."""
        return int(self.nodes.shape[1])

    @property
    def start(self) -> Array:
        """First node of each path, `(b,)`."""
        return np.asarray(self.nodes[:, 0])

    @property
    def endpoint(self) -> Array:
        """Last node of each path, `(b,)`; a path of one node ends where it starts."""
        return np.asarray(self.nodes[np.arange(len(self)), self.length - 1])

    @property
    def distinct_nodes(self) -> Array:
        """Number of distinct nodes in each path, `(b,)`."""
        sorted_nodes = np.sort(self.nodes, axis=1)
        is_new = np.ones(sorted_nodes.shape, bool)
        is_new[:, 1:] = sorted_nodes[:, 1:] != sorted_nodes[:, :-1]
        return np.asarray(np.count_nonzero(is_new & (sorted_nodes >= 0), axis=1))


def subpaths(walks: Any, window: int = 3, *, shortest: int = 1) -> PathBatch:
    """Return every contiguous sub-path of `shortest` … `window` nodes of each walk, `(b, length)`; −1 ends a walk.

    In order of walk, then length, then position. A walk of L nodes has L + (L−1) + … sub-paths. `window` counts nodes,
    as in the paper, so start and end are at most window − 1 steps apart.

    >>> subpaths(np.array([[4, 5, 6]]), window=2).nodes.tolist()
    [[4, -1], [5, -1], [6, -1], [4, 5], [5, 6]]
    """
    window, shortest = _check_lengths(window, shortest)
    walks = _check_walks(walks)
    total = int(count_subpaths(walks, shortest, window).sum())
    nodes = np.full((total, window), -1, walks.dtype)
    length = np.empty(total, np.int32)
    _extract(walks, shortest, window, nodes, length)
    return PathBatch(nodes, length)


class PathTable:
    """Collects the distinct sub-paths of any number of walks and counts how often each occurs.

    Paths are indexed in the order of their first appearance, so that anything computed once per distinct path can be
    looked up for each occurrence. Memory grows with the number of distinct paths, not of walks.

    Examples
    --------
    >>> table = PathTable(window=2)
    >>> table.add(np.array([[0, 1, 0]])).tolist()
    [0, 1, 0, 2, 3]
    >>> table.paths.nodes.tolist(), table.counts.tolist()
    ([[0, -1], [1, -1], [0, 1], [1, 0]], [2, 1, 1, 1])
    """

    def __init__(self, window: int = 3, *, shortest: int = 1) -> None:
        self.window, self.shortest = _check_lengths(window, shortest)
        self._used, self._nodes, self._length = 0, np.empty((0, window), np.int32), np.empty(0, np.int32)
        self._counts, self._parents = np.empty(0, np.int64), np.empty(0, np.int64)
        self._hashes, self._slots = np.empty(0, np.uint64), np.full(64, -1, np.int64)

    def __len__(self) -> int:
        return self._used

    def __repr__(self) -> str:
        return f"PathTable({self._used:,} distinct paths of {self.shortest} to {self.window} nodes)"

    @property
    def paths(self) -> PathBatch:
        """The distinct paths so far, in order of index; read-only."""
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
        """Index of each path without its last node, below its own; −1 for the shortest; `(b,)`, read-only."""
        parents = self._parents[: self._used]
        parents.setflags(write=False)
        return parents

    def add(self, walks: Any) -> Array:
        """Add the sub-paths of `walks (b, length)`; return the index of each, in the order of `subpaths`."""
        walks = _check_walks(walks)
        ends = np.concatenate([[0], np.cumsum(count_subpaths(walks, self.shortest, self.window))])
        numbers = np.empty(int(ends[-1]), np.int64)
        first = 0
        while first < len(walks):  # in chunks, so that memory is allocated for a chunk at a time
            last = max(int(np.searchsorted(ends, ends[first] + _CHUNK, side="right")) - 1, first + 1)
            chunk = numbers[ends[first] : ends[last]]
            self._grow(len(chunk), walks.dtype)
            table = (self._nodes, self._length, self._counts, self._parents, self._hashes, self._slots)
            self._used = _collect(walks[first:last], self.shortest, self.window, self._used, table, chunk)
            first = last
        return numbers

    def _grow(self, new: int, dtype: Any) -> None:
        """Grow the arrays so that `new` more paths fit and the hash table stays at most half full."""
        needed = self._used + new
        if self._nodes.dtype.itemsize < np.dtype(dtype).itemsize:
            self._nodes = self._nodes.astype(dtype)
        if needed > len(self._nodes):
            capacity = max(needed, 3 * self._used // 2)
            for name in ("_nodes", "_length", "_counts", "_parents", "_hashes"):
                old = getattr(self, name)
                unused = np.empty((capacity - self._used, *old.shape[1:]), old.dtype)
                setattr(self, name, np.concatenate([old[: self._used], unused]))
        if 2 * needed > len(self._slots):
            self._slots = np.full(1 << (2 * needed).bit_length(), -1, np.int64)
            _refill(self._hashes[: self._used], self._slots)


def _check_lengths(window: int, shortest: int) -> tuple[int, int]:
    legal = "an integer of nodes, at least 1", f"an integer from 1 to {window}, the window"
    for name, value, most, expected in (("window", window, np.inf, legal[0]), ("shortest", shortest, window, legal[1])):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
            raise InputError(parameter=name, expected=expected, found=value)
    return int(window), int(shortest)


def _check_walks(walks: Any) -> Array:
    array = np.asarray(walks)
    if array.ndim != 2 or array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        raise InputError(f"walks must be a table of node numbers, found shape {array.shape} of {array.dtype}")
    if array.dtype in (np.int32, np.int64):
        return array
    return array.astype(np.int32 if array.dtype.itemsize < 4 else np.int64)


@kernel
def _walk_length(walks: Array, walk: int) -> int:
    """Return the number of nodes of a walk."""
    walk_length = 0
    while walk_length < walks.shape[1] and walks[walk, walk_length] >= 0:
        walk_length += 1
    return walk_length


def count_subpaths(walks: Array, shortest: int, window: int) -> Array:
    """Return the number of sub-paths of `shortest` … `window` nodes of each walk, `(b,)`."""
    walk_length = np.logical_and.accumulate(walks >= 0, axis=1).sum(axis=1)
    paths = np.maximum(walk_length[:, None] - np.arange(shortest, window + 1) + 1, 0)  # (b, lengths)
    return np.asarray(paths.sum(axis=1))


@kernel
def _extract(walks: Array, shortest: int, window: int, nodes: Array, length: Array) -> None:
    at = 0
    for walk in range(walks.shape[0]):
        walk_length = _walk_length(walks, walk)
        for path_length in range(shortest, min(window, walk_length) + 1):
            for start in range(walk_length - path_length + 1):
                for k in range(path_length):
                    nodes[at, k] = walks[walk, start + k]
                length[at] = path_length
                at += 1


@kernel
def _collect(walks: Array, shortest: int, window: int, used: int, table: tuple[Array, ...], numbers: Array) -> int:
    nodes, length, counts, parents, hashes, slots = table
    mask = np.uint64(len(slots) - 1)
    path_hashes = np.empty((window + 1, walks.shape[1]), np.uint64)
    at = 0
    for walk in range(walks.shape[0]):
        walk_length = _walk_length(walks, walk)
        # Hash every sub-path by extending its prefix, and prefetch its slot.
        for start in range(walk_length):
            path_hash = np.uint64(0)
            for path_length in range(1, min(window, walk_length - start) + 1):
                path_hash = mix(path_hash * STEP + np.uint64(walks[walk, start + path_length - 1]) + np.uint64(1))
                path_hashes[path_length, start] = path_hash
                if path_length >= shortest:
                    prefetch(slots, np.int64(path_hash & mask))
        for path_length in range(shortest, min(window, walk_length) + 1):
            for start in range(walk_length - path_length + 1):
                path_hash = path_hashes[path_length, start]
                slot = path_hash & mask
                number = slots[slot]
                while number >= 0:
                    if hashes[number] == path_hash and length[number] == path_length:
                        same = True
                        for k in range(path_length):
                            same &= nodes[number, k] == walks[walk, start + k]
                        if same:
                            break
                    slot = (slot + np.uint64(1)) & mask
                    number = slots[slot]
                if number < 0:
                    number = used
                    used += 1
                    slots[slot] = number
                    hashes[number] = path_hash
                    length[number] = path_length
                    counts[number] = 0
                    # Just before come the paths that are one node shorter, one more than of this length.
                    parents[number] = numbers[at - (walk_length - path_length + 2)] if path_length > shortest else -1
                    for k in range(window):
                        nodes[number, k] = walks[walk, start + k] if k < path_length else -1
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
