"""The test or validation nodes on which a model is scored, its scores on them, and those of other methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation, classify_vectors
from cge.estimators.classifier import TaskLabels
from cge.estimators.explanation_mixin import labels_of, outputs_like, uniform_copy
from cge.estimators.path_estimator import PathEstimator
from cge.explain.weighting_comparison import Gain
from cge.metrics import reliability
from cge.report.charts import rounded
from cge.targets import Target

_UNIFORM = "cge (uniform weights)"


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """Nodes that were not trained on: `nodes (k,)`, `labels (k, c)` as a matrix, `probabilities (k, c)` or values.

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

    def node_scores(self, outputs: Array) -> Array:
        """Return how correct outputs are on each node, `(k,)`."""
        return self.target.node_correct(outputs, self.target.from_matrix(self.labels))

    def row(self, method: str, outputs: Array) -> dict[str, Any]:
        """Return the score of a method, its accuracy by kind of target, with its 95 % confidence interval."""
        score, interval = (
            self.target.score_outputs(outputs, self.labels),
            self.target.score_interval(outputs, self.labels),
        )
        return {"method": method, "accuracy": score, "interval": list(interval)}

    def reliability(self) -> dict[str, Any] | None:
        """Return the reliability diagram of the model's probabilities; None for values."""
        if not self.target.has_probabilities:
            return None
        diagram = reliability(self.probabilities, self.target.from_matrix(self.labels))
        numbers = {"confidence": rounded(diagram.confidence), "accuracy": rounded(diagram.accuracy)}
        return numbers | {"count": diagram.count.tolist(), "error": round(diagram.error, 4)}

    def confusion(self) -> list[list[int]] | None:
        """Return the confusion matrix, a row for each true class; None where nodes have no class, or several."""
        if not self.target.exclusive_classes:
            return None
        true, predicted = self.labels.argmax(1), self.probabilities.argmax(1)
        matrix = np.zeros((self.labels.shape[1],) * 2, np.int64)
        np.add.at(matrix, (true, predicted), 1)
        return list(matrix.tolist())

    def class_scores(self) -> list[dict[str, Any]] | None:
        """Return precision, recall and F1 of each class, and its number of nodes; None for values."""
        if not self.target.has_probabilities:
            return None
        predicted, true = self.target.indicators(self.probabilities), self.labels > 0
        hits, positives, support = (predicted & true).sum(0), predicted.sum(0), true.sum(0)
        precision, recall = hits / np.maximum(positives, 1), hits / np.maximum(support, 1)
        columns = support.tolist(), *map(rounded, (precision, recall, 2 * hits / np.maximum(positives + support, 1)))
        return [
            {"nodes": row[0], "precision": row[1], "recall": row[2], "f1": row[3]} for row in zip(*columns, strict=True)
        ]


def plain_rows(rows: Sequence[dict[str, Any]], score_key: str = "accuracy") -> list[dict[str, Any]]:
    """Return rows of scores for JSON, without gains and without scores that are not defined, as R² of equal labels.

    The score of each method is under `score_key`.
    """
    names = {"method": "method", "accuracy": score_key, "interval": "interval"}
    defined = [row for row in rows if np.isfinite([row["accuracy"], *row["interval"]]).all()]
    return [{key: row[name] for name, key in names.items()} for row in defined]


def score_summary(scored: ScoredNodes) -> dict[str, Any]:
    """Return the scores of a model: of classes, calibration and confusion too; of numbers R² and errors."""
    target, row = scored.target, scored.row("cge", scored.probabilities)
    scores = {target.score_key: row["accuracy"], "interval": row["interval"]}
    scores |= target.other_scores(scored.probabilities.astype(np.float64), scored.labels)
    diagram, of_classes = scored.reliability(), scored.class_scores()
    if diagram is None or of_classes is None:
        return scores
    names = [{"class": name} for name in target.classes.tolist()]
    return scores | {
        "calibration_error": diagram["error"],
        "classes": [name | own for name, own in zip(names, of_classes, strict=True)],
        "confusion": scored.confusion(),
    }


def scored_nodes(model: PathEstimator, test_labels: Array | None = None) -> ScoredNodes | None:
    """Return the nodes on which a trained model is scored; None where there are none.

    `test_labels` are labels of nodes that were not trained on: `(n,)` class numbers of `model.classes_` with −1 for
    unknown, `(n, c)` of zeros and ones, or `(n,)` numbers with NaN for unknown. Without them the model is scored on its
    validation labels.
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


def score_vectors(model: PathEstimator, scored: ScoredNodes) -> float | None:
    """Return the score of a linear model of the vectors alone, such as logistic regression, with the model's labels.

    None where the vectors were trained on some of the scored labels, as after a refit on all labels.
    """
    fitted, target = model.fitted_, scored.target
    if np.isin(scored.nodes, fitted.train.nodes).any():
        return None
    codes = target.unlabeled(len(model.graph_))
    validation = fitted.validation.nodes if scored.is_test else fitted.validation.nodes[:0]  # they select C
    for labeled in (fitted.train, fitted.validation):
        codes[labeled.nodes] = target.from_matrix(labeled.matrix)
    labels = TaskLabels(codes, target.with_scoring(None), fitted.train.nodes, validation)
    outputs, _ = classify_vectors(model.embedding_, labels)
    return float(scored.row("vectors alone", outputs[scored.nodes])["accuracy"])


def compare_methods(
    model: PathEstimator,
    scored: ScoredNodes,
    on_method: Callable[[str], object] | None = None,
    *,
    uniform: bool = True,
) -> list[dict[str, Any]]:
    """Return the scores of a trained model and of other methods, as rows of "method", "accuracy" and "interval".

    "accuracy" is the score of the kind of target: accuracy, micro-F1 or R².

    All methods use the training and validation labels of the model. With `uniform`, which takes as long as a fit, one
    of them is the model with uniform weights, whose row has the "gain" of the model over it. `on_method` is called with
    the name of each method before it is trained.
    """
    rows, labels = [scored.row("cge", scored.probabilities)], labels_of(model, as_passed=scored.is_test)
    trained = uniform and model.weighting_ != "uniform"
    methods: dict[str, Any] = {_UNIFORM: uniform_copy(model)} if trained else {}
    if model.graph_.features is not None:
        methods |= {"SGC": SGC(), f"{scored.target.texts.linear_model} (features)": FeatureClassifier()}
    for name, method in (methods | {"label propagation": LabelPropagation()}).items():
        if on_method is not None:
            on_method(name)
        outputs = outputs_like(method, model, labels, scored.nodes)
        rows.append(scored.row(name, outputs))
        if name == _UNIFORM:
            own, uniform_scores = (scored.node_scores(each) for each in (scored.probabilities, outputs))
            selected = not scored.is_test and model.fitted_.weighting_selected
            rows[-1]["gain"] = Gain.between(own, uniform_scores, scored.target, selected=selected)
    return [rows[0], *sorted(rows[1:], key=lambda row: (row["method"] != _UNIFORM, -row["accuracy"]))]
