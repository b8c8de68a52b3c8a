"""The best of all paths, without looking at all of them.

A path is worth h_k Π s · worth(end). The best that may come in j more steps from a node is computed backwards,

    V_0(v) = worth(v),   V_j(v) = max_u s(v, u) V_{j−1}(u),

and a beginning of a path that ends at v can become worth h_k Π s · V_{k−t}(v), and no more. The search follows the
beginning that can become worth most, always: so the paths that it completes come out in order, and none is missed. It
takes time that grows with edges, `top` and degrees, not with the number of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import kernel, run_blocks, split_blocks

__all__ = ["Found", "best_paths", "joined"]

Array = npt.NDArray[Any]

_BLOCK = 16  # nodes given to a thread at once
_BEGINNINGS = 2_000_000  # that are remembered at most


@dataclass(frozen=True, eq=False)
class Found:
    """Paths: their `start (b,)`, `steps (b, K)` by number, filled up with −1, `length (b,)` in nodes, `share (b,)`.

    The share is what a path brings of what its end carries.
    """

    start: Array
    steps: Array
    length: Array
    share: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, places: Array) -> Found:
        """Return some of them."""
        return Found(self.start[places], self.steps[places], self.length[places], self.share[places])

    def nodes(self, indices: Array) -> Array:
        """Return the nodes of each path, `(b, K+1)`, filled up with −1; step number e leads to `indices[e]`."""
        return np.column_stack([self.start, np.where(self.steps >= 0, indices[self.steps], -1)])

    def end(self, indices: Array) -> Array:
        """Return the last node of each path, `(b,)`."""
        found: Array = self.nodes(indices)[np.arange(len(self)), self.length - 1]
        return found


def joined(parts: Sequence[Found]) -> Found:
    """Return several lists of paths as one."""
    return Found(
        *(np.concatenate([getattr(one, name) for one in parts]) for name in ("start", "steps", "length", "share"))
    )


def best_paths(
    indptr: Array,
    indices: Array,
    values: Array,
    hops: Sequence[float],
    starts: Array,
    ends: Array,
    slopes: Array,
    top: int,
    *,
    upward: bool = False,
    together: bool = False,
    most: int = _BEGINNINGS,
    n_jobs: int | None = None,
) -> Found:
    """Return the paths that are worth most: `top` from each node, node after node, or from all; the best first.

    Parameters
    ----------
    indptr, indices, values : (n+1,), (m,), (m,)
        The steps from each node, where they lead, and s ≥ 0 of each.
    hops : (K+1,)
        h.
    starts : (q,)
        Where paths start.
    ends, slopes : (n, d), (q, d)
        From start i, a path that ends at v is worth its share times ⟨ends_v, slopes_i⟩; what is worth nothing is left
        out.
    upward : bool
        Whether only what is positive counts; otherwise, its size does.
    together : bool
        Whether the paths from all nodes compete.
    most : int
        Beginnings that are remembered at most.
    """
    told, nothing = np.array(hops, np.float64), np.empty(0, np.int64)
    groups = [slice(None)][: len(starts)] if together else [slice(place, place + 1) for place in range(len(starts))]
    empty = Found(nothing, np.empty((0, len(hops) - 1), np.int64), nothing, np.empty(0))
    found = [empty] * max(len(groups), 1)

    def block(first: int, stop: int) -> None:
        for place in range(first, stop):
            some = groups[place]
            bounds = np.stack(_bounds(ends, slopes[some], upward))
            rows = told, starts[some], ends, slopes[some], bounds, upward
            found[place] = Found(*_search(indptr, indices, values, *rows, top, most))

    run_blocks(block, split_blocks(len(groups), _BLOCK), n_jobs)
    return joined(found)


def _bounds(ends: Array, slopes: Array, upward: bool) -> tuple[Array, Array]:
    """Return the most that ends are worth to any start, `(n,)`, where h is positive and where it is negative."""
    if len(slopes) == 1:
        least = most = ends @ slopes[0]
    else:
        low, high, rise, fall = slopes.min(0), slopes.max(0), np.maximum(ends, 0), np.minimum(ends, 0)
        least, most = rise @ low + fall @ high, rise @ high + fall @ low
    return (np.maximum(most, 0), np.maximum(-least, 0)) if upward else (np.maximum(most, -least),) * 2


@kernel
def _search(
    indptr: Array,
    indices: Array,
    values: Array,
    hops: Array,
    starts: Array,
    ends: Array,
    slopes: Array,
    bounds: Array,
    upward: bool,
    top: int,
    most: int,
) -> tuple[Array, Array, Array, Array]:
    """Return start, steps, length and share of the best paths from some nodes, which compete."""
    reach = _ahead(indptr, indices, values, hops, starts, bounds)
    # A beginning: the one without its last step, that step, where it is, from which start, of how many steps it will
    # be, and how many of them are left.
    begun = [(-1, -1, 0, 0, 0, 0) for _ in range(0)]
    products = [0.0 for _ in range(0)]
    queue = [(0.0, 0) for _ in range(0)]
    for row in range(len(starts)):
        for hop in range(len(hops)):
            could = abs(hops[hop]) * _worth(reach, int(hops[hop] < 0), hop, starts[row], ends, slopes, row, upward)
            if could > 0:
                heappush(queue, (-could, len(begun)))
                begun.append((-1, -1, int(starts[row]), row, hop, hop))
                products.append(1.0)
    known = [0.0 for _ in range(0)]  # the best complete paths so far, the least of them first
    done = [0 for _ in range(0)]
    while len(queue) > 0 and len(done) < top:
        one = heappop(queue)[1]
        _, _, at, row, hop, left = begun[one]
        if left == 0:
            done.append(one)
        elif len(begun) < most:
            for step in range(indptr[at], indptr[at + 1]):
                product = products[one] * values[step]
                worth = _worth(reach, int(hops[hop] < 0), left - 1, indices[step], ends, slopes, row, upward)
                could = abs(hops[hop]) * product * worth
                if could > 0 and (len(known) < top or could > known[0]):
                    if left == 1 and len(known) < top:
                        heappush(known, could)
                    elif left == 1:
                        heapreplace(known, could)
                    heappush(queue, (-could, len(begun)))
                    begun.append((one, step, int(indices[step]), row, hop, left - 1))
                    products.append(product)
    start, length = np.empty(len(done), np.int64), np.empty(len(done), np.int64)
    steps, share = np.full((len(done), len(hops) - 1), -1), np.empty(len(done))
    for place in range(len(done)):
        one = done[place]
        _, _, _, row, hop, _ = begun[one]
        start[place], length[place], share[place] = starts[row], hop + 1, hops[hop] * products[one]
        for left in range(hop - 1, -1, -1):
            one, steps[place, left] = begun[one][:2]
    return start, steps, length, share


@kernel
def _worth(reach: Array, side: int, left: int, node: int, ends: Array, slopes: Array, row: int, upward: bool) -> float:
    """Return what may come in `left` more steps from a node, at most; without any, what it is worth to a start."""
    could = float(reach[side, left, node])
    if left or could <= 0 or len(slopes) == 1:
        return could
    worth = 0.0
    for k in range(ends.shape[1]):
        worth += ends[node, k] * slopes[row, k]
    return abs(worth) if not upward else -worth if side else worth


@kernel
def _ahead(indptr: Array, indices: Array, values: Array, hops: Array, starts: Array, bounds: Array) -> Array:
    """Return V_0 … V_K, `(2, K+1, n)`, where h is positive and where it is negative, of the nodes that paths meet."""
    nodes = bounds.shape[1]
    reach = np.zeros((2, len(hops), nodes))
    far = _distances(indptr, indices, starts, nodes, len(hops) - 1)
    for side in range(2):
        reach[side, 0] = bounds[side]
        last = 0
        for hop in range(len(hops)):
            if hops[hop] < 0 if side else hops[hop] > 0:
                last = hop
        for hop in range(1, last + 1):
            for node in range(nodes):
                if far[node] <= last - hop:
                    best = 0.0
                    for step in range(indptr[node], indptr[node + 1]):
                        best = max(best, values[step] * reach[side, hop - 1, indices[step]])
                    reach[side, hop, node] = best
    return reach


@kernel
def _distances(indptr: Array, indices: Array, starts: Array, nodes: int, most: int) -> Array:
    """Return how many steps nodes are away from the nearest start, `(n,)`; `most` where it is that many or more."""
    far, queue = np.full(nodes, most), np.empty(nodes, np.int64)
    met = 0
    for start in starts:
        if far[start]:
            far[start], queue[met] = 0, start
            met += 1
    place = 0
    while place < met and far[queue[place]] + 1 < most:
        for step in range(indptr[queue[place]], indptr[queue[place] + 1]):
            if far[indices[step]] == most:
                far[indices[step]], queue[met] = far[queue[place]] + 1, indices[step]
                met += 1
        place += 1
    return far
