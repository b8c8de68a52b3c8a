"""Sparse products and propagation as functions of tensors, with gradients.

`feature_product` multiplies node features, `propagate` is the sum over paths for weights that are learned,
`propagate_fixed` for constant ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cge.models.propagation import FixedPropagation, Neighborhood, SparsityPattern, TransitionMatrix
from cge.models.sparse_products import SparseFeatures, SparseMatrix, entry_dots

NodeFeatures: TypeAlias = Tensor | SparseFeatures  # (n, f)
Propagation = Callable[[Tensor], Tensor]  # inputs (n, d) → weighted sums over paths (n, d)


class _MatMul(torch.autograd.Function):
    """M x, with gradients for x and for the entries of M."""

    @staticmethod
    def forward(context: Any, matrix: SparseMatrix, _values: Tensor | None, x: Tensor) -> Tensor:
        context.matrix = matrix
        context.save_for_backward(x)
        return torch.from_numpy(matrix.product(x.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        matrix, to_values, to_x = context.matrix, None, None
        upstream = np.ascontiguousarray(gradient.detach().numpy())
        if context.needs_input_grad[1]:
            x = np.ascontiguousarray(context.saved_tensors[0].detach().numpy())
            to_values = torch.from_numpy(entry_dots(matrix.csr, upstream, x, np.float64(0), matrix.n_jobs))
        if context.needs_input_grad[2]:
            to_x = torch.from_numpy(matrix.transposed_product(upstream))
        return None, to_values, to_x


def matrix_product(matrix: SparseMatrix, x: Tensor, values: Tensor | None = None) -> Tensor:
    """Return M x, differentiable in x, and in the entries of M if they are passed as `values` as well."""
    product: Tensor = _MatMul.apply(matrix, values, x)  # type: ignore[no-untyped-call]
    return product


def feature_product(x: NodeFeatures, weight: Tensor) -> Tensor:
    """Return `x @ weight`, `(n, k)`, differentiable in `weight (f, k)`."""
    return x @ weight if isinstance(x, Tensor) else matrix_product(x, weight)


def take_rows(x: NodeFeatures, rows: Tensor) -> NodeFeatures:
    """Return some rows of the features, sparse if they are sparse."""
    return x[rows] if isinstance(x, Tensor) else SparseFeatures(x.csr[rows.numpy()], x.n_jobs)


def mean_squares(x: NodeFeatures) -> Tensor:
    """Return the mean square of each feature over all nodes, `(f,)`.

    >>> mean_squares(torch.tensor([[1.0, 0.0], [3.0, 2.0]]))
    tensor([5., 2.])
    """
    if isinstance(x, Tensor):
        return x.square().mean(0)
    sums = np.bincount(x.csr.indices, np.square(x.csr.data, dtype=np.float64), minlength=x.shape[1])
    return torch.from_numpy((sums / x.shape[0]).astype(x.csr.dtype))


def sparse_matmul(pattern: SparsityPattern, values: Tensor, x: Tensor) -> Tensor:
    """Return M x, `(n, d)`, for the sparse matrix M with entries `values (m,)`; differentiable in values and x."""
    return matrix_product(_matrix(pattern, values), x, values)


def _matrix(pattern: SparsityPattern, values: Tensor) -> SparseMatrix:
    return SparseMatrix(pattern.matrix(values.detach().numpy()), pattern.n_jobs)


def propagate(transitions: TransitionMatrix, weights: Tensor, x: Tensor, hop_weights: Tensor | list[float]) -> Tensor:
    """Return Σ_k h_k M^k x, `(n, d)`; differentiable in `x (n, d)`, `weights (m,)`, which are s, and `hop_weights`."""
    matrix, power, total = _matrix(transitions, weights), x, hop_weights[0] * x  # power: M^k x
    for weight in hop_weights[1:]:
        power = matrix_product(matrix, power, weights)
        total = total + weight * power
    return total


class _Propagate(torch.autograd.Function):
    """Σ_k h_k M^k x for constant M and h, of all nodes or of the seed nodes of a neighborhood."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor, neighborhood: Neighborhood | None) -> Tensor:
        context.fixed, context.neighborhood = fixed, neighborhood
        total = torch.from_numpy(fixed.sum(fixed.matrix.csr, x.detach().numpy(), neighborhood))
        return total if neighborhood is None else total[neighborhood.seeds]

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        fixed, neighborhood = context.fixed, context.neighborhood
        if neighborhood is None:
            return None, torch.from_numpy(fixed.sum(fixed.matrix.transposed, gradient.detach().numpy())), None
        scattered = torch.empty(len(neighborhood.distance), gradient.shape[1], dtype=gradient.dtype)
        seeds = torch.from_numpy(neighborhood.seeds)
        scattered[seeds] = 0  # a node may occur twice; rows of other nodes are never read
        scattered.index_add_(0, seeds, gradient.detach())
        return None, torch.from_numpy(fixed.neighborhood_gradient(scattered.numpy(), neighborhood)), None


def propagate_fixed(fixed: FixedPropagation, x: Tensor, neighborhood: Neighborhood | None = None) -> Tensor:
    """Return Σ_k h_k M^k x, `(n, d)`, or only the rows of the seed nodes of a neighborhood; differentiable in x."""
    propagated: Tensor = _Propagate.apply(fixed, x, neighborhood)  # type: ignore[no-untyped-call]
    return propagated
