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
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.sparse_products import entry_gradients, sparse_product
from cge.models.transitions import SparsityPattern, TransitionMatrix
from cge.parallel import kernel

Propagation = Callable[[Tensor], Tensor]  # inputs (n, d) → weighted sums over paths (n, d)

_MAX_NEIGHBORHOOD_FRACTION = 0.5  # of all nodes; for fewer, only their neighborhood is computed
UNREACHED = 10_000  # hops


def normalized_weights(transitions: TransitionMatrix, raw_weights: Tensor, normalization: Tensor | float) -> Tensor:
    """Return s of each transition, `(m,)`, from unnormalized edge weights g, `(m,)`, and b; differentiable in both."""
    rows, ends = torch.from_numpy(transitions.rows), torch.from_numpy(transitions.indices)
    total = torch.zeros(transitions.num_nodes, dtype=raw_weights.dtype).index_add(0, rows, raw_weights)  # d, (n,)
    log = torch.log(total)
    return raw_weights * torch.exp(-(1 - normalization) * log[rows] - normalization * log[ends])


# ---------------------------------------------------------------------- trainable weights


class _Matrix:
    """A sparse matrix with entries `values (m,)`; the transpose is computed once, for all backward products."""

    def __init__(self, pattern: SparsityPattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values
        self.matrix = pattern.matrix(values.detach().numpy())

    @cached_property
    def transposed(self) -> sp.csr_array:
        return self.pattern.transposed(self.matrix.data)


class _MatMul(torch.autograd.Function):
    """M x, with gradients for the entries of M and for x."""

    @staticmethod
    def forward(context: Any, matrix: _Matrix, _values: Tensor, x: Tensor) -> Tensor:
        context.matrix = matrix
        context.save_for_backward(x)
        return torch.from_numpy(sparse_product(matrix.matrix, x.detach().numpy(), matrix.pattern.n_jobs))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        pattern, (x,) = context.matrix.pattern, context.saved_tensors
        to_values = to_x = None
        upstream = np.ascontiguousarray(gradient.detach().numpy())
        if context.needs_input_grad[1]:
            x = np.ascontiguousarray(x.detach().numpy())
            to_values = torch.from_numpy(entry_gradients(pattern.indptr, pattern.indices, upstream, x, pattern.n_jobs))
        if context.needs_input_grad[2]:
            to_x = torch.from_numpy(sparse_product(context.matrix.transposed, upstream, pattern.n_jobs))
        return None, to_values, to_x


def sparse_matmul(pattern: SparsityPattern, values: Tensor, x: Tensor) -> Tensor:
    """Return M x, `(n, d)`, for the sparse matrix M with entries `values (m,)`; differentiable in values and x."""
    return _matmul(_Matrix(pattern, values), x)


def _matmul(matrix: _Matrix, x: Tensor) -> Tensor:
    product: Tensor = _MatMul.apply(matrix, matrix.values, x)  # type: ignore[no-untyped-call]
    return product


def propagate(transitions: TransitionMatrix, values: Tensor, x: Tensor, hops: Tensor | Sequence[float]) -> Tensor:
    """Return Σ_k h_k M^k x, `(n, d)`, for `x (n, d)`, edge weights `values (m,)` and hop weights `hops (K+1,)`.

    Differentiable in all three.
    """
    matrix, power, total = _Matrix(transitions, values), x, hops[0] * x  # power: M^k x
    for weight in hops[1:]:
        power = _matmul(matrix, power)
        total = total + weight * power
    return total


# ---------------------------------------------------------------------- constant weights


class _Propagate(torch.autograd.Function):
    """Σ_k h_k M^k x for constant M and h; the gradient is the same sum with Mᵀ."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor) -> Tensor:
        context.fixed = fixed
        return torch.from_numpy(fixed.sum(fixed.matrix, x.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:
        fixed = context.fixed
        return None, torch.from_numpy(fixed.sum(fixed.transposed, gradient.detach().numpy()))


class _PropagateTo(torch.autograd.Function):
    """Some rows of `_Propagate`: each level of Horner's rule is computed only at the nodes that the next one needs."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor, neighborhood: Neighborhood) -> Tensor:
        context.fixed, context.neighborhood = fixed, neighborhood
        return torch.from_numpy(fixed.forward_rows(x.detach().numpy(), neighborhood))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        return None, torch.from_numpy(context.fixed.backward_rows(gradient.detach(), context.neighborhood)), None


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
        self._matrix = _Matrix(transitions, values)
        self.matrix = self._matrix.matrix
        self.hops, self.n_jobs = [float(weight) for weight in hops], transitions.n_jobs
        self._neighborhoods: deque[Neighborhood] = deque(maxlen=2)  # of an epoch's training and validation nodes

    @property
    def transposed(self) -> sp.csr_array:
        """Mᵀ, computed for the first gradient."""
        return self._matrix.transposed

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return Σ_k h_k M^k x, `(n, d)`."""
        propagated: Tensor = _Propagate.apply(self, inputs)  # type: ignore[no-untyped-call]
        return propagated

    def sum(self, matrix: sp.csr_array, x: Array) -> Array:
        """Return Σ_k h_k matrix^k x."""
        if len(self.hops) == 1:
            scaled: Array = x * x.dtype.type(self.hops[0])
            return scaled
        x = np.ascontiguousarray(x)
        total, factor = x, self.hops[-1]
        for hop_weight in reversed(self.hops[:-1]):
            total = sparse_product(matrix, total, self.n_jobs, factor=factor, base=x, base_factor=hop_weight)
            factor = 1.0
        return total

    def neighborhood(self, nodes: Tensor) -> Neighborhood:
        """Return the nodes that paths from `nodes` reach; the last two results are cached."""
        for cached in self._neighborhoods:
            if torch.equal(cached.nodes, nodes):
                return cached
        distance = np.full(self.matrix.shape[0], UNREACHED, np.int16)
        distance[nodes.numpy()] = 0
        start = np.unique(nodes.numpy())
        _breadth_first(self.matrix.indptr, self.matrix.indices, distance, start, len(self.hops) - 1)
        self._neighborhoods.append(Neighborhood(nodes, distance))
        return self._neighborhoods[-1]

    def propagate_to(self, inputs: Tensor, neighborhood: Neighborhood) -> Tensor:
        """Return the rows of Σ_k h_k M^k x of the nodes of a neighborhood, `(k, d)`."""
        propagated: Tensor = _PropagateTo.apply(self, inputs, neighborhood)  # type: ignore[no-untyped-call]
        return propagated

    def forward_rows(self, x: Array, neighborhood: Neighborhood) -> Array:
        """Return the rows of Σ_k h_k M^k x of the nodes of a neighborhood, `(k, d)`, for inputs `x (n, d)`."""
        x = np.ascontiguousarray(x)
        total, factor = x, self.hops[-1]
        for hop in range(len(self.hops) - 2, -1, -1):
            rows, weight = neighborhood.within(hop), self.hops[hop]
            total = sparse_product(
                self.matrix, total, self.n_jobs, factor=factor, base=x, base_factor=weight, rows=rows
            )
            factor = 1.0
        result: Array = total[neighborhood.nodes.numpy()]
        return result if len(self.hops) > 1 else result * x.dtype.type(factor)

    def backward_rows(self, gradient: Tensor, neighborhood: Neighborhood) -> Array:
        """Return the gradient of the inputs, `(n, d)`, from that of `forward_rows`, `(k, d)`."""
        scattered = torch.empty(self.matrix.shape[0], gradient.shape[1], dtype=gradient.dtype)
        scattered[neighborhood.nodes] = 0  # a node may occur twice; rows of other nodes are never read
        scattered.index_add_(0, neighborhood.nodes, gradient)
        base = scattered.numpy()
        total, factor, distance = base, self.hops[-1], neighborhood.distance
        for hop in range(1, len(self.hops)):
            rows, weight = neighborhood.within(hop), self.hops[-1 - hop]
            near: dict[str, Any] = {"rows": rows, "distance": distance, "max_distance": hop - 1}
            total = sparse_product(
                self.transposed, total, self.n_jobs, factor=factor, base=base, base_factor=weight, **near
            )
            factor = 1.0
        total[distance >= len(self.hops)] = 0
        return total if len(self.hops) > 1 else total * base.dtype.type(factor)


def propagate_to(propagation: Propagation, inputs: Tensor, nodes: Tensor) -> Tensor:
    """Return the propagated inputs of some nodes, `(k, d)`; of few nodes only their neighborhood is computed."""
    if isinstance(propagation, FixedPropagation) and len(nodes) < _MAX_NEIGHBORHOOD_FRACTION * len(inputs):
        return propagation.propagate_to(inputs, propagation.neighborhood(nodes))
    return propagation(inputs)[nodes]


@kernel
def _breadth_first(indptr: Array, indices: Array, distance: Array, frontier: Array, hops: int) -> None:
    """Write the number of hops from the nearest node of the first frontier, up to `hops`."""
    for hop in range(1, hops + 1):
        reached = np.empty(len(distance), np.int64)
        count = 0
        for u in frontier:
            for entry in range(indptr[u], indptr[u + 1]):
                v = indices[entry]
                if distance[v] > hop:
                    distance[v] = hop
                    reached[count] = v
                    count += 1
        frontier = reached[:count]
