"""The settings of `CGE`: what each means and which values are legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cge.estimators.settings import Setting
from cge.models.weighting import PathWeighting

__all__ = [
    "Decay",
    "Encoder",
    "Folds",
    "HeadRate",
    "HeadSteps",
    "HeldOut",
    "Hidden",
    "Loss",
    "Optimizer",
    "OuterLabels",
    "OuterPaths",
    "OuterRule",
    "OuterSteps",
    "PairShare",
    "PathWindow",
    "Patience",
    "Pretrain",
    "Refit",
    "Rounds",
    "Strength",
    "TableRate",
    "UnsupWeight",
    "VirtualRate",
    "Weighting",
    "WeightingRate",
]

Encoder = Annotated[
    str,
    Setting(
        "where vectors come from: 'table' learns one for each node, 'features' computes them from the node's features",
        choices=("table", "features"),
    ),
]
Weighting = Annotated[
    str | Callable[[int], PathWeighting],
    Setting(
        "network that weighs a path; 'none' weighs all alike; a callable is given `dim` and makes a PathWeighting",
        choices=("none", "average", "cnn", "lstm"),
        open_to_callables=True,
    ),
]
PathWindow = Annotated[int, Setting("nodes in the longest path", low=2, high=100)]
Loss = Annotated[
    str,
    Setting(
        "path loss: 'softmax' over all nodes, 'negative' samples some; 'auto' goes by the size of the graph",
        choices=("auto", "softmax", "negative"),
    ),
]
Pretrain = Annotated[int, Setting("rounds in which labels do not touch the vectors, before the others", low=0)]
Rounds = Annotated[int, Setting("rounds at most after pre-training, each once over all walks", low=1)]
Patience = Annotated[int, Setting("rounds without a better validation accuracy before training stops", low=1)]
HeldOut = Annotated[
    float, Setting("share of the labels that chooses the round where no validation labels are given", low=0, high=0.5)
]
Refit = Annotated[bool, Setting("train again on all labels once held-out ones have chosen the round")]
Optimizer = Annotated[
    str,
    Setting(
        "'sgd' (as in the paper), 'adam' or 'adagrad'; 'auto' is sgd for tables and adam for networks",
        choices=("auto", "sgd", "adam", "adagrad"),
    ),
]
TableRate = Annotated[
    float | None,
    Setting(
        "first learning rate of the tables; it falls linearly; None goes by `optimizer`",
        above=0,
        high=10,
        optional=True,
    ),
]
UnsupWeight = Annotated[float, Setting("λ: weight of the path loss", low=0, high=1000)]
PairShare = Annotated[float, Setting("same-label pairs, as a share of the pairs of walks", low=0, high=1)]
Strength = Annotated[float, Setting("step by which labels move the vectors themselves in each round", low=0, high=100)]
Hidden = Annotated[int, Setting("width of the head's hidden layers (encoder 'table')", low=1, high=65536)]
HeadSteps = Annotated[int, Setting("steps of the head in a round", low=1)]
HeadRate = Annotated[float, Setting("learning rate of the head and of a feature encoder", above=0, high=10)]
Decay = Annotated[float, Setting("weight decay of the head", low=0, high=10)]
OuterRule = Annotated[
    str,
    Setting("'unrolled': the exact one-step gradient; 'paper': Eq. 15 as printed", choices=("unrolled", "paper")),
]
OuterLabels = Annotated[
    str,
    Setting(
        "labels that train the weights: 'folds' of the training labels, or half of the 'validation' labels",
        choices=("folds", "validation"),
    ),
]
Folds = Annotated[int, Setting("parts of the training labels", low=2, high=100)]
VirtualRate = Annotated[float, Setting("ξ: virtual step of the outer problem; 0 is first order", low=0, high=1e6)]
WeightingRate = Annotated[float, Setting("learning rate of the weighting network", above=0, high=10)]
OuterSteps = Annotated[int, Setting("steps of the weighting network in a round", low=1)]
OuterPaths = Annotated[int, Setting("paths looked at in such a step", low=1)]
