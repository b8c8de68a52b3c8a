"""Settings and parameters: source vectors w, the encoder of target vectors e, the head θ, the weighting network w_A."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.errors import InputError
from cge.graph import Graph
from cge.models.autograd import NodeFeatures, take_rows
from cge.models.paper_networks import FeatureEncoder, InductiveHead, TableEncoder, TransductiveHead
from cge.models.path_networks import PathWeighting
from cge.models.weightings import make_network
from cge.randomness import generator
from cge.training.stored_state import check_array
from cge.training.torch_state import load_module, module_arrays, seeded

MAX_SOFTMAX_NODES = 500  # above, the sum over all nodes is too slow
_TABLE_RATES = {"auto": 0.025, "sgd": 0.025, "adam": 0.01, "adagrad": 0.1}
_HEAD_RATES = {"auto": 0.01, "sgd": 1.0, "adam": 0.01, "adagrad": 0.1}
_ENCODER_RATES = _HEAD_RATES | {"sgd": 0.1}  # for features with a mean square of 1
_WEIGHTING_RATES = {"auto": 0.01, "sgd": 10.0, "adam": 0.01, "adagrad": 0.05}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the paper's algorithm; `cge.PaperCGE` documents them."""

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
    head_lr: float | None
    weight_decay: float
    outer: str
    virtual_lr: float
    weighting_lr: float | None
    outer_steps: int | None
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

    @property
    def head_rate(self) -> float:
        """Learning rate of the head."""
        return _HEAD_RATES[self.optimizer] if self.head_lr is None else self.head_lr

    @property
    def encoder_rate(self) -> float:
        """Learning rate of an inductive encoder: that of the head, unless both are defaults."""
        return _ENCODER_RATES[self.optimizer] if self.head_lr is None else self.head_lr

    @property
    def weighting_rate(self) -> float:
        """Learning rate of the weighting network."""
        return _WEIGHTING_RATES[self.optimizer] if self.weighting_lr is None else self.weighting_lr

    @property
    def network_optimizer(self) -> str:
        """Kind of the optimizer of encoder, heads and weighting network."""
        return "adam" if self.optimizer == "auto" else self.optimizer

    def full_softmax(self, graph: Graph) -> bool:
        """Return whether the path loss sums over all nodes (Eq. 5) instead of over sampled negatives."""
        return self.loss == "softmax" or (self.loss == "auto" and graph.num_nodes <= MAX_SOFTMAX_NODES)


@dataclass(frozen=True)
class ModelShape:
    """Kind and size of a model; `features` is 0 if nodes have none."""

    setting: str
    weighting: str | Callable[[int], PathWeighting]
    nodes: int
    features: int
    classes: int
    dim: int
    hidden: int


class Parameters:
    """The parameters of a model: `sources (n, dim)` float32, updated in place by kernels, and PyTorch modules."""

    def __init__(self, shape: ModelShape, seed: int = 0) -> None:
        self.shape = shape
        random = generator(seed, "sources")
        self.sources = (random.random((shape.nodes, shape.dim), np.float32) - np.float32(0.5)) / np.float32(shape.dim)
        with seeded(seed, "parameters"):
            table = shape.setting == "transductive"
            size = shape.nodes if table else shape.features
            self.encoder: Any = (TableEncoder if table else FeatureEncoder)(size, shape.dim)
            self.head: Any = make_head(shape)
            self.network = make_network(shape.weighting, shape.dim)
            if self.network is not None:
                self.network.eval()  # in training mode only in the outer problem

    def vectors(self, features: NodeFeatures | None, nodes: Tensor | None = None) -> Tensor:
        """Return e of all nodes, or of `nodes`, `(n, dim)`, without gradients."""
        with torch.no_grad():
            vectors: Tensor = self.encoder(features, nodes).detach()
            return vectors

    def scores(self, features: NodeFeatures | None, nodes: Tensor) -> Tensor:
        """Return the class scores of nodes, `(k, classes)`."""
        with torch.no_grad():
            x = None if features is None else take_rows(features, nodes)
            scores: Tensor = self.head(x, self.vectors(features, nodes))
            return scores

    def arrays(self) -> dict[str, Array]:
        """Return copies of all parameters by name."""
        arrays = {"sources": self.sources.copy()}
        for name, module in self._modules():
            arrays |= module_arrays(module, name)
        return arrays

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Load parameters; names and shapes must be those of `arrays()`."""
        unknown = sorted(set(arrays) - set(self.arrays()))
        if unknown:
            raise InputError(f"this model has no parameters {unknown[0]}")
        check_array(arrays, "sources", self.sources.shape)
        self.sources[:] = arrays["sources"]  # in place: an optimizer may refer to this memory
        for name, module in self._modules():
            load_module(module, name, arrays)

    def _modules(self) -> Iterable[tuple[str, nn.Module]]:
        named = (("encoder", self.encoder), ("head", self.head), ("network", self.network))
        return [(name, module) for name, module in named if module is not None]


def make_head(shape: ModelShape) -> Any:
    """Return an untrained head of Eq. 8 (transductive) or Eq. 10 (inductive)."""
    if shape.setting == "transductive":
        return TransductiveHead(shape.features, shape.dim, shape.classes, shape.hidden)
    return InductiveHead(shape.features, shape.dim, shape.classes)
