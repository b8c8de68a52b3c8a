"""What is predicted for a node: the interface of a kind of target.

Everything that differs between kinds of targets (one class per node, several classes, a number) is in one class for
each kind; defaults are those of classification. Labels of all nodes are an array `(n, …)`; those of some nodes as a
matrix `(k, c)` have a column for each output. "Outputs" are what a model predicts: class probabilities, or values.
`cge.targets.presentation` has what tables, JSON and reports show of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cge import metrics
from cge.arrays import Array
from cge.errors import InputError, Message, Param, format_list, format_value
from cge.graph import Graph
from cge.models.backends import Values
from cge.targets.label_encoding import encode_labels
from cge.targets.presentation import Presentation
from cge.targets.score_intervals import accuracy_difference_interval

if TYPE_CHECKING:
    from torch import Tensor


class Target(Presentation):
    """A kind of target. `classes (c,)` are the names of the outputs.

    Model folders store `kind`. `scoring` is the validation score: None (accuracy, micro-F1 or R²) or "macro_f1".
    """

    kind: ClassVar[str]

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.scoring: str | None = None

    def with_scoring(self, scoring: str | None) -> Self:
        """Return the target with another validation score."""
        target = copy(self)
        target.scoring = scoring
        return target

    def metadata(self) -> dict[str, Any]:
        """Return what a model folder stores besides the classes."""
        return {"kind": self.kind}

    @classmethod
    def restored(cls, metadata: Mapping[str, Any], classes: Array) -> Self:  # noqa: ARG003 - for other kinds
        """Return the target that a model folder stores."""
        return cls(classes)

    @classmethod
    def from_labels(cls, graph: Graph, y: Any, name: str) -> tuple[Array, Self]:
        """Return labels as users write them as an array for all nodes, and their target."""
        labels, classes = encode_labels(graph, y, name)
        return labels, cls(classes)

    def check(self, labels: Array) -> None:  # noqa: ARG002 - for other kinds
        """Refuse training labels that nothing can be learned from."""
        if len(self.classes) < 2:
            problem = f" must hold at least two classes, found only {self.classes.tolist()[0]!r}"
            raise InputError(Message(Param("y"), problem), parameter="y")

    def encode(self, graph: Graph, y: Any, name: str) -> Array:
        """Return further labels of this target, as users write them, as an array for all nodes."""
        labels, _ = encode_labels(graph, y, name, self.classes)
        if (labels.ndim == 2) != self.multilabel:
            same = Message.of("{y} and {validation} must have the same form: one label for each node, or several")
            raise InputError(same, parameter=name)
        return labels

    @abstractmethod
    def encode_names(self, graph: Graph, codes: Array, names: Sequence[str], file: str) -> Array:
        """Return labels of a file as an array for all nodes; `codes` are numbers of `names`, or zeros and ones."""

    @abstractmethod
    def decode(self, labels: Array) -> list[Any]:
        """Return the labels of some labeled nodes as users write them: a class, a list of classes, or a number."""

    def class_named(self, text: Any) -> Any:
        """Return the class that is written like this, or what is given where there is none; also of a list."""
        if isinstance(text, list):
            return [self.class_named(each) for each in text]
        return {str(name): name for name in self.classes.tolist()}.get(str(text), text)

    def class_index(self, target_class: Any) -> int:
        """Return the number of a class."""
        plain = target_class.item() if isinstance(target_class, np.generic) else target_class
        classes = self.classes.tolist()
        if plain not in classes:
            raise InputError(f"there is no class {format_value(plain)}; the classes are {format_list(classes)}")
        return int(classes.index(plain))

    def unlabeled(self, count: int) -> Array:
        """Return the labels of so many unlabeled nodes."""
        return np.full(count, -1)

    def labeled(self, labels: Array) -> Array:
        """Return which nodes have a label, `(n,)`."""
        return np.asarray(labels >= 0, bool)

    def matrix(self, labels: Array) -> Array:
        """Return the labels of some labeled nodes as a matrix, `(k, c)`."""
        return labels

    def from_matrix(self, matrix: Array) -> Array:
        """Return the labels that `matrix` makes this matrix of."""
        return matrix

    def names(self, matrix: Array) -> list[list[Any]]:
        """Return the classes of each row of a matrix of labels."""
        return [self.classes[row].tolist() for row in matrix.astype(bool)]

    def strata(self, labels: Array) -> Array:
        """Return classes to stratify by, as for single-label or multilabel targets."""
        return labels

    @abstractmethod
    def loss(self, scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """Return the mean loss of scores `(k, c)`."""

    @abstractmethod
    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:
        """Return the loss of the best constant prediction, which knows nothing of the nodes."""

    @abstractmethod
    def outputs(self, scores: Values) -> Values:
        """Return the outputs of scores `(k, c)`: probabilities, or values."""

    @abstractmethod
    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """Return what all augmentations shall predict, given their mean outputs `(k, c)`, and which nodes count."""

    def consistency(self, scores: Tensor, sharpening: float) -> Tensor:
        """Return the mean squared distance of the outputs from their target, of `scores (k, R, c)` in R augmentations.

        The mean is over augmentations and over the nodes that count.
        """
        outputs = self.outputs(scores.flatten(0, 1)).view_as(scores)
        target, counted = self.consistency_target(outputs.mean(1).detach(), sharpening)
        distance = ((outputs - target[:, None]) ** 2).sum(2).mean(1)
        return (distance * counted).sum() / counted.sum().clamp(min=1)

    @abstractmethod
    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the loss of each node's scores from its propagated labels, `(k,)`."""

    @abstractmethod
    def balanced_weights(self, matrix: Array) -> Array:
        """Return weights of the classes that make up for their frequencies among labels `(k, c)`."""

    @abstractmethod
    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:
        """Return scores `(n, c)` float32 from the weighted sums of labels at path ends, 0 where none is reachable.

        `sums (n, c)` are over the rows of `matrix`, `count (n, 1)` is the sum of their weights.
        """

    @abstractmethod
    def label_values(self, matrix: Array) -> Array:
        """Return what labels `(k, c)` contribute to each output before `label_factors`, `(k, c)`; affine in labels."""

    def label_factors(self, mean: Array) -> Array:
        """Return φ `(k, c)` such that the label score is φ · mean, of the weighted mean of label values `(k, c)`.

        `mean` is that of `label_values` over all paths to labeled nodes. So each path to a labeled node j contributes
        φ · q · label_values_j, where q is its share of the path weights, and the contributions add up to the score.
        """
        return np.ones_like(mean)

    @abstractmethod
    def mean_labels(self, sums: Array, count: Array) -> Array:
        """Return outputs `(n, c)` from weighted sums of labels as for `label_scores`; NaN where there is no label."""

    @abstractmethod
    def linear_outputs(self, x: Any, nodes: Array, labels: Array, strength: float) -> Array:
        """Return the outputs `(n, c)` of a linear model of `x (n, d)`, trained on the labels of some `nodes`.

        `strength` is the inverse of the regularization.
        """

    def informative(self, matrix: Array) -> Array:
        """Return for which training labels other labels can be right, `(k, 1)` or `(k, c)`."""
        return np.ones((len(matrix), 1), bool)

    def as_scores(self, outputs: Array) -> Array:
        """Return outputs in the form of scores that `score` takes: probabilities have the same order as scores."""
        return outputs

    def score(self, scores: Array, labels: Array) -> float:
        """Return the validation score of scores or outputs `(k, c)`; higher is better."""
        if self.scoring == "macro_f1":
            return metrics.macro_f1(*self._top_indicators(scores, labels))
        return metrics.accuracy_or_f1(scores, labels)

    def _top_indicators(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        """Return as many classes of highest score as a node has labels, and these labels, as indicators `(k, c)`."""
        matrix = self.matrix(labels) > 0
        return metrics.top_k_indicators(scores, matrix), matrix

    def node_scores(self, scores: Array, labels: Array) -> Array:
        """Return the score of each node, `(k,)`; their means compare two models."""
        if self.scoring == "macro_f1":
            return metrics.node_macro_f1(*self._top_indicators(scores, labels))
        return metrics.node_accuracy(scores, labels)

    def node_correct(self, outputs: Array, labels: Array) -> Array:
        """Return how correct each prediction is, `(k,)`: 0 or 1, or the F1 of the node's classes."""
        return metrics.node_f1(self.indicators(outputs), self.matrix(labels))

    def node_losses(self, scores: Array, labels: Array) -> Array:
        """Return the loss of each node, `(k,)`, whatever the scale of the scores."""
        return metrics.calibrated_log_losses(scores, labels)

    def output_losses(self, outputs: Array, labels: Array) -> Array:
        """Return the loss of each node's outputs, `(k,)`."""
        return metrics.log_losses(outputs, labels)

    def scale(self, outputs: Array, temperature: float | Array) -> Array:
        """Return outputs at a temperature; values have none and stay."""
        return metrics.scale_probabilities(outputs, temperature, self.multilabel)

    def fit_temperature(self, outputs: Array, labels: Array) -> float:
        """Return the temperature with the lowest loss."""
        return metrics.fit_temperature(outputs, labels)

    def check_probabilities(self) -> None:
        """Refuse to return outputs as probabilities where they are none."""

    @abstractmethod
    def predict(self, outputs: Array) -> Array:
        """Return the predictions of outputs `(k, c)`."""

    def indicators(self, outputs: Array) -> Array:
        """Return which outputs are predicted, `(k, c)`."""
        return metrics.predicted_indicators(outputs, self.multilabel)

    def predicted_labels(self, outputs: Array) -> list[Any]:
        """Return the prediction of each node as Python values: a class, a list of classes, or a number."""
        return list(self.predict(outputs).tolist())

    @abstractmethod
    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return the score of predictions for labels as users write them."""

    @abstractmethod
    def score_outputs(self, outputs: Array, matrix: Array) -> float:
        """Return the score of the predictions of outputs `(k, c)` for labels `(k, c)`."""

    @abstractmethod
    def score_interval(self, outputs: Array, matrix: Array) -> tuple[float, float]:
        """Return the 95 % confidence interval of `score_outputs`."""

    def difference_interval(self, mean: float, error: float, n: int) -> tuple[float, float]:
        """Return the 95 % confidence interval of a mean difference of `node_correct`, from its standard error."""
        return accuracy_difference_interval(mean, error, n)

    def other_scores(self, outputs: Array, matrix: Array) -> dict[str, float]:
        """Return further scores of outputs, by name."""
        predicted, true = self.indicators(outputs), matrix > 0
        occurs = predicted.any(axis=0) | true.any(axis=0) | self.multilabel  # as in scikit-learn
        macro_f1 = metrics.macro_f1(predicted[:, occurs], true[:, occurs])
        return {"macro_f1": macro_f1, "log_loss": metrics.log_loss(outputs, self.from_matrix(matrix))}

    def interval(self, outputs: Array, residuals: tuple[Array, Array], level: float) -> Array:  # noqa: ARG002
        """Return prediction intervals `(k, 2)`; `residuals` are outputs and labels of validation nodes, as matrices."""
        raise InputError("predict_interval needs task='regression'", hint="use predict_proba for classes")

    def class_coordinates(self, scores: Array) -> Array:
        """Return class scores `(k, c)` in the form that node vectors hold, from which they can be computed."""
        return scores

    def centered(self, gradients: Array) -> Array:
        """Return contributions to the outputs `(q, c, d)` without what all outputs have in common."""
        return gradients


def same_shape(labels: Array, predicted: Array) -> Array:
    """Return labels if they have the shape of the predictions; raise an error otherwise."""
    if predicted.shape != labels.shape:
        raise InputError(f"labels must have shape {predicted.shape}, like the predictions, found shape {labels.shape}")
    return labels
