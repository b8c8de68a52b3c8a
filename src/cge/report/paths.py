"""The strongest paths of many nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.models.gates import StepPooling, StepWeighting
from cge.models.pooling import StepRows
from cge.parallel import kernel, run_blocks
from cge.training.paths import READERS

__all__ = ["strongest_of"]

Array = npt.NDArray[Any]
Strong = tuple[list[int], float, float]  # nodes of a path, its weight, what it brings

_VISITS = 100_000  # paths at most that are looked at from one node
_BLOCK = 64  # nodes given to a thread at once


def strongest_of(fitted: Any, nodes: Array, told: Array, top: int) -> list[list[Strong]]:
    """Return for each node the paths that bring most to the score of class `told`, as `CGE.explain` finds them.

    Paths that differ only in where they stay are one route; its weight is that of the path without staying.
    """
    name, reader = fitted.leaders[0]
    data, weights = fitted.data, fitted.plan.weights
    carried = reader.project(data.payload(READERS[name].rows)).detach()
    vectors = (weights.pooling(data)(carried)[nodes] + reader.offset().detach()).requires_grad_()
    chosen = reader.scores(vectors)[torch.arange(len(nodes)), torch.from_numpy(told)]
    (slopes,) = torch.autograd.grad(chosen.sum(), vectors)
    ends, slope = carried.double().numpy(), slopes.double().numpy()
    found: list[list[tuple[list[int], float]]] = []
    looked = 6 * top  # several of them may be one route
    if isinstance(weights.module, StepWeighting):
        pooling = StepPooling(data.steps, data.inputs, weights.module)
        found = _searched(data.steps, pooling.values().double().numpy(), pooling.hops(), ends, slope, nodes, looked)
    else:
        for row, node in enumerate(nodes.tolist()):
            found.append(weights.learnable(data, np.array([node])).strongest(ends @ slope[row], looked))
    found = [_routes(mine)[:top] for mine in found]
    known = iter(weights.of(data, [np.array(path) for mine in found for path, _ in mine]).tolist())
    return [[(path, next(known), brings) for path, brings in mine] for mine in found]


def _searched(
    steps: StepRows, values: Array, hops: list[float], ends: Array, slope: Array, nodes: Array, top: int
) -> list[list[tuple[list[int], float]]]:
    """Return the paths from each node that bring most, with what they bring: h_k · Π s · ⟨end, slope⟩."""
    found = np.full((len(nodes), top, len(hops)), -1)
    brings = np.zeros((len(nodes), top))
    h = np.array(hops)
    reach = np.maximum.accumulate(np.abs(h)[::-1])[::-1].copy()  # the largest |h| from a hop on

    def block(first: int, stop: int) -> None:
        _search(steps.indptr, steps.indices, values, h, reach, ends, slope, nodes, first, stop, _VISITS, found, brings)

    run_blocks(block, [(b, min(b + _BLOCK, len(nodes))) for b in range(0, len(nodes), _BLOCK)], steps.threads)
    paths: list[list[tuple[list[int], float]]] = []
    for rows, sums in zip(found.tolist(), brings.tolist(), strict=True):
        some = [([node for node in row if node >= 0], one) for row, one in zip(rows, sums, strict=True) if row[0] >= 0]
        paths.append(sorted(some, key=lambda one: -abs(one[1])))
    return paths


@kernel
def _search(
    indptr: Array,
    indices: Array,
    values: Array,
    hops: Array,
    reach: Array,
    ends: Array,
    slope: Array,
    nodes: Array,
    first: int,
    stop: int,
    visits: int,
    found: Array,
    brings: Array,
) -> None:
    """Walk all paths from each node, depth first, but none on which no more can be brought than by those kept."""
    count, size, longest, top = ends.shape[0], ends.shape[1], len(hops), found.shape[1]
    worth = np.empty(count)
    path, entry, product = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest)
    for row in range(first, stop):
        most = 0.0
        for node in range(count):
            total = 0.0
            for k in range(size):
                total += ends[node, k] * slope[row, k]
            worth[node] = total
            most = max(most, abs(total))
        kept, least, weakest, left = 0, 0.0, 0, visits
        depth = 0
        path[0], entry[0], product[0] = nodes[row], indptr[nodes[row]], 1.0
        fresh = True
        while depth >= 0:
            if fresh:
                fresh, left = False, left - 1
                told = hops[depth] * product[depth] * worth[path[depth]]
                if kept < top or abs(told) > least:
                    place = kept if kept < top else weakest
                    kept = min(kept + 1, top)
                    brings[row, place] = told
                    for k in range(longest):
                        found[row, place, k] = path[k] if k <= depth else -1
                    if kept == top:
                        weakest = 0
                        for k in range(1, top):
                            if abs(brings[row, k]) < abs(brings[row, weakest]):
                                weakest = k
                        least = abs(brings[row, weakest])
            moved = False
            if depth + 1 < longest and left > 0:
                while entry[depth] < indptr[path[depth] + 1]:
                    step = entry[depth]
                    entry[depth] += 1
                    on = product[depth] * values[step]
                    if kept < top or abs(on) * reach[depth + 1] * most > least:
                        depth += 1
                        path[depth], entry[depth], product[depth] = indices[step], indptr[indices[step]], on
                        moved = fresh = True
                        break
            if not moved:
                depth -= 1


def _routes(paths: list[tuple[list[int], float]]) -> list[tuple[list[int], float]]:
    """Put paths together that differ only in where they stay, the strongest first.

    >>> _routes([([1, 2], 0.5), ([1, 3], -0.6), ([1, 1, 2], 0.25)])
    [([1, 2], 0.75), ([1, 3], -0.6)]
    """
    routes: dict[tuple[int, ...], float] = {}
    for path, brings in paths:
        moves = tuple(node for place, node in enumerate(path) if not place or path[place - 1] != node)
        routes[moves] = routes.get(moves, 0.0) + brings
    return sorted(((list(route), brings) for route, brings in routes.items()), key=lambda one: -abs(one[1]))
