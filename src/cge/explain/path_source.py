"""What explanations ask of the paths of a graph."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import Found

__all__ = ["Paths"]

Array = npt.NDArray[Any]


class Paths(Protocol):
    """Paths from nodes: all of a graph (`AllPaths`) or sampled ones (`SampledPaths`).

    `hops` is K, the steps of the longest; `at_once` the number of nodes whose paths are best looked at together; step
    number e leads to `indices[e]`.
    """

    exact: bool
    hops: int
    at_once: int
    indices: Array
    types: EdgeTypes | None

    def by_hop(self, nodes: Array, carried: Array) -> Array:
        """Return what paths of each number of steps bring, `(K+1, q, d)`."""
        ...

    def by_type(self, nodes: Array, carried: Array) -> Array:
        """Return what paths bring by types of their steps, `(types, q, d)`."""
        ...

    def strongest(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from each of some nodes that bring most; with `hop`, those of that many steps."""
        ...

    def between(self, node: int, end: int, top: int, hop: int | None = None) -> Found:
        """Return the paths from one node to another."""
        ...

    def heaviest(self, node: int, top: int) -> Found:
        """Return the paths from a node with the largest share."""
        ...

    def speaking(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from some nodes that bring most upwards."""
        ...

    def weights(self, found: Found) -> Array:
        """Return A of paths."""
        ...
