"""The strongest paths of many nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.explain.paths import strongest_paths
from cge.models.gates import StepPooling, StepWeighting
from cge.training.paths import READERS

__all__ = ["strongest_of"]

Array = npt.NDArray[Any]
Strong = tuple[list[int], float, float]  # nodes of a path, its weight, what it brings

_BREADTH = 2000  # paths of one length that are followed further


def strongest_of(fitted: Any, nodes: Array, told: Array, top: int) -> list[list[Strong]]:
    """Return for each node the paths that bring most to the score of class `told`, as `CGE.explain` finds them.

    Paths that differ only in where they stay are one route; its weight is that of the path without staying. Fewer paths
    are looked at than for a single node: on hubs some may be missed.
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
        values, hops = pooling.values().double().numpy(), pooling.hops()
        steps = data.steps
        for row, node in enumerate(nodes.tolist()):
            worth = ends @ slope[row]
            found.append(strongest_paths(steps.indptr, steps.indices, values, hops, worth, node, looked, _BREADTH))
    else:
        for row, node in enumerate(nodes.tolist()):
            found.append(weights.learnable(data, np.array([node])).strongest(ends @ slope[row], looked))
    found = [_routes(mine)[:top] for mine in found]
    known = iter(weights.of(data, [np.array(path) for mine in found for path, _ in mine]).tolist())
    return [[(path, next(known), brings) for path, brings in mine] for mine in found]


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
