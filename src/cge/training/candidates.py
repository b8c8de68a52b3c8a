"""Trials of weights and readers: short trainings that the selection labels judge, and the work left for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.models.propagation import Propagation
from cge.training.classifier_recipes import DENSE, ClassifierRecipe, EncoderSettings, ProblemSize, make_classifier
from cge.training.classifier_training import ClassifierTrainer
from cge.training.encoder_data import EncoderData
from cge.training.model_comparison import CandidateScore, score_candidate
from cge.training.named_weighting import NamedWeighting
from cge.training.task import Task

__all__ = ["CandidateTraining", "SearchResult"]


def _run(trainer: ClassifierTrainer, _: str, epochs: int) -> None:
    trainer.run(epochs)


@dataclass(frozen=True)
class SearchResult:
    """A candidate that the selection labels judged: what, read how, its accuracy, its gain over what it challenged.

    `saved` is by how much less the labels surprised it. `gain`, `saved` and their standard errors are None for a
    candidate that challenged none.
    """

    weighting: str
    classifier: str
    label_propagation: bool
    accuracy: float
    accuracy_gain: float | None
    accuracy_gain_error: float | None
    log_loss_gain: float | None
    log_loss_gain_error: float | None


class CandidateTraining:
    """Trainings of readers with some weights; what several of them need is made once.

    `train(trainer, stage, epochs)` trains up to an epoch, under a name for what it keeps on disk; by default it keeps
    nothing. `begun` are the trainings that were begun, by weights, reader and votes; those of weights that lost are
    let go, for each holds a reader, its gradients and what its optimizer keeps. `label_propagation` says whether labels
    vote where a trial does not, `budget` how many products may still be spent on trials; `compared` is what came of them.
    """

    def __init__(
        self,
        task: Task,
        data: EncoderData,
        settings: EncoderSettings,
        class_weights: Tensor | None = None,
        train: Callable[[ClassifierTrainer, str, int], None] | None = None,
    ) -> None:
        self.task, self.data, self.settings = task, data, settings
        self.class_weights, self._train = class_weights, _run if train is None else train
        self.trainers: dict[tuple[str, str, bool], ClassifierTrainer] = {}
        self.scores: dict[tuple[str, str, bool], CandidateScore] = {}
        self.results: list[SearchResult] = []
        self._label_scores: dict[str, Tensor] = {}
        self._propagations: dict[str, Propagation] = {}
        self._propagated_inputs: dict[str, Tensor] = {}
        self.label_propagation = False
        inputs, labeled = data.inputs("l2"), len(task.train) + len(task.validation)
        if isinstance(inputs, Tensor):
            entries, columns = inputs.numel() // DENSE, inputs.shape[1]
        else:
            entries, columns = inputs.rows.nnz, 0
        self.problem_size = ProblemSize(len(data.transitions), entries, columns, labeled, task.classes)
        self.budget = settings.search(self.problem_size)

    def evaluate_candidate(
        self, weights: NamedWeighting, classifier: str, label_propagation: bool | None = None
    ) -> CandidateScore:
        """Train for the first epochs and ask the selection labels; labels vote as it stands where nothing is said."""
        if label_propagation is None:
            label_propagation = self.label_propagation
        key = (weights.name, classifier, label_propagation)
        if key not in self.scores:
            self.budget -= self.settings.evaluation_cost(classifier, self.problem_size)
            self.trainers[key] = self.trainer(weights, classifier, label_propagation, self.settings.seed, "compare")
            stage = "-".join(
                ["compare", *re.findall(r"\w+", weights.name), classifier, "labels" if label_propagation else "plain"]
            )
            self._train(self.trainers[key], stage, self._recipe(classifier, self.settings.seed).evaluate_after)
            self.scores[key] = score_candidate(self.trainers[key])
        return self.scores[key]

    def within_budget(self, classifiers: tuple[str, ...], more: float = 0.0) -> bool:
        """Say whether there is work left for judging weights with some readers, and for `more` products."""
        return more + self.evaluation_cost(classifiers) <= self.budget

    def evaluation_cost(self, classifiers: tuple[str, ...]) -> float:
        """Return the products in judging weights with some readers."""
        return sum(self.settings.evaluation_cost(classifier, self.problem_size) for classifier in classifiers)

    def release(self, name: str) -> None:
        """Forget the trainings with weights that lost; how they did is still known."""
        self.trainers = {key: one for key, one in self.trainers.items() if key[0] != name}
        for kept in (self._propagations, self._label_scores, self._propagated_inputs):
            kept.pop(name, None)
        self.data.closed_walks.pop(name, None)

    def keep(self, name: str) -> None:
        """Forget all trainings but those with the weights of a name, and with votes as it stands."""
        self.trainers = {key: one for key, one in self.trainers.items() if key[2] == self.label_propagation}
        for other in {*self._propagations, *(key[0] for key in self.trainers)} - {name}:
            self.release(other)

    # ------------------------------------------------------------------ trainings

    def _recipe(self, classifier: str, seed: int) -> ClassifierRecipe:
        """Return how a reader is trained on this graph."""
        return self.settings.recipe(classifier, seed, self._width(classifier))

    def _width(self, classifier: str) -> int:
        """Return the products in a pass of a reader over this graph."""
        return self.settings.products(classifier, self.problem_size)

    def trainer(
        self, weights: NamedWeighting, classifier: str, label_propagation: bool, seed: int, stage: str
    ) -> ClassifierTrainer:
        """Return a training of a reader that has not begun."""
        recipe = self._recipe(classifier, seed)
        once = self.settings.rows(classifier, self.problem_size) > 0
        propagated = self._propagate_inputs(weights, recipe) if once else None
        return ClassifierTrainer(
            self.task,
            self.data.inputs(recipe.rows),
            self._propagation(weights),
            make_classifier(classifier, self.data, self.settings.dim, self.task.classes, seed),
            recipe.settings,
            label_scores=self.label_scores(weights) if label_propagation else None,
            class_weights=self.class_weights,
            consistency_nodes=torch.from_numpy(np.flatnonzero(self.data.has_inputs)),
            propagated_inputs=propagated,
            stage=stage,
            n_jobs=self.data.n_jobs,
        )

    def _propagation(self, weights: NamedWeighting) -> Propagation:
        """Return the pooling of some weights, which all their readers share."""
        if weights.name not in self._propagations:
            self._propagations[weights.name] = weights.propagation(self.data)
        return self._propagations[weights.name]

    def _propagate_inputs(self, weights: NamedWeighting, recipe: ClassifierRecipe) -> Tensor:
        """Return what the paths of some weights bring to each node, dense, `(n, f)`."""
        if weights.name not in self._propagated_inputs:
            inputs: Any = self.data.inputs(recipe.rows)
            with torch.no_grad():
                self._propagated_inputs[weights.name] = self._propagation(weights)(inputs)
        return self._propagated_inputs[weights.name]

    def label_scores(self, weights: NamedWeighting) -> Tensor:
        """Return the votes of the training labels, `(n, c)`, as they are trained on.

        About a label that is alone in its class others can only be wrong: its node is trained without votes, or with
        several labels per node that class of it.
        """
        if weights.name not in self._label_scores:
            train = self.task.train.numpy()
            labels = self.task.labels.numpy()[train]
            target = self.task.target
            matrix = target.matrix(labels)
            scores = weights.propagate_labels(self.data, train, matrix, target)
            scores[train] *= target.informative(matrix)
            self._label_scores[weights.name] = torch.from_numpy(scores)
        return self._label_scores[weights.name]
