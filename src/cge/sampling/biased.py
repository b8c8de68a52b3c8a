"""node2vec's second-order walks by rejection: exact, and no table per pair of edges.

From t over v to x a step has mass w(v, x) · a with a = 1/p if x = t, 1 if t → x is an edge, and 1/q otherwise (Grover
and Leskovec, "node2vec", 2016). A neighbor x is proposed by weight alone and accepted with chance a / M.

- M leaves 1/p out where that is the largest: what the way back then lacks is drawn on its own, so a small p is cheap
  (as in KnightKing, Yang et al., 2019).
- "t → x is an edge" is first asked of a bit filter (two to four bytes per undirected edge). Most answers are a sure
  no, after one read; a maybe is looked up in the sorted row.
- After `_ATTEMPTS` rejections the step is drawn from its full distribution. Both ways have the same law, so has their
  mixture, and no choice of p and q can stall a walk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import Int, kernel, prefetch
from cge.randomness import STEP, below, mix, unit
from cge.sampling.walk_kernels import COUNTERS, LANES, LOW, begin_walks

__all__ = ["biased_walks", "edge_filter"]

Array = npt.NDArray[Any]

_ATTEMPTS = 32  # of COUNTERS random numbers per step
_ALL = 4294967296.0  # 2^32
_OTHER = np.uint64(0xD1B54A32D192ED03)  # separates a second number drawn at the same place
_SHORT = 16  # entries of a row that is scanned, not searched
_BITS_PER_ENTRY = 8  # an undirected edge has two entries
_ONE, _SIX, _WORD = np.uint64(1), np.uint64(6), np.uint64(63)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)


def edge_filter(indptr: Array, indices: Array) -> tuple[Array, np.uint64]:
    """Return `(words, shift)`: a bit is set for each edge, at the place that the top bits of a hash of its ends say."""
    bits = max(int(len(indices) * _BITS_PER_ENTRY).bit_length(), 6)
    words = np.zeros(1 << (bits - 6), np.uint64)
    shift = np.uint64(64 - bits)
    _mark(indptr, indices, words, shift)
    return words, shift


@kernel
def _spot(one: Int, other: Int, shift: np.uint64) -> np.uint64:
    """Return the bit of an edge; the same for both directions."""
    low, high = np.uint64(min(one, other)), np.uint64(max(one, other))
    return ((low * STEP + high) * _SPREAD) >> shift


@kernel
def _mark(indptr: Array, indices: Array, words: Array, shift: np.uint64) -> None:
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            spot = _spot(row, indices[k], shift)
            words[spot >> _SIX] |= _ONE << (spot & _WORD)


@kernel
def _first_at_least(indptr: Array, indices: Array, row: Int, column: Int) -> Int:
    """Return the first place in a sorted row whose neighbor is not below `column`."""
    low, high = np.int64(indptr[row]), np.int64(indptr[row + 1])
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_edge(indptr: Array, indices: Array, directed: bool, one: Int, other: Int) -> bool:
    """Say whether `one → other` is an edge; an undirected one is looked up in the shorter row."""
    if not directed and indptr[one + 1] - indptr[one] > indptr[other + 1] - indptr[other]:
        one, other = other, one
    begin, end = np.int64(indptr[one]), np.int64(indptr[one + 1])
    if end - begin <= _SHORT:  # a scan of all has no branch to mispredict
        found = False
        for k in range(begin, end):
            found |= indices[k] == other
        return found
    place = _first_at_least(indptr, indices, one, other)
    return bool(place < end and indices[place] == other)


@kernel
def _edge_mass(indptr: Array, indices: Array, weights: Array, row: Int, column: Int) -> float:
    """Return the weight of all edges `row → column`, 0 where there is none."""
    place = _first_at_least(indptr, indices, row, column)
    mass = 0.0
    while place < indptr[row + 1] and indices[place] == column:
        mass += weights[place] if len(weights) > 0 else 1.0
        place += 1
    return mass


@kernel
def _exact_step(
    indptr: Array,
    indices: Array,
    weights: Array,
    words: Array,
    shift: np.uint64,
    directed: bool,
    last: Int,
    node: Int,
    p: float,
    q: float,
    random: float,
) -> Int:
    """Draw one step from its full distribution, by two scans of the neighbors."""
    begin, end = np.int64(indptr[node]), np.int64(indptr[node + 1])
    target = np.inf
    for _scan in range(2):
        passed = 0.0
        for k in range(begin, end):
            neighbor = np.int64(indices[k])
            mass = weights[k] if len(weights) > 0 else 1.0
            if neighbor == last:
                mass /= p
            else:
                spot = _spot(last, neighbor, shift)
                maybe = (words[spot >> _SIX] >> (spot & _WORD)) & _ONE
                if maybe == 0 or not _is_edge(indptr, indices, directed, last, neighbor):
                    mass /= q
            passed += mass
            if passed > target:
                return neighbor
        target = random * passed
    return np.int64(indices[end - 1])


@kernel
def biased_walks(
    indptr: Array,
    indices: Array,
    weights: Array,
    strength: Array,
    chance: Array,
    alias: Array,
    words: Array,
    shift: np.uint64,
    directed: bool,
    single: bool,
    p: float,
    q: float,
    starts: Array,
    numbers: Array,
    key: np.uint64,
    out: Array,
) -> None:
    """Fill `out (b, length)` with node2vec walks; `words, shift` come from `edge_filter`.

    `weights, strength` are `scaled_rows` and `chance, alias` are `row_tables`; graphs without weights pass them empty.
    `single` says that no two edges connect the same nodes.
    """
    weighted = len(weights) > 0
    back, away = 1.0 / p, 1.0 / q
    most = max(1.0, away)  # M
    surplus = max(back - most, 0.0)
    alone = single and not weighted and not directed  # then the way back is one edge of weight 1
    # Chances of acceptance in 2^-32: back, to a neighbor of the last node, away from it.
    at_back = np.int64(min(back / most, 1.0) * _ALL)
    at_near, at_away = np.int64(_ALL / most), np.int64(away / most * _ALL)
    low, high = min(at_near, at_away), max(at_near, at_away)
    last, at = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    begin, degree = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    place, proposed, level = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    todo, unsure = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    state, drawn, spots = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for first in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - first)
        begin_walks(starts, numbers, key, first, count, indptr, at, state, out)
        last[:] = -1
        for step in range(1, out.shape[1]):
            waiting: Int = 0
            for lane in range(count):
                proposed[lane] = -1
                if at[lane] >= 0:
                    begin[lane] = indptr[at[lane]]
                    degree[lane] = np.int64(indptr[at[lane] + 1]) - begin[lane]
                    todo[waiting] = lane
                    waiting += np.int64(degree[lane] > 0)
            for attempt in range(_ATTEMPTS):
                if waiting == 0:
                    break
                # Propose a neighbor to every walk that waits for one.
                for k in range(waiting):
                    lane = todo[k]
                    drawn[lane] = mix(state[lane] + np.uint64(step * COUNTERS + attempt) * STEP)
                    place[lane] = begin[lane] + below(drawn[lane], degree[lane])
                    prefetch(indices, place[lane])
                    if weighted:
                        prefetch(chance, place[lane])
                        prefetch(alias, place[lane])
                for k in range(waiting):
                    lane = todo[k]
                    neighbor = np.int64(indices[place[lane]])
                    level[lane] = np.int64(drawn[lane] & LOW)
                    if weighted:
                        if level[lane] >= np.int64(chance[place[lane]]):
                            neighbor = np.int64(alias[place[lane]])
                        level[lane] = np.int64(mix(drawn[lane] ^ _OTHER) & LOW)
                    proposed[lane] = neighbor
                    prefetch(indptr, neighbor)
                    spots[lane] = _spot(max(last[lane], 0), neighbor, shift)
                    prefetch(words, np.int64(spots[lane] >> _SIX))
                # Accept, reject, or ask whether the proposal is a neighbor of the last node. Arithmetic, not branches:
                # they would be mispredicted.
                rejected: Int = 0
                asked: Int = 0
                for k in range(waiting):
                    lane = todo[k]
                    sure: Int = np.int64(last[lane] < 0) | np.int64(degree[lane] == 1)
                    if surplus > 0.0 and sure == 0:
                        mass = 1.0 if alone else _edge_mass(indptr, indices, weights, at[lane], last[lane])
                        usual = most * (strength[at[lane]] if weighted else float(degree[lane]))
                        if unit(mix(drawn[lane] + _OTHER)) * (surplus * mass + usual) < surplus * mass:
                            proposed[lane] = last[lane]
                            sure = 1
                    returns = np.int64(proposed[lane] == last[lane])
                    maybe = np.int64((words[spots[lane] >> _SIX] >> (spots[lane] & _WORD)) & _ONE) & (1 - returns)
                    bar = returns * at_back + (1 - returns) * (maybe * at_near + (1 - maybe) * at_away)
                    ask = maybe & np.int64(low <= level[lane]) & np.int64(level[lane] < high) & (1 - sure)
                    unsure[asked] = lane
                    asked += ask
                    todo[rejected] = lane
                    rejected += np.int64(level[lane] >= bar) & (1 - ask) & (1 - sure)
                for k in range(asked):
                    lane = unsure[k]
                    near = _is_edge(indptr, indices, directed, last[lane], proposed[lane])
                    todo[rejected] = lane
                    rejected += np.int64(level[lane] >= (at_near if near else at_away))
                waiting = rejected
            for k in range(waiting):
                lane = todo[k]
                random = unit(mix(state[lane] + np.uint64(step * COUNTERS + _ATTEMPTS) * STEP))
                proposed[lane] = _exact_step(
                    indptr, indices, weights, words, shift, directed, last[lane], at[lane], p, q, random
                )
            for lane in range(count):
                last[lane] = at[lane]
                at[lane] = proposed[lane]
                out[first + lane, step] = proposed[lane]
