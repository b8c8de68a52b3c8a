"""Kernels for the steps of random walks: uniform, by edge weight, and node2vec's.

Many walks are processed together. A step first prefetches what every walk needs next and only then reads it, so that
memory latencies overlap: on graphs larger than the caches this is ten times faster. Random numbers are a hash of (key,
walk, step, attempt): walks do not depend on batches, blocks or threads. A walk that reaches a node without outgoing
edges ends there; the rest of its row is −1.

Steps by edge weight use alias tables (Walker 1977, Vose 1991). A table over d outcomes has d slots. A draw picks a slot
uniformly, then takes the slot's own outcome if a random 32-bit integer is below the slot's threshold, and its alias
otherwise. Probabilities are exact to 2^-32.

node2vec's second-order walks are drawn by rejection sampling: exact, without a table per pair of edges. A step from v
to x, with t before v, has probability proportional to w(v, x) · a, where a = 1/p if x = t, 1 if t → x is an edge, and
1/q otherwise (Grover and Leskovec, "node2vec", 2016). A neighbor x is proposed in proportion to w(v, x) and accepted
with probability a / M.

- If 1/p is the largest a, M leaves it out, and the remaining probability of the return step is drawn separately: a
  small p costs no rejections (as in KnightKing, Yang et al., 2019).
- Whether t → x is an edge is first looked up in a Bloom filter with one hash (two to four bytes per undirected edge).
  Most lookups return "no" after one read; only a "maybe" is looked up in the sorted row.
- After `_ATTEMPTS` rejections the step is drawn from its full distribution: no choice of p and q can stall a walk.

The last argument of a kernel is a block of walks: their start nodes `(b,)`, their numbers `(b,)`, the key of their
random numbers, and the array `(b, length)` that is filled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cge.arrays import Array
from cge.parallel import Int, kernel, prefetch
from cge.randomness import STEP, below, mix, unit

_LANES = 128  # walks processed together: enough to hide memory latency, few enough for the L1 cache
_COUNTERS = 64  # random numbers reserved for one step of a walk
_ATTEMPTS = 32  # of _COUNTERS random numbers per step
LOW = np.uint64(0xFFFFFFFF)
_TWO_32 = 4294967296.0  # 2^32
_SECOND_DRAW = np.uint64(0xD1B54A32D192ED03)  # separates the second random number of an attempt
_SHORT = 16  # entries of a row that is scanned, not searched
_BITS_PER_ENTRY = 8  # an undirected edge has two entries
_ONE, _SIX, _WORD = np.uint64(1), np.uint64(6), np.uint64(63)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)


def alias_table(weights: Array) -> tuple[Array, Array]:
    """Return `(threshold, alias)` of a distribution; `weights (d,)` are nonnegative and not all zero."""
    indptr = np.array([0, len(weights)], np.int64)
    return alias_tables(indptr, np.arange(len(weights), dtype=np.int64), np.asarray(weights, np.float64))


def alias_tables(indptr: Array, indices: Array, weights: Array) -> tuple[Array, Array]:
    """Return a table per row: `threshold (m,)` uint32, and `alias (m,)`, the *neighbor* to take above the threshold."""
    threshold = np.full(len(indices), LOW, np.uint32)
    alias = indices.copy()
    scaled, sums = scale_rows(indptr, weights)
    _fill(indptr, indices, scaled, sums, threshold, alias, np.empty(int(np.diff(indptr).max(initial=0)), np.int64))
    return threshold, alias


def scale_rows(indptr: Array, weights: Array) -> tuple[Array, Array]:
    """Return weights divided by the largest of their row, `(m,)`, and their sums by row, `(n,)`, float64."""
    degrees, scaled = np.diff(indptr), weights.astype(np.float64)
    largest = np.maximum.reduceat(scaled, indptr[:-1][degrees > 0]) if len(scaled) else scaled
    scaled /= np.repeat(largest, degrees[degrees > 0])
    rows = np.repeat(np.arange(len(degrees)), degrees)
    return scaled, np.bincount(rows, scaled, minlength=len(degrees))


@kernel
def _fill(
    indptr: Array, indices: Array, weights: Array, sums: Array, threshold: Array, alias: Array, stack: Array
) -> None:
    for row in range(len(indptr) - 1):
        start = indptr[row]
        size = indptr[row + 1] - start
        scaled = weights[start : start + size]
        # Slots below the mean are stacked from the left, the others from the right.
        small, large = 0, size
        for k in range(size):
            scaled[k] = scaled[k] * size / sums[row]
            if scaled[k] < 1.0:
                stack[small] = k
                small += 1
            else:
                large -= 1
                stack[large] = k
        while small > 0 and large < size:
            small -= 1
            small_slot, large_slot = stack[small], stack[large]
            threshold[start + small_slot] = np.uint32(min(scaled[small_slot] * _TWO_32, _TWO_32 - 1.0))
            alias[start + small_slot] = indices[start + large_slot]
            scaled[large_slot] = (scaled[large_slot] + scaled[small_slot]) - 1.0
            if scaled[large_slot] < 1.0:
                large += 1
                stack[small] = large_slot
                small += 1
        # The remaining slots equal the mean up to rounding: they keep their own outcome.


@kernel
def _start_walks(block: tuple[Any, ...], first: int, count: int, indptr: Array, at: Array, state: Array) -> None:
    """Put `count` walks on their start nodes; the number of a walk seeds its random state."""
    starts, numbers, key, out = block
    for lane in range(count):
        at[lane] = starts[first + lane]
        state[lane] = mix(key + np.uint64(numbers[first + lane]) * STEP)
        out[first + lane, 0] = at[lane]
        prefetch(indptr, at[lane])


@kernel
def first_order_walks(indptr: Array, indices: Array, threshold: Array, alias: Array, block: tuple[Any, ...]) -> None:
    """Walk in proportion to edge weights, given their `alias_tables`; uniformly if these are empty."""
    out, weighted = block[3], len(threshold) > 0
    at, entry = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    state, drawn = np.empty(_LANES, np.uint64), np.empty(_LANES, np.uint64)
    for first in range(0, len(out), _LANES):
        count = min(_LANES, len(out) - first)
        _start_walks(block, first, count, indptr, at, state)
        for step in range(1, out.shape[1]):
            for lane in range(count):
                node = at[lane]
                entry[lane] = -1
                if node >= 0:
                    start = np.int64(indptr[node])
                    degree = np.int64(indptr[node + 1]) - start
                    if degree > 0:
                        drawn[lane] = mix(state[lane] + np.uint64(step * _COUNTERS) * STEP)
                        entry[lane] = start + below(drawn[lane], degree)
                        prefetch(indices, entry[lane])
                        if weighted:
                            prefetch(threshold, entry[lane])
                            prefetch(alias, entry[lane])
            for lane in range(count):
                node = np.int64(-1)
                if entry[lane] >= 0:
                    node = np.int64(indices[entry[lane]])
                    if weighted and (drawn[lane] & LOW) >= np.uint64(threshold[entry[lane]]):
                        node = np.int64(alias[entry[lane]])
                    prefetch(indptr, node)
                at[lane] = node
                out[first + lane, step] = node


def edge_filter(indptr: Array, indices: Array) -> tuple[Array, np.uint64]:
    """Return `(words, shift)`: the bit of each edge is set; its index is the top bits of a hash of its nodes."""
    bits = max(int(len(indices) * _BITS_PER_ENTRY).bit_length(), 6)
    words = np.zeros(1 << (bits - 6), np.uint64)
    shift = np.uint64(64 - bits)
    _mark(indptr, indices, words, shift)
    return words, shift


@kernel
def _filter_bit(u: Int, v: Int, shift: np.uint64) -> np.uint64:
    """Return the index of the bit of an edge; the same for both directions."""
    low, high = np.uint64(min(u, v)), np.uint64(max(u, v))
    return ((low * STEP + high) * _SPREAD) >> shift


@kernel
def _mark(indptr: Array, indices: Array, words: Array, shift: np.uint64) -> None:
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            bit = _filter_bit(row, indices[k], shift)
            words[bit >> _SIX] |= _ONE << (bit & _WORD)


@kernel
def _first_at_least(indptr: Array, indices: Array, row: Int, column: Int) -> Int:
    """Return the first entry of a sorted row whose neighbor is not below `column`."""
    low, high = np.int64(indptr[row]), np.int64(indptr[row + 1])
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_edge(indptr: Array, indices: Array, directed: bool, u: Int, v: Int) -> bool:
    """Return whether `u → v` is an edge; an undirected edge is looked up in the shorter row."""
    if not directed and indptr[u + 1] - indptr[u] > indptr[v + 1] - indptr[v]:
        u, v = v, u
    start, end = np.int64(indptr[u]), np.int64(indptr[u + 1])
    if end - start <= _SHORT:  # a full scan has no branch to mispredict
        is_neighbor = False
        for k in range(start, end):
            is_neighbor |= indices[k] == v
        return is_neighbor
    entry = _first_at_least(indptr, indices, u, v)
    return bool(entry < end and indices[entry] == v)


@kernel
def _edge_mass(indptr: Array, indices: Array, weights: Array, row: Int, column: Int) -> float:
    """Return the total weight of the edges `row → column`, 0 if there is none."""
    entry = _first_at_least(indptr, indices, row, column)
    mass = 0.0
    while entry < indptr[row + 1] and indices[entry] == column:
        mass += weights[entry] if len(weights) > 0 else 1.0
        entry += 1
    return mass


@kernel
def _exact_step(
    indptr: Array, indices: Array, tables: tuple[Any, ...], rule: tuple[Any, ...], last: Int, node: Int, random: float
) -> Int:
    """Draw one step from its full distribution by two scans of the neighbors."""
    weights, _, _, _, words, shift = tables
    directed, _, p, q = rule
    start, end = np.int64(indptr[node]), np.int64(indptr[node + 1])
    target = np.inf
    for _scan in range(2):
        passed = 0.0
        for k in range(start, end):
            neighbor = np.int64(indices[k])
            mass = weights[k] if len(weights) > 0 else 1.0
            if neighbor == last:
                mass /= p
            else:
                bit = _filter_bit(last, neighbor, shift)
                maybe = (words[bit >> _SIX] >> (bit & _WORD)) & _ONE
                if maybe == 0 or not _is_edge(indptr, indices, directed, last, neighbor):
                    mass /= q
            passed += mass
            if passed > target:
                return neighbor
        target = random * passed
    return np.int64(indices[end - 1])


@kernel
def biased_walks(
    indptr: Array, indices: Array, tables: tuple[Any, ...], rule: tuple[Any, ...], block: tuple[Any, ...]
) -> None:
    """Walk like node2vec.

    `tables` are the results of `scale_rows`, `alias_tables` (both empty for uniform walks) and `edge_filter`; `rule` is
    whether the graph is directed, whether no two edges connect the same nodes, p and q.
    """
    weights, strength, threshold, alias, words, shift = tables
    directed, single, p, q = rule
    out = block[3]
    weighted = len(weights) > 0
    back, away = 1.0 / p, 1.0 / q
    max_bias = max(1.0, away)  # M
    surplus = max(back - max_bias, 0.0)
    single_return_edge = single and not weighted and not directed  # the return step is one edge of weight 1
    # Acceptance probabilities in units of 2^-32: return, to a neighbor of the last node, away from it.
    at_back = np.int64(min(back / max_bias, 1.0) * _TWO_32)
    at_near, at_away = np.int64(_TWO_32 / max_bias), np.int64(away / max_bias * _TWO_32)
    low, high = min(at_near, at_away), max(at_near, at_away)
    last, at = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    start, degree = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    entry, proposed, draw = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    todo, to_check = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    state, drawn, bits = np.empty(_LANES, np.uint64), np.empty(_LANES, np.uint64), np.empty(_LANES, np.uint64)
    for first in range(0, len(out), _LANES):
        count = min(_LANES, len(out) - first)
        _start_walks(block, first, count, indptr, at, state)
        last[:] = -1
        for step in range(1, out.shape[1]):
            waiting: Int = 0
            for lane in range(count):
                proposed[lane] = -1
                if at[lane] >= 0:
                    start[lane] = indptr[at[lane]]
                    degree[lane] = np.int64(indptr[at[lane] + 1]) - start[lane]
                    todo[waiting] = lane
                    waiting += np.int64(degree[lane] > 0)
            for attempt in range(_ATTEMPTS):
                if waiting == 0:
                    break
                # Propose a neighbor for every walk that still needs one.
                for k in range(waiting):
                    lane = todo[k]
                    drawn[lane] = mix(state[lane] + np.uint64(step * _COUNTERS + attempt) * STEP)
                    entry[lane] = start[lane] + below(drawn[lane], degree[lane])
                    prefetch(indices, entry[lane])
                    if weighted:
                        prefetch(threshold, entry[lane])
                        prefetch(alias, entry[lane])
                for k in range(waiting):
                    lane = todo[k]
                    neighbor = np.int64(indices[entry[lane]])
                    draw[lane] = np.int64(drawn[lane] & LOW)
                    if weighted:
                        if draw[lane] >= np.int64(threshold[entry[lane]]):
                            neighbor = np.int64(alias[entry[lane]])
                        draw[lane] = np.int64(mix(drawn[lane] ^ _SECOND_DRAW) & LOW)
                    proposed[lane] = neighbor
                    prefetch(indptr, neighbor)
                    bits[lane] = _filter_bit(max(last[lane], 0), neighbor, shift)
                    prefetch(words, np.int64(bits[lane] >> _SIX))
                # Accept, reject, or look up whether the proposal is a neighbor of the last node. Arithmetic instead of
                # branches, which would be mispredicted.
                rejected: Int = 0
                unchecked: Int = 0
                for k in range(waiting):
                    lane = todo[k]
                    accepted: Int = np.int64(last[lane] < 0) | np.int64(degree[lane] == 1)
                    if surplus > 0.0 and accepted == 0:
                        mass = 1.0 if single_return_edge else _edge_mass(indptr, indices, weights, at[lane], last[lane])
                        usual = max_bias * (strength[at[lane]] if weighted else float(degree[lane]))
                        if unit(mix(drawn[lane] + _SECOND_DRAW)) * (surplus * mass + usual) < surplus * mass:
                            proposed[lane] = last[lane]
                            accepted = 1
                    returns = np.int64(proposed[lane] == last[lane])
                    maybe = np.int64((words[bits[lane] >> _SIX] >> (bits[lane] & _WORD)) & _ONE) & (1 - returns)
                    bar = returns * at_back + (1 - returns) * (maybe * at_near + (1 - maybe) * at_away)
                    check = maybe & np.int64(low <= draw[lane]) & np.int64(draw[lane] < high) & (1 - accepted)
                    to_check[unchecked] = lane
                    unchecked += check
                    todo[rejected] = lane
                    rejected += np.int64(draw[lane] >= bar) & (1 - check) & (1 - accepted)
                for k in range(unchecked):
                    lane = to_check[k]
                    near = _is_edge(indptr, indices, directed, last[lane], proposed[lane])
                    todo[rejected] = lane
                    rejected += np.int64(draw[lane] >= (at_near if near else at_away))
                waiting = rejected
            for k in range(waiting):
                lane = todo[k]
                random = unit(mix(state[lane] + np.uint64(step * _COUNTERS + _ATTEMPTS) * STEP))
                proposed[lane] = _exact_step(indptr, indices, tables, rule, last[lane], at[lane], random)
            for lane in range(count):
                last[lane] = at[lane]
                at[lane] = proposed[lane]
                out[first + lane, step] = proposed[lane]
