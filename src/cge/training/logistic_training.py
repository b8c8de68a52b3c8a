"""Training of logistic regression on propagated inputs, for a sequence of values of C.

    min over W, b of  L(P W + b) + ‖W‖² / (2 C k)

P `(k, f)` are the propagated inputs of the k training nodes and L is the mean loss of their labels: cross-entropy, the
sum of the binary cross-entropies of the classes, or the squared error, with which this is ridge regression. The problem
is convex, so that L-BFGS finds its minimum from anywhere. What counts as an epoch is one value of C: each starts from
the solution of the one before, and the validation labels select the best.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor

from cge.arrays import Array
from cge.models.classifiers import PathClassifier
from cge.targets import Task
from cge.training.classifier_registry import C_VALUES
from cge.training.path_trainer import SingleTrainer
from cge.training.torch_state import check_finite

_OPTIONS = {"maxiter": 100, "maxcor": 20, "gtol": 1e-6, "ftol": 1e-12}  # of L-BFGS for a value of C


class LogisticTrainer(SingleTrainer):
    """Trains a `LogisticClassifier`; `rows (k, f)` are the propagated inputs of training and validation nodes.

    Large values of C take the longest, and end once `patience` of them are not better on the validation labels.
    """

    patience = 2

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
        options: dict[str, Any] = {"label_scores": label_scores, "class_weights": class_weights, "stage": stage}
        super().__init__(task, classifier, len(C_VALUES), **options)
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
        loss = self._minimize(C_VALUES[number] / squared_length)
        check_finite(loss, "logistic regression overflowed", "classifier", C_VALUES[number])
        self._end_epoch((loss, 0.0), started)

    def _minimize(self, c: float) -> float:
        """Move the classifier to the minimum for C = `c`; return the mean loss on the training labels there."""
        classifier, task, (features, basis) = self.classifier, self.task, self._features_and_basis
        labels, class_weights = task.labels[task.train], self.class_weights
        class_weights = None if class_weights is None else class_weights.double()
        label_scores = None if self.label_scores is None else self.label_scores[task.train].double()
        weight, bias, label_weight = (
            parameter.detach().double() for parameter in (classifier.weight, classifier.bias, classifier.label_weight)
        )
        weight = weight if basis is None else basis.T @ weight
        start = [weight, bias, label_weight]
        sizes = [parameter.numel() for parameter in start]

        def parts_of(point: Tensor) -> list[Tensor]:
            parts = zip(torch.split(point, sizes), start, strict=True)
            return [part.view_as(parameter) for part, parameter in parts]

        def loss(point: Tensor) -> Tensor:
            weight, bias, label_weight = parts_of(point)
            scores = features @ weight + bias
            scores = scores if label_scores is None else scores + label_weight * label_scores
            return task.target.loss(scores, labels, class_weights)

        def objective(values: Array) -> tuple[float, Array]:
            point = torch.from_numpy(values).requires_grad_()
            value = loss(point) + point[: sizes[0]].square().sum() / (2 * c * len(labels))
            (gradient,) = torch.autograd.grad(value, point)
            return value.item(), gradient.numpy()

        first = torch.cat([parameter.flatten() for parameter in start]).numpy()
        with threadpool_limits(1, "blas"):  # in vectors this short, the threads of BLAS take 20 times as long as one
            point = torch.from_numpy(minimize(objective, first, method="L-BFGS-B", jac=True, options=_OPTIONS).x)
        best_weight, best_bias, best_label_weight = parts_of(point)
        with torch.no_grad():
            classifier.weight.copy_(best_weight if basis is None else basis @ best_weight)
            classifier.bias.copy_(best_bias)
            classifier.label_weight.copy_(best_label_weight)
        return float(loss(point))

    def _scores(self, classifier: PathClassifier, nodes: Tensor) -> Tensor:
        rows = self._row_of[nodes]
        if bool((rows < 0).any()):
            raise ValueError("only training and validation nodes have propagated inputs here")
        vectors = self.rows[rows] @ classifier.weight
        return self._add_labels(classifier, classifier.scores(vectors), nodes)

    def _parts(self) -> dict[str, Any]:
        return {"now": self.classifier}
