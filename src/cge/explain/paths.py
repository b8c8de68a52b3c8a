"""The paths that carry one node's vector and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PathShare", "strongest_paths"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PathShare:
    """A path from a node, by ids: its weight A, and how much of the score of the predicted class it brings."""

    path: tuple[Any, ...]
    weight: float
    contribution: float


def strongest_paths(
    indptr: Array,
    indices: Array,
    values: Array,
    hops: Sequence[float],
    worth: Array,
    start: int,
    top: int,
    breadth: int = 20_000,
) -> list[tuple[list[int], float]]:
    """Return the paths from a node that bring most, with what they bring: h_k · Π s · worth of the end.

    `values (m,)` are s of the steps in rows `indptr`, `indices`; `worth (n,)` is what an end is worth. Of the paths of
    one length only the `breadth` with the largest Π s are followed further.
    """
    nodes, product = np.array([[start]]), np.ones(1)
    found: list[tuple[list[int], float]] = []
    for hop, share in enumerate(hops):
        if hop:
            ends = nodes[:, -1]
            many = indptr[ends + 1] - indptr[ends]
            row = np.repeat(np.arange(len(nodes)), many)
            first = np.repeat(indptr[ends] - np.r_[0, np.cumsum(many)[:-1]], many)
            entry = first + np.arange(len(row))
            product = product[row] * values[entry]
            nodes = np.column_stack([nodes[row], indices[entry]])
            if len(nodes) > breadth:
                kept = np.argpartition(-np.abs(product), breadth)[:breadth]
                nodes, product = nodes[kept], product[kept]
        brings = share * product * worth[nodes[:, -1]]
        best = np.argsort(-np.abs(brings), kind="stable")[:top]
        found += [(nodes[place].tolist(), float(brings[place])) for place in best]
    return sorted(found, key=lambda one: -abs(one[1]))[:top]
