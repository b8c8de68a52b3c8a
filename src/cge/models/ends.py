"""The path encoder: vectors from what lies at the ends of weighted paths, and class scores from vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cge.models.pooling import StepRows, pool
from cge.models.products import NodeFeatures, feature_product

__all__ = ["EndsModel"]


class EndsModel(nn.Module):
    """e = Σ_paths A(p) · payload(end) W + b, then f(ReLU(e)): a projection, the sum over paths, one linear layer.

    The projection comes first, so the sum runs over `dim` numbers per node whatever the payload's width.
    """

    def __init__(self, payload: int, dim: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(payload, dim)))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.score = nn.Linear(dim, classes)
        nn.init.xavier_uniform_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def project(self, payload: NodeFeatures) -> Tensor:
        """Return what a node carries, `(n, dim)`."""
        return feature_product(payload, self.weight)

    def vectors(self, steps: StepRows, values: Tensor, payload: NodeFeatures, hops: Sequence[float]) -> Tensor:
        """Return e of all nodes, `(n, dim)`."""
        return pool(steps, values, self.project(payload), hops) + self.bias

    def scores(self, vectors: Tensor, drop: float = 0.0) -> Tensor:
        """Return class scores, `(n, classes)`; in training a share of the hidden numbers is dropped."""
        found: Tensor = self.score(nn.functional.dropout(torch.relu(vectors), drop, training=drop > 0))
        return found
