"""What all training runs of classifiers over weighted paths share: the best epoch, validation, propagated labels."""

from __future__ import annotations

import time
from abc import abstractmethod
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.classifiers import PathClassifier
from cge.targets import Task
from cge.training.history import Epoch
from cge.training.stored_state import TrainerState
from cge.training.torch_state import EpochTrainer, load_module, module_arrays


class PathTrainer(EpochTrainer):
    """Trains classifiers of one kind on a task with fixed path weights, and validates them.

    Epochs before `first_eligible` (from 0) are never the best; training ends after `patience` further epochs that are
    not better. `validation_scores (k, c)` are those of the last epoch. `stage` is that of its epochs (see
    `history.Epoch`), not of the search.
    """

    first_eligible: int = 0
    patience: int | None = None
    validation_scores: Tensor

    def __init__(self, task: Task, classifier: PathClassifier, max_epochs: int, stage: str = "train") -> None:
        super().__init__(Epoch, {}, max_epochs)
        self.task, self.classifier, self.stage = task, classifier, stage

    def out_of_patience(self) -> bool:
        """Return whether the last epochs were not better; those before the first eligible one do not count."""
        since = len(self.epochs) - max(self.best_epoch, self.first_eligible)
        return self.patience is not None and since >= self.patience

    def continue_from(self, state: TrainerState) -> None:
        """Continue the training of another classifier of the same kind; none of its epochs is the best."""
        self.load(state)
        self.best_epoch, self.best_score = len(self.epochs), (-np.inf, 0.0)

    @abstractmethod
    def best_scores(self, nodes: Tensor | None = None) -> Tensor:
        """Return the class scores of some nodes in the best epoch, without dropout, `(k, c)`; None means all nodes.

        All trainers have scores of the validation nodes; nodes of which one has none are a `ValueError`.
        """

    @abstractmethod
    def _validation_scores(self) -> Tensor:
        """Return the class scores of the validation nodes in the last epoch, `(k, c)`."""

    @abstractmethod
    def _snapshot(self) -> dict[str, Array]:
        """Return what is kept of the best epoch."""

    def _validate(self) -> tuple[float, float]:
        """Return accuracy and loss of the validation labels; zeros without any."""
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        self.validation_scores = scores = self._validation_scores()
        labels, target = self.task.labels[nodes], self.task.target
        return target.score(scores.numpy(), labels.numpy()), float(target.loss(scores, labels))

    def _end_epoch(self, losses: tuple[float, float], started: float) -> None:
        """Record an epoch with its supervised and its consistency loss, and keep its parameters if they are the best.

        Without validation labels those of the last epoch are kept.
        """
        accuracy, loss = self._validate()
        validated, number = len(self.task.validation) > 0, len(self.epochs) + 1
        values: list[Any] = [number, self.max_epochs, self.stage, *losses]
        values += [*((accuracy, loss) if validated else (None, None)), time.perf_counter() - started]
        self.epochs.append(Epoch(*values))
        eligible = number > min(self.first_eligible, self.max_epochs - 1)
        if not validated or (eligible and (accuracy, -loss) > self.best_score):
            self.best, self.best_epoch = self._snapshot(), number
            self.best_score = (accuracy, -loss)


class SingleTrainer(PathTrainer):
    """Trains one `PathClassifier`.

    `label_scores (n, c)` are propagated labels, added to the class scores with a learned weight. `class_weights (c,)`
    weigh the loss of each class.
    """

    def __init__(
        self,
        task: Task,
        classifier: PathClassifier,
        max_epochs: int,
        *,
        label_scores: Tensor | None = None,
        class_weights: Tensor | None = None,
        stage: str = "train",
    ) -> None:
        super().__init__(task, classifier, max_epochs, stage)
        self.best = self._snapshot()
        self.label_scores, self.class_weights = label_scores, class_weights

    @abstractmethod
    def _scores(self, classifier: PathClassifier, nodes: Tensor) -> Tensor:
        """Return the class scores of some nodes without dropout; nodes without scores are a `ValueError`."""

    def _add_labels(self, classifier: PathClassifier, scores: Tensor, nodes: Tensor) -> Tensor:
        return scores if self.label_scores is None else scores + classifier.label_weight * self.label_scores[nodes]

    def best_classifier(self) -> PathClassifier:
        """Return a classifier with the parameters of the best epoch."""
        classifier = deepcopy(self.classifier)
        load_module(classifier, "classifier", self.best)
        return classifier

    @torch.no_grad()
    def best_scores(self, nodes: Tensor | None = None) -> Tensor:
        """Return the class scores of some nodes in the best epoch, without dropout, `(k, c)`; None means all nodes."""
        return self._scores(self.best_classifier(), torch.arange(self.task.graph.num_nodes) if nodes is None else nodes)

    @torch.no_grad()
    def _validation_scores(self) -> Tensor:
        return self._scores(self.classifier, self.task.validation)

    def _snapshot(self) -> dict[str, Array]:
        return module_arrays(self.classifier, "classifier")
