"""Weights of closed walks that have been computed: they take long, and several weightings and fits need the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from cge.arrays import Array


class ClosedWalkCache:
    """The weights of closed walks at single nodes, by the edge weights of the walks.

    Matrices that differ by a diagonal scaling, such as those of `uniform` and `degree`, have the same closed walks, and
    the same symmetric form, by which they are found. Nodes that have been computed once are not computed again.
    """

    def __init__(self) -> None:
        self._weights: dict[bytes, tuple[Array, Array]] = {}  # nodes, ascending, and the weights of their closed walks

    def of(self, nodes: Array, edge_weights: Array, compute: Callable[[Array], Array]) -> Array:
        """Return the weights of the closed walks at `nodes (k,)`; `compute` returns those of some nodes."""
        key = hashlib.sha256(np.ascontiguousarray(edge_weights).tobytes()).digest()
        known, weights = self._weights.get(key, (np.empty(0, np.int64), np.empty(0)))
        missing = np.setdiff1d(nodes, known)
        if len(missing):
            known, weights = np.concatenate([known, missing]), np.concatenate([weights, compute(missing)])
            order = np.argsort(known)
            self._weights[key] = known, weights = known[order], weights[order]
        return np.asarray(weights[np.searchsorted(known, nodes)])
