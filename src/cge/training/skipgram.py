"""Skip-gram with negative sampling on walks: a kernel that updates both tables in place (Eqs. 4 and 5, large graphs).

For a node of a walk (the *center*, source vector w) and its contexts (target vectors e), the kernel draws negatives
once and shares them among the contexts: k contexts with m shared negatives cost k + m dot products instead of k + 5 k.
A shared negative has the weight 5 k / m, so the expected gradient is that of five negatives for each pair. A context
that occurs several times within the window is computed once with the sum of its weights. Successive centers share
negatives: each draws some of them anew and reuses the others, which are still in the cache.

Threads train on blocks of pairs that share no row (`walk_partitions.py`): the result does not depend on their number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.parallel import float_kernel, kernel, prefetch
from cge.randomness import STEP, below, key, mix
from cge.training.walk_partitions import NodePartition, run_in_waves

_LOW = np.uint64(0xFFFFFFFF)
_TILE = 4  # rows whose scores are computed together
_REUSE = 2  # centers that share a negative
_LINE = 16  # float32 numbers in a cache line
_SPECIALIZED = 32  # dimension from which a kernel of its own is worth the five seconds of compiling it
_LIMIT, _PER_UNIT = 8.0, 256.0  # scores are clipped to ± 8
_SIGMOID = (1 / (1 + np.exp(-(np.arange(int(2 * _LIMIT * _PER_UNIT)) + 0.5) / _PER_UNIT + _LIMIT))).astype(np.float32)


def train_walks(
    walks: Array,
    first: int,
    sources: Array,
    targets: Array,
    partition: NodePartition,
    *,
    back: int,
    ahead: int,
    learning_rates: tuple[float, float],
    negatives: int = 5,
    negatives_per_context: float = 1.0,
    seed: int = 0,
    stream: int = 0,
    n_jobs: int | None = None,
    weights: Array | None = None,
    base: Array | None = None,
    shortest: int = 2,
    target_gradient: Array | None = None,
    target_rate: float | None = None,
    row_of: Array | None = None,
    chunk: int = 1024,
) -> int:
    """Train both tables, float32, on the pairs of `walks (b, length)`; return the number of pairs.

    The numbers of the first walk, `first`, and of the `stream` select the random numbers. A center has `back` contexts
    before it and `ahead` after it; `learning_rates` are those at the first and the last walk. A pair has `negatives` in
    the loss, of which a center draws `negatives_per_context`, rounded up to a multiple of four rows. `weights (paths,)`
    are those of the sub-paths of at least `shortest` nodes, in the order of `subpaths`, and `base (b,)` the first index
    of a walk. `target_gradient (n, d)` gets `target_rate` times the descent direction, instead of an update of
    `targets`. `row_of (n,)` is the row of each node in `targets`, where nodes of one part share rows. All parts of the
    graph are trained on a `chunk` of walks before any part continues with the next one.
    """
    block = _block_kernel(sources.shape[1] if sources.shape[1] >= _SPECIALIZED else 0)
    output = targets if target_gradient is None else target_gradient
    weights = np.empty(0, np.float32) if weights is None else weights
    base = np.empty(0, np.int64) if base is None else base
    slope = (learning_rates[1] - learning_rates[0]) / max(len(walks) - 1, 1)
    rates = (np.float32(learning_rates[0]), np.float32(slope), np.float32(target_rate or 0.0))
    settings = ((back, ahead), rates, (negatives, negatives_per_context), (weights, base, shortest))
    tables = (sources, targets, output, _SIGMOID)
    random_keys = [key(seed, "negatives", stream, j) for j in range(partition.count)]
    nodes = (partition.part_of, np.empty(0, np.int64) if row_of is None else row_of)
    alias_tables = partition.alias_tables(row_of)
    counts = np.zeros(partition.count, np.int64)

    def run(step: int, i: int) -> None:
        number, shift = divmod(step, partition.count)
        j = (i + shift) % partition.count
        batch = (walks, number * chunk, min((number + 1) * chunk, len(walks)), first)
        counts[i] += block(batch, nodes, (i, j), alias_tables[j], settings, random_keys[j], tables)

    run_in_waves(run, -(-len(walks) // chunk) * partition.count, partition.count, n_jobs)
    return int(counts.sum())


def train_bucket(
    walks: Array,
    first: int,
    tables: tuple[Array, Array],
    nodes: tuple[Array, Array],
    parts: tuple[int, int],
    negative_table: tuple[Array, Array, Array],
    *,
    window: int,
    learning_rates: tuple[float, float],
    negatives: int,
    random_key: np.uint64,
) -> int:
    """Train tables that have only the rows of one block of pairs, on all `walks`; return the number of pairs.

    Nodes of the walks are numbered for this block: a center's number is its row in the first table, and `nodes` are
    part and row in the second table of each. `negative_table` has rows of the second table, thresholds and aliases.
    """
    dim = tables[0].shape[1]
    slope = (learning_rates[1] - learning_rates[0]) / max(len(walks) - 1, 1)
    rates = (np.float32(learning_rates[0]), np.float32(slope), np.float32(0.0))
    settings = ((window, window), rates, (negatives, 1.0), (np.empty(0, np.float32), np.empty(0, np.int64), 2))
    block = _block_kernel(dim if dim >= _SPECIALIZED else 0)
    batch = (walks, 0, len(walks), first)
    return int(block(batch, nodes, parts, negative_table, settings, random_key, (*tables, tables[1], _SIGMOID)))


@kernel
def _find_contexts(walk: Array, nodes: Any, parts: tuple[int, int], reach: int, places: Any) -> tuple[int, int]:
    """List the positions of a walk's centers and contexts in a block; return its length and the number of centers.

    Contexts are identified by their rows. `previous[k]` is the last context before k with the same row, −1 if there is
    none within `reach`.
    """
    (part_of, row_of), (center_part, context_part) = nodes, parts
    centers, positions, rows, previous = places
    size = n_contexts = n_centers = 0
    while size < len(walk) and walk[size] >= 0:
        node = walk[size]
        part = part_of[node]
        centers[n_centers] = size
        n_centers += part == center_part
        if part == context_part:
            row = np.int64(row_of[node] if len(row_of) > 0 else node)
            last = n_contexts - 1
            while last >= 0 and rows[last] != row:
                last = last - 1 if positions[last] >= size - reach else -1
            previous[n_contexts] = last
            positions[n_contexts], rows[n_contexts] = size, row
            n_contexts += 1
        size += 1
    positions[n_contexts] = np.int64(1) << 62  # ends every search
    return size, n_centers


@cache
def _block_kernel(known_dim: int) -> Any:
    """Compile the kernel of one block for vectors of length `known_dim`, or of any length if it is 0.

    A known length lets the compiler unroll.
    """

    @float_kernel
    def block(batch: Any, nodes: Any, parts: Any, alias_table: Any, settings: Any, key: np.uint64, tables: Any) -> int:
        (walks, walk, end, first), (drawn_rows, threshold, alias) = batch, alias_table
        (back, ahead), rates, (negatives, negatives_per_context), (weights, base, shortest) = settings
        (first_rate, slope, target_rate), (sources, targets, output, sigmoid) = rates, tables
        dim = known_dim if known_dim > 0 else sources.shape[1]
        lines = (dim + _LINE - 1) // _LINE
        length, reach, weighted = walks.shape[1], back + ahead, len(weights) > 0
        capacity = reach + max(int(negatives_per_context * reach), 1) + _TILE
        # While one center is trained, the rows of the next one are prefetched.
        rows, pair_weights = np.empty(2 * capacity, np.int64), np.empty(2 * capacity, np.float32)
        plan, plan_rates = np.zeros((2, 3), np.int64), np.zeros((2, 2), np.float32)
        centers, positions = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
        context_rows, previous = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)
        places = (centers, positions, context_rows, previous)
        slots = np.empty(length + 1, np.int64)
        negative_rows = np.empty((length + 1) * capacity, np.int64)  # negatives in the order in which a walk draws them
        center, change, step = np.empty(dim, np.float32), np.empty(dim, np.float32), np.empty(capacity, np.float32)
        size = n_centers = window_start = prefetched = n_drawn = turn = pairs = 0
        next_center, current_rate, state = 0, np.float32(0), key
        walk -= 1
        while True:
            planned = False
            while not planned:
                if next_center == n_centers:
                    walk += 1
                    if walk >= end:
                        break
                    size, n_centers = _find_contexts(walks[walk], nodes, parts, reach, places)
                    next_center = window_start = prefetched = n_drawn = 0
                    current_rate = first_rate + slope * np.float32(walk)
                    state = mix(key + np.uint64(first + walk) * STEP)
                    continue
                position = centers[next_center]
                next_center += 1
                node = np.int64(walks[walk, position])
                while positions[window_start] < position - back:
                    window_start += 1
                k, at, contexts, n_pairs, total_weight = window_start, turn * capacity, 0, 0, np.float32(0)
                while positions[k] <= position + ahead:
                    context_position = positions[k]
                    if context_position != position:
                        weight = np.float32(1)
                        if weighted:
                            # Sub-paths come by length, then from left to right: skip those that are shorter.
                            span, skipped = context_position - position + 1, 0
                            for shorter in range(shortest, span):
                                skipped += size - shorter + 1
                            weight = weights[base[walk] + skipped + position] if span >= shortest else np.float32(0)
                        last = previous[k]
                        if last >= 0 and positions[last] == position:
                            last = previous[last]
                        repeated = last >= window_start
                        slot = slots[last] if repeated else contexts
                        slots[k] = slot
                        rows[at + slot] = context_rows[k]
                        pair_weights[at + slot] = weight + (pair_weights[at + slot] if repeated else np.float32(0))
                        contexts += not repeated
                        n_pairs += 1
                        total_weight += weight
                        if k >= prefetched:
                            for line in range(lines):
                                prefetch(targets, context_rows[k] * dim + line * _LINE)
                    k += 1
                prefetched = max(prefetched, k)
                if n_pairs == 0:
                    continue
                pairs += n_pairs
                count = max(int(negatives_per_context * n_pairs), 1)
                count += -(contexts + count) & (_TILE - 1)  # the rows of a center are a multiple of four
                for _ in range(max(-(-count // _REUSE), count - n_drawn)):
                    random = mix(state + np.uint64(n_drawn + 1) * STEP)
                    drawn_slot = below(random, len(threshold))
                    below_threshold = (random & _LOW) < np.uint64(threshold[drawn_slot])
                    negative_rows[n_drawn] = drawn_rows[drawn_slot] if below_threshold else alias[drawn_slot]
                    for line in range(lines):
                        prefetch(targets, negative_rows[n_drawn] * dim + line * _LINE)
                    n_drawn += 1
                for k in range(count):
                    rows[at + contexts + k] = negative_rows[n_drawn - count + k]
                for line in range(lines):
                    prefetch(sources, node * dim + line * _LINE)
                plan[turn, 0], plan[turn, 1], plan[turn, 2] = node, contexts, contexts + count
                plan_rates[turn, 0] = current_rate
                plan_rates[turn, 1] = total_weight * np.float32(negatives) / np.float32(count)
                planned = True
            turn = 1 - turn
            if plan[turn, 2]:
                # Train the center that was planned before: its rows from `at` on, contexts first.
                at, node, contexts, count = turn * capacity, plan[turn, 0], plan[turn, 1], plan[turn, 2]
                learning_rate, negative_weight = plan_rates[turn, 0], plan_rates[turn, 1]
                for d in range(dim):
                    center[d] = sources[node, d]
                    change[d] = 0
                for k in range(0, count, _TILE):  # four rows at a time: the center is read once for them
                    a, b, c, e = rows[at + k], rows[at + k + 1], rows[at + k + 2], rows[at + k + 3]
                    score_a = score_b = score_c = score_e = np.float32(0)
                    for d in range(dim):
                        own = center[d]
                        score_a += own * targets[a, d]
                        score_b += own * targets[b, d]
                        score_c += own * targets[c, d]
                        score_e += own * targets[e, d]
                    step[k], step[k + 1], step[k + 2], step[k + 3] = score_a, score_b, score_c, score_e
                for k in range(count):
                    score = min(max(step[k], np.float32(-_LIMIT)), np.float32(_LIMIT - 0.01))
                    probability = sigmoid[int((score + np.float32(_LIMIT)) * np.float32(_PER_UNIT))]
                    if k < contexts:
                        step[k] = pair_weights[at + k] * (np.float32(1) - probability)
                    else:
                        step[k] = -negative_weight * probability
                if target_rate == 0:
                    for k in range(0, count, 2):  # more than two at a time, and the compiler would not vectorize
                        a, b = rows[at + k], rows[at + k + 1]
                        step_a, step_b = learning_rate * step[k], learning_rate * step[k + 1]
                        if a == b:  # drawn twice
                            for d in range(dim):
                                x = targets[a, d]
                                change[d] += (step_a + step_b) * x
                                targets[a, d] = x + (step_a + step_b) * center[d]
                            continue
                        for d in range(dim):
                            own, x, y = center[d], targets[a, d], targets[b, d]
                            change[d] += step_a * x + step_b * y
                            targets[a, d] = x + step_a * own
                            targets[b, d] = y + step_b * own
                else:
                    for k in range(count):
                        a, step_a, target_step = rows[at + k], learning_rate * step[k], target_rate * step[k]
                        for d in range(dim):
                            change[d] += step_a * targets[a, d]
                            output[a, d] += target_step * center[d]
                for d in range(dim):
                    sources[node, d] = center[d] + change[d]
            if not planned:
                return pairs

    return block
