"""Evaluation of candidates: short training runs, compared on the validation labels, within a budget of work.

Candidates are compared node by node, so that the standard error is that of the paired difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cge.arrays import Array
from cge.models.autograd import Propagation
from cge.models.propagation import column_blocks, propagate_rows
from cge.models.sparse_products import SparseFeatures
from cge.targets import Task
from cge.training.classifier_registry import ClassifierSpec, make_classifier
from cge.training.classifier_training import ClassifierTrainer
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import DENSE, EncoderSettings, ProblemSize, Work
from cge.training.logistic_training import LogisticTrainer
from cge.training.named_weighting import NamedWeighting
from cge.training.path_trainer import PathTrainer
from cge.training.selection import mean_and_error
from cge.training.side_by_side import ParallelTask, run_side_by_side

_NUMBERS_AT_ONCE = 1e8  # of propagated inputs in all candidates that are trained at the same time
_Key = TypeVar("_Key")


class Training(NamedTuple):
    """A training run up to `last_epoch`, or until it stops, and the name of its checkpoint."""

    trainer: PathTrainer
    checkpoint: str
    last_epoch: int | None = None


TrainFunction = Callable[[Sequence[Training], Sequence[ParallelTask]], list[Any]]  # returns the results of the tasks


class CandidateKey(NamedTuple):
    """What identifies a candidate."""

    weighting: str
    classifier: str
    label_propagation: bool


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """Scores on the validation labels: accuracy, and of each label whether it is `correct` and its log loss, `(k,)`.

    With several labels per node, accuracy is micro-F1 and `correct` the share of a node's classes that are predicted.
    Log losses are taken at the temperature that suits the candidate best, since calibration follows anyway.
    """

    accuracy: float
    correct: Array
    log_losses: Array

    @property
    def rank(self) -> tuple[float, float]:
        """The accuracy, and −log loss, which decides among equals."""
        return self.accuracy, -float(self.log_losses.mean())

    def accuracy_gain(self, incumbent: CandidateScore) -> tuple[float, float]:
        """Return the gain in accuracy over the incumbent, and its standard error."""
        return mean_and_error(self.correct - incumbent.correct)

    def log_loss_gain(self, incumbent: CandidateScore) -> tuple[float, float]:
        """Return by how much the log loss is lower than that of the incumbent, and its standard error."""
        return mean_and_error(incumbent.log_losses - self.log_losses)


def score_candidate(trainer: PathTrainer) -> CandidateScore:
    """Return the scores of a trainer's best epoch on its validation labels."""
    nodes = trainer.task.validation
    scores, labels = trainer.best_scores(nodes).numpy(), trainer.task.labels[nodes].numpy()
    target = trainer.task.target
    node_scores, node_losses = target.node_scores(scores, labels), target.node_losses(scores, labels)
    return CandidateScore(target.score(scores, labels), node_scores, node_losses)


def is_better(candidate: CandidateScore, incumbent: CandidateScore, margin: float = 1.0) -> bool:
    """Return whether a candidate is better than another by `margin` standard errors.

    Its accuracy is higher by more than `margin` standard errors of the paired difference, or it is not lower and the
    log loss is lower by more than twice as many standard errors.
    """
    gain, error = candidate.accuracy_gain(incumbent)
    if gain > margin * error:
        return True
    loss_gain, error = candidate.log_loss_gain(incumbent)
    return gain >= 0 and loss_gain > 2 * margin * error


def ties_with_best(scores: Mapping[_Key, CandidateScore], margin: float = 1.0) -> list[_Key]:
    """Return the keys of the most accurate candidate and of those that tie with it: it is not better than they are."""
    best, *others = sorted(scores, key=lambda name: scores[name].rank, reverse=True)
    return [best, *(name for name in others if not is_better(scores[best], scores[name], margin))]


