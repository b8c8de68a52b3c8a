"""Cross-fitting: candidates are compared on training labels, each predicted by a classifier that has not seen it.

Documents and messages call this 3-fold cross-validation. For each fold of the training labels a classifier is trained
on the other folds, all folds epoch by epoch. An epoch is scored by the predictions of all held-out labels together; so
are candidates. The selected model is then trained on all labels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.targets import Task
from cge.training.candidate_evaluation import CandidateEvaluator, TrainFunction
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings
from cge.training.named_weighting import NamedWeighting
from cge.training.path_trainer import PathTrainer
from cge.training.stored_state import TrainerState


class CrossFitTrainer(PathTrainer):
    """Runs the trainers of all folds; `task.validation` are the held-out nodes of one fold after the other."""

    def __init__(self, task: Task, trainers: Sequence[PathTrainer], stage: str) -> None:
        super().__init__(task, trainers[0].classifier, trainers[0].max_epochs, stage)
        self.trainers = trainers
        self.first_eligible, self.patience = trainers[0].first_eligible, trainers[0].patience
        self.best = {"scores": np.zeros((len(task.validation), task.classes), np.float32)}

    def run_epoch(self, number: int) -> None:
        """Run epoch `number` (from 0) of all folds."""
        started = time.perf_counter()
        for trainer in self.trainers:
            trainer.run_epoch(number)
        epochs = [trainer.epochs[-1] for trainer in self.trainers]
        losses = [[epoch.supervised_loss, epoch.consistency_loss] for epoch in epochs]
        supervised, consistency = np.mean(losses, axis=0).tolist()
        self._end_epoch((supervised, consistency), started)

    def _validation_scores(self) -> Tensor:
        return torch.cat([trainer.validation_scores for trainer in self.trainers])

    def _snapshot(self) -> dict[str, Array]:
        return {"scores": self.validation_scores.numpy().copy()}

    def best_scores(self, nodes: Tensor | None = None) -> Tensor:
        """Return the scores of the held-out labels in the best epoch, `(k, c)`."""
        if nodes is None or not torch.equal(nodes, self.task.validation):
            raise ValueError("only all held-out labels together have scores under cross-validation")
        return torch.from_numpy(self.best["scores"])

    def load(self, saved: TrainerState) -> None:
        """Restore what `state` returned."""
        super().load(saved)
        for trainer in self.trainers:
            trainer.epochs = list(self.epochs)

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for number, trainer in enumerate(self.trainers):
            parts |= {f"fold{number}.{name}": part for name, part in trainer._parts().items()}
        return parts


class CrossFitEvaluator(CandidateEvaluator):
    """Scores candidates on held-out folds; `folds` are pairs of training and held-out nodes.

    Every evaluation takes as many training runs as there are folds, and counts so in the budget.
    """

    fold_evaluator: type[CandidateEvaluator] = CandidateEvaluator

    def __init__(
        self,
        task: Task,
        data: EncoderData,
        settings: EncoderSettings,
        class_weights: Tensor | None = None,
        train: TrainFunction | None = None,
        folds: Sequence[tuple[Array, Array]] = (),
    ) -> None:
        super().__init__(task, data, settings, class_weights, train)
        self.budget /= max(len(folds), 1)
        self.fold_evaluators = []
        for train_idx, held_out_idx in folds:
            nodes = torch.from_numpy(train_idx), torch.from_numpy(held_out_idx)
            fold_task = replace(task, train=nodes[0], validation=nodes[1])
            self.fold_evaluators.append(self.fold_evaluator(fold_task, data, settings, class_weights))

    def trainer(
        self, weighting: NamedWeighting, classifier: str, label_propagation: bool, seed: int, stage: str
    ) -> PathTrainer:
        """Return a trainer of a classifier on all folds before its first epoch."""
        arguments = weighting, classifier, label_propagation, seed, stage
        return CrossFitTrainer(self.task, [each.trainer(*arguments) for each in self.fold_evaluators], stage)

    def release(self, name: str) -> None:
        """Drop the trained models of a weighting that was not selected; their scores are kept."""
        super().release(name)
        for evaluator in self.fold_evaluators:
            evaluator.release(name)
