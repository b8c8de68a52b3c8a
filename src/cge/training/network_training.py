"""Supervised training of graph neural networks: Adam, dropout, early stopping on the validation labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models.convolutions import TwoLayerNetwork
from cge.models.sparse_products import NodeFeatures
from cge.randomness import generator
from cge.training.classifier_training import drop_features, dropout_mask
from cge.training.torch_state import check_finite, load_module, module_arrays, one_thread


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
    train: Tensor,
    validation: Tensor,
    settings: NetworkSettings,
) -> tuple[Tensor, int]:
    """Train on the labels of `train`; return the class scores of all nodes, `(n, c)`, and the number of the best epoch.

    The best epoch has the highest accuracy on `validation`, and the lowest loss among equals; without validation nodes
    it is the last one.
    """
    optimizer = torch.optim.Adam(network.parameter_groups(settings.weight_decay), settings.learning_rate, fused=True)
    best, best_score, best_epoch = module_arrays(network, "network"), (-1.0, 0.0), 0
    with one_thread():
        for epoch in range(settings.epochs):
            random = generator(settings.seed, "network", epoch)
            scores = network(
                drop_features(features, settings.dropout, random),
                lambda x: _dropout(x, settings.dropout, random),  # noqa: B023 - called at once
            )
            loss = supervised_loss(scores[train], labels[train])
            check_finite(loss.item(), "training overflowed", "learning_rate", settings.learning_rate)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if len(validation):
                validation_scores, true = _scores(network, features)[validation], labels[validation]
                accuracy = accuracy_or_f1(validation_scores.numpy(), true.numpy())
                score = accuracy, -supervised_loss(validation_scores, true).item()
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
