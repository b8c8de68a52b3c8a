"""Classifiers of the path encoder, which score propagated inputs, and graph neural networks for comparison.

GCN propagates in each layer, APPNP propagates predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from cge.models.autograd import NodeFeatures, feature_product
from cge.models.fixed_classifier import FixedClassifier
from cge.models.hidden_layer import hidden_units
from cge.models.propagation import FixedPropagation, TransitionMatrix, normalized_weights


class PathClassifier(nn.Module):
    """Vectors z = Σ_paths A(p) x(endpoint) W + o, and class scores ReLU(z) Vᵀ + c, or z + c where there is no V.

    The projection W comes before the sum over paths, which then runs over `dim` numbers per node however wide the
    inputs are. `label_weight` is the coefficient of the label scores in the class scores, if labels are propagated. A
    subclass defines the parameters, and W, o, V and c as functions of them; `fixed` is what a model folder stores.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    label_weight: nn.Parameter

    def parameter_groups(self, weight_decay: float) -> Sequence[tuple[Sequence[Tensor], float]]:
        """Return groups of parameters, each with its weight decay: `bias` and `label_weight` have none."""
        decaying = [value for name, value in self.named_parameters() if name not in ("bias", "label_weight")]
        free = [self.bias, self.label_weight]
        return [(decaying, weight_decay), (free, 0.0)]

    def projection(self) -> Tensor:
        """Return W, `(inputs, dim)`."""
        return self.weight

    def project(self, inputs: NodeFeatures) -> Tensor:
        """Return x W of every node, `(n, dim)`."""
        return feature_product(inputs, self.projection())

    def offset(self) -> Tensor:
        """Return the constant that is added to the sum over paths, `(dim,)`."""
        return self.bias

    def output_layer(self) -> tuple[Tensor | None, Tensor | None]:
        """Return V, `(c, dim)`, and c, `(c,)`; None where there is none."""
        return None, None

    def scores(self, vectors: Tensor) -> Tensor:
        """Return class scores of `vectors (k, dim)`, `(k, c)`."""
        return self._output(torch.relu(vectors) if self.has_hidden_units else vectors)

    def dropped_scores(
        self, vectors: Tensor, dropout: float, random: np.random.Generator, n_jobs: int | None = 1
    ) -> Tensor:
        """Return class scores of sums over paths z − o, `(…, dim)`, with dropout of the hidden units, `(…, c)`."""
        if not self.has_hidden_units:
            return self._output(vectors + self.offset())
        key = random.integers(2**64, dtype=np.uint64)
        return self._output(hidden_units(vectors, self.offset(), dropout, key, n_jobs))

    @property
    def has_hidden_units(self) -> bool:
        """Whether class scores are a linear function of ReLU(z), not of z."""
        return self.output_layer()[0] is not None

    def _output(self, hidden: Tensor) -> Tensor:
        weight, bias = self.output_layer()
        if weight is None:
            return hidden if bias is None else hidden + bias
        return nn.functional.linear(hidden, weight, bias)

    def class_bias(self) -> Tensor:
        """Return the constants in the class scores, `(c,)`."""
        _, bias = self.output_layer()
        return self.bias if bias is None else bias

    @torch.no_grad()
    def fixed(self) -> FixedClassifier:
        """Return the classifier with its current parameters, as arrays."""
        parts = [self.projection(), self.offset(), self.label_weight, *self.output_layer()]
        return FixedClassifier(*(None if part is None else part.detach().numpy().copy() for part in parts))  # type: ignore[arg-type]


class MLPClassifier(PathClassifier):
    """ReLU(z) and one linear layer: a perceptron with one hidden layer over propagated inputs.

    It suits many features that are each weakly informative, such as words.
    """

    def __init__(self, inputs: int, dim: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, dim)))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.score = nn.Linear(dim, classes)
        nn.init.xavier_uniform_(self.score.weight)
        nn.init.zeros_(self.score.bias)
        self.label_weight = nn.Parameter(torch.tensor(1.0))

    def output_layer(self) -> tuple[Tensor, Tensor]:
        """Return the linear layer."""
        return self.score.weight, self.score.bias


class SparseClassifier(PathClassifier):
    """A linear classifier with few features: z are the class scores, W = γ_f / σ_f · V with a relevance γ per feature.

    Weight decay on the product of γ_f and a row of V is a group lasso: the relevance of uninformative features goes to
    zero. `center` and `spread (inputs,)` are the mean and standard deviation σ of each feature over nodes. It suits
    inputs of which few are informative.
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

    def projection(self) -> Tensor:
        """Return γ_f / σ_f · V."""
        return self.weight * (self.relevance / self.spread)[:, None]

    def offset(self) -> Tensor:
        """Return a bias minus the projection of the mean, which centers the features."""
        return self.bias - self.center @ self.projection()


class LogisticClassifier(PathClassifier):
    """Linear class scores z + c of propagated inputs, z = Σ_paths A(p) x(endpoint) W (of unit length or not)."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, classes))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.label_weight = nn.Parameter(torch.tensor(1.0))

    def offset(self) -> Tensor:
        """Return zeros: the bias belongs to the scores."""
        return torch.zeros_like(self.bias)

    def output_layer(self) -> tuple[None, Tensor]:
        """Return the bias, c."""
        return None, self.bias


class TwoLayerNetwork(nn.Module):
    """Base of networks with two layers, W₀ `(f, hidden)` and W₁ `(hidden, c)`."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, classes)))
        self.last_bias = nn.Parameter(torch.zeros(classes))

    def parameter_groups(self, weight_decay: float) -> Sequence[tuple[Sequence[Tensor], float]]:
        """Return groups of parameters, each with its weight decay: only the first layer has any, as in both papers."""
        others = [self.first_bias, self.last, self.last_bias]
        return [([self.first], weight_decay), (others, 0.0)]


class Gcn(TwoLayerNetwork):
    """S ReLU(S X W₀ + b₀) W₁ + b₁, S the symmetric normalization with self-loops (Kipf and Welling 2017)."""

    def __init__(
        self, transitions: TransitionMatrix, features: int, hidden: int, classes: int, weights: Tensor | None = None
    ) -> None:
        super().__init__(features, hidden, classes)
        self.propagate = _propagation(transitions, [0.0, 1.0], weights)

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


def _propagation(transitions: TransitionMatrix, hop_weights: list[float], weights: Tensor | None) -> FixedPropagation:
    """Return Σ_k h_k S^k of the graph's edge weights, with self-loops of weight 1."""
    values = torch.ones(len(transitions))
    if weights is not None:
        entry = torch.from_numpy(transitions.graph_entry)
        values = torch.where(entry >= 0, weights.float()[entry.clamp(min=0)], values)
    return FixedPropagation(transitions, normalized_weights(transitions, values, 0.5), hop_weights)
