"""A whole fit of the path encoder: model search, final training, calibration, and a refit on all labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.estimators.calibration import Calibration, calibrate, comparable_scores, missing_input_temperatures
from cge.estimators.classifier import LabelSplit, TaskLabels
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.encoder_options import encoder_settings, outer_folds, resolve_inputs
from cge.estimators.ensemble import EnsemblePart, classifiers_of, scores_of, weighted_ensemble
from cge.estimators.fitted_model import FitLog, LabeledNodes, ValidationNodes
from cge.estimators.path_estimator import Callback
from cge.estimators.persistence import Checkpoints
from cge.estimators.stored_selection import restore_selection, selection_arrays, selection_metadata
from cge.graph import Graph
from cge.parallel import resolve_jobs
from cge.randomness import key as random_key
from cge.targets import Task
from cge.training.candidate_evaluation import (
    CandidateEvaluator,
    CandidateKey,
    ClassScores,
    Training,
    validation_scores,
)
from cge.training.candidates import MIN_VALIDATION
from cge.training.cross_fitting import CrossFitEvaluator
from cge.training.encoder_data import EncoderData
from cge.training.history import History
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.parallel_tasks import ParallelTask, run_parallel
from cge.training.path_trainer import PathTrainer
from cge.training.selection import Selection, TrainedClassifier
from cge.training.stored_state import TrainerState
from cge.training.walk_inputs import walk_inputs

if TYPE_CHECKING:
    from cge.estimators.cge import CGE

_CHECKPOINT_SECONDS = 5.0


def fit_encoder(
    model: CGE, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback
) -> EncoderModel:
    """Select a weighting and classifiers and train them; a second training on all labels where some were held out."""
    data = encoder_data(model, graph)
    return EncoderFit(model, data, labels, checkpoints, callback).run()


def encoder_data(model: CGE, graph: Graph) -> EncoderData:
    """Return the transitions and node inputs of a graph, with the inputs of the settings."""
    walk_vectors = None
    if resolve_inputs(model.inputs, graph) == "walks":
        walk_vectors = walk_inputs(graph, model.random_state, model.n_jobs)
    return EncoderData(graph, model.inputs, model.n_jobs, walk_vectors=walk_vectors)


class EncoderFit:
    """State shared by the steps of a fit."""

    evaluator: type[CandidateEvaluator] = CandidateEvaluator
    cross_fit_evaluator: type[CrossFitEvaluator] = CrossFitEvaluator

    def __init__(
        self, model: CGE, data: EncoderData, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback
    ) -> None:
        self.model, self.graph, self.data, self.labels = model, data.graph, data, labels
        self.checkpoints, self.callback = checkpoints, callback
        self._trained_types: set[type] = set()  # of classifiers, in this process
        self.settings = encoder_settings(model, len(labels.classes))

    def run(self) -> EncoderModel:
        """Return the trained model."""
        split = self.labels.split(self.model)
        train_idx, validation_idx, refit, cv_folds = split
        stage = "select" if refit else "train"  # of an epoch (see `history.Epoch`), not of the search
        evaluator = self._evaluator(split)
        selection = self._select(evaluator)
        ensemble = self._train_ensemble(evaluator, selection, stage)
        probabilities, calibration, score_shift = self._calibrate(ensemble)
        validation = ValidationNodes(*self._labeled(validation_idx), probabilities)
        if len(validation_idx) >= MIN_VALIDATION and not cv_folds:
            classifiers, labeled = classifiers_of(ensemble, score_shift), self._labeled(train_idx)
            temperatures = self._temperatures(selection, classifiers, labeled, validation)
            calibration = replace(calibration, by_evidence=temperatures)
        history, selection_history = _history(ensemble[0], stage), None
        best_epoch = ensemble[0].trainer.best_epoch
        if refit:
            selection_history = history
            evaluator = self._evaluator(LabelSplit(self.labels.train, np.empty(0, np.int64), refit=False))
            ensemble = self._refit(evaluator, selection, ensemble)
            history = _history(ensemble[0], "refit")
        final_train = self.labels.train if refit else train_idx
        n_outer = len(train_idx) if selection.any_learned else 0
        seen = {"train": len(final_train), "outer": n_outer, "validation": len(validation_idx)}
        return EncoderModel(
            data=self.data,
            selection=selection,
            ensemble=classifiers_of(ensemble, score_shift),
            train=LabeledNodes(*self._labeled(final_train)),
            validation=validation,
            target=self.labels.target,
            calibration=calibration,
            weighting_selected=self.model.weighting == "auto",
            log=FitLog(history, best_epoch, selection_history, seen, selection.notices, bool(cv_folds)),
        )

    def _temperatures(
        self,
        selection: Selection,
        classifiers: Sequence[TrainedClassifier],
        labeled: tuple[Array, Array],
        validation: ValidationNodes,
    ) -> dict[str, float]:
        """Return temperatures for new nodes with edges only, or features only (docs/predictions.md, evidence)."""
        target = self.labels.target
        return missing_input_temperatures(self.data, selection, classifiers, labeled, validation, target)

    def _labeled(self, nodes: Array) -> tuple[Array, Array]:
        return nodes, self.labels.matrix(nodes)

    def _calibrate(self, ensemble: list[EnsemblePart]) -> tuple[Array, Calibration, Array | None]:
        """Return calibrated probabilities of the validation labels, the calibration and the score shift, or None.

        The score shift is the shift of the class scores by the prior correction.
        """
        task = ensemble[0].trainer.task
        train, target, correct = None, task.target, self.model.prior_correction
        scores = scores_of(ensemble, task.validation)
        if self._may_correct_priors():
            train = scores_of(ensemble, task.train), task.labels[task.train].numpy()
        labels = task.labels[task.validation].numpy()
        probabilities, temperature, score_shift = calibrate(scores, labels, target, train, always=correct is True)
        return probabilities, Calibration(temperature, score_shift is not None), score_shift

    def _may_correct_priors(self) -> bool:
        """Return whether class scores may be adjusted to the class frequencies of the validation labels."""
        target, correct = self.labels.target, self.model.prior_correction
        possible = len(self.labels.validation) and target.exclusive_classes and self.model.class_weight != "balanced"
        return correct is True or bool(correct and possible and target.scoring is None)

    def _evaluator(self, split: LabelSplit) -> CandidateEvaluator:
        parts: list[Any] = [split.train, split.validation, *self._outer_folds(split)]
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]
        labels = torch.from_numpy(self.labels.codes)
        task = Task(self.graph, None, labels, self.labels.target, parts[0], parts[1], parts[2:])
        arguments = task, self.data, self.settings, self._class_weights(split.train), self._train
        if split.folds:
            return self.cross_fit_evaluator(*arguments, folds=split.folds)
        return self.evaluator(*arguments, class_scores=self._class_scores())

    def _outer_folds(self, split: LabelSplit) -> Sequence[Array]:
        return outer_folds(self.model, self.labels, split)

    def _class_scores(self) -> ClassScores:
        """Return what candidates are compared by: class scores, corrected as those of the selected one will be."""
        if not self._may_correct_priors():
            return validation_scores
        return partial(comparable_scores, always=self.model.prior_correction is True)

    def _class_weights(self, train_idx: Array) -> Tensor | None:
        """Return weights inverse to the class frequencies, with `class_weight="balanced"`."""
        if self.model.class_weight != "balanced":
            return None
        weights = self.labels.target.balanced_weights(self.labels.matrix(train_idx))
        return torch.from_numpy(np.clip(weights, 0.01, 100).astype(np.float32))

    def _select(self, evaluator: CandidateEvaluator) -> Selection:
        saved = self.checkpoints.read("selection")
        if saved is not None:
            return restore_selection(self.data, self.settings, saved)
        selection = self._search(evaluator).run()
        for number, key in enumerate(_ensemble_keys(selection)):
            write = self.checkpoints.writer(f"candidate-{number}")
            if write is not None and key in evaluator.trainers:
                write(evaluator.trainers[key].state)
        writer = self.checkpoints.writer("selection")
        if writer is not None:
            metadata = {"selection": selection_metadata(selection)}
            writer(lambda: TrainerState(metadata, selection_arrays(selection)))
        return selection

    def _evaluated_trainer(
        self, evaluator: CandidateEvaluator, weighting: NamedWeighting, selection: Selection, number: int
    ) -> PathTrainer | None:
        """Return the trainer of a candidate as the search left it, from its checkpoint if the fit continues."""
        key = _ensemble_keys(selection)[number]
        if key not in evaluator.trainers:
            saved = self.checkpoints.read(f"candidate-{number}")
            if saved is None:
                return None
            evaluator.trainers[key] = evaluator.trainer(weighting, *key[1:], self.settings.seed, "compare")
            evaluator.trainers[key].load(saved)
        return evaluator.trainers[key]

    def _search(self, evaluator: CandidateEvaluator) -> ModelSearch:
        return ModelSearch(evaluator)

    def _train_ensemble(self, evaluator: CandidateEvaluator, selection: Selection, stage: str) -> list[EnsemblePart]:
        """Train the selected candidate, with each seed, and those to be averaged until they stop; return those used.

        Candidates that get no weight in the mean are left out.
        """
        key, propagation = (selection.weighting, selection.classifier), selection.label_propagation
        selected, averaged = [], []
        for number in range(self.model.n_estimators):
            trainer = self._evaluated_trainer(evaluator, selection.weighting, selection, 0) if number == 0 else None
            if trainer is None:
                trainer = evaluator.trainer(*key, propagation, self._seed(number), stage)
            selected.append(EnsemblePart(*key, number, trainer))
        for number, (weighting, classifier) in enumerate(selection.averaged, start=1):
            trainer = self._evaluated_trainer(evaluator, weighting, selection, number)
            if trainer is not None:
                averaged.append(EnsemblePart(weighting, classifier, 0, trainer))
        trainings = []
        for number, part in enumerate([*selected, *averaged]):
            part.trainer.stage = stage
            trainings.append(Training(part.trainer, f"{stage}-{number}"))
        self._train(trainings)
        return weighted_ensemble(selected, averaged, evaluator.class_scores)

    def _refit(
        self, evaluator: CandidateEvaluator, selection: Selection, ensemble: list[EnsemblePart]
    ) -> list[EnsemblePart]:
        """Train the classifiers again, on all labels, for the best number of epochs."""
        refitted, trainings = [], []
        for index, part in enumerate(ensemble):
            seed, propagation = self._seed(part.number), selection.label_propagation
            trainer = evaluator.trainer(part.weighting, part.classifier, propagation, seed, "refit")
            trainings.append(Training(trainer, f"refit-{index}", part.trainer.best_epoch))
            refitted.append(replace(part, trainer=trainer))
        self._train(trainings)
        return refitted

    def _seed(self, number: int) -> int:
        return (
            self.settings.seed if number == 0 else int(random_key(self.settings.seed, "model", number) >> np.uint64(1))
        )

    def _train(self, trainings: Sequence[Training], others: Sequence[ParallelTask] = ()) -> list[Any]:
        """Do training runs, several at the same time, and other tasks, whose results are returned.

        Each run continues from its checkpoint, if there is one.
        """
        for training in trainings:
            saved = self.checkpoints.read(training.checkpoint)
            if saved is not None:
                training.trainer.load(saved)
        if len(trainings) + len(others) == 1 or resolve_jobs(self.model.n_jobs) == 1:
            for training in trainings:
                self._train_one(training, self.callback)
            return run_parallel(others, 1)
        for trainer in (training.trainer for training in trainings):
            if not trainer.epochs and type(trainer.classifier) not in self._trained_types:
                trainer.run(1, self.callback)  # loads the kernels, which child processes then share
                self._trained_types.add(type(trainer.classifier))

        def run(training: Training, send: Callable[[Any], None]) -> TrainerState:
            self._train_one(training, send)
            return training.trainer.state()

        tasks: list[ParallelTask] = [*others, *(partial(run, training) for training in trainings)]
        results = run_parallel(tasks, self.model.n_jobs, self.callback)
        for training, state in zip(trainings, results[len(others) :], strict=True):
            training.trainer.load(state)
        return results[: len(others)]

    def _train_one(self, training: Training, callback: Callback) -> None:
        write = self.checkpoints.writer(training.checkpoint)
        on_state = None if write is None else _rate_limited(write)
        training.trainer.run(training.last_epoch, callback, on_state)
        if write is not None:
            write(training.trainer.state)


def _ensemble_keys(selection: Selection) -> list[CandidateKey]:
    """Return the selected candidate and those averaged with it."""
    ensemble = (selection.weighting, selection.classifier), *selection.averaged
    return [CandidateKey(weighting.name, name, selection.label_propagation) for weighting, name in ensemble]


def _history(part: EnsemblePart, stage: str) -> History:
    """Return the epochs of a training; those of the model search are its first ones."""
    return History([replace(epoch, stage=stage) for epoch in part.trainer.epochs])


def _rate_limited(write: Callable[[Callable[[], TrainerState]], None]) -> Callable[[Callable[[], TrainerState]], None]:
    """Return a writer of checkpoints that skips calls that come within 5 s of the last."""
    last = time.monotonic()

    def maybe(state: Callable[[], TrainerState]) -> None:
        nonlocal last
        if time.monotonic() - last > _CHECKPOINT_SECONDS:
            write(state)
            last = time.monotonic()

    return maybe
