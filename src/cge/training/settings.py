"""What training is told: the task, and the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from cge.graph import Graph
from cge.models import PathWeighting
from cge.models.products import NodeFeatures

__all__ = ["Task", "TrainingSettings"]

_SOFTMAX_UP_TO = 500  # nodes: beyond them the sum over all nodes costs more than it brings
_TABLE_RATES = {"auto": 0.025, "sgd": 0.025, "adam": 0.01, "adagrad": 0.1}


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned.

    `features (n, f)` or None; `labels` as for `supervised_loss`, for all nodes; `train`, `validation` node numbers.
    `folds` are the outer labels: with `outer_only` they serve the outer problem alone, otherwise they are the training
    labels in parts, each held out in turn.
    """

    graph: Graph
    features: NodeFeatures | None
    labels: Tensor
    classes: int
    train: Tensor
    validation: Tensor
    folds: Sequence[Tensor] = ()
    outer_only: bool = False


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of `cge.training.trainer.train`, with the names, meanings and defaults that `cge.CGE` documents."""

    encoder: str = "table"
    weighting: str | Callable[[int], PathWeighting] = "lstm"
    dim: int = 128
    window: int = 6
    walk_length: int = 10
    walks_per_node: int = 5
    loss: str = "auto"
    negatives: int = 5
    pretrain: int = 2
    rounds: int = 4
    patience: int = 10
    optimizer: str = "auto"
    learning_rate: float | None = None
    unsup_weight: float = 1.0
    label_pairs: float = 0.1
    supervised_strength: float = 0.0
    hidden: int = 64
    head_steps: int = 20
    head_lr: float = 0.01
    weight_decay: float = 5e-4
    outer: str = "unrolled"
    virtual_lr: float = 1.0
    weighting_lr: float = 0.01
    outer_steps: int = 6
    outer_paths: int = 2048
    seed: int = 0
    threads: int | None = None

    @property
    def all_rounds(self) -> int:
        """Rounds at most, those of pre-training included."""
        return self.pretrain + self.rounds

    @property
    def table_rate(self) -> float:
        """First learning rate of the tables."""
        return _TABLE_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    def full_softmax(self, graph: Graph) -> bool:
        """Say whether the path loss sums over all nodes (Eq. 5), or over sampled negatives."""
        return self.loss == "softmax" or (self.loss == "auto" and graph.num_nodes <= _SOFTMAX_UP_TO)
