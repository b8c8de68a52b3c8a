"""Sampled paths, where a weight depends on the path as a whole: sums by hops and by edge types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import PathSet


class SampledPaths:
    """The prefixes of random walks, with coefficients.

    Parameters
    ----------
    sample : callable
        Given nodes, the paths that start there.
    hops : int
        Edges of the longest path.
    indices : (m,)
        Where each edge leads.
    num_nodes : int
        Nodes of the graph.
    weigh : callable
        Given paths as arrays of nodes, their A.
    types : EdgeTypes, optional
    exact : bool
        Whether scores are a sum over these paths.
    """

    batch_size = 2000

    def __init__(
        self,
        sample: Callable[[Array], PathSet],
        hops: int,
        indices: Array,
        num_nodes: int,
        weigh: Callable[[list[Array]], Array],
        types: EdgeTypes | None = None,
        exact: bool = True,
    ) -> None:
        self._sample, self.hops, self.indices, self._num_nodes, self._weigh = sample, hops, indices, num_nodes, weigh
        self.types, self.exact = types, exact
        self._cached: tuple[Array, PathSet] | None = None

    def _paths_of(self, nodes: Array) -> PathSet:
        """Return the paths from some nodes; those of the last call are cached."""
        if self._cached is None or not np.array_equal(self._cached[0], nodes):
            self._cached = nodes, self._sample(nodes)
        return self._cached[1]

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops, `(K+1, q, d)`, of `inputs (n, d)`."""
        paths = self._paths_of(nodes)
        ends = paths.endpoints(self.indices)
        return self._sums(nodes, inputs, paths, paths.length - 1, self.hops + 1, paths.coefficient, ends)

    def by_type(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over paths by the types of their edges, `(types, q, d)`; empty where there are none."""
        if self.types is None:
            return np.empty((0, len(nodes), inputs.shape[1]))
        paths, count = self._paths_of(nodes), len(self.types.names)
        path, position = np.nonzero(paths.edges >= 0)
        of_edges, no_edges = paths.take(path), np.flatnonzero(paths.length == 1)
        types = np.r_[self.types.of_edge[paths.edges[path, position]], np.full(len(no_edges), count - 1)]
        coefficient = np.r_[of_edges.coefficient / (of_edges.length - 1), paths.coefficient[no_edges]]
        ends = paths.endpoints(self.indices)
        ends = np.r_[ends[path], ends[no_edges]]
        return self._sums(nodes, inputs, paths.take(np.r_[path, no_edges]), types, count, coefficient, ends)

    def _sums(
        self, nodes: Array, inputs: Array, paths: PathSet, group: Array, groups: int, coefficient: Array, ends: Array
    ) -> Array:
        """Return sums over the paths of each group and node, `(groups, q, d)`."""
        rows = group * len(nodes) + np.searchsorted(nodes, paths.start)
        matrix = sp.csr_array((coefficient, (rows, ends)), shape=(groups * len(nodes), self._num_nodes))
        sums: Array = (matrix @ inputs).reshape(groups, len(nodes), inputs.shape[1])
        return sums

    # ------------------------------------------------------------------ single paths

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None
    ) -> PathSet:
        """Return the paths from each node with the largest contributions, by size; `gradients (q, d)` of the score.

        With `hop`, only those of that length.
        """
        paths = self._paths_of(nodes)
        ranked = _best(paths, np.abs(self._contributions(paths, nodes, gradients, inputs)), len(paths), hop)
        ranked = ranked.take(np.argsort(ranked.start, kind="stable"))
        rank = np.arange(len(ranked)) - np.searchsorted(ranked.start, ranked.start)
        return ranked.take(np.flatnonzero(rank < top))

    def between(self, node: int, endpoint: int, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from one node to another with the largest coefficients."""
        paths = self._paths_of(np.array([node]))
        return _best(paths, paths.coefficient * (paths.endpoints(self.indices) == endpoint), top, hop)

    def top_by_weight(self, node: int, top: int) -> PathSet:
        """Return the paths from a node with the largest coefficients, wherever they end."""
        paths = self._paths_of(np.array([node]))
        return _best(paths, paths.coefficient, top)

    def top_positive(self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from any of the nodes with the largest positive contributions; `gradients (q, d)`."""
        paths = self._paths_of(nodes)
        return _best(paths, self._contributions(paths, nodes, gradients, inputs), top, hop)

    def _contributions(self, paths: PathSet, nodes: Array, gradients: Array, inputs: Array) -> Array:
        """Return the contributions of paths, `(b,)`."""
        of_start, of_end = gradients[np.searchsorted(nodes, paths.start)], inputs[paths.endpoints(self.indices)]
        contributions: Array = paths.coefficient * np.einsum("ij,ij->i", of_start, of_end)
        return contributions

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights, `(b,)`, as `path_weights` of the estimator."""
        return self._weigh([nodes[nodes >= 0] for nodes in paths.nodes(self.indices)])


def _best(paths: PathSet, values: Array, top: int, hop: int | None = None) -> PathSet:
    """Return the paths with the largest positive values in descending order; with `hop`, only those of that length."""
    values = values if hop is None else values * (paths.length == hop + 1)
    order = np.argsort(-values, kind="stable")[:top]
    return paths.take(order[values[order] > 0])
