"""Training of classifiers over weighted paths, with a consistency or distillation loss, and of graph neural networks.

An epoch computes R augmentations, each of which drops the inputs of whole nodes, single features and hidden units. The
loss is the supervised loss plus λ times the squared distance between each augmentation's predictions and their
sharpened mean (numeric targets: the mean), with single labels over nodes where the mean is confident (Feng et al. 2020,
"Graph Random Neural Networks", and 2022, "GRAND+"). λ is zero in the warm-up epochs and then grows: before the labels
are learned, consistency would only reinforce random predictions. A distilled classifier has the cross-entropy from
propagated labels instead.

Dense inputs of which no whole nodes are dropped are propagated once, Σ A(p) (x W) = (Σ A(p) x) W. Features are then
dropped from the propagated inputs, and an epoch computes only the nodes of its loss, not the whole graph.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.models.autograd import NodeFeatures, Propagation
from cge.models.classifiers import PathClassifier, TwoLayerNetwork
from cge.models.dropped_products import Augmentations, dropout_mask, dropped_product, keyed_dropout
from cge.models.propagation import propagate_rows
from cge.models.sparse_products import SparseFeatures
from cge.randomness import generator
from cge.targets import Target, Task
from cge.training.classifier_registry import ClassifierSettings
from cge.training.optimizers import Adam
from cge.training.path_trainer import SingleTrainer
from cge.training.torch_state import check_finite, load_module, module_arrays, one_thread


class ClassifierTrainer(SingleTrainer):
    """Trains a `PathClassifier` by gradient descent, with augmentations.

    `consistency_nodes` enter the consistency loss; None means all. `propagated_inputs (n, f)` are dense inputs that
    were propagated before; whole nodes cannot be dropped then.
    """

    def __init__(
        self,
        task: Task,
        inputs: NodeFeatures,
        propagation: Propagation,
        classifier: PathClassifier,
        settings: ClassifierSettings,
        *,
        label_scores: Tensor | None = None,
        class_weights: Tensor | None = None,
        consistency_nodes: Tensor | None = None,
        propagated_inputs: Tensor | None = None,
        stage: str = "train",
        n_jobs: int | None = 1,
    ) -> None:
        options: dict[str, Any] = {"label_scores": label_scores, "class_weights": class_weights, "stage": stage}
        super().__init__(task, classifier, settings.max_epochs, **options)
        self.first_eligible, self.patience = settings.first_full_epoch, settings.patience
        self.inputs, self.propagation, self.settings = inputs, propagation, settings
        self.propagated_inputs, self.n_jobs = propagated_inputs, n_jobs
        self.consistency_nodes = torch.arange(task.graph.num_nodes) if consistency_nodes is None else consistency_nodes
        groups = classifier.parameter_groups(settings.weight_decay)
        self.optimizer = Adam(groups, settings.learning_rate)

    def run_epoch(self, number: int) -> None:
        """Train epoch `number` (from 0)."""
        started, settings = time.perf_counter(), self.settings
        random = generator(settings.seed, "epoch", number)
        consistency_weight, train = self._consistency_weight(number), self.task.train
        consistency_nodes = self._draw_consistency_nodes(random) if consistency_weight else train[:0]
        scores = self._augmented_scores(random, torch.cat([train, consistency_nodes]))
        labels = self.task.labels[train].repeat_interleave(settings.n_augmentations, dim=0)
        supervised = self.task.target.loss(scores[: len(train)].flatten(0, 1), labels, self.class_weights)
        consistency = torch.zeros(())
        if consistency_weight:
            consistency_scores = scores[len(train) :]
            if settings.distilled:
                consistency = self._distillation(consistency_scores, consistency_nodes)
            else:
                consistency = self.task.target.consistency(consistency_scores, settings.sharpening)
        self.optimizer.zero_grad()
        (supervised + consistency_weight * consistency).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        problem, total = f"training overflowed in epoch {number + 1}", float((supervised + consistency).detach())
        check_finite(total, problem, "learning_rate", settings.learning_rate)
        self._end_epoch((supervised.item(), consistency.item()), started)

    def _consistency_weight(self, number: int) -> float:
        """Return λ of an epoch."""
        after, ramp = number - self.settings.warmup_epochs, self.settings.rampup_epochs
        if after < 0:
            return 0.0
        return self.settings.consistency_weight * (min(1.0, after / ramp) if ramp else 1.0)

    def _draw_consistency_nodes(self, random: np.random.Generator) -> Tensor:
        """Return the nodes of an epoch's consistency loss."""
        count = self.settings.max_consistency_nodes
        if len(self.consistency_nodes) <= count:
            return self.consistency_nodes
        drawn = random.choice(len(self.consistency_nodes), count, replace=False, shuffle=False)
        return self.consistency_nodes[torch.from_numpy(np.sort(drawn))]

    def _augmented_scores(self, random: np.random.Generator, nodes: Tensor) -> Tensor:
        """Return the class scores of some nodes in R augmentations, `(k, R, c)`; all are propagated side by side."""
        settings, classifier = self.settings, self.classifier
        shares = settings.drop_feature, settings.drop_node
        augmentations = Augmentations.draw(random, settings.n_augmentations, *shares)
        inputs = self.inputs if self.propagated_inputs is None else self.propagated_inputs[nodes]
        vectors = dropped_product(inputs, classifier.projection(), augmentations, self.n_jobs)  # (n or k, R, dim)
        if self.propagated_inputs is None:
            propagated = propagate_rows(self.propagation, vectors.flatten(1), nodes)
            vectors = propagated.view(-1, *vectors.shape[1:])
        scores = classifier.dropped_scores(vectors, settings.dropout, random, self.n_jobs)
        if settings.distilled or self.label_scores is None:  # then propagated labels are targets
            return scores
        return scores + classifier.label_weight * self.label_scores[nodes][:, None]

    def _scores(self, classifier: PathClassifier, nodes: Tensor) -> Tensor:
        if self.propagated_inputs is None:
            propagated = propagate_rows(self.propagation, classifier.project(self.inputs), nodes)
        else:
            propagated = classifier.project(self.propagated_inputs[nodes])
        return self._add_labels(classifier, classifier.scores(propagated + classifier.offset()), nodes)

    def _distillation(self, scores: Tensor, nodes: Tensor) -> Tensor:
        """Return the mean cross-entropy of each augmentation from the propagated labels, where there are any."""
        if self.label_scores is None:
            return torch.zeros(())
        label_scores, count = self.label_scores[nodes], scores.shape[1]
        reachable = label_scores.any(dim=1).float()
        repeated = label_scores.repeat_interleave(count, dim=0)
        losses = self.task.target.distillation_losses(scores.flatten(0, 1), repeated).view(-1, count)
        return (losses.mean(1) * reachable).sum() / reachable.sum().clamp(min=1)

    def _parts(self) -> dict[str, Any]:
        return {"now": self.classifier, "optimizer": self.optimizer}


