"""Graph networks that paths are compared with: GCN, whose layers smooth, and APPNP, which smooths predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cge.models.propagation import FixedPropagation, normalized_weights
from cge.models.sparse_products import NodeFeatures, feature_product
from cge.models.transitions import TransitionMatrix

__all__ = ["Appnp", "Gcn", "TwoLayerNetwork"]


class TwoLayerNetwork(nn.Module):
    """Two layers W₀ `(f, hidden)` and W₁ `(hidden, c)`; how they are put together is up to the subclass."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, classes)))
        self.last_bias = nn.Parameter(torch.zeros(classes))

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return the parameters in groups for an optimizer: only the first layer decays, as in both papers."""
        others = [self.first_bias, self.last, self.last_bias]
        return [{"params": [self.first], "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    def forward(self, features: NodeFeatures, drop: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(n, c)`; `drop` disturbs what is hidden."""
        raise NotImplementedError


class Gcn(TwoLayerNetwork):
    """S ReLU(S X W₀ + b₀) W₁ + b₁, S the symmetric normalization with loops (Kipf and Welling 2017)."""

    def __init__(
        self, steps: TransitionMatrix, features: int, hidden: int, classes: int, weights: Tensor | None = None
    ) -> None:
        super().__init__(features, hidden, classes)
        self.smooth = _sums(steps, (0.0, 1.0), weights)

    def forward(self, features: NodeFeatures, drop: Callable[[Tensor], Tensor]) -> Tensor:
        """Smooth, then once more."""
        hidden = torch.relu(self.smooth(feature_product(features, self.first)) + self.first_bias)
        return self.smooth(drop(hidden) @ self.last) + self.last_bias


class Appnp(TwoLayerNetwork):
    """Personalized PageRank of what two layers predict of each node alone (Gasteiger et al. 2019).

    It is a sum over paths: Σ_{k<K} α (1−α)^k S^k + (1−α)^K S^K.
    """

    def __init__(
        self,
        steps: TransitionMatrix,
        features: int,
        hidden: int,
        classes: int,
        weights: Tensor | None = None,
        hops: int = 10,
        back: float = 0.1,
    ) -> None:
        super().__init__(features, hidden, classes)
        self.spread = _sums(steps, [back * (1 - back) ** k for k in range(hops)] + [(1 - back) ** hops], weights)

    def forward(self, features: NodeFeatures, drop: Callable[[Tensor], Tensor]) -> Tensor:
        """Predict, then spread."""
        hidden = torch.relu(feature_product(features, self.first) + self.first_bias)
        return self.spread(drop(hidden) @ self.last + self.last_bias)


def _sums(steps: TransitionMatrix, hops: Sequence[float], weights: Tensor | None) -> FixedPropagation:
    """Return sums over steps with the weights of the graph's edges; a step from a node to itself weighs one."""
    gate = torch.ones(len(steps))
    if weights is not None:
        entry = torch.from_numpy(steps.graph_entry)
        gate = torch.where(entry >= 0, weights.float()[entry.clamp(min=0)], gate)
    return FixedPropagation(steps, normalized_weights(steps, gate, 0.5), hops)
