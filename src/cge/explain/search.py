"""The best of all paths, without looking at all of them.

A path is worth h_k Π s · worth(end). The best that may come in j more steps from a node is computed backwards,

    V_0(v) = worth(v),   V_j(v) = max_u s(v, u) V_{j−1}(u),

and a beginning of a path that ends at v can become worth h_k Π s · V_{k−t}(v), and no more. Different beginnings have
different ends to come, so the `top` best beginnings of each length are enough to find the `top` best paths: the search
is exact, and takes time that grows with `top` and degrees, not with the number of paths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Found", "best_paths", "joined"]

Array = npt.NDArray[Any]


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
    bounds: tuple[Array, Array],
    top: int,
    *,
    worth: Callable[[Array, Array], Array] | None = None,
    width: int | None = None,
    room: int | None = None,
    floor: float = 0.0,
) -> Found:
    """Return the paths from some nodes that are worth most, the best first.

    Parameters
    ----------
    indptr, indices, values : (n+1,), (m,), (m,)
        The steps from each node, and their s, positive. Every node has a step.
    hops : (K+1,)
        The weights h of paths of 0 … K steps.
    starts : (q,)
    bounds : two (n,) arrays
        What an end is worth at most, 0 at least: for paths whose h is positive, and for those whose h is negative.
        What can only be worth 0 is left out.
    top : int
    worth : callable, optional
        Given places in `starts` and ends, what the paths are worth, for one unit of their share; the bounds by default.
    width : int, optional
        Beginnings that are followed, `top` by default. That finds the best where the bounds are the worth itself; where
        they are above it, as many as may become better than `floor`, or than what is found, should be followed.
    room : int, optional
        Steps from these beginnings that are looked at, at most.
    floor : float
        Paths that are worth no more are of no interest.
    """
    width = top if width is None else width
    last = max((k for k, share in enumerate(hops) if share != 0), default=0)
    ahead = [_ahead(indptr, indices, values, bound, last) for bound in bounds]
    best: list[tuple[Found, Array]] = []
    known = np.empty(0)  # the best `top` so far
    for k, share in enumerate(hops):
        if share == 0:
            continue
        least = max(floor, float(known[-1])) if len(known) == top and (worth is not None) else floor
        reach, scale = ahead[0 if share > 0 else 1], abs(share)
        place, at, product = np.arange(len(starts)), starts, np.ones(len(starts))
        trail = np.empty((len(starts), 0), np.int64)
        for left in range(k, -1, -1):
            if left < k:
                row, entry = _onward(indptr, at)
                place, at, product = place[row], indices[entry], product[row] * values[entry]
                trail = np.column_stack([trail[row], entry])
            bound = scale * product * reach[left][at]
            kept = _largest(bound, width, least)
            if room is not None and left:
                kept = kept[np.cumsum(np.diff(indptr)[at[kept]]) <= room]
            place, at, product, trail = place[kept], at[kept], product[kept], trail[kept]
        value = scale * product * (reach[0][at] if worth is None else worth(place, at) * np.sign(share))
        kept = _largest(value, top, floor)
        steps = np.full((len(kept), len(hops) - 1), -1)
        steps[:, :k] = trail[kept]
        best.append((Found(starts[place[kept]], steps, np.full(len(kept), k + 1), share * product[kept]), value[kept]))
        known = np.sort(np.concatenate([known, value[kept]]))[::-1][:top]
    if not best:
        return Found(starts[:0], np.empty((0, len(hops) - 1), np.int64), starts[:0], np.empty(0))
    value = np.concatenate([one for _, one in best])
    return joined([one for one, _ in best]).take(np.argsort(-value, kind="stable")[:top])


def _ahead(indptr: Array, indices: Array, values: Array, bound: Array, last: int) -> list[Array]:
    """Return V_0 … V_last, `(n,)` each."""
    found = [bound.astype(np.float64)]
    for _ in range(last):
        found.append(np.maximum.reduceat(values * found[-1][indices], indptr[:-1]))
    return found


def _onward(indptr: Array, at: Array) -> tuple[Array, Array]:
    """Return all steps from the ends `at (b,)`: which of these they leave, and their numbers."""
    many = indptr[at + 1] - indptr[at]
    row = np.repeat(np.arange(len(at)), many)
    return row, np.arange(len(row)) + np.repeat(indptr[at] - (np.cumsum(many) - many), many)


def _largest(values: Array, most: int, floor: float) -> Array:
    """Return the places of the largest values above `floor`, `most` of them, the largest first."""
    places = np.flatnonzero(values > floor)
    if len(places) > most:
        places = places[np.argpartition(-values[places], most - 1)[:most]]
        places.sort()
    found: Array = places[np.argsort(-values[places], kind="stable")]
    return found
