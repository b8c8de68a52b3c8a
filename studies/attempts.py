"""What could make learned weights of steps better than closed-form ones? Attempts that are not in the product.

Each learns weights in another way and is read like any others: readers are chosen on validation labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from cge.data.splits import folds as stratified_folds
from cge.losses import supervised_loss
from cge.models.classifiers import MLPClassifier
from cge.models.edge_weighting import EdgeInputs, EdgePropagation, EdgeWeighting
from cge.models.propagation import Propagation, sparse_matmul
from cge.models.transitions import TransitionMatrix
from cge.training.classifier_recipes import EncoderSettings
from cge.training.encoder_data import EncoderData
from cge.training.learned_weighting import OuterProblem, OuterSettings
from cge.training.model_comparison import level, score_candidate
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.task import Task

__all__ = ["ATTEMPTS", "attempt"]

Array = npt.NDArray[Any]

_CONFIDENT = 20  # nodes of each class that lend their predicted label
_UNROLLED = 3  # steps of the last layer
_RATE = 1.0  # of those steps
_HOP_WIDTH = 16  # hidden numbers of each hop that has a matrix of its own


@dataclass(frozen=True, eq=False)
class Situation:
    """What an attempt starts from; `start` is the prior that the plain reader does better with."""

    task: Task
    data: EncoderData
    maker: ModelSearch
    start: NamedWeighting
    settings: OuterSettings

    def learn(self, task: Task | None = None, how: type[OuterProblem] = OuterProblem, **other: Any) -> NamedWeighting:
        """Return weights of steps learned from `start`; readers see no labels but those of `self.task`."""
        weights = NamedWeighting("edges+hops", deepcopy(self.start.module))
        propagation = EdgePropagation(self.data.transitions, self.data.edge_inputs, weights.edge_weighting)
        outer = how(task or self.task, self.data.inputs("l2"), propagation, replace(self.settings, **other))
        outer.others = [np.intersect1d(part, self.task.train.numpy()) for part in outer.others]
        outer.run()
        return weights


def more_folds(now: Situation) -> Sequence[NamedWeighting]:
    """Use ten folds: readers see nine tenths of the labels, as the last one sees all."""
    labels, train = now.task.labels.numpy(), now.task.train.numpy()
    parts = stratified_folds(train, labels, min(10, len(train)), now.settings.seed)
    return [now.learn(replace(now.task, folds=[torch.from_numpy(one) for one in parts]))]


def lent_labels(now: Situation) -> Sequence[NamedWeighting]:
    """Let the nodes that a first reader is surest of, twenty of each class, serve as further held-out labels."""
    now.maker.evaluate_candidate(now.start, "mlp")
    scores = now.maker.trainers[now.start.name, "mlp", False].best_scores()
    probabilities, told = torch.softmax(scores, dim=1).max(1)
    free = np.setdiff1d(np.arange(len(told)), torch.cat([now.task.train, now.task.validation]).numpy())
    lent = []
    for one in range(now.task.classes):
        mine = free[told.numpy()[free] == one]
        lent.append(mine[np.argsort(-probabilities.numpy()[mine], kind="stable")[:_CONFIDENT]])
    labels = now.task.labels.clone()
    every = np.concatenate(lent)
    labels[every] = told[every]
    folds = [
        torch.from_numpy(np.concatenate([fold.numpy(), every[place :: len(now.task.folds)]]))
        for place, fold in enumerate(now.task.folds)
    ]
    train = torch.cat([now.task.train, torch.from_numpy(every)])
    return [now.learn(replace(now.task, labels=labels, folds=folds, train=train))]


def unrolled(now: Situation) -> Sequence[NamedWeighting]:
    """Let the weights know that the reader's last layer follows them: three of its steps are differentiated."""
    return [now.learn(how=_UnrolledOuter)]


class _UnrolledOuter(OuterProblem):
    """Held-out labels are scored by the last layer as it will be some steps later."""

    def held_out_scores(self, classifier: MLPClassifier, propagated: Tensor, own: Array, held: Array) -> Tensor:
        """Take the steps and keep how they depend on the weights."""
        seen, labels = torch.relu(propagated[own] + classifier.bias), self.task.labels[own]
        matrix: Tensor = classifier.score.weight
        constant: Tensor = classifier.score.bias
        for _ in range(_UNROLLED):
            loss = supervised_loss(functional.linear(seen, matrix, constant), labels, self.class_weights)
            slopes = torch.autograd.grad(loss, [matrix, constant], create_graph=True)
            matrix, constant = matrix - _RATE * slopes[0], constant - _RATE * slopes[1]
        return functional.linear(torch.relu(propagated[held] + classifier.bias), matrix, constant)


def fold_ensemble(now: Situation) -> Sequence[NamedWeighting]:
    """Learn weights for each fold alone, and average what they predict."""
    return [now.learn(replace(now.task, folds=[fold])) for fold in now.task.folds]


def no_penalty(now: Situation) -> Sequence[NamedWeighting]:
    """Let weights leave the prior freely, for four times as many steps."""
    return [now.learn(penalty=0.0, steps=4 * now.settings.steps)]


