"""The paths that explain predictions: all of a graph, or sampled ones; sums over them, and the best of them.

A path of k edges gives each of its edges a k-th of its contribution, so that parts by types add up to the whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.explain.path_search import PathSet, best_paths
from cge.graph import Graph
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import array_product

SELF_LOOP, NO_EDGE = "(self-loop)", "(no edge)"


def count(values: Array) -> Array:
    """Return 1 for each value that is not zero."""
    return np.abs(np.sign(values))


@dataclass(frozen=True, eq=False)
class EdgeTypes:
    """The type of each entry of a transition matrix, `of_edge (m,)`, an index into `names`.

    Two names follow those of the graph: of self-loops, and of paths without edges.
    """

    names: tuple[str, ...]
    of_edge: Array

    @classmethod
    def of(cls, graph: Graph, transitions: TransitionMatrix) -> EdgeTypes | None:
        """Return the types of the edges of a graph; None where it has none."""
        if graph.edge_types is None:
            return None
        names = (*graph.edge_type_names, SELF_LOOP, NO_EDGE)
        self_loops = transitions.rows == transitions.indices
        types = graph.edge_types[np.maximum(transitions.graph_entry, 0)]
        return cls(names, np.where(self_loops, len(names) - 2, types).astype(np.int64))

    def named(self, edges: Array) -> tuple[str, ...]:
        """Return the types of the edges of one path by name."""
        return tuple(self.names[place] for place in self.of_edge[edges[edges >= 0]].tolist())


class PathSource(ABC):
    """Paths from nodes: all of a graph (`AllPaths`) or sampled ones (`SampledPaths`).

    The input of a path's endpoint, times the path weight, is added to the vector of its start. `hops` is K, the
    edges of the longest path; `batch_size` the number of nodes whose paths are best processed together; edge number e
    leads to `indices[e]`; `exact` says whether scores are a sum over these paths.
    """

    exact: bool
    nonnegative: bool  # no path weight is negative
    hops: int
    batch_size: int
    indices: Array
    num_nodes: int
    types: EdgeTypes | None

    @abstractmethod
    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops, `(K+1, q, d)`, of `inputs (n, d)`."""

    def by_type(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over paths by the types of their edges, `(types, q, d)`; empty where there are none."""
        empty = np.empty((0, len(nodes), inputs.shape[1]))
        return empty if self.types is None else self._by_type(nodes, inputs, self.types)

    @abstractmethod
    def _by_type(self, nodes: Array, inputs: Array, types: EdgeTypes) -> Array: ...

    @abstractmethod
    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights, `(b,)`: A(p) divided by that of uniform weights, as `CGE.path_weights`."""

    @abstractmethod
    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None, *, positive: bool = False
    ) -> PathSet:
        """Return the paths with the largest contributions; `gradients (q, d)` of the score.

        They are the `top` of each node, by size; or the largest positive ones from any of the nodes. With `hop`, only
        paths of that length.
        """

    @abstractmethod
    def to_endpoints(self, nodes: Array, rows: Array, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return for each node the sum over the paths that end there of path weight × `rows (q, d)` of the start.

        `transform` is applied to the path weights: `np.positive`, `np.abs` or `count`.
        """

    def count_paths(self, nodes: Array, endpoints: Array) -> Array:
        """Return how many paths lead from each node to one of its `endpoints (n, q)`, which are booleans, `(q,)`."""
        return np.asarray((endpoints * self.to_endpoints(nodes, np.eye(len(nodes)), count)).sum(axis=0))

    def top_by_weight(self, node: int, top: int) -> PathSet:
        """Return the paths from a node with the largest absolute weights, wherever they end."""
        return self.top_by_contribution(np.array([node]), np.ones((1, 1)), np.ones((self.num_nodes, 1)), top)


class AllPaths(PathSource):
    """All paths from every node, with weights h_k Π s over their edges.

    `values (m,)` are s of each edge, `hop_weights (K+1,)` are h, of which that of `longest` is the last other than
    zero. Weights are relative to `uniform_weights (m,)`, the transition probabilities of a random walk. With
    `closed_walks (n,)`, the sum over the paths that return to a node, these paths are left out.
    """

    exact, batch_size = True, 50_000

    def __init__(
        self,
        transitions: TransitionMatrix,
        values: Array,
        hop_weights: Sequence[float],
        uniform_weights: Array,
        types: EdgeTypes | None = None,
        closed_walks: Array | None = None,
    ) -> None:
        self.closed_walks = closed_walks
        self.transitions, self.values, self.hops = transitions, values.astype(np.float64), len(hop_weights) - 1
        self.hop_weights = [float(weight) for weight in hop_weights]
        self.types, self._uniform_weights = types, uniform_weights
        self.indices, self.num_nodes = transitions.indices, transitions.num_nodes
        self._matrix = transitions.matrix(self.values)
        self.nonnegative = min(self.hop_weights) >= 0
        self.longest = max((k for k, weight in enumerate(self.hop_weights) if weight != 0), default=0)

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops."""
        sums = np.zeros((self.hops + 1, len(nodes), inputs.shape[1]))
        for k, power in enumerate(self._powers(nodes, inputs)):
            sums[k] = self.hop_weights[k] * _rows(power, nodes, inputs)
        return sums

    def _by_type(self, nodes: Array, inputs: Array, types: EdgeTypes) -> Array:
        """Return sums by type, type after type: Q_k = M Q_{k−1} + M_type M^{k−1} inputs."""
        sums, powers = np.zeros((len(types.names), len(nodes), inputs.shape[1])), self._powers(nodes, inputs)
        for code in np.unique(types.of_edge).tolist():
            of_type, total = self.transitions.matrix(self.values * (types.of_edge == code)), np.zeros_like(powers[0])
            for k, power in enumerate(powers[:-1], start=1):
                total = self._product(self._matrix, total, nodes) + self._product(of_type, power, nodes)
                sums[code] += self.hop_weights[k] / k * _rows(total, nodes, inputs)
        sums[-1] = self.hop_weights[0] * inputs[nodes]
        return sums

    def _powers(self, nodes: Array, inputs: Array) -> list[Array]:
        """Return M^0 inputs, M^1 inputs, …, `(n, d)`; for one node, its rows of M^0, M^1, … as columns, `(n, 1)`."""
        powers = [inputs if len(nodes) > 1 else (np.arange(self.num_nodes) == nodes)[:, None].astype(np.float64)]
        for _ in range(self.longest):
            powers.append(self._product(self._matrix, powers[-1], nodes))
        return powers

    def _product(self, matrix: sp.csr_array, columns: Array, nodes: Array) -> Array:
        """Return the product with a matrix or, for one node, with its transpose."""
        return array_product(matrix, columns, self.transitions.n_jobs) if len(nodes) > 1 else matrix.T @ columns

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None, *, positive: bool = False
    ) -> PathSet:
        """Return the paths with the largest contributions; the search stops after some millions of prefixes."""
        hop_weights = np.array([h if hop in (None, k) else 0.0 for k, h in enumerate(self.hop_weights)])
        problem = self.transitions.indptr, self.indices, self.values, hop_weights, nodes, inputs, gradients, top
        closed, n_jobs = self.closed_walks is None, self.transitions.n_jobs
        return best_paths(*problem, positive=positive, together=positive, closed=closed, n_jobs=n_jobs)

    def to_endpoints(self, nodes: Array, rows: Array, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return Σ_k h_k (Mᵀ)^k rows, by Horner's rule; `transform` is multiplicative, so applied to each factor."""
        matrix, total = self.transitions.matrix(transform(self.values)).T, np.zeros((self.num_nodes, rows.shape[1]))
        for weight in transform(np.array(self.hop_weights[self.longest :: -1])):
            total = matrix @ total
            total[nodes] += weight * rows
        if self.closed_walks is not None:
            total[nodes] = 0 if len(nodes) == 1 else total[nodes] - self.closed_walks[nodes, None] * rows
        return total

    def count_paths(self, nodes: Array, endpoints: Array) -> Array:
        """Return Σ_k B^k endpoints, where B has a 1 for each edge; equal columns of `endpoints` are computed once."""
        place: dict[bytes, int] = {}
        column = [place.setdefault(row.tobytes(), len(place)) for row in np.packbits(endpoints, axis=0).T]
        power = endpoints[:, [column.index(number) for number in range(len(place))]].astype(np.float64)
        matrix, total = self.transitions.matrix(count(self.values)), np.zeros_like(power)
        for weight in count(np.array(self.hop_weights[: self.longest + 1])):
            total += weight * power
            power = matrix @ power
        return np.asarray(total[nodes, column])

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights."""
        ratios = np.where(paths.edges >= 0, (self.values / self._uniform_weights)[paths.edges], 1.0)
        relative = np.array(self.hop_weights) / np.abs(self.hop_weights).mean()
        return np.asarray(relative[paths.length - 1] * ratios.prod(axis=1))


def _rows(power: Array, nodes: Array, inputs: Array) -> Array:
    """Return the sums of some nodes, `(q, d)`, from what `AllPaths._powers` returns."""
    return power[nodes] if len(nodes) > 1 else np.asarray(power.T @ inputs)


@dataclass(eq=False)
class SampledPaths(PathSource):
    """The prefixes of random walks, where a path weight depends on the path as a whole.

    `sample` returns the paths that start at some nodes; `weigh` returns the weights of paths, given as arrays of nodes:
    relative weights or, for `PaperCGE`, A(p).
    """

    batch_size, nonnegative = 2000, True

    sample: Callable[[Array], PathSet]
    hops: int
    indices: Array
    num_nodes: int
    weigh: Callable[[list[Array]], Array]
    types: EdgeTypes | None = None
    exact: bool = True
    _cached: tuple[Array, PathSet] | None = field(default=None, init=False)

    def paths_of(self, nodes: Array) -> PathSet:
        """Return the paths from some nodes; those of the last call are cached."""
        if self._cached is None or not np.array_equal(self._cached[0], nodes):
            self._cached = nodes, self.sample(nodes)
        return self._cached[1]

    def by_hop(self, nodes: Array, inputs: Array) -> Array:
        """Return sums over the paths of each number of hops."""
        paths = self.paths_of(nodes)
        return self._sums(nodes, inputs, paths, paths.length - 1, self.hops + 1)

    def _by_type(self, nodes: Array, inputs: Array, types: EdgeTypes) -> Array:
        paths, count = self.paths_of(nodes), len(types.names)
        path, position = np.nonzero(paths.edges >= 0)
        no_edges = np.flatnonzero(paths.length == 1)
        of_path = np.r_[types.of_edge[paths.edges[path, position]], np.full(len(no_edges), count - 1)]
        parts = paths.take(np.r_[path, no_edges])
        return self._sums(nodes, inputs, parts, of_path, count, np.maximum(parts.length - 1, 1))

    def _sums(
        self, nodes: Array, inputs: Array, paths: PathSet, group: Array, groups: int, divisor: Array | int = 1
    ) -> Array:
        """Return sums over the paths of each group and node, `(groups, q, d)`."""
        rows = group * len(nodes) + np.searchsorted(nodes, paths.start)
        places = rows, paths.endpoints(self.indices)
        matrix = sp.csr_array((paths.path_weight / divisor, places), shape=(groups * len(nodes), self.num_nodes))
        return np.asarray((matrix @ inputs).reshape(groups, len(nodes), inputs.shape[1]))

    def to_endpoints(self, nodes: Array, rows: Array, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return sums over the paths that end at each node."""
        paths = self.paths_of(nodes)
        places = paths.endpoints(self.indices), np.searchsorted(nodes, paths.start)
        shape = self.num_nodes, len(nodes)
        return np.asarray(sp.csr_array((transform(paths.path_weight), places), shape=shape) @ rows)

    def top_by_contribution(
        self, nodes: Array, gradients: Array, inputs: Array, top: int, hop: int | None = None, *, positive: bool = False
    ) -> PathSet:
        """Return the paths with the largest contributions."""
        paths = self.paths_of(nodes)
        values = paths.contributions(nodes, gradients, inputs, self.indices)
        values = values if positive else np.abs(values)
        values = values if hop is None else values * (paths.length == hop + 1)
        order = np.argsort(-values, kind="stable")
        ranked = paths.take(order[values[order] > 0])
        if positive:
            return ranked.take(np.arange(min(top, len(ranked))))
        ranked = ranked.take(np.argsort(ranked.start, kind="stable"))
        rank = np.arange(len(ranked)) - np.searchsorted(ranked.start, ranked.start)
        return ranked.take(np.flatnonzero(rank < top))

    def weights(self, paths: PathSet) -> Array:
        """Return relative path weights."""
        return self.weigh([nodes[nodes >= 0] for nodes in paths.nodes(self.indices)])
