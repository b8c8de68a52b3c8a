"""What a model is trained on: a graph, labels, and the role of each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cge.graph import Graph
from cge.models.sparse_products import NodeFeatures
from cge.targets import MultiLabel, SingleLabel, Target


@dataclass(frozen=True, eq=False)
class Task:
    """A graph with the labels of all nodes, and the numbers of training, validation and outer nodes.

    With `outer_only` the `folds` are used in the outer problem only, otherwise they are folds of the training nodes.
    """

    graph: Graph
    features: NodeFeatures | None
    labels: Tensor
    classes: int
    train: Tensor
    validation: Tensor
    folds: Sequence[Tensor] = ()
    outer_only: bool = False
    target: Target = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.target is None:
            kind = MultiLabel if self.labels.ndim == 2 else SingleLabel
            object.__setattr__(self, "target", kind(np.arange(self.classes)))
