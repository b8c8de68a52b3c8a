"""Classes: exactly one for each node (softmax, cross-entropy, accuracy), or any number (sigmoids, F1)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cge.arrays import Array
from cge.graph import Graph
from cge.metrics import accuracy, micro_f1
from cge.models.backends import Values, sigmoid, softmax
from cge.targets.label_encoding import class_numbers, indicator_matrix
from cge.targets.score_intervals import f1_interval, wilson_interval
from cge.targets.target import Target, same_shape
from cge.targets.texts import MULTILABEL, TargetTexts

if TYPE_CHECKING:
    from torch import Tensor

_SMOOTHING = 0.05  # share of the propagated labels given to all classes alike, so that no class is impossible
_CONFIDENT = 0.75  # probability above which a mean of two classes is confident; with c classes 2 / c is enough


class SingleLabel(Target):
    """Labels `(n,)` are class numbers, −1 for unlabeled nodes."""

    kind: ClassVar[str] = "single-label"
    metric: ClassVar[str] = "accuracy"
    score_key: ClassVar[str] = "accuracy"
    exclusive_classes: ClassVar[bool] = True

    def encode_names(self, graph: Graph, codes: Array, names: Sequence[str], file: str) -> Array:  # noqa: ARG002
        """Return class numbers."""
        return np.asarray(np.append(class_numbers(names, self.classes, file), -1)[codes])  # −1 is the last place

    def decode(self, labels: Array) -> list[Any]:
        """Return the class of each node."""
        return list(self.classes[labels].tolist())

    def matrix(self, labels: Array) -> Array:
        """Return one-hot rows."""
        return np.eye(len(self.classes), dtype=np.int64)[labels]

    def from_matrix(self, matrix: Array) -> Array:
        """Return class numbers."""
        return np.asarray(matrix.argmax(1)) if len(matrix) else np.empty(0, np.int64)

    def loss(self, scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """Return the cross-entropy (Eq. 6)."""
        from cge.losses import supervised_loss

        return supervised_loss(scores, labels, class_weights)

    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:
        """Return the entropy of the class frequencies."""
        if class_weights is not None:
            return float(np.log(len(self.classes)))
        prior = labels.bincount(minlength=len(self.classes)).double() / len(labels)
        return float(-(prior * prior.clamp(min=1e-12).log()).sum())

    def outputs(self, scores: Values) -> Values:
        """Return the softmax."""
        return softmax(scores)

    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """Return the sharpened mean, and the nodes where the mean is confident."""
        confident = (mean.max(1).values > self._threshold).float()
        return softmax(mean.clamp(min=1e-30).log() / sharpening), confident

    @property
    def _threshold(self) -> float:
        """The probability above which a mean is confident."""
        return min(2 / len(self.classes), _CONFIDENT)

    def consistency(self, scores: Tensor, sharpening: float) -> Tensor:
        """Return the same as any target, computed in one pass."""
        from cge.models.consistency import consistency_loss

        return consistency_loss(scores, sharpening, self._threshold)

    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the cross-entropy from the posterior of label propagation."""
        return -(softmax(label_scores) * scores.log_softmax(1)).sum(1)

    def balanced_weights(self, matrix: Array) -> Array:
        """Return n / (c · count)."""
        count = np.maximum(matrix.sum(axis=0), 1)
        return np.asarray(len(matrix) / (len(count) * count))

    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:  # noqa: ARG002 - sums are normalized
        """Return log(C p) for the smoothed shares p of C classes; 0 where no label is reachable."""
        sums, n_classes = np.maximum(sums, 0), sums.shape[1]
        normalized = (1 - _SMOOTHING) * sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-12)
        posterior = normalized + _SMOOTHING / n_classes
        return np.where(reachable, np.log(posterior) + np.log(n_classes), 0).astype(np.float32)

    def label_values(self, matrix: Array) -> Array:
        """Return C y − 1 for C classes: a label is evidence for its class and against the others."""
        return len(self.classes) * matrix - 1.0

    def label_factors(self, mean: Array) -> Array:
        """Return log(C p) / mean, where C p − 1 = (1 − smoothing) mean."""
        change = (1 - _SMOOTHING) * mean
        return (1 - _SMOOTHING) * _ratio(np.log1p(change), change, 1.0)

    def mean_labels(self, sums: Array, count: Array) -> Array:  # noqa: ARG002 - sums are normalized
        """Return the shares of the classes."""
        return _shares(sums, sums.sum(axis=1, keepdims=True))

    def linear_outputs(self, x: Any, nodes: Array, labels: Array, strength: float) -> Array:
        """Return the probabilities of logistic regression."""
        from sklearn.linear_model import LogisticRegression

        model: Any = LogisticRegression(C=strength, max_iter=1000)
        with warnings.catch_warnings():  # scikit-learn takes many classes for a regression task
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            model.fit(x[nodes], labels)
        probabilities = np.zeros((x.shape[0], len(self.classes)))
        probabilities[:, model.classes_] = model.predict_proba(x)
        return probabilities

    def informative(self, matrix: Array) -> Array:
        """Return False for a label that is alone in its class."""
        alone = matrix * (matrix.sum(axis=0) == 1) > 0
        return np.asarray(~alone.any(axis=1, keepdims=True), bool)

    def predict(self, outputs: Array) -> Array:
        """Return the most probable classes, `(k,)`."""
        return np.asarray(self.classes[outputs.argmax(1)])

    def confidence(self, outputs: Array) -> Array:
        """Return the highest probability."""
        return np.asarray(outputs.max(axis=1, initial=0))

    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return the accuracy."""
        return accuracy(predicted, same_shape(np.asarray(labels), predicted))

    def score_outputs(self, outputs: Array, matrix: Array) -> float:
        """Return the accuracy."""
        return accuracy(outputs.argmax(1), matrix.argmax(1))

    def score_interval(self, outputs: Array, matrix: Array) -> tuple[float, float]:
        """Return Wilson's interval of the accuracy."""
        return wilson_interval(int((outputs.argmax(1) == matrix.argmax(1)).sum()), len(matrix))

    def format_score(self, score: float) -> str:
        """Return the accuracy in percent."""
        return f"{score:.1%}"

    def class_coordinates(self, scores: Array) -> Array:
        """Return the square roots of the probabilities; distances are then Hellinger distances."""
        return np.sqrt(self.outputs(scores))

    def centered(self, gradients: Array) -> Array:
        """Subtract the mean over classes, which does not change probabilities."""
        return np.asarray(gradients - gradients.mean(1, keepdims=True))


