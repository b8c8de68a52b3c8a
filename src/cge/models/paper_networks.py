"""Networks of the paper: encoders compute the target vectors e of nodes, heads class scores (Eqs. 8 and 10).

A linear map of a concatenation is the sum of a map of each part, so a head is a sum of *branches*, one for the vector e
and one for the features x. Each branch is also trained alone, as in Planetoid, so that neither dominates the other. The
norm of a vector depends more on the frequency of its node in the walks than on its class, so heads normalize vectors to
unit length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cge.models.autograd import NodeFeatures, feature_product, take_rows


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


class TransductiveHead(nn.Module):
    """Class scores of Eq. 8: f(h^k(x) ⊕ h^l(e)); without features there is no branch of x."""

    def __init__(self, features: int, dim: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.from_e = nn.Linear(dim, hidden)  # h^l
        self.score_e = nn.Linear(hidden, classes)  # f, for h^l(e), and its bias
        if features:
            self.from_x = nn.Linear(features, hidden)  # h^k
            self.score_x = nn.Linear(hidden, classes, bias=False)  # f, for h^k(x)
        self.has_features = features > 0

    def branches(self, x: NodeFeatures | None, e: Tensor) -> list[Tensor]:
        """Return the scores of each branch, `(b, classes)` each; the joint scores are their sum."""
        scores = [self.score_e(torch.relu(self.from_e(nn.functional.normalize(e, dim=1))))]
        if self.has_features and x is not None:
            scores.append(self.score_x(torch.relu(feature_product(x, self.from_x.weight.T) + self.from_x.bias)))
        return scores

    def forward(self, x: NodeFeatures | None, e: Tensor) -> Tensor:
        """Return the joint scores, `(b, classes)`."""
        return torch.stack(self.branches(x, e)).sum(0)


class InductiveHead(nn.Module):
    """Class scores of Eq. 10: h(x ⊕ e(x)), one feed-forward layer."""

    def __init__(self, features: int, dim: int, classes: int) -> None:
        super().__init__()
        self.from_e = nn.Linear(dim, classes)  # h, for e(x), and its bias
        self.from_x = nn.Linear(features, classes, bias=False)  # h, for x

    def branches(self, x: NodeFeatures | None, e: Tensor) -> list[Tensor]:
        """Return the scores of each branch, `(b, classes)` each; the joint scores are their sum."""
        scores = [self.from_e(nn.functional.normalize(e, dim=1))]
        return scores if x is None else [*scores, feature_product(x, self.from_x.weight.T)]

    def forward(self, x: NodeFeatures | None, e: Tensor) -> Tensor:
        """Return the joint scores, `(b, classes)`."""
        return torch.stack(self.branches(x, e)).sum(0)
