"""Skip-gram with negative sampling on walks: a kernel that trains both tables as it goes (Eqs. 4 and 5, large graphs).

For a node of a walk (the *center*, source vector w) and its contexts (target vectors e), the kernel draws negatives
once and shares them among the contexts: k contexts with m shared negatives cost k + m dot products instead of k + 5 k.
A shared negative counts 5 k / m times, so the expected gradient is that of five negatives for each pair.

**Threads and bytes.** Nodes fall into P parts at random. Block (i, j) holds the pairs whose center is in part i and
whose contexts and negatives are in part j. Blocks (i, i + s mod P) for one s share no row of either table, so they run
side by side without changing a bit: the result depends on the seed and on P, never on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import float_kernel, run_blocks
from cge.randomness import STEP, below, generator, key, mix
from cge.sampling.alias import row_tables

__all__ = ["Parts", "make_parts", "parts_for", "train_pairs", "train_walks"]

Array = npt.NDArray[Any]

_LOW = np.uint64(0xFFFFFFFF)
_LIMIT, _PER_UNIT = 8.0, 256.0  # scores beyond ± 8 are as good as sure
_SIGMOID = (1 / (1 + np.exp(-(np.arange(int(2 * _LIMIT * _PER_UNIT)) + 0.5) / _PER_UNIT + _LIMIT))).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Parts:
    """A random division of the nodes, and one table of negatives for each part.

    `part (n,)` int8; `pointer (P+1,)`, `nodes (n,)` the nodes by part; `chance`, `alias (n,)` alias tables by part.
    """

    count: int
    part: Array
    pointer: Array
    nodes: Array
    chance: Array
    alias: Array


def parts_for(contexts: int) -> int:
    """Return the number of parts for centers with so many contexts: enough work in a block, up to eight threads."""
    return 8 if contexts >= 40 else 4 if contexts >= 10 else 2


def make_parts(probability: Array, count: int, seed: int) -> Parts:
    """Divide nodes into `count` parts of equal size; negatives of a part are drawn with these probabilities.

    Nodes that are never drawn as negatives (isolated ones) belong to a part, but not to its table.
    """
    order = generator(seed, "parts").permutation(len(probability))
    part = np.empty(len(probability), np.int8)
    part[order] = np.arange(len(probability)) % count
    drawn = np.flatnonzero(probability > 0)
    drawn = drawn[np.argsort(part[drawn], kind="stable")]
    pointer = np.searchsorted(part[drawn], np.arange(count + 1))
    if np.any(np.diff(pointer) == 0):  # too few nodes for so many parts
        return make_parts(probability, 1, seed)
    chance, alias = row_tables(pointer, drawn, probability[drawn])
    return Parts(count, part, pointer, drawn, chance, alias)


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
    threads: int | None = None,
    weights: Array | None = None,
    base: Array | None = None,
    shortest: int = 2,
    written: Array | None = None,
    target_rate: float | None = None,
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
        Negatives drawn for each context of a center.
    stream : int
        Names the pass; another pass over the same walks draws other negatives.
    weights, base : (paths,) float32 and (b,) int64, optional
        Weight of each sub-path from `shortest` nodes on, in the order of `subpaths`, and where those of a walk begin.
    written, target_rate : (n, d) array and float, optional
        Add `target_rate` times the descent direction here instead of training `targets`.
    """
    block = _block_kernel(sources.shape[1])
    into = targets if written is None else written
    flat = np.empty(0, np.float32) if weights is None else weights
    begin = np.empty(0, np.int64) if base is None else base
    settings = (back, ahead, np.float32(rates[0]), np.float32(rates[1]), np.float32(target_rate or 0.0))
    counts = np.zeros((parts.count, parts.count), np.int64)

    def run(i: int, j: int) -> None:
        span = slice(parts.pointer[j], parts.pointer[j + 1])
        counts[i, j] = block(
            walks,
            first,
            parts.part,
            i,
            j,
            parts.nodes[span],
            parts.chance[span],
            parts.alias[span],
            *settings,
            negatives,
            share,
            key(seed, "negatives", stream, j),
            flat,
            begin,
            shortest,
            sources,
            targets,
            into,
            _SIGMOID,
        )

    for shift in range(parts.count):
        run_blocks(run, [(i, (i + shift) % parts.count) for i in range(parts.count)], threads)
    return int(counts.sum())