class HopPropagation:
    """Weights of steps that are not shared: the t-th step of a path has its own gate and discount."""

    def __init__(self, steps: TransitionMatrix, edge_inputs: EdgeInputs, start: EdgeWeighting) -> None:
        self.rows, self.edge_inputs = steps, edge_inputs
        self.parts = [deepcopy(start) for _ in range(len(start.hops) - 1)]
        self._prior = [one.detach().clone() for one in self.parameters()]

    def parameters(self) -> list[nn.Parameter]:
        """Return those of every hop; hop weights are those of the first."""
        shared = [self.parts[0].hops]
        return shared + [one for part in self.parts for one in (part.coefficients, part.self_loop, part.normalization)]

    def initial_parameters(self) -> list[Tensor]:
        """Return what they were at the beginning."""
        return self._prior

    def propagation(self, nodes: Array | None = None) -> Propagation:  # noqa: ARG002 - all at once
        """Return Σ_k h_k M_1 … M_k payload."""
        values = [part.edge_weights(self.rows, self.edge_inputs) for part in self.parts]
        hops = self.parts[0].hop_weights()

        def propagated(inputs: Tensor) -> Tensor:
            total = hops[-1] * inputs
            for place in range(len(values) - 1, -1, -1):
                total = hops[place] * inputs + sparse_matmul(self.rows, values[place], total)
            return total

        return propagated


def hop_gates(now: Situation) -> Propagation:
    """Learn a gate for each hop."""
    propagation = HopPropagation(now.data.transitions, now.data.edge_inputs, now.start.edge_weighting)
    OuterProblem(now.task, now.data.inputs("l2"), propagation, now.settings).run()
    for one in propagation.parameters():
        one.requires_grad_(False)
    return propagation.propagation()


def hop_maps(now: Situation) -> Propagation:
    """Give each hop a matrix W_k of its own: what it brings stands beside that of others, not in one sum.

    Readers that sum class scores keep the sum: they have no numbers to part.
    """
    weights, rows = now.learn().edge_weighting, now.data.transitions
    hops, width = weights.hop_weights().detach(), _HOP_WIDTH
    values = weights.edge_weights(rows, now.data.edge_inputs).detach()
    now.maker.settings = replace(now.maker.settings, dim=len(hops) * width)

    def propagated(inputs: Tensor) -> Tensor:
        parted = not inputs.shape[1] % (len(hops) * width)  # passes stand side by side
        parts = inputs.view(len(inputs), -1, len(hops), width) if parted else inputs[:, None, None, :]
        brought = []
        for place, hop in enumerate(hops):
            part = parts[:, :, place if parted else 0].flatten(1)
            for _ in range(place):
                part = sparse_matmul(rows, values, part)
            brought.append(hop * part)
        if not parted:
            return torch.stack(brought).sum(0)
        return torch.stack([one.view(len(inputs), -1, width) for one in brought], dim=2).flatten(1)

    return propagated


def closed_forms(now: Situation) -> Sequence[NamedWeighting]:
    """Learn nothing: keep what the guard keeps of A ≡ 1, degree, cosine and hop profiles. Learning has to beat that."""
    settings = replace(now.maker.settings, weighting="auto")
    return [ModelSearch(replace(now.task, folds=[]), now.data, settings).make().weighting]


ATTEMPTS: dict[str, Callable[[Situation], Any]] = {
    "closed forms": closed_forms,
    "steps, 10 folds": more_folds,
    "steps, lent labels": lent_labels,
    "steps, unrolled": unrolled,
    "steps, fold ensemble": fold_ensemble,
    "steps, no penalty": no_penalty,
    "steps, gate per hop": hop_gates,
    "steps, map per hop": hop_maps,
}


def attempt(name: str, task: Task, data: EncoderData, settings: EncoderSettings) -> tuple[Tensor, list[str], str]:
    """Return the chances of all nodes that an attempt ends with, `(n, c)`, its readers and the name of its weights."""
    maker = ModelSearch(task, data, settings)
    maker.problem_size = replace(maker.problem_size, columns=0)  # poolings that mix columns cannot be summed before W
    now = Situation(
        task, data, maker, maker.best_closed_form("degree", "uniform", "cosine"), OuterSettings(seed=settings.seed)
    )
    made = ATTEMPTS[name](now)
    several = made if isinstance(made, list) else [made]
    probabilities: list[Tensor] = []
    used, kind = list[str](), ""
    for place, one in enumerate(several):
        weights = one if isinstance(one, NamedWeighting) else _Pooled("edges+hops", now.start.module, made=one)
        kind, weights = weights.name, replace(weights, name=f"{name} {place}")
        trained = {
            classifier: maker.trainers[weights.name, classifier, False] for classifier in maker.classifiers(weights)
        }
        for trainer in trained.values():
            trainer.run()
        used = level({classifier: score_candidate(trainer) for classifier, trainer in trained.items()})
        probabilities += [torch.softmax(trained[classifier].best_scores(), dim=1) for classifier in used]
    return torch.stack(probabilities).mean(0), used, kind


@dataclass(frozen=True, eq=False)
class _Pooled(NamedWeighting):
    """Weights that are given as the pooling they make."""

    made: Propagation | None = None

    def propagation(self, data: EncoderData) -> Propagation:
        """Return it."""
        return super().propagation(data) if self.made is None else self.made
