"""Any number of classes per node: a sigmoid and binary cross-entropy for each class, F1."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cge.arrays import Array
from cge.errors import InputError
from cge.metrics import micro_f1
from cge.targets.label_encoding import members
from cge.targets.target import SMOOTHING, Target


class MultiLabel(Target):
    """Labels `(n, c)` are zeros and ones; a row of zeros is an unlabeled node."""

    kind: ClassVar[str] = "multilabel"
    metric: ClassVar[str] = "micro-F1"
    multilabel: ClassVar[bool] = True

    def unlabeled(self, count: int) -> Array:
        """Return rows of zeros."""
        return np.zeros((count, len(self.classes)), np.int64)

    def labeled(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Return which nodes have a class."""
        return np.asarray(labels.any(axis=1), bool)

    def matrix(self, labels: Array) -> Array:
        """Return the labels themselves."""
        return labels

    def from_matrix(self, matrix: Array) -> Array:
        """Return the matrix itself."""
        return matrix

    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:
        """Return the sum over classes of the least binary cross-entropy of a constant."""
        prior = labels.double().mean(0)
        positive = prior if class_weights is None else class_weights.double() * prior
        best = (positive / (positive + 1 - prior)).clamp(1e-9, 1 - 1e-9)
        return float(-(positive * best.log() + (1 - prior) * (1 - best).log()).sum())

    def outputs(self, scores: Tensor) -> Tensor:
        """Return the sigmoid of each score."""
        return torch.sigmoid(scores)

    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """Return each probability moved towards 0 or 1; all nodes count."""
        return torch.sigmoid(torch.logit(mean, 1e-7) / sharpening), torch.ones(len(mean))

    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the binary cross-entropy from label propagation, summed over classes."""
        target = torch.sigmoid(label_scores)
        return functional.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(1)

    def balanced_weights(self, matrix: Array) -> Array:
        """Return the number of negatives over that of positives."""
        count = np.maximum(matrix.sum(axis=0), 1)
        return np.asarray((len(matrix) - count) / count)

    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:
        """Return log-odds of each class."""
        share = np.clip(np.where(reachable, np.maximum(sums, 0) / np.maximum(count, 1e-12), 0.5), 0, 1)
        share = (1 - SMOOTHING) * share + SMOOTHING / 2
        return np.where(reachable, np.log(share) - np.log1p(-share), 0).astype(np.float32)

    def informative(self, matrix: Array) -> npt.NDArray[np.bool_]:
        """Return False for a class that only one node has, at that node."""
        return np.asarray(~(matrix * (matrix.sum(axis=0) == 1) > 0), bool)

    def check_probabilities(self) -> None:
        """Return nothing: outputs are probabilities."""

    def predict(self, outputs: Array) -> Array:
        """Return zeros and ones, `(k, c)`: classes with a probability above one half."""
        return (outputs > 0.5).astype(np.int64)

    def listed(self, outputs: Array) -> list[Any]:
        """Return the predicted classes of each node."""
        return [self.classes[row.astype(bool)].tolist() for row in self.predict(outputs)]

    def confidence(self, outputs: Array) -> Array:
        """Return the probability of the least certain decision."""
        return np.asarray(np.maximum(outputs, 1 - outputs).min(axis=1, initial=1))

    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return micro-F1."""
        true = members(labels, self.classes)
        if predicted.shape != true.shape:
            raise InputError(
                f"labels must have shape {predicted.shape}, like the predictions, found shape {true.shape}"
            )
        return micro_f1(predicted > 0, true > 0)

    def centered(self, slopes: Array) -> Array:
        """Return them as they are: each class has a probability of its own."""
        return slopes