class CandidateEvaluator:
    """Trains and scores candidates within a budget of work; what several of them need is computed once.

    `train` does training runs, which are independent of each other; by default one after the other, and saves nothing.
    `trainers`, which take memory, and `scores` are by weighting, classifier and label propagation.
    """

    def __init__(
        self,
        task: Task,
        data: EncoderData,
        settings: EncoderSettings,
        class_weights: Tensor | None = None,
        train: TrainFunction | None = None,
    ) -> None:
        self.task, self.data, self.class_weights = task, data, class_weights
        self._train = train if train is not None else _run_in_turn
        self.trainers: dict[CandidateKey, PathTrainer] = {}
        self.scores: dict[CandidateKey, CandidateScore] = {}
        self._label_scores: dict[str, Tensor] = {}
        self._propagations: dict[str, Propagation] = {}
        self._propagated_inputs: dict[str, Tensor] = {}
        self._labeled_inputs: dict[str, Tensor] = {}
        self.work = Work(settings, _problem_size(task, data))
        self.budget = self.work.search_budget()

    @property
    def settings(self) -> EncoderSettings:
        """The settings of the encoder."""
        return self.work.settings

    def evaluate(self, weighting: NamedWeighting, classifier: str, label_propagation: bool) -> CandidateScore:
        """Train for `evaluate_after` epochs and return the scores on the validation labels."""
        return self.evaluate_all([(weighting, classifier, label_propagation)])[0]

    def evaluate_all(self, candidates: Sequence[tuple[NamedWeighting, str, bool]]) -> list[CandidateScore]:
        """Return the scores of several candidates, which may be trained at the same time."""
        return self.evaluate_beside(candidates, ())[0]

    def evaluate_beside(
        self, candidates: Sequence[tuple[NamedWeighting, str, bool]], tasks: Sequence[ParallelTask]
    ) -> tuple[list[CandidateScore], list[Any]]:
        """Return the scores of several candidates, and the results of other tasks that may run at the same time."""
        keys = [CandidateKey(weighting.name, *others) for weighting, *others in candidates]  # type: ignore[arg-type]
        trainings = {}
        for key, candidate in zip(keys, candidates, strict=True):
            if key not in self.scores and key not in trainings:
                self.budget -= self.work.evaluation(key.classifier)
                trainer = self.trainer(*candidate, self.settings.seed, "compare")
                epochs = self.work.spec(key.classifier).evaluate_after
                trainings[key] = Training(trainer, _checkpoint("compare", *key), epochs)
        runs, count, results = list(trainings.values()), self.max_at_once, []
        if tasks and count == 1:  # for lack of memory
            results, tasks = _run_in_turn((), tasks), ()
        for first in range(0, max(len(runs), 1), count):
            results += self._train(runs[first : first + count], tasks if first == 0 else ())
        for key, training in trainings.items():
            self.trainers[key], self.scores[key] = training.trainer, score_candidate(training.trainer)
        return [self.scores[key] for key in keys], results

    @property
    def max_at_once(self) -> int:
        """How many candidates are trained at a time, which takes memory; it depends on the size of the graph alone."""
        numbers = self.data.graph.num_nodes * (4 * self.settings.dim + self.work.size.columns)
        return max(1, int(_NUMBERS_AT_ONCE / max(numbers, 1)))

    def gains(self, score: CandidateScore, other: CandidateScore | None) -> tuple[Any, ...]:
        """Return the gains of a candidate over another in accuracy and log loss, and which that is; None without."""
        if other is None:
            return (None,) * 5
        *names, with_propagation = next(key for key, value in self.scores.items() if value is other)
        compared_with = ", ".join([*names, *["label propagation"] * with_propagation])
        return *score.accuracy_gain(other), *score.log_loss_gain(other), compared_with

    def release(self, name: str) -> None:
        """Drop the trained models of a weighting that was not selected; their scores are kept."""
        self.trainers = {key: trainer for key, trainer in self.trainers.items() if key.weighting != name}
        for cache in (self._propagations, self._label_scores, self._propagated_inputs, self._labeled_inputs):
            cache.pop(name, None)
        self.data.closed_walks.pop(name, None)

    def release_others(self, names: set[str], label_propagation: bool) -> None:
        """Drop all trained models but those of some weightings, with or without label propagation."""
        self.trainers = {
            key: trainer for key, trainer in self.trainers.items() if key.label_propagation == label_propagation
        }
        for other in {*self._propagations, *(key.weighting for key in self.trainers)} - names:
            self.release(other)

    def trainer(
        self, weighting: NamedWeighting, classifier: str, label_propagation: bool, seed: int, stage: str
    ) -> PathTrainer:
        """Return a trainer of a classifier before its first epoch."""
        spec = self.work.spec(classifier, seed)
        model = make_classifier(classifier, self.data, self.settings.dim, self.task.classes, seed)
        given: dict[str, Any] = {"label_scores": self.label_scores(weighting) if label_propagation else None}
        given |= {"class_weights": self.class_weights, "stage": stage}
        if spec.convex:
            return LogisticTrainer(self.task, self._rows(weighting, spec), model, **given)
        once = self.work.epoch_nodes(classifier) > 0
        return ClassifierTrainer(
            self.task,
            self.data.tensor_inputs(spec.row_norm),
            self._propagation(weighting),
            model,
            spec.settings,
            consistency_nodes=torch.from_numpy(np.flatnonzero(self.data.has_inputs)),
            propagated_inputs=self._propagate_inputs(weighting, spec) if once else None,
            n_jobs=self.data.n_jobs,
            **given,
        )

    def _propagation(self, weighting: NamedWeighting) -> Propagation:
        if weighting.name not in self._propagations:
            self._propagations[weighting.name] = weighting.training_propagation(self.data)
        return self._propagations[weighting.name]

    def _propagate_inputs(self, weighting: NamedWeighting, spec: ClassifierSpec) -> Tensor:
        """Return the propagated inputs of all nodes, dense, `(n, f)`."""
        if weighting.name not in self._propagated_inputs:
            inputs: Any = self.data.tensor_inputs(spec.row_norm)
            with torch.no_grad():
                self._propagated_inputs[weighting.name] = self._propagation(weighting)(inputs)
        return self._propagated_inputs[weighting.name]

    def _rows(self, weighting: NamedWeighting, spec: ClassifierSpec) -> Tensor:
        """Return the propagated inputs of training and validation nodes, `(k, f)`."""
        if weighting.name not in self._labeled_inputs:
            inputs, nodes = self.data.inputs(spec.row_norm), torch.cat([self.task.train, self.task.validation])
            with torch.no_grad():
                dense, propagation = map(torch.from_numpy, column_blocks(inputs)), self._propagation(weighting)
                blocks = [propagate_rows(propagation, block, nodes) for block in dense]
            self._labeled_inputs[weighting.name] = torch.cat(blocks, dim=1)
        rows = self._labeled_inputs[weighting.name]
        return functional.normalize(rows, dim=1) if spec.unit_rows else rows

    def label_scores(self, weighting: NamedWeighting) -> Tensor:
        """Return the propagated training labels as classifiers are trained on them, `(n, c)`.

        The only training label of a class receives no label of that class, leave-one-out, so its scores would always be
        wrong; they are set to 0, in multilabel tasks those of that class.
        """
        if weighting.name not in self._label_scores:
            train, target = self.task.train.numpy(), self.task.target
            matrix = target.matrix(self.task.labels.numpy()[train])
            scores = weighting.propagate_labels(self.data, train, matrix, target)
            scores[train] *= target.informative(matrix)
            self._label_scores[weighting.name] = torch.from_numpy(scores)
        return self._label_scores[weighting.name]


def _run_in_turn(trainings: Sequence[Training], tasks: Sequence[ParallelTask]) -> list[Any]:
    for training in trainings:
        training.trainer.run(training.last_epoch)
    return run_side_by_side(tasks, 1)


def _checkpoint(stage: str, weighting: str, classifier: str, label_propagation: bool) -> str:
    labels = "labels" if label_propagation else "plain"
    return "-".join([stage, *re.findall(r"\w+", weighting), classifier, labels])


def _problem_size(task: Task, data: EncoderData) -> ProblemSize:
    inputs, labeled = data.inputs("l2"), len(task.train) + len(task.validation)
    if isinstance(inputs, SparseFeatures):
        entries, columns = int(inputs.csr.nnz), 0
    else:
        entries, columns = inputs.size // DENSE, int(inputs.shape[1])
    return ProblemSize(len(data.transitions), entries, columns, labeled, task.classes, data.input_dim)
