"""Propagation: the exact sum over all weighted paths from every node, of inputs or of labels.

    Σ_{p starts at i} A(p) x(v_k),   A(p) = h_k s(v_0, v_1) … s(v_{k−1}, v_k),   p = (v_0 = i, v_1, …, v_k)

A(p) is the path weight of `docs/concepts.md` and x(v) the input of node v. Because A(p) is a product over edges, the
sum over *all* paths takes K sparse matrix products: Σ_k h_k M^k x, where M holds s. The cost grows with edges and hops,
not with the number of paths, and the weight of each single path can still be computed.

    s(u, v) = g(u, v) / (d_u^(1−b) d_v^b),   d_u = Σ_v g(u, v)

g > 0 is the strength of an edge, s its normalized weight and b the normalization exponent. M is called the propagation
matrix, h the hop weights. With g equal to the edge weights of the graph (θ = 0) and equal hop weights, b = 0 is the
random walk (uniform weights) and b = ½ the symmetric normalization of graph convolutions, which gives less weight to
paths that end at nodes of high degree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.models.backends import Values, exp, log, row_sums
from cge.models.sparse_products import SparseFeatures, SparseMatrix, array_product, is_small, sparse_product

MAX_SEED_FRACTION = 0.5  # below it, propagation is restricted to the K-hop neighborhood of the requested nodes
_BATCH = 64  # nodes whose closed walks are summed at once
COLUMNS = 256  # of the inputs that are propagated at once
UNREACHED = 10_000  # the distance of nodes that no path reaches; larger than any number of hops


class SparsityPattern:
    """The positions of the entries of a square sparse matrix, sorted by row; values are passed to its methods.

    Row u has its entries in the columns `indices[indptr[u]:indptr[u+1]]`; a column may occur more than once. `rows
    (m,)` is the row of each entry. See `SparseMatrix` for `entries`.
    """

    def __init__(
        self, rows: Array, indices: Array, num_nodes: int, n_jobs: int | None = None, entries: int | None = None
    ) -> None:
        self.num_nodes, self.n_jobs, self.rows, self.indices = num_nodes, n_jobs, rows, indices
        self.entries = len(indices) if entries is None else entries
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_nodes))])

    def __len__(self) -> int:
        return len(self.indices)

    def matrix(self, values: Array) -> sp.csr_array:
        """Return the matrix with entries `values (m,)`."""
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def transposed(self, values: Array) -> sp.csr_array:
        """Return the transpose of the matrix with entries `values (m,)`."""
        order = self._transposed_order
        return sp.csr_array((values[order.data], order.indices, order.indptr), shape=order.shape)

    @cached_property
    def _transposed_order(self) -> sp.csr_array:
        """The transpose of the matrix whose entries are their positions."""
        return self.matrix(np.arange(len(self))).T.tocsr()


class TransitionMatrix(SparsityPattern):
    """Positions of the entries of the propagation matrix; the weights are passed separately.

    Columns ascend within each row. The entries, the *transitions*, are the edges of the graph and a self-loop at every
    node. `graph_entry (m,)` is the position of each transition in the CSR arrays of the graph, −1 for an added
    self-loop. `part_of`: the whole graph, if `graph` is a part of it; its size selects the kernel, so that results are
    equal to the last bit.
    """

    def __init__(self, graph: Graph, n_jobs: int | None = None, part_of: Graph | None = None) -> None:
        nodes, indptr = np.arange(graph.num_nodes), graph.indptr
        rows, added = _added_self_loops(graph)
        missing = np.flatnonzero(added)
        smaller = np.concatenate([[0], np.cumsum(graph.indices < rows)])  # entries before a self-loop
        place = indptr[missing] + (smaller[indptr[1:]] - smaller[indptr[:-1]])[missing] + np.arange(len(missing))
        is_edge = np.ones(len(rows) + len(missing), bool)
        is_edge[place] = False
        self.graph_entry, indices = np.full(len(is_edge), -1), np.empty(len(is_edge), np.int64)
        self.graph_entry[is_edge] = np.arange(len(rows))
        indices[is_edge], indices[place] = graph.indices, missing
        whole = graph if part_of is None else part_of
        rows, entries = np.repeat(nodes, np.diff(indptr) + added), len(whole.indices) + len(whole)
        super().__init__(rows, indices, graph.num_nodes, n_jobs, entries)


def count_transitions(graph: Graph) -> int:
    """Return the number of transitions of a graph, `len(TransitionMatrix(graph))`.

    >>> count_transitions(Graph.from_edges([(0, 1), (1, 1)], self_loops=True))
    4
    """
    return len(graph.indices) + int(np.count_nonzero(_added_self_loops(graph)[1]))


def _added_self_loops(graph: Graph) -> tuple[Array, Array]:
    """Return the row of each edge, `(m,)`, and which nodes have no self-loop, so that one is added, `(n,)`."""
    rows = np.repeat(np.arange(graph.num_nodes).astype(graph.indices.dtype), np.diff(graph.indptr))
    added = np.ones(graph.num_nodes, bool)
    added[rows[rows == graph.indices]] = False
    return rows, added


def normalized_weights(transitions: TransitionMatrix, edge_strengths: Values, normalization: Any) -> Values:
    """Return s of each transition, `(m,)`, from edge strengths g, `(m,)`, and b; differentiable in both (tensors)."""
    rows, cols = transitions.rows, transitions.indices
    log_degree = log(row_sums(rows, edge_strengths, transitions.num_nodes))  # (n,)
    weights: Values = edge_strengths * exp(-(1 - normalization) * log_degree[rows] - normalization * log_degree[cols])
    return weights


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """The nodes around the seed nodes `seeds (k,)`: `distance (n,)` in hops from the nearest seed, or `UNREACHED`."""

    seeds: Array
    distance: Array

    def within(self, max_hops: int) -> Array:
        """Return the nodes at most `max_hops` hops away, ascending."""
        return np.flatnonzero(self.distance <= max_hops)


def neighborhood_of(matrix: sp.csr_array, seeds: Array, hops: int) -> Neighborhood:
    """Return the nodes that paths of up to `hops` hops from `seeds` reach."""
    distance = np.full(matrix.shape[0], UNREACHED, np.int16)
    frontier = np.unique(seeds)
    distance[frontier] = 0
    for hop in range(1, hops + 1):
        reached = matrix[frontier].indices
        frontier = np.unique(reached[distance[reached] > hop])
        distance[frontier] = hop
    return Neighborhood(seeds, distance)


class FixedPropagation:
    """The sum over all paths, with given normalized edge weights s, `weights (m,)`; differentiable in the inputs only.

    It is computed by Horner's rule: h_0 x + M (h_1 x + M (…)).
    """

    def __init__(self, pattern: SparsityPattern, weights: Any, hop_weights: Sequence[float]) -> None:
        self.matrix = SparseMatrix(pattern.matrix(np.asarray(weights)), pattern.n_jobs, pattern.entries)
        self.hop_weights = [float(weight) for weight in hop_weights]
        self._neighborhoods: deque[Neighborhood] = deque(maxlen=2)  # of an epoch's training and validation nodes

    def __call__(self, inputs: Values, neighborhood: Neighborhood | None = None) -> Values:
        """Return Σ_k h_k M^k x, `(n, d)`, or only the rows of the seed nodes of a neighborhood, `(k, d)`."""
        if isinstance(inputs, np.ndarray):
            if is_small(self.matrix.entries, inputs.shape[1]):
                total = self._small_sum(inputs)
            else:
                total = self.sum(self.matrix.csr, inputs, neighborhood)
            return total if neighborhood is None else total[neighborhood.seeds]
        from cge.models.autograd import propagate_fixed

        return propagate_fixed(self, inputs, neighborhood)

    def _small_sum(self, x: Array) -> Array:
        weights = [x.dtype.type(weight) for weight in self.hop_weights]
        total: Array = weights[-1] * x
        for weight in weights[-2::-1]:
            total = self.matrix.csr @ total + weight * x
        return total

    def sum(self, matrix: sp.csr_array, x: Array, neighborhood: Neighborhood | None = None) -> Array:
        """Return Σ_k h_k matrix^k x, each product only at the nodes of the neighborhood that the next one needs."""
        if len(self.hop_weights) == 1:
            return np.asarray(x * x.dtype.type(self.hop_weights[0]))
        x = np.ascontiguousarray(x)
        total, factor = x, self.hop_weights[-1]
        for hop in range(len(self.hop_weights) - 2, -1, -1):
            rows = None if neighborhood is None else neighborhood.within(hop)
            terms: dict[str, Any] = {"factor": factor, "base": x, "base_factor": self.hop_weights[hop], "rows": rows}
            total, factor = sparse_product(matrix, total, self.matrix.n_jobs, **terms), 1.0
        return total

    def neighborhood_gradient(self, base: Array, neighborhood: Neighborhood) -> Array:
        """Return the gradient with respect to the inputs, `(n, d)`.

        `base (n, d)` is the gradient with respect to the sums, of which only the rows of seed nodes are read.
        """
        total, factor, distance = base, self.hop_weights[-1], neighborhood.distance
        for hop in range(1, len(self.hop_weights)):
            terms: dict[str, Any] = {"factor": factor, "base": base, "base_factor": self.hop_weights[-1 - hop]}
            near: dict[str, Any] = {"rows": neighborhood.within(hop), "distance": distance, "max_distance": hop - 1}
            total, factor = sparse_product(self.matrix.transposed, total, self.matrix.n_jobs, **terms, **near), 1.0
        total[distance >= len(self.hop_weights)] = 0
        return total if len(self.hop_weights) > 1 else total * base.dtype.type(factor)

    def neighborhood(self, seeds: Array) -> Neighborhood:
        """Return the nodes that paths from `seeds` reach; the last two results are cached."""
        for cached in self._neighborhoods:
            if np.array_equal(cached.seeds, seeds):
                return cached
        self._neighborhoods.append(neighborhood_of(self.matrix.csr, seeds, len(self.hop_weights) - 1))
        return self._neighborhoods[-1]


def propagate_rows(propagation: Callable[[Values], Values], inputs: Values, nodes: Any) -> Values:
    """Return the propagated inputs of some nodes, `(k, d)`; for few nodes, computed within their neighborhood."""
    if isinstance(propagation, FixedPropagation) and len(nodes) < MAX_SEED_FRACTION * len(inputs):
        return propagation(inputs, propagation.neighborhood(np.asarray(nodes)))
    rows: Values = propagation(inputs)[nodes]
    return rows


def column_blocks(inputs: Any) -> Iterator[Array]:
    """Yield sparse or dense inputs `(n, f)` as dense blocks of columns."""
    columns = inputs.csr.tocsc() if isinstance(inputs, SparseFeatures) else np.asarray(inputs)
    for first in range(0, columns.shape[1], COLUMNS):
        block: Any = columns[:, first : first + COLUMNS]
        yield np.ascontiguousarray(block.toarray() if isinstance(inputs, SparseFeatures) else block)


def propagated_lengths(propagation: Callable[[Array], Array], inputs: Any, nodes: Array) -> Array:
    """Return the Euclidean length of the propagated inputs of some nodes, `(k,)`; 1 where it is zero."""
    squares = np.zeros(len(nodes))
    for block in column_blocks(inputs):
        squares += np.square(propagate_rows(propagation, block, nodes), dtype=np.float64).sum(axis=1)
    return np.where(squares > 0, np.sqrt(squares), 1).astype(np.float32)


def symmetric_weights(transitions: TransitionMatrix, strengths: Array, normalization: float) -> tuple[Array, Array]:
    """Return the normalized edge weights of an undirected graph, `(m,)` float64, and a symmetric form of them.

    For M = D^(b−1) G D^(−b) with a symmetric G, the matrix S = D^(−½) G D^(−½) is symmetric and has closed walks of the
    same weight: (S^k)_ii = (M^k)_ii. Edge strengths are symmetric but for rounding, which is averaged out.
    """
    symmetric = (strengths + transitions.transposed(strengths).data) / 2
    degree = np.bincount(transitions.rows, symmetric, minlength=transitions.num_nodes)
    start, end = degree[transitions.rows], degree[transitions.indices]
    return symmetric * start ** (normalization - 1) * end**-normalization, symmetric / np.sqrt(start * end)


def closed_walk_weights(
    transitions: TransitionMatrix,
    weights: Array,
    hop_weights: Sequence[float],
    nodes: Array,
    symmetric: Array | None = None,
) -> Array:
    """Return Σ_k h_k (M^k)_ii for each i of `nodes`, `(len(nodes),)`: the weight of all closed walks.

    With the `symmetric` form S of M half of the products are enough: (S^(a+b))_ii = ⟨S^a e_i, S^b e_i⟩.
    """
    matrix = transitions.matrix(np.asarray(weights if symmetric is None else symmetric, np.float64))
    closed_walks = np.zeros(len(nodes))
    for first in range(0, len(nodes), _BATCH):
        batch = nodes[first : first + _BATCH]
        column = np.arange(len(batch))
        reached = np.zeros((transitions.num_nodes, _BATCH))  # the rounding of sums depends on the number of columns
        reached[batch, column] = 1
        total = np.full(len(batch), hop_weights[0])
        for hop in range(1, len(hop_weights), 1 if symmetric is None else 2):
            before, reached = reached, sparse_product(matrix, reached, transitions.n_jobs)
            if symmetric is None:
                total += hop_weights[hop] * reached[batch, column]
                continue
            total += hop_weights[hop] * np.einsum("ij,ij->j", before, reached)[column]
            if hop + 1 < len(hop_weights):
                total += hop_weights[hop + 1] * np.einsum("ij,ij->j", reached, reached)[column]
        closed_walks[first : first + _BATCH] = total
    return closed_walks


def label_propagation(
    transitions: TransitionMatrix,
    weights: Array,
    hop_weights: Sequence[float],
    nodes: Array,
    labels: Array,
    leave_one_out: Array | None = None,
    symmetric: Array | None = None,
    closed_walks: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Return, for each node, sums over all paths to the labeled `nodes (k,)`, whose labels are `labels (k, c)`.

    They are the sum of path weight × label, `(n, c)`, the sum of the path weights, `(n, 1)`, and whether there is such
    a path, `(n, 1)`. The nodes in `leave_one_out` (default: all of `nodes`; with `closed_walks`, always all) do not
    receive their own label, not even over closed walks. Leaving it out costs far more than the propagation itself; it
    is cheaper with the `symmetric` form of `weights` (see `symmetric_weights`), and free if `closed_walks`, the
    `closed_walk_weights` of `nodes`, is passed.
    """
    inputs = np.zeros((transitions.num_nodes, labels.shape[1] + 1))
    inputs[nodes, :-1] = labels
    inputs[nodes, -1] = 1  # sums to the weight of all paths to labels
    matrix = transitions.matrix(weights.astype(np.float64))  # leaving labels out takes differences of large sums
    total, reached = hop_weights[0] * inputs, inputs
    for weight in hop_weights[1:]:
        reached = array_product(matrix, reached, transitions.n_jobs, transitions.entries)
        total += weight * reached
    with_own = total[:, -1:].copy()
    if closed_walks is None:
        nodes = nodes if leave_one_out is None else nodes[np.isin(nodes, leave_one_out)]
        closed_walks = closed_walk_weights(transitions, weights, hop_weights, nodes, symmetric)
    total[nodes] -= closed_walks[:, None] * inputs[nodes]
    weight_sum = total[:, -1:]
    reachable = weight_sum > 1e-9 * with_own  # less is what rounding left of a node's own label
    return total[:, :-1], weight_sum, reachable
