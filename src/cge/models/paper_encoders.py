"""Encoders of the paper: the target vectors e of nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cge.models.sparse_products import NodeFeatures, feature_product, take_rows


class TableEncoder(nn.Module):
    """Transductive: e is an embedding table with a row for each node."""

    def __init__(self, nodes: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter((torch.rand(nodes, dim) - 0.5) / dim)

    def forward(self, x: NodeFeatures | None = None, nodes: Tensor | None = None) -> Tensor:  # noqa: ARG002 - same signature
        """Return the vectors of all nodes, `(n, dim)`, or of `nodes`; features are ignored."""
        return self.table if nodes is None else self.table[nodes]

    def tangent(self, x: NodeFeatures | None, direction: dict[str, Tensor]) -> Tensor:  # noqa: ARG002
        """Return the derivative of all vectors along a `direction` of the parameters, `(n, dim)`."""
        return direction["table"]


class FeatureEncoder(nn.Module):
    """Inductive: e(x) = tanh(x W + b), one feed-forward layer, which also applies to unseen nodes."""

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, dim)))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: NodeFeatures, nodes: Tensor | None = None) -> Tensor:
        """Return the vectors of nodes with features `x (n, f)`, `(n, dim)`, or of `nodes` among them."""
        x = x if nodes is None else take_rows(x, nodes)
        return feature_product(x, self.weight).add_(self.bias).tanh_()  # in place: allocation is slow

    def tangent(self, x: NodeFeatures, direction: dict[str, Tensor]) -> Tensor:
        """Return the derivative of the vectors along a `direction` of the parameters, `(n, dim)`."""
        with torch.no_grad():
            slope: Tensor = 1 - self(x) ** 2
            return slope * (feature_product(x, direction["weight"]) + direction["bias"])
