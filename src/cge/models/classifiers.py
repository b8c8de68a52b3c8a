"""The path encoder: vectors from what lies at the ends of weighted paths, and class scores from vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cge.models.sparse_products import NodeFeatures, feature_product

__all__ = ["MLPClassifier", "PathClassifier", "SparseClassifier"]


class PathClassifier(nn.Module):
    """Reads classes off the ends of paths: e = Σ_paths A(p) · payload(end) W + b, and scores of e.

    The projection W comes before the sum, which then runs over `dim` numbers per node whatever the payload's width.
    `label_weight` is the say of known labels at the ends of paths, where paths carry them, in the scores.
    """

    bias: nn.Parameter
    label_weight: nn.Parameter

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return the parameters in groups for an optimizer: constants and the say of labels do not decay."""
        free = (self.bias, self.label_weight)
        decaying = [one for one in self.parameters() if all(one is not other for other in free)]
        return [{"params": decaying, "weight_decay": weight_decay}, {"params": list(free), "weight_decay": 0.0}]

    def project(self, inputs: NodeFeatures) -> Tensor:
        """Return what a node carries, `(n, dim)`."""
        raise NotImplementedError

    def offset(self) -> Tensor:
        """Return what is added to the sum, `(dim,)`."""
        return self.bias

    def scores(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return class scores of e, `(k, classes)`; hidden numbers are multiplied by the mask, `(k, dim)`."""
        raise NotImplementedError

    def class_bias(self) -> nn.Parameter:
        """Return what is in the scores of every node, `(classes,)`."""
        raise NotImplementedError


class MLPClassifier(PathClassifier):
    """ReLU(e) and one linear layer. At home with many features of which each says a little, as words do."""

    def __init__(self, inputs: int, dim: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, dim)))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.score = nn.Linear(dim, classes)
        nn.init.xavier_uniform_(self.score.weight)
        nn.init.zeros_(self.score.bias)
        self.label_weight = nn.Parameter(torch.tensor(1.0))

    def project(self, inputs: NodeFeatures) -> Tensor:
        """Apply W."""
        return feature_product(inputs, self.weight)

    def scores(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply ReLU and the layer."""
        hidden = torch.relu(vectors)
        found: Tensor = self.score(hidden if mask is None else hidden * mask)
        return found

    def class_bias(self) -> nn.Parameter:
        """Return the constants of the layer."""
        return self.score.bias


class SparseClassifier(PathClassifier):
    """e are the scores: W = γ_f / σ_f · V, a relevance γ for each feature f.

    Weight decay on the product of γ_f and a row of V is a lasso on whole features: those that say nothing end at zero.
    `center` and `spread (inputs,)` are mean and standard deviation (σ) of a feature over nodes. At home where few
    features say most.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, center: Tensor, spread: Tensor, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * nn.init.xavier_uniform_(torch.empty(len(spread), classes)))
        self.relevance = nn.Parameter(torch.ones(len(spread)))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.label_weight = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("center", center)
        self.register_buffer("spread", spread)

    def project(self, inputs: NodeFeatures) -> Tensor:
        """Apply W."""
        return feature_product(inputs, self._weight())

    def offset(self) -> Tensor:
        """Center the features."""
        return self.bias - self.center @ self._weight()

    def _weight(self) -> Tensor:
        return self.weight * (self.relevance / self.spread)[:, None]

    def scores(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - nothing is hidden
        """Return e itself."""
        return vectors

    def class_bias(self) -> nn.Parameter:
        """Return b."""
        return self.bias