class MultiLabel(Target):
    """Labels `(n, c)` are zeros and ones; a row of zeros is an unlabeled node."""

    kind: ClassVar[str] = "multilabel"
    metric: ClassVar[str] = "micro-F1"
    score_key: ClassVar[str] = "micro_f1"
    texts: ClassVar[TargetTexts] = MULTILABEL
    multilabel: ClassVar[bool] = True

    def encode_names(self, graph: Graph, codes: Array, names: Sequence[str], file: str) -> Array:  # noqa: ARG002
        """Return zeros and ones."""
        matrix = np.zeros((len(codes), len(self.classes)), np.int64)
        matrix[:, class_numbers(names, self.classes, file)] = codes
        return matrix

    def decode(self, labels: Array) -> list[Any]:
        """Return the classes of each node."""
        return self.names(labels)

    def unlabeled(self, count: int) -> Array:
        """Return rows of zeros."""
        return np.zeros((count, len(self.classes)), np.int64)

    def labeled(self, labels: Array) -> Array:
        """Return which nodes have a class."""
        return np.asarray(labels.any(axis=1), bool)

    def loss(self, scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """Return the binary cross-entropy, summed over classes."""
        from cge.losses import multilabel_loss

        return multilabel_loss(scores, labels, class_weights)

    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:
        """Return the sum over classes of the least binary cross-entropy of a constant."""
        prior = labels.double().mean(0)
        positive = prior if class_weights is None else class_weights.double() * prior
        best = (positive / (positive + 1 - prior)).clamp(1e-9, 1 - 1e-9)
        return float(-(positive * best.log() + (1 - prior) * (1 - best).log()).sum())

    def outputs(self, scores: Values) -> Values:
        """Return the sigmoid of each score."""
        return sigmoid(scores)

    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """Return each probability moved towards 0 or 1; all nodes count."""
        return sigmoid(mean.logit(1e-7) / sharpening), mean.new_ones(len(mean))

    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the binary cross-entropy from label propagation, summed over classes."""
        from torch.nn import functional

        target = sigmoid(label_scores)
        return functional.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(1)

    def balanced_weights(self, matrix: Array) -> Array:
        """Return the number of negatives over that of positives."""
        count = np.maximum(matrix.sum(axis=0), 1)
        return np.asarray((len(matrix) - count) / count)

    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:
        """Return log-odds of each class."""
        share = np.clip(np.where(reachable, np.maximum(sums, 0) / np.maximum(count, 1e-12), 0.5), 0, 1)
        share = (1 - _SMOOTHING) * share + _SMOOTHING / 2
        return np.where(reachable, np.log(share) - np.log1p(-share), 0).astype(np.float32)

    def label_values(self, matrix: Array) -> Array:
        """Return y − ½: a label is evidence for its classes, a label without a class evidence against it."""
        return matrix - 0.5

    def label_factors(self, mean: Array) -> Array:
        """Return log-odds / mean, where the share of the class is ½ + (1 − smoothing) mean."""
        change = (1 - _SMOOTHING) * mean
        return (1 - _SMOOTHING) * _ratio(np.log1p(2 * change) - np.log1p(-2 * change), change, 4.0)

    def mean_labels(self, sums: Array, count: Array) -> Array:
        """Return the share of nodes that have a class."""
        return _shares(sums, count)

    def linear_outputs(self, x: Any, nodes: Array, labels: Array, strength: float) -> Array:
        """Return the probabilities of a logistic regression for each class."""
        from sklearn.linear_model import LogisticRegression

        model: Any = LogisticRegression(C=strength, max_iter=1000)
        probabilities = np.zeros((x.shape[0], len(self.classes)))
        for number, column in enumerate(labels.T):
            probabilities[:, number] = column[0]
            if column.min() < column.max():  # else all training nodes have the class, or none has
                probabilities[:, number] = model.fit(x[nodes], column).predict_proba(x)[:, 1]
        return probabilities

    def informative(self, matrix: Array) -> Array:
        """Return False for a class that only one node has, at that node."""
        return np.asarray(~(matrix * (matrix.sum(axis=0) == 1) > 0), bool)

    def predict(self, outputs: Array) -> Array:
        """Return zeros and ones, `(k, c)`: classes with a probability above one half."""
        return (outputs > 0.5).astype(np.int64)

    def predicted_labels(self, outputs: Array) -> list[Any]:
        """Return the predicted classes of each node."""
        return [self.classes[row.astype(bool)].tolist() for row in self.predict(outputs)]

    def confidence(self, outputs: Array) -> Array:
        """Return the probability of the least certain decision."""
        return np.asarray(np.maximum(outputs, 1 - outputs).min(axis=1, initial=1))

    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return micro-F1."""
        return micro_f1(predicted > 0, same_shape(indicator_matrix(labels, self.classes), predicted) > 0)

    def score_outputs(self, outputs: Array, matrix: Array) -> float:
        """Return micro-F1."""
        return micro_f1(self.indicators(outputs), matrix > 0)

    def score_interval(self, outputs: Array, matrix: Array) -> tuple[float, float]:
        """Return the bootstrap interval of micro-F1."""
        return f1_interval(self.indicators(outputs), matrix)

    def prediction_columns(self, outputs: Array, *, text: bool = False) -> dict[str, Any]:
        """Return the classes of each node as a list of text, or as one text."""
        predicted = [list(map(str, row)) for row in self.predicted_labels(outputs)]
        texts = ["; ".join(row) for row in predicted] if text else predicted
        return {"class": texts, "confidence": self.confidence(outputs)}

    def prediction_texts(self, outputs: Array) -> dict[str, list[str]]:
        """Return the classes of a node in one text."""
        texts = ["; ".join(map(str, row)) or "none" for row in self.predicted_labels(outputs)]
        return super().prediction_texts(outputs) | {"class": texts}

    def predicted_classes(self, outputs: Array) -> list[list[tuple[int, float]]]:
        """Return the predicted classes of each node, the most probable first."""
        orders, predicted = np.argsort(-outputs, axis=1, kind="stable"), self.predict(outputs) > 0
        return [
            [(number, round(float(row[number]), 4)) for number in order[chosen[order]].tolist()]
            for row, order, chosen in zip(outputs, orders, predicted, strict=True)
        ]


def _shares(sums: Array, total: Array) -> Array:
    """Return sums of labels as shares of a total, NaN where it is 0."""
    return np.where(total > 0, np.minimum(sums / np.maximum(total, 1e-300), 1.0), np.nan)


def _ratio(numerator: Array, denominator: Array, limit: float) -> Array:
    """Return a ratio, and its limit where the denominator is zero."""
    zero = np.abs(denominator) < 1e-12
    return np.where(zero, limit, numerator / np.where(zero, 1.0, denominator))
