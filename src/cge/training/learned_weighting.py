"""The outer problem of the path encoder: path weights trained on labels that the classifiers do not see.

The training labels are split into folds. For each fold a classifier is trained on the other folds, with plain
cross-entropy; the weights descend the loss of the held-out folds together with a temperature, so that scaling the
scores alone does not lower the loss. A penalty keeps the weights near their initial values, more so with fewer labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.models.autograd import NodeFeatures
from cge.models.classifiers import MLPClassifier
from cge.models.dropped_products import Augmentations, dropped_product
from cge.randomness import generator
from cge.targets import Task
from cge.training.encoder_settings import OuterSettings
from cge.training.torch_state import one_thread, seeded

MAX_LOSS_RATIO = 0.95  # to the loss of always predicting the class frequencies; above, learned weights are discarded


@dataclass(frozen=True)
class OuterResult:
    """The outer loss before and after training; `better_than_prior`: clearly below that of the class frequencies."""

    before: float
    after: float
    better_than_prior: bool


class OuterProblem:
    """Classifiers, one for each of `task.folds`, and the path weights that they share, which are changed in place.

    `weighted` is a propagation with `parameters()`, which are trained, `initial_parameters()`, their values before, and
    `propagation(nodes)`, the propagation with the current weights, of which the rows of some nodes are needed.
    """

    def __init__(
        self,
        task: Task,
        inputs: NodeFeatures,
        weighted: Any,
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
        self.inner = torch.optim.Adam(inner, settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
        self.log_scale = nn.Parameter(torch.zeros(()))  # −log of the temperature
        self.weights = list(weighted.parameters())
        outer = [*self.weights, self.log_scale]
        self.outer = torch.optim.Adam(outer, settings.weighting_lr, betas=(0.9, 0.99), fused=True)
        self.n_labels = sum(len(fold) for fold in folds)

    @one_thread()
    def run(self, on_step: Callable[[int], None] | None = None) -> OuterResult:
        """Minimize the outer loss over the weights, which get their mean over the last third of the noisy steps.

        If it is not clearly below the loss of the class frequencies, the weights are set back to their initial values.
        """
        warmup, steps = self.settings.warmup_steps, self.settings.steps
        initial = [parameter.detach().clone() for parameter in self.weights]
        totals, count, losses = [torch.zeros_like(start) for start in initial], steps // 3, []
        for step in range(warmup + steps):
            losses.append(self._step(step, step >= warmup))
            if step >= warmup + steps - count:
                totals = [total + parameter.detach() for total, parameter in zip(totals, self.weights, strict=True)]
            if on_step is not None:
                on_step(step)
        before, after = np.mean(losses[max(warmup - 10, 0) : warmup]), np.mean(losses[warmup + steps - count :])
        prior_loss = self.task.target.constant_loss(self.task.labels[self.task.train], self.class_weights)
        better_than_prior = bool(after < MAX_LOSS_RATIO * prior_loss)
        with torch.no_grad():
            for parameter, total, start in zip(self.weights, totals, initial, strict=True):
                parameter.copy_(total / count if better_than_prior else start)
        return OuterResult(float(before), float(after), better_than_prior)

    def held_out_scores(self, classifier: MLPClassifier, propagated: Tensor, own: Array, held: Array) -> Tensor:  # noqa: ARG002
        """Return a classifier's scores of the held-out nodes `held`; `own` are those it is trained on."""
        return classifier.scores(propagated[held] + classifier.bias)

    def _step(self, step: int, train_weights: bool) -> float:
        """Do a step of the classifiers, and one of the weights with `train_weights`; return the outer loss."""
        settings, labels = self.settings, self.task.labels
        random = generator(settings.seed, "outer", step)
        others, folds, nodes = self.others, self.folds, self.train
        if settings.nodes is not None and settings.nodes < len(nodes):
            nodes = np.sort(random.choice(self.train, settings.nodes, replace=False, shuffle=False))
            others, folds = ([part[np.isin(part, nodes)] for part in parts] for parts in (self.others, self.folds))
        projected = [
            dropped_product(
                self.inputs, each.projection(), Augmentations.draw(random, 1, settings.drop_feature), settings.n_jobs
            ).flatten(1)
            for each in self.classifiers
        ]
        propagated = torch.split(self.weighted.propagation(nodes)(torch.cat(projected, dim=1)), settings.dim, dim=1)
        inner, outer, n_held_out = torch.zeros(()), torch.zeros(()), sum(len(fold) for fold in folds)
        for classifier, part, own, held in zip(self.classifiers, propagated, others, folds, strict=True):
            if not len(own) or not len(held):
                continue
            own_scores = classifier.dropped_scores(part[own], settings.dropout, random)
            inner = inner + self.task.target.loss(own_scores, labels[own], self.class_weights)
            scores = self.held_out_scores(classifier, part, own, held) * torch.exp(self.log_scale)
            outer = outer + self.task.target.loss(scores, labels[held], self.class_weights) * (len(held) / n_held_out)
        inner_parameters = [parameter for classifier in self.classifiers for parameter in classifier.parameters()]
        gradients = torch.autograd.grad(inner, inner_parameters, retain_graph=train_weights, allow_unused=True)
        if train_weights:
            pairs = zip(self.weights, self.weighted.initial_parameters(), strict=True)
            penalty = sum(((parameter - start) ** 2).sum() for parameter, start in pairs)
            loss = outer + settings.penalty / self.n_labels * penalty
            outer_parameters = [*self.weights, self.log_scale]
            _apply(self.outer, outer_parameters, torch.autograd.grad(loss, outer_parameters))
        _apply(self.inner, inner_parameters, gradients)
        return float(outer.detach())


def _apply(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
