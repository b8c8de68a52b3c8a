"""The outer problem of the path encoder: path weights trained on labels that the classifiers do not see.

The training labels are split into folds. For each fold a classifier is trained on the other folds with the loss of the
target only (no consistency loss); the path weights are trained, jointly with a temperature, to minimize the loss on the
held-out folds. Because of the temperature, merely rescaling the scores does not lower that loss. A penalty, stronger
with fewer labels, keeps the weights near their initial values.
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
from cge.training.optimizers import Adam, Optimizer
from cge.training.torch_state import one_thread, seeded

MAX_LOSS_RATIO = 0.95  # to the loss of always predicting the class frequencies; above, learned weights are discarded


@dataclass(frozen=True)
class OuterResult:
    """The outer loss before and after training.

    `better_than_prior`: whether it is then clearly below the loss of always predicting the class frequencies.
    """

    before: float
    after: float
    better_than_prior: bool


class OuterProblem:
    """Classifiers, one for each of `task.folds`, and the path weights that they share, which are changed in place.

    `trainable_propagation` has `parameters()`, which are trained, `initial_parameters()`, their values before, and
    `propagation(nodes)`, the propagation with the current weights, of which the rows of some nodes are needed. It may
    return the sums twice: with gradients for the inputs, which the inner problem needs, and for the weights.
    """

    def __init__(
        self,
        task: Task,
        inputs: NodeFeatures,
        trainable_propagation: Any,
        settings: OuterSettings,
        class_weights: Tensor | None = None,
    ) -> None:
        self.task, self.inputs, self.settings = task, inputs, settings
        self.trainable_propagation, self.class_weights = trainable_propagation, class_weights
        self.train = task.train.numpy()
        self.folds = folds = [fold.numpy() for fold in task.folds]
        self.others = [np.setdiff1d(self.train, fold) for fold in folds]
        with seeded(settings.seed, "fold readers"):  # key of the random stream; a new name would change results
            first = MLPClassifier(int(inputs.shape[1]), settings.dim, task.classes)
        self.classifiers = [deepcopy(first) for _ in folds]
        inner = [parameter for classifier in self.classifiers for parameter in classifier.parameters()]
        self.inner = Adam([(inner, settings.weight_decay)], settings.learning_rate)
        self.log_scale = nn.Parameter(torch.zeros(()))  # −log of the temperature
        self.weights = list(trainable_propagation.parameters())
        outer = [*self.weights, self.log_scale]
        self.outer = Adam([(outer, 0.0)], settings.weighting_lr, betas=(0.9, 0.99))
        self.n_labels = sum(len(fold) for fold in folds)

    @one_thread()
    def run(self, on_step: Callable[[int], None] | None = None) -> OuterResult:
        """Minimize the outer loss over the weights, then set them to their average over the last third of steps.

        Single steps are noisy. If the loss is not clearly below that of always predicting the class frequencies, the
        weights are reset to their initial values.
        """
        warmup, steps = self.settings.warmup_steps, self.settings.steps
        initial = [parameter.detach().clone() for parameter in self.weights]
        totals, count, losses = [torch.zeros_like(start) for start in initial], max(steps // 3, 1), []
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

    def held_out_scores(
        self,
        classifier: MLPClassifier,
        propagated: Tensor,
        train_nodes: Array,  # noqa: ARG002 - for subclasses
        held_out_nodes: Array,
    ) -> Tensor:
        """Return a classifier's scores of held-out nodes; `train_nodes` are those it is trained on."""
        return classifier.scores(propagated[held_out_nodes] + classifier.bias)

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
        propagation = self.trainable_propagation.propagation(nodes)
        sums = propagation(torch.cat(projected, dim=1))
        both = sums if isinstance(sums, tuple) else (sums, sums)  # of the inner and of the outer problem
        inner_parts, outer_parts = (torch.split(each, settings.dim, dim=1) for each in both)
        inner, outer, n_held_out = torch.zeros(()), torch.zeros(()), sum(len(fold) for fold in folds)
        parts = zip(self.classifiers, inner_parts, outer_parts, others, folds, strict=True)
        for classifier, inner_part, outer_part, train_nodes, held_out_nodes in parts:
            if not len(train_nodes) or not len(held_out_nodes):
                continue
            train_scores = classifier.dropped_scores(inner_part[train_nodes], settings.dropout, random)
            inner = inner + self.task.target.loss(train_scores, labels[train_nodes], self.class_weights)
            scores = self.held_out_scores(classifier, outer_part, train_nodes, held_out_nodes)
            scores = scores * torch.exp(self.log_scale)
            loss = self.task.target.loss(scores, labels[held_out_nodes], self.class_weights)
            outer = outer + loss * (len(held_out_nodes) / n_held_out)
        inner_parameters = [parameter for classifier in self.classifiers for parameter in classifier.parameters()]
        gradients = torch.autograd.grad(inner, inner_parameters, retain_graph=train_weights, allow_unused=True)
        if train_weights:
            pairs = zip(self.weights, self.trainable_propagation.initial_parameters(), strict=True)
            penalty = sum(((parameter - start) ** 2).sum() for parameter, start in pairs)
            loss = outer + settings.penalty / self.n_labels * penalty
            outer_parameters = [*self.weights, self.log_scale]
            _apply(self.outer, outer_parameters, torch.autograd.grad(loss, outer_parameters))
        _apply(self.inner, inner_parameters, gradients)
        return float(outer.detach())


def _apply(optimizer: Optimizer, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
