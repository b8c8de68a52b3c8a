"""What training is told: the task, and the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from cge.graph import Graph
from cge.models import PathWeighting
from cge.models.sparse_products import NodeFeatures

__all__ = ["SOFTMAX_UP_TO", "Task", "TrainingSettings"]

SOFTMAX_UP_TO = 500  # nodes: beyond them the sum over all nodes costs more than it brings
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
    """Settings of `cge.training.paper_training.train`, with the names and meanings that `cge.CGE` documents."""

    encoder: str
    weighting: str | Callable[[int], PathWeighting]
    dim: int
    window: int
    walk_length: int
    walks_per_node: int
    loss: str
    negatives: int
    pretrain: int
    rounds: int
    patience: int
    optimizer: str
    learning_rate: float | None
    unsup_weight: float
    label_pairs: float
    supervised_strength: float
    hidden: int
    head_steps: int
    head_lr: float
    weight_decay: float
    outer: str
    virtual_lr: float
    weighting_lr: float
    outer_steps: int
    outer_paths: int
    seed: int
    n_jobs: int | None

    @property
    def total_epochs(self) -> int:
        """Rounds at most, those of pre-training included."""
        return self.pretrain + self.rounds

    @property
    def table_rate(self) -> float:
        """First learning rate of the tables."""
        return _TABLE_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    def full_softmax(self, graph: Graph) -> bool:
        """Say whether the path loss sums over all nodes (Eq. 5), or over sampled negatives."""
        return self.loss == "softmax" or (self.loss == "auto" and graph.num_nodes <= SOFTMAX_UP_TO)
