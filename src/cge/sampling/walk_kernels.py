"""Kernels for the steps of random walks.

Many walks are processed together. A step first prefetches what every walk needs next and only then reads it, so that
memory latencies overlap: on graphs larger than the caches this is ten times faster.

Random numbers are a hash of (key, walk, step, attempt): walks do not depend on batches, blocks or threads.

A walk that reaches a node without outgoing edges ends there; the rest of its row is −1.
"""

from __future__ import annotations

import numpy as np

from cge.arrays import Array
from cge.parallel import kernel, prefetch
from cge.randomness import STEP, below, mix

LANES = 128  # walks processed together: enough to hide memory latency, few enough for the L1 cache
COUNTERS = 64  # random numbers reserved for one step of a walk
LOW = np.uint64(0xFFFFFFFF)


@kernel
def start_walks(
    starts: Array,
    numbers: Array,
    key: np.uint64,
    first: int,
    count: int,
    indptr: Array,
    at: Array,
    state: Array,
    out: Array,
) -> None:
    """Put `count` walks on their start nodes; the number of a walk seeds its random state."""
    for lane in range(count):
        at[lane] = starts[first + lane]
        state[lane] = mix(key + np.uint64(numbers[first + lane]) * STEP)
        out[first + lane, 0] = at[lane]
        prefetch(indptr, at[lane])


@kernel
def choose_entries(
    indptr: Array, indices: Array, at: Array, state: Array, step: int, count: int, entry: Array, drawn: Array
) -> None:
    """Choose a uniform entry of the row of every walk's node, −1 if the row is empty, and prefetch it."""
    for lane in range(count):
        node = at[lane]
        entry[lane] = -1
        if node >= 0:
            start = np.int64(indptr[node])
            degree = np.int64(indptr[node + 1]) - start
            if degree > 0:
                drawn[lane] = mix(state[lane] + np.uint64(step * COUNTERS) * STEP)
                entry[lane] = start + below(drawn[lane], degree)
                prefetch(indices, entry[lane])


@kernel
def uniform_walks(indptr: Array, indices: Array, starts: Array, numbers: Array, key: np.uint64, out: Array) -> None:
    """Fill `out (b, length)` with walks whose steps are uniform over the neighbors."""
    at, entry = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    state, drawn = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for first in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - first)
        start_walks(starts, numbers, key, first, count, indptr, at, state, out)
        for step in range(1, out.shape[1]):
            choose_entries(indptr, indices, at, state, step, count, entry, drawn)
            for lane in range(count):
                node = np.int64(-1)
                if entry[lane] >= 0:
                    node = np.int64(indices[entry[lane]])
                    prefetch(indptr, node)
                at[lane] = node
                out[first + lane, step] = node


@kernel
def weighted_walks(
    indptr: Array,
    indices: Array,
    threshold: Array,
    alias: Array,
    starts: Array,
    numbers: Array,
    key: np.uint64,
    out: Array,
) -> None:
    """Fill `out (b, length)` with walks that step in proportion to edge weights, given their `alias_tables`."""
    at, entry = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    state, drawn = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for first in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - first)
        start_walks(starts, numbers, key, first, count, indptr, at, state, out)
        for step in range(1, out.shape[1]):
            choose_entries(indptr, indices, at, state, step, count, entry, drawn)
            for lane in range(count):
                if entry[lane] >= 0:
                    prefetch(threshold, entry[lane])
                    prefetch(alias, entry[lane])
            for lane in range(count):
                node = np.int64(-1)
                if entry[lane] >= 0:
                    own = (drawn[lane] & LOW) < np.uint64(threshold[entry[lane]])
                    node = np.int64(indices[entry[lane]]) if own else np.int64(alias[entry[lane]])
                    prefetch(indptr, node)
                at[lane] = node
                out[first + lane, step] = node
