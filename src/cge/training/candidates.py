"""Trials of weights and readers: short trainings that the selection labels judge, and the work left for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.training.classifier_recipes import DENSE, ClassifierRecipe, EncoderSettings, ProblemSize, make_classifier
from cge.training.classifier_training import ClassifierTrainer, Propagation
from cge.training.encoder_data import EncoderData, NamedWeighting
from cge.training.model_comparison import CandidateScore, score_candidate
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

    weights: str
    classifier: str
    accuracy: float
    gain: float | None
    error: float | None
    saved: float | None
    saved_error: float | None


class CandidateTraining:
    """Trainings of readers with some weights; what several of them need is made once.

    `train(trainer, stage, epochs)` trains up to an epoch, under a name for what it keeps on disk; by default it keeps
    nothing. `begun` are the trainings that were begun, by weights, reader and votes; those of weights that lost are
    let go, for each holds a reader, its gradients and what its optimizer keeps. `uses_label_propagation` says whether labels vote
    where a trial does not, `left` how many products may still be spent on trials; `compared` is what came of them.
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
        self.begun: dict[tuple[str, str, bool], ClassifierTrainer] = {}
        self.judged: dict[tuple[str, str, bool], CandidateScore] = {}
        self.compared: list[SearchResult] = []
        self._propagated: dict[str, Tensor] = {}
        self._poolings: dict[str, Propagation] = {}
        self._sums: dict[str, Tensor] = {}
        self.uses_label_propagation = False
        inputs, labeled = data.inputs("l2"), len(task.train) + len(task.validation)
        if isinstance(inputs, Tensor):
            entries, columns = inputs.numel() // DENSE, inputs.shape[1]
        else:
            entries, columns = inputs.rows.nnz, 0
        self.problem_size = ProblemSize(len(data.steps), entries, columns, labeled, task.classes)
        self.left = settings.search(self.problem_size)

    def evaluate_candidate(self, weights: NamedWeighting, classifier: str, votes: bool | None = None) -> CandidateScore:
        """Train for the first epochs and ask the selection labels; labels vote as it stands where nothing is said."""
        votes = self.uses_label_propagation if votes is None else votes
        key = (weights.name, classifier, votes)
        if key not in self.judged:
            self.left -= self.settings.evaluation_cost(classifier, self.problem_size)
            self.begun[key] = self.trainer(weights, classifier, votes, self.settings.seed, "compare")
            stage = "-".join(["compare", *re.findall(r"\w+", weights.name), classifier, "votes" if votes else "alone"])
            self._train(self.begun[key], stage, self._recipe(classifier, self.settings.seed).evaluate_after)
            self.judged[key] = score_candidate(self.begun[key])
        return self.judged[key]

    def within_budget(self, classifiers: tuple[str, ...], more: float = 0.0) -> bool:
        """Say whether there is work left for judging weights with some readers, and for `more` products."""
        return more + self.evaluation_cost(classifiers) <= self.left

    def evaluation_cost(self, classifiers: tuple[str, ...]) -> float:
        """Return the products in judging weights with some readers."""
        return sum(self.settings.evaluation_cost(classifier, self.problem_size) for classifier in classifiers)

    def release(self, name: str) -> None:
        """Forget the trainings with weights that lost; how they did is still known."""
        self.begun = {key: one for key, one in self.begun.items() if key[0] != name}
        for kept in (self._poolings, self._propagated, self._sums):
            kept.pop(name, None)
        self.data.returns.pop(name, None)

    def keep(self, name: str) -> None:
        """Forget all trainings but those with the weights of a name, and with votes as it stands."""
        self.begun = {key: one for key, one in self.begun.items() if key[2] == self.uses_label_propagation}
        for other in {*self._poolings, *(key[0] for key in self.begun)} - {name}:
            self.release(other)

    # ------------------------------------------------------------------ trainings

    def _recipe(self, classifier: str, seed: int) -> ClassifierRecipe:
        """Return how a reader is trained on this graph."""
        return self.settings.recipe(classifier, seed, self._width(classifier))

    def _width(self, classifier: str) -> int:
        """Return the products in a pass of a reader over this graph."""
        return self.settings.products(classifier, self.problem_size)

    def trainer(
        self, weights: NamedWeighting, classifier: str, votes: bool, seed: int, stage: str
    ) -> ClassifierTrainer:
        """Return a training of a reader that has not begun."""
        recipe = self._recipe(classifier, seed)
        return ClassifierTrainer(
            self.task,
            self.data.inputs(recipe.rows),
            self._pooling(weights),
            make_classifier(classifier, self.data, self.settings.dim, self.task.classes, seed),
            recipe.settings,
            votes=self.votes(weights) if votes else None,
            class_weights=self.class_weights,
            agreeing=torch.from_numpy(np.flatnonzero(self.data.has_inputs)),
            summed=self._summed(weights, recipe) if self.settings.rows(classifier, self.problem_size) else None,
            stage=stage,
            n_jobs=self.data.n_jobs,
        )

    def _pooling(self, weights: NamedWeighting) -> Propagation:
        """Return the pooling of some weights, which all their readers share."""
        if weights.name not in self._poolings:
            self._poolings[weights.name] = weights.propagation(self.data)
        return self._poolings[weights.name]

    def _summed(self, weights: NamedWeighting, recipe: ClassifierRecipe) -> Tensor:
        """Return what the paths of some weights bring to each node, dense, `(n, f)`."""
        if weights.name not in self._sums:
            inputs: Any = self.data.inputs(recipe.rows)
            with torch.no_grad():
                self._sums[weights.name] = self._pooling(weights)(inputs)
        return self._sums[weights.name]

    def votes(self, weights: NamedWeighting) -> Tensor:
        """Return the votes of the training labels, `(n, c)`, as they are trained on.

        About a label that is alone in its class others can only be wrong: its node is trained without votes, or with
        several labels per node that class of it.
        """
        if weights.name not in self._propagated:
            train = self.task.train.numpy()
            labels = self.task.labels.numpy()[train]
            members = np.eye(self.task.classes)[labels] if labels.ndim == 1 else labels
            found = weights.votes(self.data, train, members, labels.ndim == 2)
            alone = members * (members.sum(axis=0) == 1) > 0  # (k, c)
            found[train] *= ~(alone if labels.ndim == 2 else alone.any(axis=1, keepdims=True))
            self._propagated[weights.name] = torch.from_numpy(found)
        return self._propagated[weights.name]
