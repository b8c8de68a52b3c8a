"""Settings of the paper's algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cge.graph import Graph
from cge.models import PathWeighting

MAX_SOFTMAX_NODES = 500  # above, the sum over all nodes is too slow
_TABLE_RATES = {"auto": 0.025, "sgd": 0.025, "adam": 0.01, "adagrad": 0.1}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of `cge.training.paper_training.train`; `cge.PaperCGE` documents them."""

    setting: str
    weighting: str | Callable[[int], PathWeighting]
    dim: int
    window: int
    walk_length: int
    walks_per_node: int
    loss: str
    negatives: int
    pretrain: int
    max_epochs: int
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
        """Maximum number of epochs, pretraining included."""
        return self.pretrain + self.max_epochs

    @property
    def table_rate(self) -> float:
        """Initial learning rate of the tables."""
        return _TABLE_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    def full_softmax(self, graph: Graph) -> bool:
        """Return whether the path loss sums over all nodes (Eq. 5) instead of over sampled negatives."""
        return self.loss == "softmax" or (self.loss == "auto" and graph.num_nodes <= MAX_SOFTMAX_NODES)
