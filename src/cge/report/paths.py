"""The strongest routes of many nodes at once."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["strongest_of"]

Array = npt.NDArray[Any]
Strong = tuple[list[int], float, float]  # nodes of a path, its weight, what it brings

_LOOKED = 6  # times as many paths: several of them may be one route


def strongest_of(model: Any, nodes: Array, top: int) -> list[list[Strong]]:
    """Return for each of some nodes, ascending, the paths that bring most to the score of the predicted class.

    Paths that differ only in where they stay are one route; its weight is that of the path without staying.
    """
    explainer = model._explainer(0)
    found, brings = explainer.strongest(nodes, _LOOKED * top)
    each: dict[int, dict[tuple[int, ...], float]] = {node: {} for node in nodes.tolist()}
    rows = found.nodes(explainer.paths.indices).tolist()
    for path, length, one in zip(rows, found.length.tolist(), brings.tolist(), strict=True):
        route, mine = tuple(node for node, _ in groupby(path[:length])), each[path[0]]
        mine[route] = mine.get(route, 0.0) + one
    best = [sorted(mine.items(), key=lambda one: -abs(one[1]))[:top] for mine in each.values()]
    known = iter(model._fitted.path_weights([np.array(route) for mine in best for route, _ in mine]).tolist())
    return [[(list(route), next(known), one) for route, one in mine] for mine in best]
