"""Training of graph networks on labels: Adam, dropout, the best epoch on the selection labels is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cge.errors import InputError, Message
from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models.convolutions import TwoLayerNetwork
from cge.models.sparse_products import NodeFeatures
from cge.randomness import generator
from cge.training.classifier_training import drop_features, dropout_mask
from cge.training.torch_state import load_module, module_arrays, one_thread

__all__ = ["NetworkSettings", "train_network"]


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of `train_network`; `drop` is the share of features and hidden numbers that an epoch leaves out."""

    epochs: int
    patience: int
    drop: float
    rate: float
    weight_decay: float
    seed: int


def train_network(
    network: TwoLayerNetwork,
    features: NodeFeatures,
    labels: Tensor,
    train: Tensor,
    selection: Tensor,
    settings: NetworkSettings,
) -> tuple[Tensor, int]:
    """Train on the labels of `train` and return the class scores of all nodes, `(n, c)`, and the epochs they took.

    The epoch counts with the best accuracy on `selection`, by the loss where two are level; the last without any.
    """
    optimizer = torch.optim.Adam(network.groups(settings.weight_decay), settings.rate, fused=True)
    best, best_score, best_epoch = module_arrays(network, "network"), (-1.0, 0.0), 0
    with one_thread():
        for epoch in range(settings.epochs):
            random = generator(settings.seed, "network", epoch)
            scores = network(
                drop_features(features, settings.drop, random),
                lambda x: _thinned(x, settings.drop, random),  # noqa: B023 - called at once
            )
            loss = supervised_loss(scores[train], labels[train])
            if not np.isfinite(loss.item()):
                hint = Message(Message.of("try a tenth of {learning_rate}"), f" (now {settings.rate:g})")
                raise InputError("training overflowed", parameter="learning_rate", hint=hint)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if len(selection):
                told = _scores(network, features)[selection]
                score = (
                    accuracy_or_f1(told.numpy(), labels[selection].numpy()),
                    -supervised_loss(told, labels[selection]).item(),
                )
                if score > best_score:
                    best, best_score, best_epoch = module_arrays(network, "network"), score, epoch
                if epoch - best_epoch >= settings.patience:
                    break
        if len(selection):
            load_module(network, "network", best)
        return _scores(network, features), best_epoch + 1 if len(selection) else settings.epochs


def _thinned(hidden: Tensor, share: float, random: np.random.Generator) -> Tensor:
    mask = dropout_mask((len(hidden), hidden.shape[1]), share, random)
    return hidden if mask is None else hidden * mask


@torch.no_grad()
def _scores(network: TwoLayerNetwork, features: NodeFeatures) -> Tensor:
    found: Tensor = network(features, lambda hidden: hidden)
    return found
