"""The outer problem of the path encoder: step and hop weights that serve labels which the readers did not see.

The training labels are cut into folds. For each fold a reader learns from the other folds, with plain cross-entropy;
the weights descend the loss of the held-out folds, together with a temperature, so that they cannot gain by mere scale.
A penalty keeps them near the prior they start from, the more the fewer labels there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cge.losses import supervised_loss
from cge.models.classifiers import MLPClassifier
from cge.models.sparse_products import NodeFeatures
from cge.randomness import generator
from cge.training.classifier_training import drop_features, kept
from cge.training.task import Task
from cge.training.torch_state import one_thread, seeded

__all__ = ["Learned", "Outer", "OuterSettings", "WeightedPropagation", "learn_weighting"]

Array = npt.NDArray[Any]


class WeightedPropagation(Protocol):
    """Pools what nodes carry with weights that have parameters."""

    def parameters(self) -> Sequence[nn.Parameter]:
        """Return what can be learned."""
        ...

    def prior(self) -> Sequence[Tensor]:
        """Return where each parameter starts from."""
        ...

    def propagation(self, nodes: Array | None = None) -> Callable[[Tensor], Tensor]:
        """Return the pooling with the weights as they are now, differentiable in them; it need serve only `nodes`."""
        ...


@dataclass(frozen=True)
class OuterSettings:
    """Settings of `learn_weighting`.

    `alone` steps teach the readers before the weights move at all. `nodes` is the number of labeled nodes at most that
    a step looks at, where weights are costly; None looks at all. Features are dropped on so many `n_jobs`.
    """

    nodes: int | None = None
    dim: int = 16
    steps: int = 150
    alone: int = 30
    rate: float = 0.03
    weights_rate: float = 0.03
    penalty: float = 1.0
    weight_decay: float = 5e-4
    drop_feature: float = 0.5
    dropout: float = 0.5
    seed: int = 0
    n_jobs: int | None = 1


@dataclass(frozen=True)
class Learned:
    """How learning went: the outer loss before and after, and whether the readers had anything to say.

    `taught` is False where the held-out loss is not clearly below that of guessing; the weights are then those of the
    prior.
    """

    before: float
    after: float
    taught: bool


def learn_weighting(
    task: Task,
    inputs: NodeFeatures,
    weighted: WeightedPropagation,
    settings: OuterSettings,
    *,
    class_weights: Tensor | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Learned:
    """Descend the outer loss over the weights; `task.folds` are the folds. The weights are changed in place."""
    return Outer(task, inputs, weighted, settings, class_weights).run(on_step)


class Outer:
    """Readers, one for each fold, and the weights they share."""

    def __init__(
        self,
        task: Task,
        inputs: NodeFeatures,
        weighted: WeightedPropagation,
        settings: OuterSettings,
        class_weights: Tensor | None = None,
    ) -> None:
        self.task, self.inputs, self.weighted, self.settings = task, inputs, weighted, settings
        self.class_weights = class_weights
        self.train = task.train.numpy()
        self.folds = folds = [fold.numpy() for fold in task.folds]
        self.others = [np.setdiff1d(self.train, fold) for fold in folds]
        with seeded(settings.seed, "fold readers"):
            first = MLPClassifier(int(inputs.shape[1]), settings.dim, task.classes)
        self.classifiers = [deepcopy(first) for _ in folds]
        inner = [parameter for classifier in self.classifiers for parameter in classifier.parameters()]
        self.inner = torch.optim.Adam(inner, settings.rate, weight_decay=settings.weight_decay, fused=True)
        self.temperature = nn.Parameter(torch.zeros(()))  # logarithm of the temperature
        self.weights = list(weighted.parameters())
        self.outer = torch.optim.Adam(
            [*self.weights, self.temperature], settings.weights_rate, betas=(0.9, 0.99), fused=True
        )
        self.labels = sum(len(fold) for fold in folds)

    def run(self, on_step: Callable[[int], None] | None = None) -> Learned:
        """Descend."""
        with one_thread():
            return self._run(on_step)

    def _run(self, on_step: Callable[[int], None] | None) -> Learned:
        settings, prior = self.settings, [parameter.detach().clone() for parameter in self.weights]
        before: list[float] = []
        after: list[float] = []
        # The mean of the last third is kept: single steps follow single disturbances.
        totals, count, last = [torch.zeros_like(one) for one in prior], 0, settings.steps - settings.steps // 3
        for step in range(settings.alone + settings.steps):
            moving = step - settings.alone
            loss = self._step(step, moving >= 0)
            if settings.alone - 10 <= step < settings.alone:
                before.append(loss)
            if moving >= last:
                after.append(loss)
                count += 1
                totals = [one + parameter.detach() for one, parameter in zip(totals, self.weights, strict=True)]
            if on_step is not None:
                on_step(step)
        taught = float(np.mean(after)) < 0.95 * self._guess()
        with torch.no_grad():
            for parameter, total, start in zip(self.weights, totals, prior, strict=True):
                parameter.copy_(total / count if taught else start)
        return Learned(float(np.mean(before)), float(np.mean(after)), taught)

    def held_out_scores(self, classifier: MLPClassifier, propagated: Tensor, own: Array, held: Array) -> Tensor:  # noqa: ARG002
        """Return a reader's scores of the labels it has not seen; `own` are those it sees."""
        return classifier.scores(propagated[held] + classifier.bias)

    def _guess(self) -> float:
        """Return the loss of who knows nothing but how common classes are."""
        labels = self.task.labels[self.task.train]
        if labels.ndim == 2:
            share = labels.double().mean(0)
            having = share if self.class_weights is None else self.class_weights.double() * share
            chance = (having / (having + 1 - share)).clamp(1e-9, 1 - 1e-9)  # what costs least for everybody
            return float(-(having * chance.log() + (1 - share) * (1 - chance).log()).sum())
        if self.class_weights is not None:
            return float(np.log(self.task.classes))
        share = torch.bincount(labels, minlength=self.task.classes).double() / len(labels)
        return float(-(share * share.clamp(min=1e-12).log()).sum())

    def _step(self, step: int, moving: bool) -> float:
        """Let the readers descend their own labels, and the weights those of the folds; return the outer loss."""
        settings, labels = self.settings, self.task.labels
        random = generator(settings.seed, "outer", step)
        others, folds, seen = self.others, self.folds, self.train
        if settings.nodes is not None and settings.nodes < len(seen):
            seen = np.sort(random.choice(self.train, settings.nodes, replace=False, shuffle=False))
            others, folds = ([part[np.isin(part, seen)] for part in parts] for parts in (self.others, self.folds))
        drop = (settings.drop_feature, random, settings.n_jobs)
        carried = [classifier.project(drop_features(self.inputs, *drop)) for classifier in self.classifiers]
        propagated = torch.split(self.weighted.propagation(seen)(torch.cat(carried, dim=1)), settings.dim, dim=1)
        inner, outer, evaluation_cost = torch.zeros(()), torch.zeros(()), sum(len(fold) for fold in folds)
        for classifier, part, own, held in zip(self.classifiers, propagated, others, folds, strict=True):
            if not len(own) or not len(held):
                continue
            mask = kept((len(own), settings.dim), settings.dropout, random)
            known = classifier.scores(part[own] + classifier.bias, mask)
            inner = inner + supervised_loss(known, labels[own], self.class_weights)
            scores = self.held_out_scores(classifier, part, own, held) * torch.exp(self.temperature)
            outer = outer + supervised_loss(scores, labels[held], self.class_weights) * (len(held) / evaluation_cost)
        inside = [parameter for classifier in self.classifiers for parameter in classifier.parameters()]
        gradients = torch.autograd.grad(inner, inside, retain_graph=moving, allow_unused=True)
        if moving:
            penalty = sum(
                ((one - start) ** 2).sum() for one, start in zip(self.weights, self.weighted.prior(), strict=True)
            )
            loss = outer + settings.penalty / self.labels * penalty
            above = torch.autograd.grad(loss, [*self.weights, self.temperature])
            _descend(self.outer, [*self.weights, self.temperature], above)
        _descend(self.inner, inside, gradients)
        return float(outer.detach())


def _descend(
    optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
