"""The paths of weighted metapaths as all paths of another graph, whose nodes are pairs of a node and a prefix.

Node v after the prefix q of a metapath is number q · n + v; an edge of relation r leads from q to the prefix qr. The
weight of a metapath is a factor of the input of its endpoints, so that a path's weight is a product of edge
weights and everything that `AllPaths` computes holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cge.arrays import Array
from cge.explain.path_search import PathSet
from cge.explain.path_sources import AllPaths, EdgeTypes, PathSource
from cge.models.propagation import SparsityPattern, TransitionMatrix

Metapath = tuple[int, ...]


class MetapathPaths(PathSource):
    """All paths that follow one of some metapaths, with weights w_m Π s over their edges.

    `codes (m,)` are the relations of transitions, `values (m,)` are s, `weights` w by metapath. Relative weights are
    relative to uniform weights of paths of up to `max_hops` hops: products of `uniform_weights (m,)`, the transition
    probabilities of a random walk, divided by `max_hops` + 1. `hops` is the length of the longest metapath.
    """

    exact, batch_size = True, 50_000

    def __init__(
        self,
        transitions: TransitionMatrix,
        codes: Array,
        values: Array,
        weights: Mapping[Metapath, float],
        uniform_weights: Array,
        max_hops: int,
        types: EdgeTypes | None = None,
    ) -> None:
        self.transitions, self.codes, self.values = transitions, codes, values.astype(np.float64)
        self._uniform_weights, self._max_hops = uniform_weights, max_hops
        self.types, self.indices, self.num_nodes = types, transitions.indices, transitions.num_nodes
        prefixes = dict.fromkeys(key[:length] for key in weights for length in range(len(key) + 1))
        self.prefixes: list[Metapath] = sorted({(), *prefixes}, key=lambda key: (len(key), key))
        self.metapath_weights = np.array([weights.get(key, 0.0) for key in self.prefixes])  # (Q,)
        self.nonnegative = bool((self.metapath_weights >= 0).all())
        self.hops = len(self.prefixes[-1])
        self._paths, self._edge = self._expanded(transitions)

    def _expanded(self, transitions: TransitionMatrix) -> tuple[AllPaths, Array]:
        """Return the paths of the graph of pairs, and the transition of each of its edges."""
        size, number_of = self.num_nodes, {key: number for number, key in enumerate(self.prefixes)}
        rows, columns, edges = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for key in self.prefixes[1:]:
            edge = np.flatnonzero(self.codes == key[-1])
            rows.append(number_of[key[:-1]] * size + transitions.rows[edge])
            columns.append(number_of[key] * size + transitions.indices[edge])
            edges.append(edge)
        row, column, edge = (np.concatenate(parts) for parts in (rows, columns, edges))
        order = np.lexsort((column, row))
        pattern = SparsityPattern(row[order], column[order], size * len(self.prefixes), transitions.n_jobs)
        edge = edge[order]
        names = None if self.types is None else EdgeTypes(self.types.names, self.types.of_edge[edge])
        weights = self.values[edge], [1.0] * (self.hops + 1), self._uniform_weights[edge]
        return AllPaths(pattern, *weights, names), edge  # type: ignore[arg-type]

    def _inputs(self, inputs: Array) -> Array:
        """Return the inputs of all pairs, times the weight of the metapath, `(Q n, d)`."""
        return np.asarray((self.metapath_weights[:, None, None] * inputs).reshape(-1, inputs.shape[1]))

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops."""
        return self._paths.by_hop(nodes, self._inputs(inputs))

    def _by_type(self, nodes: Array, inputs: Array, types: EdgeTypes) -> Array:  # noqa: ARG002 - those of the edges
        return self._paths.by_type(nodes, self._inputs(inputs))

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None, *, positive: bool = False
    ) -> PathSet:
        """Return the paths with the largest contributions."""
        best = self._paths.top_by_contribution(nodes, gradients, self._inputs(inputs), top, hop, positive=positive)
        prefix = best.endpoints(self._paths.indices) // self.num_nodes
        edges = np.where(best.edges >= 0, self._edge[best.edges], -1) if len(self._edge) else best.edges
        path_weight = best.path_weight * self.metapath_weights[prefix]
        return PathSet(best.start, edges, best.length, path_weight)

    def by_metapath(self, nodes: Array, rows: Array, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return `to_endpoints` for each prefix of a metapath, `(Q, n, d)`."""
        shape = len(self.prefixes), self.num_nodes, rows.shape[1]
        at_endpoints = self._paths.to_endpoints(nodes, rows, transform).reshape(shape)
        return np.asarray(transform(self.metapath_weights)[:, None, None] * at_endpoints)

    def to_endpoints(self, nodes: Array, rows: Array, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return for each node the sum over the paths that end there of path weight × `rows (q, d)` of the start."""
        return np.asarray(self.by_metapath(nodes, rows, transform).sum(0))

    def along(self, metapath: Metapath, inputs: Array) -> Array:
        """Return the sum over the paths of one metapath from every node, `(n, d)`."""
        total = self.metapath_weights[self.prefixes.index(metapath)] * inputs
        for code in reversed(metapath):
            total = self.transitions.matrix(self.values * (self.codes == code)) @ total
        return np.asarray(total)

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights: 0 for a path that follows none of the metapaths."""
        ratios = np.where(paths.edges >= 0, (self.values / self._uniform_weights)[paths.edges], 1.0).prod(axis=1)
        weight_of = dict(zip(self.prefixes, self.metapath_weights.tolist(), strict=True))
        keys = [tuple(self.codes[edges[edges >= 0]].tolist()) for edges in paths.edges]
        return np.asarray(ratios * [weight_of.get(key, 0.0) for key in keys] * (self._max_hops + 1))
