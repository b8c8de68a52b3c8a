"""Propagation: the exact sum over all weighted paths from every node.

    Σ_{p starts at i} A(p) x(v_k),   A(p) = h_k s(v_0, v_1) … s(v_{k−1}, v_k),   p = (v_0 = i, v_1, …, v_k)

A(p) is the path weight of `docs/concepts.md` and x(v) the input of node v. Because A(p) is a product over edges, the
sum over *all* paths takes K sparse matrix products: Σ_k h_k M^k x, where M holds s. The cost grows with edges and hops,
not with the number of paths, and every single path still has its weight.

    s(u, v) = g(u, v) / (d_u^(1−b) d_v^b),   d_u = Σ_v g(u, v)

g > 0 is the unnormalized edge weight and b the normalization exponent. With g ≡ 1, b = 0 is the random walk (uniform
weights: paths are weighted by the probability of a random walk) and b = ½ is the symmetric normalization of graph
convolutions, which gives less weight to paths that end at nodes of high degree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.sparse_products import SparseMatrix, matrix_product, sparse_product
from cge.models.transitions import SparsityPattern, TransitionMatrix

Propagation = Callable[[Tensor], Tensor]  # inputs (n, d) → weighted sums over paths (n, d)

_MAX_NEIGHBORHOOD_FRACTION = 0.5  # of all nodes; for fewer, only their neighborhood is computed
UNREACHED = 10_000  # hops


def normalized_weights(transitions: TransitionMatrix, raw_weights: Tensor, normalization: Tensor | float) -> Tensor:
    """Return s of each transition, `(m,)`, from unnormalized edge weights g, `(m,)`, and b; differentiable in both."""
    rows, ends = torch.from_numpy(transitions.rows), torch.from_numpy(transitions.indices)
    total = torch.zeros(transitions.num_nodes, dtype=raw_weights.dtype).index_add(0, rows, raw_weights)  # d, (n,)
    log = torch.log(total)
    return raw_weights * torch.exp(-(1 - normalization) * log[rows] - normalization * log[ends])


def sparse_matmul(pattern: SparsityPattern, values: Tensor, x: Tensor) -> Tensor:
    """Return M x, `(n, d)`, for the sparse matrix M with entries `values (m,)`; differentiable in values and x."""
    return matrix_product(_matrix(pattern, values), x, values)


def _matrix(pattern: SparsityPattern, values: Tensor) -> SparseMatrix:
    return SparseMatrix(pattern.matrix(values.detach().numpy()), pattern.n_jobs)


def propagate(transitions: TransitionMatrix, values: Tensor, x: Tensor, hops: Tensor | Sequence[float]) -> Tensor:
    """Return Σ_k h_k M^k x, `(n, d)`, for `x (n, d)`, edge weights `values (m,)` and hop weights `hops (K+1,)`.

    Differentiable in all three.
    """
    matrix, power, total = _matrix(transitions, values), x, hops[0] * x  # power: M^k x
    for weight in hops[1:]:
        power = matrix_product(matrix, power, values)
        total = total + weight * power
    return total


class _Propagate(torch.autograd.Function):
    """Σ_k h_k M^k x for constant M and h, of all nodes or of those of a neighborhood."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor, neighborhood: Neighborhood | None) -> Tensor:
        context.fixed, context.neighborhood = fixed, neighborhood
        total = torch.from_numpy(fixed.sum(fixed.matrix.rows, x.detach().numpy(), neighborhood))
        return total if neighborhood is None else total[neighborhood.nodes]

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        fixed, neighborhood = context.fixed, context.neighborhood
        if neighborhood is not None:
            return None, torch.from_numpy(fixed.neighborhood_gradient(gradient.detach(), neighborhood)), None
        return None, torch.from_numpy(fixed.sum(fixed.matrix.columns, gradient.detach().numpy())), None


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """The nodes around some `nodes`: `distance (n,)` in hops from the nearest of them, or `UNREACHED`."""

    nodes: Tensor
    distance: Array

    def within(self, hops: int) -> Array:
        """Return the nodes at most `hops` hops away, ascending."""
        return np.flatnonzero(self.distance <= hops)


