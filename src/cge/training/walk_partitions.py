"""Parts of the nodes, and the order in which threads may train on them.

Nodes fall into P parts at random. Block (i, j) holds the pairs whose center is in part i and whose contexts and
negatives are in part j. Blocks (i, i + s mod P) for one s share no row of either table, so they run side by side
without changing a bit: the result depends on the seed and on P, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import kernel, resolve_jobs, run_blocks
from cge.randomness import generator
from cge.sampling.alias import alias_tables

__all__ = ["Parts", "in_waves", "make_parts", "parts_for"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Parts:
    """A random division of the nodes, and one table of negatives for each part.

    `part (n,)` int8; `pointer (P+1,)`, `nodes (n,)` the nodes by part; `threshold`, `alias (n,)` alias tables by part.
    """

    count: int
    part: Array
    pointer: Array
    nodes: Array
    threshold: Array
    alias: Array


def parts_for(contexts: int) -> int:
    """Return the number of parts for centers with so many contexts: at least five in a block, for up to 8 threads."""
    return 8 if contexts >= 40 else 4 if contexts >= 20 else 2


def make_parts(probability: Array, count: int, seed: int) -> Parts:
    """Divide nodes into `count` parts of equal size and weight; negatives of a part have these probabilities.

    Nodes that are never drawn as negatives (isolated ones) belong to a part, but not to its table.
    """
    order = generator(seed, "parts").permutation(len(probability))
    order = order[np.argsort(-probability[order], kind="stable")]
    part = np.empty(len(probability), np.int8)
    _deal(order, probability, count, part)
    drawn = np.flatnonzero(probability > 0)
    drawn = drawn[np.argsort(part[drawn], kind="stable")]
    pointer = np.searchsorted(part[drawn], np.arange(count + 1))
    if np.any(np.diff(pointer) == 0):  # too few nodes for so many parts
        return make_parts(probability, 1, seed)
    threshold, alias = alias_tables(pointer, drawn, probability[drawn])
    return Parts(count, part, pointer, drawn, threshold, alias)


@kernel
def _deal(order: Array, probability: Array, count: int, part: Array) -> None:
    """Deal nodes in rounds, the heaviest of a round to the part that has the least so far: blocks take equal time."""
    held = np.zeros(count)
    for begin in range(0, len(order), count):
        turns = np.argsort(held, kind="mergesort")
        for k in range(begin, min(begin + count, len(order))):
            to = turns[k - begin]
            part[order[k]] = to
            held[to] += probability[order[k]]


def in_waves(work: Callable[[int, int], None], steps: int, parts: int, n_jobs: int | None) -> None:
    """Call `work(step, i)` for every step and part, on up to `n_jobs` threads.

    In a step, part i of the sources meets part i + step of the targets. So (step, i) follows (step - 1, i), which
    wrote these sources, and (step - 1, i + 1), which wrote these targets; nothing else has to wait.
    """
    workers = min(resolve_jobs(n_jobs), parts)
    if workers == 1:
        for step in range(steps):
            for i in range(parts):
                work(step, i)
        return
    done, busy, failed = [0] * parts, [False] * parts, False
    changed = Condition()

    def next_part() -> int | None:
        """Return the part that is furthest behind among those that may go on."""
        free = [i for i in range(parts) if not busy[i] and done[i] < steps and done[(i + 1) % parts] >= done[i]]
        return min(free, key=lambda i: done[i], default=None)

    def worker(_number: int) -> None:
        nonlocal failed
        while True:
            with changed:
                part = next_part()
                while part is None:
                    if failed or min(done) == steps:
                        return
                    changed.wait()
                    part = next_part()
                if failed:
                    return
                busy[part] = True
            try:
                work(done[part], part)
            except BaseException:
                failed = True
                raise
            finally:
                with changed:
                    busy[part] = False
                    done[part] += 1
                    changed.notify_all()

    run_blocks(worker, [(number,) for number in range(workers)], workers)
