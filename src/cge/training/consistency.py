"""Training of the path encoder: a loss on labels, and predictions that agree on all nodes however paths are disturbed.

In an epoch the graph is passed R times; each pass drops whole nodes' payloads, single features and hidden numbers. The
loss is that of the labels, plus λ times how far each pass's predictions are from their sharpened mean (temperature T),
on every node (Feng et al. 2020, "Graph Random Neural Networks", for the mean of hops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.losses import supervised_loss
from cge.models.ends import EndsModel
from cge.models.pooling import StepRows, pool
from cge.models.products import NodeFeatures, SparseFeatures
from cge.randomness import generator
from cge.training.parameters import load_module, module_arrays, seeded
from cge.training.settings import Task
from cge.training.trainer import accuracy_of

__all__ = ["ConsistencySettings", "ConsistencyTrainer", "Epoch", "sharpened"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ConsistencySettings:
    """Settings of `ConsistencyTrainer`; shares are between 0 and 1."""

    dim: int = 32
    passes: int = 4
    node_drop: float = 0.5
    feature_drop: float = 0.5
    hidden_drop: float = 0.5
    consistency: float = 1.0
    temperature: float = 0.5
    rate: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 400
    patience: int = 100
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """One epoch: the losses, and accuracy and loss on the validation labels."""

    number: int
    supervised_loss: float
    consistency_loss: float
    validation_accuracy: float
    validation_loss: float


def sharpened(chances: Tensor, temperature: float, several: bool) -> Tensor:
    """Return chances `(n, c)` moved towards the likeliest class, or with `several` each towards 0 or 1.

    >>> sharpened(torch.tensor([[0.75, 0.25]]), 0.5, several=False).tolist()  # 9 to 1 instead of 3 to 1
    [[0.8999999761581421, 0.10000000149011612]]
    """
    power = chances ** (1 / temperature)
    total = power + (1 - chances) ** (1 / temperature) if several else power.sum(1, keepdim=True)
    return power / total


class ConsistencyTrainer:
    """Trains an `EndsModel` on a task, with given weights of steps and hops; keeps the best epoch's parameters."""

    def __init__(
        self,
        task: Task,
        payload: NodeFeatures,
        steps: StepRows,
        values: Tensor,
        hops: Sequence[float],
        settings: ConsistencySettings,
    ) -> None:
        self.task, self.payload, self.settings = task, payload, settings
        self.steps, self.values, self.hops = steps, values.detach(), list(hops)
        with seeded(settings.seed, "ends"):
            self.model = EndsModel(int(payload.shape[1]), settings.dim, task.classes)
        self.optimizer = torch.optim.Adam(self.model.parameters(), settings.rate, weight_decay=settings.weight_decay)
        self.epochs: list[Epoch] = []
        self.best, self.best_epoch = module_arrays(self.model, "model"), 0
        self._best_score = (-1.0, -np.inf)

    def run(self, on_epoch: Callable[[Epoch], None] | None = None) -> None:
        """Train to the last epoch or until patience ends; then the model has the best epoch's parameters."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums of several threads depend on their number
        try:
            while len(self.epochs) < self.settings.epochs and self.waited() < self.settings.patience:
                self.run_epoch(len(self.epochs))
                if on_epoch is not None:
                    on_epoch(self.epochs[-1])
            load_module(self.model, "model", self.best)
        finally:
            torch.set_num_threads(threads)

    def waited(self) -> int:
        """Return how many epochs have passed since the best one."""
        return len(self.epochs) - self.best_epoch

    def run_epoch(self, number: int) -> None:
        """Do epoch `number` (from 0)."""
        with seeded(self.settings.seed, "epoch", number):
            scores = self._disturbed(number)
            train = self.task.train
            losses = [supervised_loss(one[train], self.task.labels[train]) for one in scores]
            supervised = torch.stack(losses).mean()
            apart = self._disagreement(scores)
            self.optimizer.zero_grad()
            (supervised + self.settings.consistency * apart).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        accuracy, loss = self._validate()
        self.epochs.append(Epoch(number + 1, float(supervised.detach()), float(apart.detach()), accuracy, loss))
        if (accuracy, -loss) > self._best_score or not len(self.task.validation):
            self.best, self.best_epoch = module_arrays(self.model, "model"), number + 1
            self._best_score = (accuracy, -loss)

    def _disturbed(self, number: int) -> list[Tensor]:
        """Return the class scores of all nodes in each pass; the passes are pooled side by side."""
        settings, nodes = self.settings, self.task.graph.num_nodes
        random = generator(settings.seed, "feature drop", number)
        carried = []
        for _ in range(settings.passes):
            kept = (torch.rand(nodes, 1) >= settings.node_drop).float() / (1 - settings.node_drop)
            carried.append(self.model.project(_dropped(self.payload, settings.feature_drop, random)) * kept)
        pooled = pool(self.steps, self.values, torch.cat(carried, dim=1), self.hops)
        parts = torch.split(pooled, settings.dim, dim=1)
        return [self.model.scores(one + self.model.bias, settings.hidden_drop) for one in parts]

    def _disagreement(self, scores: list[Tensor]) -> Tensor:
        """Return the mean squared distance of each pass's chances from their sharpened mean."""
        several = self.task.labels.ndim == 2
        chances = [torch.sigmoid(one) if several else torch.softmax(one, dim=1) for one in scores]
        aim = sharpened(torch.stack(chances).mean(0), self.settings.temperature, several).detach()
        return torch.stack([((one - aim) ** 2).sum(1).mean() for one in chances]).mean()

    def vectors(self) -> Tensor:
        """Return e of all nodes, `(n, dim)`, undisturbed."""
        with torch.no_grad():
            return self.model.vectors(self.steps, self.values, self.payload, self.hops)

    def _validate(self) -> tuple[float, float]:
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        with torch.no_grad():
            scores = self.model.scores(self.vectors()[nodes])
        labels = self.task.labels[nodes]
        return accuracy_of(scores.numpy(), labels.numpy()), float(supervised_loss(scores, labels))


def _dropped(payload: NodeFeatures, share: float, random: np.random.Generator) -> NodeFeatures:
    """Return the payload with a share of its numbers set to zero and the others made larger."""
    if not share:
        return payload
    if isinstance(payload, SparseFeatures):
        kept = random.random(payload.rows.nnz, np.float32) >= share
        return payload.with_values(payload.rows.data * kept / np.float32(1 - share))
    return payload * torch.from_numpy(random.random(tuple(payload.shape), np.float32) >= share) / (1 - share)
