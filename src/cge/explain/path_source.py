"""What explanations need to know of the paths of a graph."""

from __future__ import annotations

from typing import Protocol

from cge.arrays import Array
from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import PathSet


class PathSource(Protocol):
    """Paths from nodes: all of a graph (`AllPaths`) or sampled ones (`SampledPaths`).

    The input of a path's endpoint, times the path's coefficient, is added to the vector of its start. `hops` is K, the
    edges of the longest path; `batch_size` the number of nodes whose paths are best processed together; edge number e
    leads to `indices[e]`.
    """

    exact: bool
    hops: int
    batch_size: int
    indices: Array
    types: EdgeTypes | None

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops, `(K+1, q, d)`."""
        ...

    def by_type(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over paths by the types of their edges, `(types, q, d)`."""
        ...

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None
    ) -> PathSet:
        """Return the paths from each node with the largest contributions, by size; with `hop`, those of that length."""
        ...

    def between(self, node: int, endpoint: int, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from one node to another with the largest coefficients."""
        ...

    def top_by_weight(self, node: int, top: int) -> PathSet:
        """Return the paths from a node with the largest coefficients."""
        ...

    def top_positive(self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from any of the nodes with the largest positive contributions."""
        ...

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights: A(p) divided by that of uniform weights."""
        ...
