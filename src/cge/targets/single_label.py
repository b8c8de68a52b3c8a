"""One class per node: softmax, cross-entropy, accuracy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.arrays import Array
from cge.errors import InputError
from cge.metrics import accuracy
from cge.targets.target import SMOOTHING, Target

_CONFIDENT = 0.75  # probability above which a mean of two classes is confident; with c classes 2 / c is enough


class SingleLabel(Target):
    """Labels `(n,)` are class numbers, −1 for unlabeled nodes."""

    kind: ClassVar[str] = "single-label"
    metric: ClassVar[str] = "accuracy"
    has_class_prior: ClassVar[bool] = True

    def unlabeled(self, count: int) -> Array:
        """Return −1 for each node."""
        return np.full(count, -1)

    def labeled(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Return which nodes have a class."""
        return np.asarray(labels >= 0, bool)

    def matrix(self, labels: Array) -> Array:
        """Return one-hot rows."""
        return np.eye(len(self.classes), dtype=np.int64)[labels]

    def from_matrix(self, matrix: Array) -> Array:
        """Return class numbers."""
        return np.asarray(matrix.argmax(1)) if len(matrix) else np.empty(0, np.int64)

    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:
        """Return the entropy of the class frequencies."""
        if class_weights is not None:
            return float(np.log(len(self.classes)))
        prior = torch.bincount(labels, minlength=len(self.classes)).double() / len(labels)
        return float(-(prior * prior.clamp(min=1e-12).log()).sum())

    def outputs(self, scores: Tensor) -> Tensor:
        """Return the softmax."""
        return torch.softmax(scores, dim=1)

    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:
        """Return the sharpened mean, and the nodes where the mean is confident."""
        confident = (mean.max(1).values > min(2 / mean.shape[1], _CONFIDENT)).float()
        return torch.softmax(torch.log(mean.clamp(min=1e-30)) / sharpening, dim=1), confident

    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the cross-entropy from the posterior of label propagation."""
        return -(torch.softmax(label_scores, dim=1) * torch.log_softmax(scores, dim=1)).sum(1)

    def balanced_weights(self, matrix: Array) -> Array:
        """Return n / (c · count)."""
        count = np.maximum(matrix.sum(axis=0), 1)
        return np.asarray(len(matrix) / (len(count) * count))

    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:  # noqa: ARG002 - sums are normalized
        """Return the logarithm of the posterior."""
        sums, n_classes = np.maximum(sums, 0), sums.shape[1]
        normalized = (1 - SMOOTHING) * sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-12)
        posterior = normalized + SMOOTHING / n_classes
        return np.where(reachable, np.log(posterior) + np.log(n_classes), 0).astype(np.float32)

    def informative(self, matrix: Array) -> npt.NDArray[np.bool_]:
        """Return False for a label that is alone in its class."""
        alone = matrix * (matrix.sum(axis=0) == 1) > 0
        return np.asarray(~alone.any(axis=1, keepdims=True), bool)

    def check_probabilities(self) -> None:
        """Return nothing: outputs are probabilities."""

    def predict(self, outputs: Array) -> Array:
        """Return the most probable classes, `(k,)`."""
        return np.asarray(self.classes[outputs.argmax(1)])

    def listed(self, outputs: Array) -> list[Any]:
        """Return the most probable class of each node."""
        return list(self.predict(outputs).tolist())

    def confidence(self, outputs: Array) -> Array:
        """Return the highest probability."""
        return np.asarray(outputs.max(axis=1, initial=0))

    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return the accuracy."""
        true = np.asarray(labels)
        if predicted.shape != true.shape:
            raise InputError(
                f"labels must have shape {predicted.shape}, like the predictions, found shape {true.shape}"
            )
        return accuracy(predicted, true)

    def format_score(self, score: float) -> str:
        """Return the accuracy in percent."""
        return f"{score:.1%}"

    def centered(self, slopes: Array) -> Array:
        """Subtract the mean over classes, which does not change probabilities."""
        return np.asarray(slopes - slopes.mean(1, keepdims=True))