def train_pairs(pairs: Array, sources: Array, targets: Array, parts: Parts, **settings: Any) -> int:
    """Train on single pairs `(b, 2)`, each as a walk of two nodes seen from its first."""
    return train_walks(np.ascontiguousarray(pairs), 0, sources, targets, parts, back=0, ahead=1, **settings)


@cache
def _block_kernel(dim: int) -> Any:
    """Compile the kernel of one block for vectors of `dim` numbers: a known length lets the compiler unroll."""

    @float_kernel
    def block(
        walks: Array,
        first: int,
        part: Array,
        center_part: int,
        context_part: int,
        nodes: Array,
        chance: Array,
        alias: Array,
        back: int,
        ahead: int,
        rate_first: float,
        rate_last: float,
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
        most = back + ahead
        rows = np.empty(2 * most + int(share * most) + negatives + 8, np.int64)
        step = np.empty(len(rows), np.float32)
        worth = np.empty(most + 8, np.float32)
        center, change = np.empty(dim, np.float32), np.empty(dim, np.float32)
        weighted = len(weights) > 0
        pairs = 0
        for walk in range(walks.shape[0]):
            rate = rate_first + (rate_last - rate_first) * np.float32(walk / max(walks.shape[0] - 1, 1))
            size = 0
            while size < walks.shape[1] and walks[walk, size] >= 0:
                size += 1
            for position in range(size):
                node = walks[walk, position]
                if part[node] != center_part:
                    continue
                contexts = 0
                for place in range(max(position - back, 0), min(position + ahead, size - 1) + 1):
                    context = walks[walk, place]
                    rows[contexts] = context
                    if weighted:
                        # Sub-paths come by length, then from left to right: skip those that are shorter.
                        length = place - position + 1
                        skipped = 0
                        for shorter in range(shortest, length):
                            skipped += size - shorter + 1
                        worth[contexts] = weights[base[walk] + skipped + position] if length >= shortest else 0.0
                    else:
                        worth[contexts] = 1.0
                    contexts += (place != position) & (part[context] == context_part)
                if contexts == 0:
                    continue
                pairs += contexts
                drawn = min(max(int(share * contexts), 1), len(rows) - contexts)
                state = mix(random_key + np.uint64((first + walk) * walks.shape[1] + position) * STEP)
                for k in range(drawn):
                    random = mix(state + np.uint64(k + 1) * STEP)
                    slot = below(random, len(chance))
                    own = (random & _LOW) < np.uint64(chance[slot])
                    rows[contexts + k] = nodes[slot] if own else alias[slot]
                total = np.float32(0)
                for k in range(contexts):
                    total += worth[k]
                against = total * np.float32(negatives) / np.float32(drawn)
                for d in range(dim):
                    center[d] = sources[node, d]
                    change[d] = 0
                for k in range(contexts + drawn):
                    row = targets[rows[k]]
                    score = np.float32(0)
                    for d in range(dim):
                        score += center[d] * row[d]
                    score = min(max(score, np.float32(-_LIMIT)), np.float32(_LIMIT - 0.01))
                    guess = sigmoid[int((score + np.float32(_LIMIT)) * np.float32(_PER_UNIT))]
                    step[k] = worth[k] * (np.float32(1) - guess) if k < contexts else -against * guess
                for k in range(contexts + drawn):
                    row = targets[rows[k]]
                    pull = rate * step[k]
                    if target_rate == 0:
                        for d in range(dim):
                            change[d] += pull * row[d]
                            row[d] += pull * center[d]
                    else:
                        written = into[rows[k]]
                        push = target_rate * step[k]
                        for d in range(dim):
                            change[d] += pull * row[d]
                            written[d] += push * center[d]
                for d in range(dim):
                    sources[node, d] = center[d] + change[d]
        return pairs

    return block
