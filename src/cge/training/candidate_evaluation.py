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
from cge.targets import Task
from cge.training.classifier_registry import CLASSIFIERS, ClassifierSpec, make_classifier
from cge.training.classifier_training import ClassifierTrainer
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings, ProblemSize, Work
from cge.training.logistic_training import LogisticTrainer
from cge.training.named_weighting import NamedWeighting
from cge.training.parallel_tasks import ParallelTask, run_parallel
from cge.training.path_trainer import PathTrainer
from cge.training.selection import mean_and_error
from cge.training.stored_state import TrainerState

# Limit on the total number of floats that candidates trained in parallel hold (projected and propagated inputs).
_MAX_FLOATS = 1e8
_Key = TypeVar("_Key")


class Training(NamedTuple):
    """A training run up to `last_epoch`, or until it stops, and the name of its checkpoint."""

    trainer: PathTrainer
    checkpoint: str
    last_epoch: int | None = None


ClassScores = Callable[[PathTrainer], Array]  # of validation nodes, with the prior correction that the model would get
TrainFunction = Callable[[Sequence[Training], Sequence[ParallelTask]], list[Any]]  # returns the results of the tasks


class CandidateKey(NamedTuple):
    """What identifies a candidate."""

    weighting: str
    classifier: str
    label_propagation: bool


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """Scores on the validation labels.

    `accuracy` is the target's validation score; `correct` and `log_losses`, `(k,)`, are its scores and losses per node
    (0 or 1 and log loss; multilabel: precision among as many top classes as the node has labels; `scoring`: what a
    node adds to macro-F1; regression: −squared and absolute error). Log losses are those after temperature scaling,
    with the temperature that is best for the candidate, because the final model is calibrated, too.
    """

    accuracy: float
    correct: Array
    log_losses: Array

    @property
    def rank(self) -> tuple[float, float]:
        """The accuracy and, to compare candidates of equal accuracy, −log loss."""
        return self.accuracy, -float(self.log_losses.mean())

    def accuracy_gain(self, other: CandidateScore) -> tuple[float, float]:
        """Return the gain in accuracy over another candidate, and its standard error."""
        return mean_and_error(self.correct - other.correct)

    def log_loss_gain(self, other: CandidateScore) -> tuple[float, float]:
        """Return by how much the log loss is lower than that of another candidate, and its standard error."""
        return mean_and_error(other.log_losses - self.log_losses)


def validation_scores(trainer: PathTrainer) -> Array:
    """Return the class scores of a trainer's best epoch for its validation nodes, `(k, c)`."""
    return trainer.best_scores(trainer.task.validation).numpy()


def score_candidate(trainer: PathTrainer, class_scores: ClassScores = validation_scores) -> CandidateScore:
    """Return the scores of a trainer's best epoch on its validation labels.

    `class_scores` may apply the prior correction.
    """
    scores, labels = class_scores(trainer), trainer.task.labels[trainer.task.validation].numpy()
    target = trainer.task.target
    node_scores, node_losses = target.node_scores(scores, labels), target.node_losses(scores, labels)
    return CandidateScore(target.score(scores, labels), node_scores, node_losses)


def is_better(candidate: CandidateScore, other: CandidateScore, margin: float = 1.0) -> bool:
    """Return whether a candidate is better than another by `margin` standard errors.

    Its accuracy is higher by more than `margin` standard errors of the paired difference, or it is not lower and the
    log loss is lower by more than twice as many standard errors.
    """
    gain, error = candidate.accuracy_gain(other)
    if gain > margin * error:
        return True
    loss_gain, error = candidate.log_loss_gain(other)
    return gain >= 0 and loss_gain > 2 * margin * error


def ties_with_best(scores: Mapping[_Key, CandidateScore], margin: float = 1.0) -> list[_Key]:
    """Return the keys of the most accurate candidate and of those that tie with it.

    It ties with those that it does not beat by `margin` standard errors.
    """
    best, *others = sorted(scores, key=lambda name: scores[name].rank, reverse=True)
    return [best, *(name for name in others if not is_better(scores[best], scores[name], margin))]


