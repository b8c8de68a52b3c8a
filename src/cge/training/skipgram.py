"""Skip-gram with negative sampling on walks: a kernel that trains both tables as it goes (Eqs. 4 and 5, large graphs).

For a node of a walk (the *center*, source vector w) and its contexts (target vectors e), the kernel draws negatives
once and shares them among the contexts: k contexts with m shared negatives cost k + m dot products instead of k + 5 k.
A shared negative counts 5 k / m times, so the expected gradient is that of five negatives for each pair. A context
that a walk meets again within the window is computed once and counts as often as it is met. Negatives glide along the
walk like its contexts: each center draws a part of them anew and takes over the others, which are still in the cache.

Threads train on blocks of pairs that share no row (`parts.py`): the result does not depend on their number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import float_kernel, kernel, prefetch
from cge.randomness import STEP, below, key, mix
from cge.training.walk_partitions import Parts, in_waves

__all__ = ["train_pairs", "train_walks"]

Array = npt.NDArray[Any]

_LOW = np.uint64(0xFFFFFFFF)
_TILE = 4  # rows whose scores are computed together
_REUSE = 2  # centers that take the same negative
_LINE = 16  # numbers in a line of the cache
_LIMIT, _PER_UNIT = 8.0, 256.0  # scores beyond ± 8 are as good as sure
_SIGMOID = (1 / (1 + np.exp(-(np.arange(int(2 * _LIMIT * _PER_UNIT)) + 0.5) / _PER_UNIT + _LIMIT))).astype(np.float32)


def train_walks(
    walks: Array,
    first: int,
    sources: Array,
    targets: Array,
    parts: Parts,
    *,
    back: int,
    ahead: int,
    rates: tuple[float, float],
    negatives: int = 5,
    share: float = 1.0,
    seed: int = 0,
    stream: int = 0,
    n_jobs: int | None = None,
    weights: Array | None = None,
    base: Array | None = None,
    shortest: int = 2,
    written: Array | None = None,
    target_rate: float | None = None,
    row_of: Array | None = None,
    chunk: int = 1024,
) -> int:
    """Train both tables, float32, on the pairs of `walks (b, length)`; return the number of pairs.

    Parameters
    ----------
    first : int
        Number of the first walk, which names its random numbers.
    back, ahead : int
        Contexts before and after the center.
    rates : (float, float)
        Learning rate at the first and at the last walk.
    negatives : int
        Negatives that each pair counts.
    share : float
        Negatives of a center for each of its contexts; a few more where that fills the last four rows.
    stream : int
        Names the pass; another pass over the same walks draws other negatives.
    weights, base : (paths,) float32 and (b,) int64, optional
        Weight of each sub-path from `shortest` nodes on, in the order of `subpaths`, and where those of a walk begin.
    written, target_rate : (n, d) array and float, optional
        Add `target_rate` times the descent direction here instead of training `targets`.
    row_of : (n,) array, optional
        The row of `targets` that a node has, where nodes share rows; only nodes of one part may share one.
    chunk : int
        Walks of a block: all parts of the graph have seen them before any part sees the next ones.
    """
    block = _block_kernel(sources.shape[1])
    into = targets if written is None else written
    flat = np.empty(0, np.float32) if weights is None else weights
    begin = np.empty(0, np.int64) if base is None else base
    slope = (rates[1] - rates[0]) / max(len(walks) - 1, 1)
    settings = (back, ahead, np.float32(rates[0]), np.float32(slope), np.float32(target_rate or 0.0))
    random_keys = [key(seed, "negatives", stream, j) for j in range(parts.count)]
    spans = [slice(parts.pointer[j], parts.pointer[j + 1]) for j in range(parts.count)]
    rows = np.empty(0, np.int64) if row_of is None else row_of
    nodes, alias = (parts.nodes, parts.alias) if row_of is None else (row_of[parts.nodes], row_of[parts.alias])
    tables = [(nodes[span], parts.threshold[span], alias[span]) for span in spans]
    counts = np.zeros(parts.count, np.int64)

    def run(step: int, i: int) -> None:
        number, shift = divmod(step, parts.count)
        j = (i + shift) % parts.count
        counts[i] += block(
            walks,
            number * chunk,
            min((number + 1) * chunk, len(walks)),
            first,
            parts.part,
            rows,
            i,
            j,
            *tables[j],
            *settings,
            negatives,
            share,
            random_keys[j],
            flat,
            begin,
            shortest,
            sources,
            targets,
            into,
            _SIGMOID,
        )

    in_waves(run, -(-len(walks) // chunk) * parts.count, parts.count, n_jobs)
    return int(counts.sum())


def train_pairs(pairs: Array, sources: Array, targets: Array, parts: Parts, **settings: Any) -> int:
    """Train on single pairs `(b, 2)`, each as a walk of two nodes seen from its first."""
    return train_walks(np.ascontiguousarray(pairs), 0, sources, targets, parts, back=0, ahead=1, **settings)


@kernel
def _lay_out(
    walk: Array,
    part: Array,
    row_of: Array,
    center_part: int,
    context_part: int,
    reach: int,
    centers: Array,
    places: Array,
    rows: Array,
    before: Array,
) -> tuple[int, int]:
    """List where a walk's centers and its contexts of a block are; return its length and the number of centers.

    Contexts are told by their rows. `before[k]` is the last context before k of the same row, −1 where there is none
    within `reach`.
    """
    size = found = mine = 0
    while size < len(walk) and walk[size] >= 0:
        node = walk[size]
        owner = part[node]
        centers[mine] = size
        mine += owner == center_part
        if owner == context_part:
            row = np.int64(row_of[node] if len(row_of) > 0 else node)
            last = found - 1
            while last >= 0 and rows[last] != row:
                last = last - 1 if places[last] >= size - reach else -1
            before[found] = last
            places[found], rows[found] = size, row
            found += 1
        size += 1
    places[found] = np.int64(1) << 62  # ends every search
    return size, mine


@cache
def _block_kernel(dim: int) -> Any:
    """Compile the kernel of one block for vectors of `dim` numbers: a known length lets the compiler unroll."""
    lines = -(-dim // _LINE)

    @float_kernel
    def block(
        walks: Array,
        walk: int,
        end: int,
        first: int,
        part: Array,
        row_of: Array,
        center_part: int,
        context_part: int,
        drawn_rows: Array,
        threshold: Array,
        alias: Array,
        back: int,
        ahead: int,
        rate_first: float,
        slope: float,
        target_rate: float,
        negatives: int,
        share: float,
        random_key: np.uint64,
        weights: Array,
        base: Array,
        shortest: int,
        sources: Array,
        targets: Array,
        into: Array,
        sigmoid: Array,
    ) -> int:
        length, most, weighted = walks.shape[1], back + ahead, len(weights) > 0
        room = most + max(int(share * most), 1) + _TILE
        # Two centers are in hand: while one is trained, what the next one needs is on its way to the cache.
        rows, worth = np.empty(2 * room, np.int64), np.empty(2 * room, np.float32)
        plan, pace = np.zeros((2, 3), np.int64), np.zeros((2, 2), np.float32)
        centers, places = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
        met_rows, before = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
        slots = np.empty(length + 1, np.int64)
        pool = np.empty((length + 1) * room, np.int64)  # negatives in the order in which a walk draws them
        center, change, step = np.empty(dim, np.float32), np.empty(dim, np.float32), np.empty(room, np.float32)
        size = mine = begin = seen = drawn = turn = pairs = 0
        next_center, rate, state = 0, np.float32(0), random_key
        walk -= 1
        while True:
            planned = False
            while not planned:
                if next_center == mine:
                    walk += 1
                    if walk >= end:
                        break
                    size, mine = _lay_out(
                        walks[walk], part, row_of, center_part, context_part, most, centers, places, met_rows, before
                    )
                    next_center = begin = seen = drawn = 0
                    rate = rate_first + slope * np.float32(walk)
                    state = mix(random_key + np.uint64(first + walk) * STEP)
                    continue
                position = centers[next_center]
                next_center += 1
                node = np.int64(walks[walk, position])
                while places[begin] < position - back:
                    begin += 1
                k, at, contexts, met, total = begin, turn * room, 0, 0, np.float32(0)
                while places[k] <= position + ahead:
                    place = places[k]
                    if place != position:
                        weight = np.float32(1)
                        if weighted:
                            # Sub-paths come by length, then from left to right: skip those that are shorter.
                            span, skipped = place - position + 1, 0
                            for shorter in range(shortest, span):
                                skipped += size - shorter + 1
                            weight = weights[base[walk] + skipped + position] if span >= shortest else np.float32(0)
                        last = before[k]
                        if last >= 0 and places[last] == position:
                            last = before[last]
                        again = last >= begin
                        slot = slots[last] if again else contexts
                        slots[k] = slot
                        rows[at + slot] = met_rows[k]
                        worth[at + slot] = weight + (worth[at + slot] if again else np.float32(0))
                        contexts += not again
                        met += 1
                        total += weight
                        if k >= seen:
                            for line in range(lines):
                                prefetch(targets, met_rows[k] * dim + line * _LINE)
                    k += 1
                seen = max(seen, k)
                if met == 0:
                    continue
                pairs += met
                count = max(int(share * met), 1)
                count += -(contexts + count) & (_TILE - 1)
                for _ in range(max(-(-count // _REUSE), count - drawn)):
                    random = mix(state + np.uint64(drawn + 1) * STEP)
                    draw = below(random, len(threshold))
                    kept = (random & _LOW) < np.uint64(threshold[draw])
                    pool[drawn] = drawn_rows[draw] if kept else alias[draw]
                    for line in range(lines):
                        prefetch(targets, pool[drawn] * dim + line * _LINE)
                    drawn += 1
                for k in range(count):
                    rows[at + contexts + k] = pool[drawn - count + k]
                for line in range(lines):
                    prefetch(sources, node * dim + line * _LINE)
                plan[turn, 0], plan[turn, 1], plan[turn, 2] = node, contexts, contexts + count
                pace[turn, 0], pace[turn, 1] = rate, total * np.float32(negatives) / np.float32(count)
                planned = True
            turn = 1 - turn
            if plan[turn, 2]:
                # Train the center that was planned before: its rows from `at` on, contexts first.
                at, node, contexts, count = turn * room, plan[turn, 0], plan[turn, 1], plan[turn, 2]
                pull_rate, against = pace[turn, 0], pace[turn, 1]
                for d in range(dim):
                    center[d] = sources[node, d]
                    change[d] = 0
                whole = count // _TILE * _TILE
                for k in range(0, whole, _TILE):  # four rows at a time: the center is read once for them
                    a, b, c, e = rows[at + k], rows[at + k + 1], rows[at + k + 2], rows[at + k + 3]
                    to_a = to_b = to_c = to_e = np.float32(0)
                    for d in range(dim):
                        own = center[d]
                        to_a += own * targets[a, d]
                        to_b += own * targets[b, d]
                        to_c += own * targets[c, d]
                        to_e += own * targets[e, d]
                    step[k], step[k + 1], step[k + 2], step[k + 3] = to_a, to_b, to_c, to_e
                for k in range(whole, count):
                    score = np.float32(0)
                    for d in range(dim):
                        score += center[d] * targets[rows[at + k], d]
                    step[k] = score
                for k in range(count):
                    score = min(max(step[k], np.float32(-_LIMIT)), np.float32(_LIMIT - 0.01))
                    guess = sigmoid[int((score + np.float32(_LIMIT)) * np.float32(_PER_UNIT))]
                    step[k] = worth[at + k] * (np.float32(1) - guess) if k < contexts else -against * guess
                if target_rate == 0:
                    for k in range(0, count - 1, 2):  # more than two at a time, and the compiler would not vectorize
                        a, b = rows[at + k], rows[at + k + 1]
                        pull_a, pull_b = pull_rate * step[k], pull_rate * step[k + 1]
                        if a == b:  # drawn twice
                            for d in range(dim):
                                x = targets[a, d]
                                change[d] += (pull_a + pull_b) * x
                                targets[a, d] = x + (pull_a + pull_b) * center[d]
                            continue
                        for d in range(dim):
                            own, x, y = center[d], targets[a, d], targets[b, d]
                            change[d] += pull_a * x + pull_b * y
                            targets[a, d] = x + pull_a * own
                            targets[b, d] = y + pull_b * own
                    for k in range(count // 2 * 2, count):
                        a, pull_a = rows[at + k], pull_rate * step[k]
                        for d in range(dim):
                            x = targets[a, d]
                            change[d] += pull_a * x
                            targets[a, d] = x + pull_a * center[d]
                else:
                    for k in range(count):
                        a, pull_a, push = rows[at + k], pull_rate * step[k], target_rate * step[k]
                        for d in range(dim):
                            change[d] += pull_a * targets[a, d]
                            into[a, d] += push * center[d]
                for d in range(dim):
                    sources[node, d] = center[d] + change[d]
            if not planned:
                return pairs

    return block
