"""The strongest paths of many nodes at once."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

__all__ = ["strongest_of"]

Array = npt.NDArray[Any]
Strong = tuple[list[int], float, float]  # nodes of a path, its weight, what it brings


def strongest_of(model: Any, nodes: Array, top: int) -> list[list[Strong]]:
    """Return for each of some nodes, ascending, the paths that bring most to the score of the predicted class.

    They are those that `model.explain` lists, with the same numbers.
    """
    explainer = model._explainer(0)
    found, brings = explainer.strongest(nodes, top)
    each: dict[int, list[Strong]] = {node: [] for node in nodes.tolist()}
    columns = found.nodes(explainer.paths.indices), found.length, explainer.paths.weights(found), brings
    for path, length, weight, one in zip(*(column.tolist() for column in columns), strict=True):
        each[path[0]].append((path[:length], weight, one))
    return list(each.values())