def drop_features(inputs: NodeFeatures, share: float, random: np.random.Generator) -> NodeFeatures:
    """Return inputs with a share of their numbers set to zero and the others scaled up."""
    if not share:
        return inputs
    if isinstance(inputs, SparseFeatures):
        keep = random.random(inputs.csr.nnz, np.float32) >= share
        return inputs.with_values(inputs.csr.data * keep / np.float32(1 - share))
    return keyed_dropout(inputs, share, random.integers(2**64, dtype=np.uint64))


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of `train_network`; `dropout` is that of the features and of the hidden layer."""

    epochs: int
    patience: int
    dropout: float
    learning_rate: float
    weight_decay: float
    seed: int


def train_network(
    network: TwoLayerNetwork,
    features: NodeFeatures,
    labels: Tensor,
    target: Target,
    train: Tensor,
    validation: Tensor,
    settings: NetworkSettings,
) -> tuple[Tensor, int]:
    """Train on the labels of `train`; return the class scores of all nodes, `(n, c)`, and the number of the best epoch.

    That has the highest accuracy on `validation` and, of these, the lowest loss; without `validation` it is the last.
    """
    optimizer = Adam(network.parameter_groups(settings.weight_decay), settings.learning_rate)
    best, best_score, best_epoch = module_arrays(network, "network"), (-1.0, 0.0), 0
    with one_thread():
        for epoch in range(settings.epochs):
            random = generator(settings.seed, "network", epoch)
            scores = network(
                drop_features(features, settings.dropout, random),
                lambda x: _dropout(x, settings.dropout, random),  # noqa: B023 - called at once
            )
            loss = target.loss(scores[train], labels[train])
            check_finite(loss.item(), "training overflowed", "learning_rate", settings.learning_rate)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if len(validation):
                validation_scores, true = _scores(network, features)[validation], labels[validation]
                accuracy = target.score(validation_scores.numpy(), true.numpy())
                score = accuracy, -target.loss(validation_scores, true).item()
                if score > best_score:
                    best, best_score, best_epoch = module_arrays(network, "network"), score, epoch
                if epoch - best_epoch >= settings.patience:
                    break
        if len(validation):
            load_module(network, "network", best)
        return _scores(network, features), best_epoch + 1 if len(validation) else settings.epochs


def _dropout(hidden: Tensor, probability: float, random: np.random.Generator) -> Tensor:
    mask = dropout_mask((len(hidden), hidden.shape[1]), probability, random)
    return hidden if mask is None else hidden * mask


@torch.no_grad()
def _scores(network: TwoLayerNetwork, features: NodeFeatures) -> Tensor:
    scores: Tensor = network(features, lambda hidden: hidden)
    return scores
