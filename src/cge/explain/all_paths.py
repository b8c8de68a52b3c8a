"""All paths of a graph, where their weights are products over steps: sums over them, by steps and by types of edges.

A path of k steps gives each of its steps a k-th of what it brings, so that parts by types add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import Found, best_paths
from cge.models.sparse_products import sparse_product
from cge.models.transitions import TransitionMatrix

__all__ = ["AllPaths"]

Array = npt.NDArray[Any]


class AllPaths:
    """The paths from every node, weighed by steps.

    Parameters
    ----------
    steps : StepRows
    values : (m,) float64
        s of each step.
    hops : (K+1,)
        h.
    walk : (m,) float64
        The chance that a random walk takes a step, for weights relative to it.
    types : StepTypes, optional
    """

    exact, at_once = True, 50_000

    def __init__(
        self, steps: TransitionMatrix, values: Array, hops: Sequence[float], walk: Array, types: EdgeTypes | None = None
    ) -> None:
        self.steps, self.values, self.hops = steps, values.astype(np.float64), len(hops) - 1
        self.hop_weights = [float(one) for one in hops]
        self.types, self._walk = types, walk
        self.indices = steps.indices
        self._matrix = steps.matrix(self.values)
        self._longest = max((k for k, share in enumerate(self.hop_weights) if share != 0), default=0)

    def by_hop(self, nodes: Array, carried: Array) -> Array:
        """Return what paths of each number of steps bring to some nodes, `(K+1, q, d)`, of `carried (n, d)`."""
        found = np.zeros((self.hops + 1, len(nodes), carried.shape[1]))
        for k, reached in enumerate(self._arriving(nodes) if len(nodes) == 1 else self._leaving(carried)):
            found[k] = self.hop_weights[k] * (reached @ carried if len(nodes) == 1 else reached[nodes])
        return found

    def by_type(self, nodes: Array, carried: Array) -> Array:
        """Return what paths bring by types of their steps, `(types, q, d)`; empty where there are none."""
        if self.types is None:
            return np.empty((0, len(nodes), carried.shape[1]))
        found = self._types_onward(nodes[0], carried) if len(nodes) == 1 else self._types_back(nodes, carried)
        found[-1] = self.hop_weights[0] * carried[nodes]
        return found

    def _arriving(self, nodes: Array) -> list[sp.csr_array]:
        """Return rows of M^0, M^1, …, `(q, n)`: what arrives from some nodes where."""
        ones = np.ones(len(nodes))
        found = [sp.csr_array((ones, (np.arange(len(nodes)), nodes)), shape=(len(nodes), self.steps.num_nodes))]
        for _ in range(self._longest):
            found.append(found[-1] @ self._matrix)
        return found

    def _leaving(self, carried: Array) -> list[Array]:
        """Return M^0 carried, M^1 carried, …, `(n, d)`."""
        found = [carried]
        for _ in range(self._longest):
            found.append(sparse_product(self._matrix, found[-1], self.steps.n_jobs))
        return found

    def _types_onward(self, node: int, carried: Array) -> Array:
        """Follow the paths from one node, with a row for each type: paths weighed by how many such steps they have."""
        types, nodes = self._known_types(), self.steps.num_nodes
        count, found = len(types.names), np.zeros((len(types.names), 1, carried.shape[1]))
        columns = types.of_step * nodes + self.indices
        by_type = sp.csr_array((self.values, columns, self.steps.indptr), shape=(nodes, count * nodes))
        rows = sp.csr_array((count, nodes))
        for k, reached in enumerate(self._arriving(np.array([node]))[:-1], start=1):
            rows = sp.csr_array(rows @ self._matrix + (reached @ by_type).reshape(count, nodes))
            found[:, 0] += self.hop_weights[k] / k * (rows @ carried)
        return found

    def _types_back(self, nodes: Array, carried: Array) -> Array:
        """Do the same for many nodes, type after type: Q_k = M Q_{k−1} + M_type M^{k−1} carried."""
        types, n_jobs = self._known_types(), self.steps.n_jobs
        found, leaving = np.zeros((len(types.names), len(nodes), carried.shape[1])), self._leaving(carried)
        for place in np.unique(types.of_step).tolist():
            some = types.of_step == place
            ends = (self.steps.rows[some], self.indices[some])
            own, total = sp.csr_array((self.values[some], ends), shape=self._matrix.shape), np.zeros_like(carried)
            for k, reached in enumerate(leaving[:-1], start=1):
                last = sparse_product(own, reached, n_jobs)
                total = sparse_product(self._matrix, total, n_jobs, base=last, base_factor=1.0)
                found[place] += self.hop_weights[k] / k * total[nodes]
        return found

    def _known_types(self) -> EdgeTypes:
        if self.types is None:
            raise TypeError("edges have no types")
        return self.types

    # ------------------------------------------------------------------ single paths

    def strongest(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from each of some nodes that bring most, up or down; they read by `slopes (q, d)`.

        With `hop`, only those of that many steps.
        """
        return self._best(nodes, carried, slopes, top, hop)

    def between(self, node: int, end: int, top: int, hop: int | None = None) -> Found:
        """Return the paths from one node to another with the largest share."""
        there = np.zeros((self.steps.num_nodes, 1))
        there[end] = 1
        return self._best(np.array([node]), there, np.ones((1, 1)), top, hop)

    def heaviest(self, node: int, top: int) -> Found:
        """Return the paths from a node with the largest share, wherever they end."""
        return self._best(np.array([node]), np.ones((self.steps.num_nodes, 1)), np.ones((1, 1)), top)

    def speaking(self, nodes: Array, slopes: Array, carried: Array, top: int, hop: int | None = None) -> Found:
        """Return the paths from some nodes that bring most upwards; they read by `slopes (q, d)`.

        Where slopes differ, what an end is worth depends on the start. Then the search goes by a bound over all starts,
        which costs time; it stops after some millions of beginnings.
        """
        return self._best(nodes, carried, slopes, top, hop, upward=True, together=True)

    def _best(self, starts: Array, ends: Array, slopes: Array, top: int, hop: int | None = None, **told: Any) -> Found:
        hops = [share if hop is None or k == hop else 0.0 for k, share in enumerate(self.hop_weights)]
        rows = self.steps.indptr, self.indices, self.values
        return best_paths(*rows, hops, starts, ends, slopes, top, n_jobs=self.steps.n_jobs, **told)

    def weights(self, found: Found) -> Array:
        """Return A of paths, `(b,)`, relative to the random walk, as `CGE.path_weights` does."""
        ratios = np.where(found.steps >= 0, (self.values / self._walk)[found.steps], 1.0)
        weights: Array = np.array(self.hop_weights)[found.length - 1] * len(self.hop_weights) * ratios.prod(axis=1)
        return weights
