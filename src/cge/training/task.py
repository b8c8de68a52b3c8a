"""What a model is trained on: a graph, its labels, and which labels serve what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from cge.graph import Graph
from cge.models.sparse_products import NodeFeatures

__all__ = ["Task"]


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
