"""The test or validation nodes on which a model is scored, and its scores on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.estimators.path_estimator import PathEstimator
from cge.evaluation.significance import f1_interval, wilson_interval
from cge.metrics import node_f1, reliability
from cge.targets import Target


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """Nodes that were not trained on: `nodes (k,)`, `labels (k, c)` of zeros and ones, `probabilities (k, c)`.

    `is_test` says that the labels were not used at all; validation labels selected the model, so scores on them are
    slightly optimistic.
    """

    nodes: Array
    labels: Array
    probabilities: Array
    target: Target
    is_test: bool

    @property
    def kind(self) -> str:
        """The kind of labels, "test" or "validation"."""
        return "test" if self.is_test else "validation"

    def predicted(self, probabilities: Array) -> Array:
        """Return the predicted classes as zeros and ones, `(k, c)`."""
        return self.target.indicators(probabilities)

    def node_scores(self, probabilities: Array) -> Array:
        """Return the accuracy on each node, `(k,)`: 0 or 1, in a multilabel task the F1 of its classes."""
        return node_f1(self.predicted(probabilities), self.labels)

    def row(self, method: str, probabilities: Array) -> dict[str, Any]:
        """Return the accuracy of a method (micro-F1 in a multilabel task), with its 95 % interval."""
        predicted = self.predicted(probabilities)
        hits, total = int((predicted & (self.labels > 0)).sum()), int(predicted.sum() + self.labels.sum())
        multilabel = self.target.multilabel
        interval = f1_interval(predicted, self.labels) if multilabel else wilson_interval(hits, len(self.nodes))
        return {"method": method, "accuracy": 2 * hits / max(total, 1), "interval": list(interval)}

    def reliability(self) -> dict[str, Any]:
        """Return the reliability diagram of the model's probabilities."""
        diagram = reliability(self.probabilities, self.target.from_matrix(self.labels))
        columns = {"confidence": diagram.confidence, "accuracy": diagram.accuracy}
        numbers = {name: [round(float(value), 4) for value in values] for name, values in columns.items()}
        return numbers | {"count": diagram.count.tolist(), "error": round(diagram.error, 4)}

    def confusion(self) -> list[list[int]] | None:
        """Return the confusion matrix, a row for each true class; None in a multilabel task."""
        if self.target.multilabel:
            return None
        n_classes = self.labels.shape[1]
        cells = self.labels.argmax(1) * n_classes + self.probabilities.argmax(1)
        counts = np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)
        return [row.tolist() for row in counts]

    def by_class(self) -> list[dict[str, Any]] | None:
        """Return precision, recall and F1 of each class in a multilabel task; None otherwise."""
        if not self.target.multilabel:
            return None
        predicted, true = self.predicted(self.probabilities), self.labels > 0
        hits, positives, support = (predicted & true).sum(0), predicted.sum(0), true.sum(0)
        scores = {
            "precision": hits / np.maximum(positives, 1),
            "recall": hits / np.maximum(support, 1),
            "f1": 2 * hits / np.maximum(positives + support, 1),
        }
        return [
            {"nodes": int(support[column])} | {name: round(float(values[column]), 4) for name, values in scores.items()}
            for column in range(len(support))
        ]


def scored_nodes(model: PathEstimator, test_labels: Array | None = None) -> ScoredNodes | None:
    """Return the nodes on which a trained model is scored; None where there are none.

    `test_labels` are labels of nodes that were not trained on: `(n,)` class numbers of `model.classes_` with −1 for
    unknown, or `(n, c)` of zeros and ones. Without them the model is scored on its validation labels.
    """
    fitted = model.fitted_
    target, validation = fitted.target, fitted.validation
    if test_labels is None:
        if not len(validation):
            return None
        return ScoredNodes(validation.nodes, validation.matrix, validation.probabilities, target, False)
    used = np.zeros(len(test_labels), bool)
    used[fitted.train.nodes] = used[validation.nodes] = True
    nodes = np.flatnonzero(target.labeled(test_labels) & ~used)
    if not len(nodes):
        return None
    return ScoredNodes(nodes, target.matrix(test_labels[nodes]), fitted.probabilities(None, nodes), target, True)
