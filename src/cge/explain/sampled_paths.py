"""Sampled paths, where weights look at a path as a whole: sums over them, by steps and by types of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import Found

__all__ = ["SampledPaths"]

Array = npt.NDArray[Any]


class SampledPaths:
    """Paths that walks make, each with its share of what is brought to the node it starts from.

    Parameters
    ----------
    of : callable
        Given nodes, the paths that start there.
    hops : int
        Steps at most.
    indices : (m,)
        Where each step leads.
    nodes : int
        How many there are in the graph.
    weigh : callable
        Given paths as arrays of nodes, their A.
    types : StepTypes, optional
    exact : bool
        Whether scores are a sum over these paths.
    """

    at_once = 2000

    def __init__(
        self,
        of: Callable[[Array], Found],
        hops: int,
        indices: Array,
        nodes: int,
        weigh: Callable[[list[Array]], Array],
        types: EdgeTypes | None = None,
        exact: bool = True,
    ) -> None:
        self._make, self.hops, self.indices, self._nodes, self._weigh = of, hops, indices, nodes, weigh
        self.types, self.exact = types, exact
        self._last: tuple[Array, Found] | None = None

    def _of(self, nodes: Array) -> Found:
        """Return the paths from some nodes; the last ones asked for are remembered."""
        if self._last is None or not np.array_equal(self._last[0], nodes):
            self._last = nodes, self._make(nodes)
        return self._last[1]

    def by_hop(self, nodes: Array, carried: Array) -> Array:
        """Return what paths of each number of steps bring to some nodes, `(K+1, q, d)`, of `carried (n, d)`."""
        paths = self._of(nodes)
        return self._sums(nodes, carried, paths, paths.length - 1, self.hops + 1, paths.share, paths.end(self.indices))

    def by_type(self, nodes: Array, carried: Array) -> Array:
        """Return what paths bring by types of their steps, `(types, q, d)`; empty where there are none."""
        if self.types is None:
            return np.empty((0, len(nodes), carried.shape[1]))
        paths, count = self._of(nodes), len(self.types.names)
        one, place = np.nonzero(paths.steps >= 0)
        moving, still = paths.take(one), paths.length == 1
        kind = np.r_[self.types.of_step[paths.steps[one, place]], np.full(int(still.sum()), count - 1)]
        whole, ends = np.flatnonzero(still), paths.end(self.indices)
        share = np.r_[moving.share / (moving.length - 1), paths.share[whole]]
        return self._sums(
            nodes, carried, paths.take(np.r_[one, whole]), kind, count, share, np.r_[ends[one], ends[whole]]
        )

    def _sums(
        self, nodes: Array, carried: Array, paths: Found, group: Array, groups: int, share: Array, ends: Array
    ) -> Array:
        """Return sums over the paths of each group and node, `(groups, q, d)`."""
        rows = group * len(nodes) + np.searchsorted(nodes, paths.start)
        matrix = sp.csr_array((share, (rows, ends)), shape=(groups * len(nodes), self._nodes))
        found: Array = (matrix @ carried).reshape(groups, len(nodes), carried.shape[1])
        return found

    # ------------------------------------------------------------------ single paths

    def strongest(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from each of some nodes that bring most, up or down; they read by `slopes (q, d)`.

        With `hop`, only those of that many steps.
        """
        paths = self._of(nodes)
        found = _best(paths, np.abs(self._brings(paths, nodes, slopes, carried)), len(paths), hop)
        found = found.take(np.argsort(found.start, kind="stable"))
        rank = np.arange(len(found)) - np.searchsorted(found.start, found.start)
        return found.take(np.flatnonzero(rank < top))

    def between(self, node: int, end: int, top: int, hop: int | None = None) -> Found:
        """Return the paths from one node to another with the largest share."""
        paths = self._of(np.array([node]))
        return _best(paths, paths.share * (paths.end(self.indices) == end), top, hop)

    def heaviest(self, node: int, top: int) -> Found:
        """Return the paths from a node with the largest share, wherever they end."""
        paths = self._of(np.array([node]))
        return _best(paths, paths.share, top)

    def speaking(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from some nodes that bring most upwards, where node i reads by `slopes (q, d)`."""
        paths = self._of(nodes)
        return _best(paths, self._brings(paths, nodes, slopes, carried), top, hop)

    def _brings(self, paths: Found, nodes: Array, slopes: Array, carried: Array) -> Array:
        """Return what paths bring, `(b,)`."""
        place = np.searchsorted(nodes, paths.start)
        brings: Array = paths.share * np.einsum("ij,ij->i", slopes[place], carried[paths.end(self.indices)])
        return brings

    def weights(self, found: Found) -> Array:
        """Return A of paths, `(b,)`."""
        paths = [one[one >= 0] for one in found.nodes(self.indices)]
        return self._weigh(paths)


def _best(paths: Found, values: Array, top: int, hop: int | None = None) -> Found:
    """Return the paths of the largest values above zero, the largest first; with `hop`, only those of so many steps."""
    values = values if hop is None else values * (paths.length == hop + 1)
    order = np.argsort(-values, kind="stable")[:top]
    return paths.take(order[values[order] > 0])
