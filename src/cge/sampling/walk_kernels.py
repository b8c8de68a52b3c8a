"""Kernels that take the steps of random walks.

Many walks are in flight at once. A step first asks the memory for what every walk needs next and only then reads it,
so that the waits overlap: on graphs larger than the caches this is worth an order of magnitude.

Random numbers are a hash of (key, walk, step, attempt): walks do not depend on batches, blocks or threads.

A walk that meets a node without outgoing edges ends there; the rest of its row is −1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import kernel, prefetch
from cge.randomness import STEP, below, mix

__all__ = ["COUNTERS", "LANES", "LOW", "begin_walks", "choose_places", "uniform_walks", "weighted_walks"]

Array = npt.NDArray[Any]

LANES = 128  # walks in flight: enough to hide memory latency, few enough to stay in the nearest cache
COUNTERS = 64  # random numbers set aside for one step of one walk
LOW = np.uint64(0xFFFFFFFF)


@kernel
def begin_walks(
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
    """Put `count` walks on their start nodes; the walks' own numbers seed their states."""
    for lane in range(count):
        at[lane] = starts[first + lane]
        state[lane] = mix(key + np.uint64(numbers[first + lane]) * STEP)
        out[first + lane, 0] = at[lane]
        prefetch(indptr, at[lane])


@kernel
def choose_places(
    indptr: Array, indices: Array, at: Array, state: Array, step: int, count: int, place: Array, drawn: Array
) -> None:
    """Choose a uniform entry of the row of every walk's node, −1 where there is none, and fetch it."""
    for lane in range(count):
        node = at[lane]
        place[lane] = -1
        if node >= 0:
            begin = np.int64(indptr[node])
            degree = np.int64(indptr[node + 1]) - begin
            if degree > 0:
                drawn[lane] = mix(state[lane] + np.uint64(step * COUNTERS) * STEP)
                place[lane] = begin + below(drawn[lane], degree)
                prefetch(indices, place[lane])


@kernel
def uniform_walks(indptr: Array, indices: Array, starts: Array, numbers: Array, key: np.uint64, out: Array) -> None:
    """Fill `out (b, length)` with walks whose every step is uniform over the neighbors."""
    at, place = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    state, drawn = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for first in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - first)
        begin_walks(starts, numbers, key, first, count, indptr, at, state, out)
        for step in range(1, out.shape[1]):
            choose_places(indptr, indices, at, state, step, count, place, drawn)
            for lane in range(count):
                node = np.int64(-1)
                if place[lane] >= 0:
                    node = np.int64(indices[place[lane]])
                    prefetch(indptr, node)
                at[lane] = node
                out[first + lane, step] = node


@kernel
def weighted_walks(
    indptr: Array,
    indices: Array,
    chance: Array,
    alias: Array,
    starts: Array,
    numbers: Array,
    key: np.uint64,
    out: Array,
) -> None:
    """Fill `out (b, length)` with walks that step in proportion to edge weights; `chance, alias` are `row_tables`."""
    at, place = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    state, drawn = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for first in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - first)
        begin_walks(starts, numbers, key, first, count, indptr, at, state, out)
        for step in range(1, out.shape[1]):
            choose_places(indptr, indices, at, state, step, count, place, drawn)
            for lane in range(count):
                if place[lane] >= 0:
                    prefetch(chance, place[lane])
                    prefetch(alias, place[lane])
            for lane in range(count):
                node = np.int64(-1)
                if place[lane] >= 0:
                    own = (drawn[lane] & LOW) < np.uint64(chance[place[lane]])
                    node = np.int64(indices[place[lane]]) if own else np.int64(alias[place[lane]])
                    prefetch(indptr, node)
                at[lane] = node
                out[first + lane, step] = node