class FixedPropagation:
    """`propagate` with constant weights: faster, and differentiable in the inputs only.

    The sum is computed by Horner's rule: h_0 x + M (h_1 x + M (…)).
    """

    def __init__(self, transitions: TransitionMatrix, values: Tensor, hops: Sequence[float]) -> None:
        self.matrix, self.hops = _matrix(transitions, values), [float(weight) for weight in hops]
        self._neighborhoods: deque[Neighborhood] = deque(maxlen=2)  # of an epoch's training and validation nodes

    def __call__(self, inputs: Tensor, neighborhood: Neighborhood | None = None) -> Tensor:
        """Return Σ_k h_k M^k x, `(n, d)`, or only the rows of the nodes of a neighborhood, `(k, d)`."""
        propagated: Tensor = _Propagate.apply(self, inputs, neighborhood)  # type: ignore[no-untyped-call]
        return propagated

    def sum(self, matrix: sp.csr_array, x: Array, neighborhood: Neighborhood | None = None) -> Array:
        """Return Σ_k h_k matrix^k x, each product only at the nodes of the neighborhood that the next one needs."""
        if len(self.hops) == 1:
            scaled: Array = x * x.dtype.type(self.hops[0])
            return scaled
        x = np.ascontiguousarray(x)
        total, factor = x, self.hops[-1]
        for hop in range(len(self.hops) - 2, -1, -1):
            rows = None if neighborhood is None else neighborhood.within(hop)
            terms: dict[str, Any] = {"factor": factor, "base": x, "base_factor": self.hops[hop], "rows": rows}
            total, factor = sparse_product(matrix, total, self.matrix.n_jobs, **terms), 1.0
        return total

    def neighborhood_gradient(self, gradient: Tensor, neighborhood: Neighborhood) -> Array:
        """Return the gradient of the inputs, `(n, d)`, from that of the rows of a neighborhood, `(k, d)`."""
        scattered = torch.empty(len(neighborhood.distance), gradient.shape[1], dtype=gradient.dtype)
        scattered[neighborhood.nodes] = 0  # a node may occur twice; rows of other nodes are never read
        scattered.index_add_(0, neighborhood.nodes, gradient)
        base = scattered.numpy()
        total, factor, distance = base, self.hops[-1], neighborhood.distance
        for hop in range(1, len(self.hops)):
            terms: dict[str, Any] = {"factor": factor, "base": base, "base_factor": self.hops[-1 - hop]}
            near: dict[str, Any] = {"rows": neighborhood.within(hop), "distance": distance, "max_distance": hop - 1}
            total, factor = sparse_product(self.matrix.columns, total, self.matrix.n_jobs, **terms, **near), 1.0
        total[distance >= len(self.hops)] = 0
        return total if len(self.hops) > 1 else total * base.dtype.type(factor)

    def neighborhood(self, nodes: Tensor) -> Neighborhood:
        """Return the nodes that paths from `nodes` reach; the last two results are cached."""
        for cached in self._neighborhoods:
            if torch.equal(cached.nodes, nodes):
                return cached
        distance = np.full(self.matrix.rows.shape[0], UNREACHED, np.int16)
        frontier = np.unique(nodes.numpy())
        distance[frontier] = 0
        for hop in range(1, len(self.hops)):
            reached = self.matrix.rows[frontier].indices
            frontier = np.unique(reached[distance[reached] > hop])
            distance[frontier] = hop
        self._neighborhoods.append(Neighborhood(nodes, distance))
        return self._neighborhoods[-1]


def propagate_to(propagation: Propagation, inputs: Tensor, nodes: Tensor) -> Tensor:
    """Return the propagated inputs of some nodes, `(k, d)`; of few nodes only their neighborhood is computed."""
    if isinstance(propagation, FixedPropagation) and len(nodes) < _MAX_NEIGHBORHOOD_FRACTION * len(inputs):
        return propagation(inputs, propagation.neighborhood(nodes))
    return propagation(inputs)[nodes]
