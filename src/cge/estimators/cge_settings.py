"""The settings of `CGE`: what each means and which values are legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cge.estimators.settings import Setting
from cge.models.path_networks import PathWeighting

__all__ = [
    "ClassWeight",
    "ClassifierName",
    "ConsistencyWeight",
    "Decay",
    "DropFeature",
    "DropNode",
    "Dropout",
    "Encoder",
    "HeadRate",
    "HeadSteps",
    "Hidden",
    "Hops",
    "Inputs",
    "LabelPropagationMode",
    "Loss",
    "MaxEpochs",
    "NAugmentations",
    "NEstimators",
    "NFolds",
    "Optimizer",
    "OuterLabels",
    "OuterPaths",
    "OuterRule",
    "OuterSteps",
    "PairShare",
    "PathWindow",
    "Patience",
    "Pretrain",
    "PriorCorrection",
    "Refit",
    "Sharpening",
    "Strength",
    "TableRate",
    "UnsupWeight",
    "ValidationFraction",
    "VectorSize",
    "VirtualRate",
    "Walks",
    "Weighting",
    "WeightingRate",
]

Encoder = Annotated[
    str,
    Setting(
        "where vectors come from: 'paths' sums what lies at the ends of weighted paths; in the paper's algorithm "
        "'table' learns one for each node and 'features' computes them from the node's features",
        choices=("paths", "table", "features"),
    ),
]
Weighting = Annotated[
    str | Callable[[int], PathWeighting],
    Setting(
        "what weighs a path: 'none' weighs all alike, 'degree' discounts ends of high degree, 'cosine' follows steps "
        "between similar nodes, 'gates' learns which steps to follow, 'steps' how far as well, 'average', 'cnn' and "
        "'lstm' are networks over the whole path; 'auto' asks the selection labels with encoder 'paths' and is 'lstm' "
        "otherwise; a callable is given the size of its input and makes a PathWeighting",
        choices=("auto", "uniform", "degree", "cosine", "edges", "edges+hops", "average", "cnn", "lstm"),
        open_to_callables=True,
    ),
]
VectorSize = Annotated[
    int | None,
    Setting(
        "numbers in a vector; None is 128, but with encoder 'paths' 32, or 64 for more than 32 classes",
        low=1,
        high=4096,
        optional=True,
    ),
]
Hops = Annotated[
    int, Setting("encoder 'paths': steps in the longest path; 0 looks at nobody but the node itself", low=0, high=100)
]
Inputs = Annotated[
    str,
    Setting(
        "encoder 'paths': what nodes carry: 'features', a learned 'table' or vectors of 'walks'; 'auto' takes features "
        "where there are any, else walks for several labels per node, else the table",
        choices=("auto", "features", "learned", "walks"),
    ),
]
LabelPropagationMode = Annotated[
    str,
    Setting(
        "encoder 'paths': whether the known labels at the ends of paths vote as well; 'auto' asks the selection labels",
        choices=("auto", "yes", "no"),
    ),
]
PriorCorrection = Annotated[
    str,
    Setting(
        "encoder 'paths': whether classes are expected as often as among given selection labels, and not as often as "
        "among training labels; 'auto' asks the selection labels",
        choices=("auto", "no"),
    ),
]
ClassifierName = Annotated[
    str,
    Setting(
        "encoder 'paths': how classes are read off: 'plain' learns from labels only, 'deep' also from agreement on the "
        "other nodes, 'sparse' likewise and from few features, 'gentle' so with less agreement, 'taught' from the "
        "votes of known labels; 'auto' asks the selection labels and may average two",
        choices=("auto", "mlp", "consistency", "sparse", "sparse-light", "distilled"),
    ),
]
NEstimators = Annotated[int, Setting("encoder 'paths': trainings of each reader that are averaged", low=1, high=100)]
ClassWeight = Annotated[
    str,
    Setting("encoder 'paths': 'balanced' lets every class count alike in the loss", choices=("none", "balanced")),
]
NAugmentations = Annotated[
    int | None,
    Setting("encoder 'paths': disturbed passes in an epoch; None goes by `classifier`", low=1, high=100, optional=True),
]


def _dropped(what: str) -> Setting:
    return Setting(f"encoder 'paths': share of {what}; None goes by `classifier`", low=0, high=0.95, optional=True)


DropNode = Annotated[float | None, _dropped("nodes whose payload a pass drops")]
DropFeature = Annotated[float | None, _dropped("single features that a pass drops")]
Dropout = Annotated[float | None, _dropped("hidden numbers that a pass drops")]
ConsistencyWeight = Annotated[
    float | None,
    Setting(
        "encoder 'paths': weight of the agreement between passes; None goes by `classifier`",
        low=0,
        high=100,
        optional=True,
    ),
]
Sharpening = Annotated[
    float | None,
    Setting(
        "encoder 'paths': how sharp a prediction passes have to agree on, the lower the sharper; None goes by `classifier`",
        low=0.01,
        high=1,
        optional=True,
    ),
]
Walks = Annotated[
    int | None,
    Setting(
        "walks from each node; None is 20 with encoder 'paths', which needs them for networks only, and 5 otherwise",
        low=1,
        optional=True,
    ),
]
PathWindow = Annotated[int, Setting("nodes in the longest path, without encoder 'paths'", low=2, high=100)]
Loss = Annotated[
    str,
    Setting(
        "path loss: 'softmax' over all nodes, 'negative' samples some; 'auto' goes by the size of the graph",
        choices=("auto", "softmax", "negative"),
    ),
]
Pretrain = Annotated[int, Setting("rounds in which labels do not touch the vectors, before the others", low=0)]
MaxEpochs = Annotated[
    int | None,
    Setting(
        "rounds at most after pre-training, each once over all walks; with encoder 'paths', epochs; None is 4, or goes "
        "by `classifier`",
        low=1,
        optional=True,
    ),
]
Patience = Annotated[
    int | None,
    Setting(
        "rounds without a better validation accuracy before training stops; None is 3, or 100 epochs with encoder "
        "'paths'",
        low=1,
        optional=True,
    ),
]
ValidationFraction = Annotated[
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
        "first learning rate of the tables, which falls linearly; with encoder 'paths', that of readers; None goes by "
        "`optimizer` or `classifier`",
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
Decay = Annotated[
    float | None,
    Setting(
        "weight decay of the head, or of readers; None is 0.0005, or goes by `classifier`",
        low=0,
        high=10,
        optional=True,
    ),
]
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
NFolds = Annotated[int, Setting("parts of the training labels", low=2, high=100)]
VirtualRate = Annotated[float, Setting("ξ: virtual step of the outer problem; 0 is first order", low=0, high=1e6)]
WeightingRate = Annotated[float, Setting("learning rate of the weighting network", above=0, high=10)]
OuterSteps = Annotated[int, Setting("steps of the weighting network in a round", low=1)]
OuterPaths = Annotated[int, Setting("paths looked at in such a step", low=1)]
