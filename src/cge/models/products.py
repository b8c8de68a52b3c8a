"""Products of node features with weights; sparse features stay sparse."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

__all__ = ["NodeFeatures", "feature_product", "take_rows"]

NodeFeatures: TypeAlias = Tensor | sp.csr_array  # (n, f)


class _SparseProduct(torch.autograd.Function):
    """X W for a sparse constant X: the gradient of W is Xᵀ times the gradient of the product."""

    @staticmethod
    def forward(context: Any, x: sp.csr_array, weight: Tensor) -> Tensor:
        context.x = x
        return torch.from_numpy(np.ascontiguousarray(x @ weight.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, torch.from_numpy(np.ascontiguousarray(context.x.T @ gradient.detach().numpy()))


def feature_product(x: NodeFeatures, weight: Tensor) -> Tensor:
    """Return `x @ weight`, `(n, k)`, differentiable in `weight (f, k)`."""
    if isinstance(x, Tensor):
        return x @ weight
    product: Tensor = _SparseProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


def take_rows(x: NodeFeatures, rows: Tensor) -> NodeFeatures:
    """Return some rows of the features, in the form they have."""
    return x[rows] if isinstance(x, Tensor) else x[rows.numpy()]
