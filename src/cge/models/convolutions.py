"""Graph neural networks for comparison: GCN propagates in each layer, APPNP propagates predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cge.models.propagation import FixedPropagation, normalized_weights
from cge.models.sparse_products import NodeFeatures, feature_product
from cge.models.transitions import TransitionMatrix


class TwoLayerNetwork(nn.Module):
    """Base of networks with two layers, W₀ `(f, hidden)` and W₁ `(hidden, c)`."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, classes)))
        self.last_bias = nn.Parameter(torch.zeros(classes))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return the parameter groups of an optimizer: only the first layer has weight decay, as in both papers."""
        others = [self.first_bias, self.last, self.last_bias]
        return [{"params": [self.first], "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    def forward(self, features: NodeFeatures, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(n, c)`; `dropout` is applied to the hidden layer."""
        raise NotImplementedError


class Gcn(TwoLayerNetwork):
    """S ReLU(S X W₀ + b₀) W₁ + b₁, S the symmetric normalization with self-loops (Kipf and Welling 2017)."""

    def __init__(
        self, transitions: TransitionMatrix, features: int, hidden: int, classes: int, weights: Tensor | None = None
    ) -> None:
        super().__init__(features, hidden, classes)
        self.propagate = _propagation(transitions, (0.0, 1.0), weights)

    def forward(self, features: NodeFeatures, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(n, c)`; `dropout` is applied to the hidden layer."""
        hidden = torch.relu(self.propagate(feature_product(features, self.first)) + self.first_bias)
        return self.propagate(dropout(hidden) @ self.last) + self.last_bias


class Appnp(TwoLayerNetwork):
    """Personalized PageRank of the predictions of a two-layer network (Gasteiger et al. 2019).

    It is a sum over paths: Σ_{k<K} α (1−α)^k S^k + (1−α)^K S^K.
    """

    def __init__(
        self,
        transitions: TransitionMatrix,
        features: int,
        hidden: int,
        classes: int,
        weights: Tensor | None = None,
        hops: int = 10,
        alpha: float = 0.1,
    ) -> None:
        super().__init__(features, hidden, classes)
        hop_weights = [alpha * (1 - alpha) ** k for k in range(hops)] + [(1 - alpha) ** hops]
        self.propagate = _propagation(transitions, hop_weights, weights)

    def forward(self, features: NodeFeatures, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(n, c)`; `dropout` is applied to the hidden layer."""
        hidden = torch.relu(feature_product(features, self.first) + self.first_bias)
        return self.propagate(dropout(hidden) @ self.last + self.last_bias)


def _propagation(
    transitions: TransitionMatrix, hop_weights: Sequence[float], edge_weights: Tensor | None
) -> FixedPropagation:
    """Return Σ_k h_k S^k of the graph's edge weights, with self-loops of weight 1."""
    values = torch.ones(len(transitions))
    if edge_weights is not None:
        entry = torch.from_numpy(transitions.graph_entry)
        values = torch.where(entry >= 0, edge_weights.float()[entry.clamp(min=0)], values)
    return FixedPropagation(transitions, normalized_weights(transitions, values, 0.5), hop_weights)
