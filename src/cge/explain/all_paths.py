"""All paths of a graph, where a path's weight is a product over its edges: sums by hops and by edge types.

A path of k edges gives each of its edges a k-th of its contribution, so that parts by types add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.explain.edge_types import EdgeTypes
from cge.explain.path_search import PathSet, best_paths
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import sparse_product


class AllPaths:
    """The paths from every node, with coefficients h_k Π s over their edges.

    Parameters
    ----------
    transitions : TransitionMatrix
    values : (m,) float64
        s of each edge.
    hops : (K+1,)
        h.
    walk : (m,) float64
        The transition probability of a random walk, for weights relative to it.
    types : EdgeTypes, optional
    """

    exact, batch_size = True, 50_000

    def __init__(
        self,
        transitions: TransitionMatrix,
        values: Array,
        hops: Sequence[float],
        walk: Array,
        types: EdgeTypes | None = None,
    ) -> None:
        self.transitions, self.values, self.hops = transitions, values.astype(np.float64), len(hops) - 1
        self.hop_weights = [float(weight) for weight in hops]
        self.types, self._walk = types, walk
        self.indices = transitions.indices
        self._matrix = transitions.matrix(self.values)
        self._longest = max((k for k, weight in enumerate(self.hop_weights) if weight != 0), default=0)

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops, `(K+1, q, d)`, of `inputs (n, d)`."""
        sums = np.zeros((self.hops + 1, len(nodes), inputs.shape[1]))
        for k, power in enumerate(self._rows_of_powers(nodes) if len(nodes) == 1 else self._propagate(inputs)):
            sums[k] = self.hop_weights[k] * (power @ inputs if len(nodes) == 1 else power[nodes])
        return sums

    def by_type(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over paths by the types of their edges, `(types, q, d)`; empty where there are none."""
        if self.types is None:
            return np.empty((0, len(nodes), inputs.shape[1]))
        sums = self._types_forward(nodes[0], inputs) if len(nodes) == 1 else self._types_backward(nodes, inputs)
        sums[-1] = self.hop_weights[0] * inputs[nodes]
        return sums

    def _rows_of_powers(self, nodes: Array) -> list[sp.csr_array]:
        """Return the rows of some nodes of M^0, M^1, …, `(q, n)`."""
        ones = np.ones(len(nodes))
        rows = [sp.csr_array((ones, (np.arange(len(nodes)), nodes)), shape=(len(nodes), self.transitions.num_nodes))]
        for _ in range(self._longest):
            rows.append(rows[-1] @ self._matrix)
        return rows

    def _propagate(self, inputs: Array) -> list[Array]:
        """Return M^0 inputs, M^1 inputs, …, `(n, d)`."""
        propagated = [inputs]
        for _ in range(self._longest):
            propagated.append(sparse_product(self._matrix, propagated[-1], self.transitions.n_jobs))
        return propagated

    def _types_forward(self, node: int, inputs: Array) -> Array:
        """Follow the paths from one node, with a row for each type: paths weighted by their number of such edges."""
        types, nodes = self._need_types(), self.transitions.num_nodes
        count, sums = len(types.names), np.zeros((len(types.names), 1, inputs.shape[1]))
        columns = types.of_edge * nodes + self.indices
        by_type = sp.csr_array((self.values, columns, self.transitions.indptr), shape=(nodes, count * nodes))
        rows = sp.csr_array((count, nodes))
        for k, power in enumerate(self._rows_of_powers(np.array([node]))[:-1], start=1):
            rows = sp.csr_array(rows @ self._matrix + (power @ by_type).reshape(count, nodes))
            sums[:, 0] += self.hop_weights[k] / k * (rows @ inputs)
        return sums

    def _types_backward(self, nodes: Array, inputs: Array) -> Array:
        """Do the same for many nodes, type after type: Q_k = M Q_{k−1} + M_type M^{k−1} inputs."""
        types, n_jobs = self._need_types(), self.transitions.n_jobs
        sums, propagated = np.zeros((len(types.names), len(nodes), inputs.shape[1])), self._propagate(inputs)
        for code in np.unique(types.of_edge).tolist():
            edges = types.of_edge == code
            places = (self.transitions.rows[edges], self.indices[edges])
            of_type, total = sp.csr_array((self.values[edges], places), shape=self._matrix.shape), np.zeros_like(inputs)
            for k, power in enumerate(propagated[:-1], start=1):
                last = sparse_product(of_type, power, n_jobs)
                total = sparse_product(self._matrix, total, n_jobs, base=last, base_factor=1.0)
                sums[code] += self.hop_weights[k] / k * total[nodes]
        return sums

    def _need_types(self) -> EdgeTypes:
        if self.types is None:
            raise TypeError("edges have no types")
        return self.types

    # ------------------------------------------------------------------ single paths

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None
    ) -> PathSet:
        """Return the paths from each node with the largest contributions, by size; `gradients (q, d)` of the score.

        With `hop`, only those of that length.
        """
        return self._best(nodes, inputs, gradients, top, hop)

    def between(self, node: int, endpoint: int, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from one node to another with the largest coefficients."""
        only_endpoint = np.zeros((self.transitions.num_nodes, 1))
        only_endpoint[endpoint] = 1
        return self._best(np.array([node]), only_endpoint, np.ones((1, 1)), top, hop)

    def top_by_weight(self, node: int, top: int) -> PathSet:
        """Return the paths from a node with the largest coefficients, wherever they end."""
        return self._best(np.array([node]), np.ones((self.transitions.num_nodes, 1)), np.ones((1, 1)), top)

    def top_positive(self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None) -> PathSet:
        """Return the paths from any of the nodes with the largest positive contributions; `gradients (q, d)`.

        Where gradients differ, the value of an endpoint depends on the start. Then the search uses a bound over all
        starts, which costs time; it stops after some millions of prefixes.
        """
        return self._best(nodes, inputs, gradients, top, hop, positive=True, together=True)

    def _best(
        self, starts: Array, inputs: Array, gradients: Array, top: int, hop: int | None = None, **options: Any
    ) -> PathSet:
        hops = [weight if hop is None or k == hop else 0.0 for k, weight in enumerate(self.hop_weights)]
        edges = self.transitions.indptr, self.indices, self.values
        n_jobs = self.transitions.n_jobs
        return best_paths(*edges, hops, starts, inputs, gradients, top, n_jobs=n_jobs, **options)

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights, `(b,)`: A(p) divided by that of uniform weights, as `CGE.path_weights`."""
        ratios = np.where(paths.edges >= 0, (self.values / self._walk)[paths.edges], 1.0)
        weights: Array = np.array(self.hop_weights)[paths.length - 1] * len(self.hop_weights) * ratios.prod(axis=1)
        return weights
