"""Trials of weights and readers: short trainings that the selection labels judge, and the work left for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.training.consistency import ConsistencyTrainer, Pooling
from cge.training.guard import Screened, screened
from cge.training.path_data import PathData, PathWeights
from cge.training.recipes import DENSE, Extent, PathSettings, Recipe, make_reader
from cge.training.settings import Task

__all__ = ["Compared", "Trials"]


def _run(trainer: ConsistencyTrainer, _: str, epochs: int) -> None:
    trainer.run(epochs)


@dataclass(frozen=True)
class Compared:
    """A candidate that the selection labels judged: what, read how, its accuracy, its gain over what it challenged.

    `saved` is by how much less the labels surprised it. `gain`, `saved` and their standard errors are None for a
    candidate that challenged none.
    """

    weights: str
    reader: str
    accuracy: float
    gain: float | None
    error: float | None
    saved: float | None
    saved_error: float | None


class Trials:
    """Trainings of readers with some weights; what several of them need is made once.

    `train(trainer, stage, epochs)` trains up to an epoch, under a name for what it keeps on disk; by default it keeps
    nothing. `begun` are the trainings that were begun, by weights, reader and votes; those of weights that lost are
    let go, for each holds a reader, its gradients and what its optimizer keeps. `voting` says whether labels vote
    where a trial does not, `left` how many products may still be spent on trials; `compared` is what came of them.
    """

    def __init__(
        self,
        task: Task,
        data: PathData,
        settings: PathSettings,
        class_weights: Tensor | None = None,
        train: Callable[[ConsistencyTrainer, str, int], None] | None = None,
    ) -> None:
        self.task, self.data, self.settings = task, data, settings
        self.class_weights, self._train = class_weights, _run if train is None else train
        self.begun: dict[tuple[str, str, bool], ConsistencyTrainer] = {}
        self.judged: dict[tuple[str, str, bool], Screened] = {}
        self.compared: list[Compared] = []
        self._votes: dict[str, Tensor] = {}
        self._poolings: dict[str, Pooling] = {}
        self._sums: dict[str, Tensor] = {}
        self.voting = False
        payload, labeled = data.payload("l2"), len(task.train) + len(task.validation)
        if isinstance(payload, Tensor):
            entries, columns = payload.numel() // DENSE, payload.shape[1]
        else:
            entries, columns = payload.rows.nnz, 0
        self.extent = Extent(len(data.steps), entries, columns, labeled, task.classes)
        self.left = settings.search(self.extent)

    def judge(self, weights: PathWeights, reader: str, votes: bool | None = None) -> Screened:
        """Train for the first epochs and ask the selection labels; labels vote as it stands where nothing is said."""
        votes = self.voting if votes is None else votes
        key = (weights.name, reader, votes)
        if key not in self.judged:
            self.left -= self.settings.judging(reader, self.extent)
            self.begun[key] = self.trainer(weights, reader, votes, self.settings.seed, "compare")
            stage = "-".join(["compare", *re.findall(r"\w+", weights.name), reader, "votes" if votes else "alone"])
            self._train(self.begun[key], stage, self._recipe(reader, self.settings.seed).judged_after)
            self.judged[key] = screened(self.begun[key])
        return self.judged[key]

    def affords(self, readers: tuple[str, ...], more: float = 0.0) -> bool:
        """Say whether there is work left for judging weights with some readers, and for `more` products."""
        return more + self.judging(readers) <= self.left

    def judging(self, readers: tuple[str, ...]) -> float:
        """Return the products in judging weights with some readers."""
        return sum(self.settings.judging(reader, self.extent) for reader in readers)

    def let_go(self, name: str) -> None:
        """Forget the trainings with weights that lost; how they did is still known."""
        self.begun = {key: one for key, one in self.begun.items() if key[0] != name}
        for kept in (self._poolings, self._votes, self._sums):
            kept.pop(name, None)
        self.data.returns.pop(name, None)

    def keep(self, name: str) -> None:
        """Forget all trainings but those with the weights of a name, and with votes as it stands."""
        self.begun = {key: one for key, one in self.begun.items() if key[2] == self.voting}
        for other in {*self._poolings, *(key[0] for key in self.begun)} - {name}:
            self.let_go(other)

    # ------------------------------------------------------------------ trainings

    def _recipe(self, reader: str, seed: int) -> Recipe:
        """Return how a reader is trained on this graph."""
        return self.settings.recipe(reader, seed, self._width(reader))

    def _width(self, reader: str) -> int:
        """Return the products in a pass of a reader over this graph."""
        return self.settings.products(reader, self.extent)

    def trainer(self, weights: PathWeights, reader: str, votes: bool, seed: int, stage: str) -> ConsistencyTrainer:
        """Return a training of a reader that has not begun."""
        recipe = self._recipe(reader, seed)
        return ConsistencyTrainer(
            self.task,
            self.data.payload(recipe.rows),
            self._pooling(weights),
            make_reader(reader, self.data, self.settings.dim, self.task.classes, seed),
            recipe.settings,
            votes=self.votes(weights) if votes else None,
            class_weights=self.class_weights,
            agreeing=torch.from_numpy(np.flatnonzero(self.data.carries)),
            summed=self._summed(weights, recipe) if self.settings.rows(reader, self.extent) else None,
            stage=stage,
            threads=self.data.threads,
        )

    def _pooling(self, weights: PathWeights) -> Pooling:
        """Return the pooling of some weights, which all their readers share."""
        if weights.name not in self._poolings:
            self._poolings[weights.name] = weights.pooling(self.data)
        return self._poolings[weights.name]

    def _summed(self, weights: PathWeights, recipe: Recipe) -> Tensor:
        """Return what the paths of some weights bring to each node, dense, `(n, f)`."""
        if weights.name not in self._sums:
            payload: Any = self.data.payload(recipe.rows)
            with torch.no_grad():
                self._sums[weights.name] = self._pooling(weights)(payload)
        return self._sums[weights.name]

    def votes(self, weights: PathWeights) -> Tensor:
        """Return the votes of the training labels, `(n, c)`, as they are trained on.

        About a label that is alone in its class others can only be wrong: its node is trained without votes, or with
        several labels per node that class of it.
        """
        if weights.name not in self._votes:
            train = self.task.train.numpy()
            labels = self.task.labels.numpy()[train]
            members = np.eye(self.task.classes)[labels] if labels.ndim == 1 else labels
            found = weights.votes(self.data, train, members, labels.ndim == 2)
            alone = members * (members.sum(axis=0) == 1) > 0  # (k, c)
            found[train] *= ~(alone if labels.ndim == 2 else alone.any(axis=1, keepdims=True))
            self._votes[weights.name] = torch.from_numpy(found)
        return self._votes[weights.name]