class CandidateEvaluator:
    """Trains and scores candidates within a budget of work; what several of them need is computed once.

    `train` runs independent trainings; the default runs them one after the other and writes no checkpoints. Candidates
    are compared by their `class_scores`. `trainers` (large) and `scores` are keyed by `CandidateKey`.
    """

    def __init__(
        self,
        task: Task,
        data: EncoderData,
        settings: EncoderSettings,
        class_weights: Tensor | None = None,
        train: TrainFunction | None = None,
        class_scores: ClassScores = validation_scores,
    ) -> None:
        self.task, self.data, self.class_weights = task, data, class_weights
        self.class_scores = class_scores
        self._train = train if train is not None else _run_sequentially
        self.trainers: dict[CandidateKey, PathTrainer] = {}
        self.scores: dict[CandidateKey, CandidateScore] = {}
        self._label_scores: dict[str, Tensor] = {}
        self._propagations: dict[str, Propagation] = {}
        self._propagated_inputs: dict[str, Tensor] = {}
        self._labeled_inputs: dict[str, Tensor] = {}
        self._starts: dict[CandidateKey, TrainerState] = {}
        self._continued: set[CandidateKey] = set()  # candidates that continue the training under another weighting
        n_labeled = len(task.train) + len(task.validation)
        self.work = Work(settings, ProblemSize.of(data.size, n_labeled, task.classes))
        self.budget = self.work.search_budget()

    @property
    def settings(self) -> EncoderSettings:
        """The settings of the encoder."""
        return self.work.settings

    def evaluate(self, weighting: NamedWeighting, classifier: str, label_propagation: bool) -> CandidateScore:
        """Train for `evaluate_after` epochs and return the scores on the validation labels."""
        return self.evaluate_all([(weighting, classifier, label_propagation)])[0]

    def evaluate_all(
        self, candidates: Sequence[tuple[NamedWeighting, str, bool]], reference: str = ""
    ) -> list[CandidateScore]:
        """Return the scores of several candidates, which may be trained at the same time."""
        return self.evaluate_with_tasks(candidates, (), reference)[0]

    def evaluate_with_tasks(
        self,
        candidates: Sequence[tuple[NamedWeighting, str, bool]],
        tasks: Sequence[ParallelTask],
        reference: str = "",
    ) -> tuple[list[CandidateScore], list[Any]]:
        """Return the scores of several candidates, and the results of other tasks that may run at the same time.

        A candidate whose classifier was trained with the weighting `reference` continues that training, which then gets
        as many further epochs, and a new score; so does a classifier that refines another one.
        """
        keys = [CandidateKey(weighting.name, *others) for weighting, *others in candidates]  # type: ignore[arg-type]
        trainings: dict[CandidateKey, Training] = {}
        for key, candidate in zip(keys, candidates, strict=True):
            if key not in self.scores and key not in trainings:
                trainer, start = self.trainer(*candidate, self.settings.seed, "compare"), self._start(key, reference)
                epochs = self.work.spec(key.classifier).evaluate_after
                if start is not None:
                    trainings |= self._continue(start)
                    trainer.continue_from(self._starts[start])
                    if start.weighting != key.weighting:
                        self._continued.add(key)
                    epochs = len(trainer.epochs) + self.work.continued_epochs(key.classifier)
                self.budget -= self.work.evaluation(key.classifier, continued=start is not None)
                trainings[key] = Training(trainer, _checkpoint("compare", *key), epochs)
        runs, count, results = list(trainings.values()), self.max_parallel, []
        if tasks and count == 1:  # for lack of memory
            results, tasks = _run_sequentially((), tasks), ()
        for first in range(0, max(len(runs), 1), count):
            results += self._train(runs[first : first + count], tasks if first == 0 else ())
        for key, training in trainings.items():
            self.trainers[key] = training.trainer
            self.scores[key] = score_candidate(training.trainer, self.class_scores)
        return [self.scores[key] for key in keys], results

    def forget_continued(self, weighting: str) -> None:
        """Forget the candidates of a weighting that continued the training under another one.

        The next evaluation trains them from scratch.
        """
        for key in [key for key in self._continued if key.weighting == weighting]:
            self._continued.remove(key)
            for stored in (self.scores, self.trainers, self._starts):
                stored.pop(key, None)

    def _start(self, key: CandidateKey, reference: str) -> CandidateKey | None:
        """Return the candidate whose training another one continues; None: it is trained anew."""
        if not self.work.continued_epochs(key.classifier):
            return None
        spec = self.work.spec(key.classifier)
        starts = [] if spec.refines is None else [key._replace(classifier=spec.refines)]
        if not starts or CLASSIFIERS[starts[0].classifier].make is not spec.make:
            starts = [key._replace(weighting=reference)]
        known = (start for start in starts if start != key and (start in self._starts or start in self.trainers))
        return next(known, None)

    def _continue(self, start: CandidateKey) -> dict[CandidateKey, Training]:
        """Keep the state of a candidate, and return its further training if it has not been continued before."""
        if start in self._starts:
            return {}
        trainer = self.trainers[start]
        self._starts[start] = trainer.state()
        self.budget -= self.work.evaluation(start.classifier, continued=True)
        epochs = len(trainer.epochs) + self.work.continued_epochs(start.classifier)
        return {start: Training(trainer, _checkpoint("continue", *start), epochs)}

    @property
    def max_parallel(self) -> int:
        """How many candidates are trained in parallel.

        It limits their memory, and depends on the graph, its inputs and `dim`, not on the machine.
        """
        numbers = self.data.graph.num_nodes * (4 * self.settings.dim + self.work.size.columns)
        return max(1, int(_MAX_FLOATS / max(numbers, 1)))

    def gains(self, score: CandidateScore, other: CandidateScore | None) -> tuple[Any, ...]:
        """Return the gains over `other` in accuracy and log loss with their standard errors, and the name of `other`.

        If `other` is None, all five values are None.
        """
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
        self._starts.clear()
        for other in {*self._propagations, *(key.weighting for key in self.trainers)} - names:
            self.release(other)

    def trainer(
        self, weighting: NamedWeighting, classifier: str, label_propagation: bool, seed: int, stage: str
    ) -> PathTrainer:
        """Return a trainer of a classifier before its first epoch."""
        spec = self.work.spec(classifier, seed)
        model = make_classifier(classifier, self.data, self.settings.dim, self.task.classes, seed)
        trainer_options: dict[str, Any] = {"label_scores": self.label_scores(weighting) if label_propagation else None}
        trainer_options |= {"class_weights": self.class_weights, "stage": stage}
        if spec.convex:
            return LogisticTrainer(self.task, self._rows(weighting, spec), model, **trainer_options)
        propagate_once = self.work.epoch_nodes(classifier) > 0
        return ClassifierTrainer(
            self.task,
            self.data.tensor_inputs(spec.row_norm),
            self._propagation(weighting),
            model,
            spec.settings,
            consistency_nodes=torch.from_numpy(np.flatnonzero(self.data.has_inputs)),
            propagated_inputs=self._propagate_inputs(weighting, spec) if propagate_once else None,
            n_jobs=self.data.n_jobs,
            **trainer_options,
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
        """Return the propagated training labels as classifiers are trained on them, `(n, c)`."""
        if weighting.name not in self._label_scores:
            train, target = self.task.train.numpy(), self.task.target
            matrix = target.matrix(self.task.labels.numpy()[train])
            scores = weighting.propagate_labels(self.data, train, matrix, target)
            self._label_scores[weighting.name] = torch.from_numpy(scores)
        return self._label_scores[weighting.name]


def _run_sequentially(trainings: Sequence[Training], tasks: Sequence[ParallelTask]) -> list[Any]:
    for training in trainings:
        training.trainer.run(training.last_epoch)
    return run_parallel(tasks, 1)


def _checkpoint(stage: str, weighting: str, classifier: str, label_propagation: bool) -> str:
    labels = "labels" if label_propagation else "plain"
    return "-".join([stage, *re.findall(r"\w+", weighting), classifier, labels])
