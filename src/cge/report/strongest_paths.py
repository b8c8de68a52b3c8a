"""The strongest paths of many nodes at once."""

from __future__ import annotations

from cge.arrays import Array
from cge.explain.explainer import Explainer

StrongPath = tuple[list[int], float, float]  # nodes, weight, contribution


def strongest_paths(explainer: Explainer, nodes: Array, top: int) -> list[list[StrongPath]]:
    """Return for each node, ascending, the paths with the largest contributions to the score of the predicted class.

    They are the paths of `CGE.explain`.
    """
    paths, contributions = explainer.top_by_contribution(nodes, top)
    of_node: dict[int, list[StrongPath]] = {node: [] for node in nodes.tolist()}
    columns = paths.nodes(explainer.paths.indices), paths.length, explainer.paths.weights(paths), contributions
    for path, length, weight, contribution in zip(*(column.tolist() for column in columns), strict=True):
        of_node[path[0]].append((path[:length], weight, contribution))
    return list(of_node.values())
