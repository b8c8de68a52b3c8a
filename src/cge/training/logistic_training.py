"""Training of logistic regression on propagated inputs, for a path of penalties.

    min over W, b of  L(Z W + b) + ‖W‖² / (2 C k)

Z `(k, f)` are the propagated inputs of the k training nodes and L is the mean loss of their labels: cross-entropy, the
sum of the binary cross-entropies of the classes, or the squared error, with which this is ridge regression. The problem
is convex, so that L-BFGS finds its minimum from anywhere. What counts as an epoch is one value of C: each starts from
the solution of the one before, and the validation labels select the best.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cge.models.classifiers import PathClassifier
from cge.targets import Task
from cge.training.classifier_registry import PENALTIES
from cge.training.path_trainer import PathTrainer
from cge.training.torch_state import check_finite

_ITERATIONS = 100  # of L-BFGS for a value of C
_TOLERANCE = 1e-6  # of the gradient


class LogisticTrainer(PathTrainer):
    """Trains a `LogisticClassifier`; `rows (k, f)` are the propagated inputs of training and validation nodes."""

    def __init__(
        self,
        task: Task,
        rows: Tensor,
        classifier: PathClassifier,
        *,
        label_scores: Tensor | None = None,
        class_weights: Tensor | None = None,
        stage: str = "train",
    ) -> None:
        given: dict[str, Any] = {"label_scores": label_scores, "class_weights": class_weights, "stage": stage}
        super().__init__(task, classifier, len(PENALTIES), **given)
        self.rows = rows
        self._row_of = torch.full((task.graph.num_nodes,), -1)
        self._row_of[torch.cat([task.train, task.validation])] = torch.arange(len(rows))

    @cached_property
    def _features_and_basis(self) -> tuple[Tensor, Tensor | None]:
        """Training rows `(k, f)`; with f > k their coordinates `(k, k)` in an orthonormal basis `(f, k)`.

        The best W is a combination of the training rows, and the basis keeps its norm.
        """
        rows = self.rows[: len(self.task.train)].double()
        if rows.shape[1] <= len(rows):
            return rows, None
        basis, triangle = torch.linalg.qr(rows.T)
        return triangle.T.contiguous(), basis

    def run_epoch(self, number: int) -> None:
        """Minimize the loss for value `number` (from 0) of C."""
        started = time.perf_counter()
        squared_length = float(self._features_and_basis[0].square().sum(1).mean()) or 1.0
        loss = self._minimize(PENALTIES[number] / squared_length)
        check_finite(loss, "logistic regression overflowed", "classifier", PENALTIES[number])
        self._end_epoch((loss, 0.0), started)

    def _minimize(self, penalty: float) -> float:
        """Move the classifier to the minimum for C = `penalty`; return the mean loss of the training labels there."""
        classifier, task, (features, basis) = self.classifier, self.task, self._features_and_basis
        labels, class_weights = task.labels[task.train], self.class_weights
        class_weights = None if class_weights is None else class_weights.double()
        label_scores = None if self.label_scores is None else self.label_scores[task.train].double()
        weight, bias, label_weight = (
            each.detach().double() for each in (classifier.weight, classifier.bias, classifier.label_weight)
        )
        weight = weight if basis is None else basis.T @ weight
        points = [each.clone().requires_grad_() for each in (weight, bias, label_weight)]
        optimizer = torch.optim.LBFGS(
            points, max_iter=_ITERATIONS, tolerance_grad=_TOLERANCE, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            scores = features @ points[0] + points[1]
            scores = scores if label_scores is None else scores + points[2] * label_scores
            return task.target.loss(scores, labels, class_weights)

        def objective() -> Tensor:
            optimizer.zero_grad()
            value = loss() + points[0].square().sum() / (2 * penalty * len(labels))
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(objective)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            classifier.weight.copy_(points[0] if basis is None else basis @ points[0])
            classifier.bias.copy_(points[1])
            classifier.label_weight.copy_(points[2])
            return float(loss())

    def _scores(self, classifier: PathClassifier, nodes: Tensor) -> Tensor:
        rows = self._row_of[nodes]
        if bool((rows < 0).any()):
            raise ValueError("only training and validation nodes have propagated inputs here")
        vectors = self.rows[rows] @ classifier.weight
        return self._add_labels(classifier, classifier.scores(vectors), nodes)

    def _parts(self) -> dict[str, Any]:
        return {"now": self.classifier}
