"""A random partition of the nodes, and the order in which threads may train on its blocks.

Nodes are divided into P parts at random. Block (i, j) contains the pairs whose center is in part i and whose contexts
and negatives are in part j. Blocks (i, i + s mod P) of one s share no row of either table, so they can run in parallel
with the same result: it depends on the seed and on P, not on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from threading import Condition

import numpy as np

from cge.arrays import Array
from cge.parallel import kernel, resolve_jobs, run_blocks
from cge.randomness import generator
from cge.sampling.walk_kernels import alias_tables


@dataclass(frozen=True, eq=False)
class NodePartition:
    """A random partition of the nodes, with an alias table of negatives for each part."""

    count: int
    part_of: Array  # (n,) int8
    indptr: Array
    nodes: Array  # by part, those of part j from `indptr[j]`
    threshold: Array
    alias: Array

    def alias_tables(self, row_of: Array | None = None) -> list[tuple[Array, Array, Array]]:
        """Return rows, thresholds and aliases of each part; `row_of (n,)` maps nodes to rows where nodes share rows."""
        rows, alias = (self.nodes, self.alias) if row_of is None else (row_of[self.nodes], row_of[self.alias])
        spans = [slice(start, end) for start, end in pairwise(self.indptr.tolist())]
        return [(rows[span], self.threshold[span], alias[span]) for span in spans]


def partition_count(contexts: int) -> int:
    """Return the number of parts for centers with this number of contexts: at least five per block, at most 8 parts."""
    return 8 if contexts >= 40 else 4 if contexts >= 20 else 2


def partition_nodes(probability: Array, count: int, seed: int) -> NodePartition:
    """Divide nodes into `count` parts of equal size and total probability; negatives have `probability (n,)`."""
    order = generator(seed, "parts").permutation(len(probability))
    order = order[np.argsort(-probability[order], kind="stable")]
    part_of = np.empty(len(probability), np.int8)
    _assign_parts(order, probability, count, part_of)
    nodes = np.flatnonzero(probability > 0)
    nodes = nodes[np.argsort(part_of[nodes], kind="stable")]
    indptr = np.searchsorted(part_of[nodes], np.arange(count + 1))
    if np.any(np.diff(indptr) == 0):  # too few nodes for this number of parts
        return partition_nodes(probability, 1, seed)
    threshold, alias = alias_tables(indptr, nodes, probability[nodes])
    return NodePartition(count, part_of, indptr, nodes, threshold, alias)


@kernel
def _assign_parts(order: Array, probability: Array, count: int, part_of: Array) -> None:
    """Assign `count` nodes at a time, the most probable to the part with the lowest total: blocks take equal time."""
    totals, parts = np.zeros(count), np.empty(count, np.int64)
    for start in range(0, len(order), count):
        for part in range(count):  # sort parts by their totals; equal ones stay in order
            k = part
            while k > 0 and totals[parts[k - 1]] > totals[part]:
                parts[k] = parts[k - 1]
                k -= 1
            parts[k] = part
        for k in range(start, min(start + count, len(order))):
            part = parts[k - start]
            part_of[order[k]] = part
            totals[part] += probability[order[k]]


def run_in_waves(work: Callable[[int, int], None], steps: int, parts: int, n_jobs: int | None) -> None:
    """Call `work(step, i)` for every step and part, on up to `n_jobs` threads.

    In a step, part i of the sources meets part i + step of the targets. So (step, i) must follow (step - 1, i), which
    wrote the same sources, and (step - 1, i + 1), which wrote the same targets, and nothing else.
    """
    workers = min(resolve_jobs(n_jobs), parts)
    done, busy, failed = [0] * parts, [False] * parts, False
    changed = Condition()

    def next_part() -> int | None:
        """Return the part with the fewest steps done among those that may continue."""
        ready = [i for i in range(parts) if not busy[i] and done[i] < steps and done[(i + 1) % parts] >= done[i]]
        return min(ready, key=lambda i: done[i], default=None)

    def ready_or_done() -> bool:
        return failed or min(done) == steps or next_part() is not None

    def worker(_number: int) -> None:
        nonlocal failed
        while True:
            with changed:
                changed.wait_for(ready_or_done)
                part = next_part()
                if failed or part is None:
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
