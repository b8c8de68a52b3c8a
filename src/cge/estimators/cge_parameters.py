"""The constructor parameters of `CGE` and `PaperCGE`: what each means and which values are legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from cge.estimators.configs import OuterConfig, PaperOuterConfig, PaperTrainingConfig, TrainingConfig
from cge.estimators.settings import Setting
from cge.models.path_networks import PathWeighting
from cge.models.weightings import network_descriptions, weighting_descriptions
from cge.targets import TASKS
from cge.training.classifier_registry import classifier_descriptions

# ---------------------------------------------------------------------- both

ValidationFraction = Annotated[
    float,
    Setting(
        "fraction of the training labels held out as validation labels where none are passed to fit", low=0, high=0.5
    ),
]
TaskName = Annotated[
    str,
    Setting(
        "kind of target: 'classification' (single-label or multilabel) or 'regression' (numbers)",
        choices=TASKS,
    ),
]
Refit = Annotated[
    bool, Setting("train again on all labels, for the best number of epochs, after labels were held out for validation")
]

# ---------------------------------------------------------------------- CGE

Weighting = Annotated[
    str | Callable[[int], PathWeighting],
    Setting(
        "path weighting. 'auto' selects one that is not a network, on the validation labels. {registry}",
        choices=("auto",),
        registry=weighting_descriptions,
        callables="a callable takes the size of its input and returns a PathWeighting",
    ),
]
Dim = Annotated[
    int | None,
    Setting("size of the vectors", low=1, high=4096, optional=True, none="32, or 64 for more than 32 classes"),
]
Hops = Annotated[int, Setting("largest number of edges in a path; 0 uses only the node itself", low=0, high=100)]
Inputs = Annotated[
    str,
    Setting(
        "node inputs that are propagated along paths: the node 'features', a 'learned' embedding table, or vectors of "
        "random 'walks'; 'auto' uses features where the graph has them, else walks for multilabel tasks, else learned",
        choices=("auto", "features", "learned", "walks"),
    ),
]
ClassifierName = Annotated[
    str,
    Setting(
        "classifier on the propagated inputs: {registry}; 'auto' selects one on the validation labels, or averages two",
        choices=("auto",),
        registry=classifier_descriptions,
    ),
]
LabelPropagationMode = Annotated[
    str,
    Setting(
        "whether propagated training labels are added to the class scores; a node never receives its own label "
        "(leave-one-out); 'auto' decides on the "
        "validation labels",
        choices=("auto", "yes", "no"),
    ),
]
PriorCorrection = Annotated[
    str,
    Setting(
        "whether class scores are shifted from the class frequencies of the training labels to those of the validation "
        "labels; 'auto' decides on the validation labels",
        choices=("auto", "no"),
    ),
]
NEstimators = Annotated[
    int,
    Setting(
        "number of differently seeded models per classifier; their probabilities are averaged",
        low=1,
        high=100,
    ),
]
ClassWeight = Annotated[
    str | None,
    Setting(
        "'balanced' weights classes inversely to their frequency in the loss", choices=("balanced",), optional=True
    ),
]
SampledWalks = Annotated[
    int, Setting("walks per node from which the networks 'average', 'cnn' and 'lstm' sample paths", low=1)
]
Training = Annotated[
    TrainingConfig | dict[str, Any] | None,
    Setting("how the classifiers are trained: epochs, learning rate, augmentation", config=TrainingConfig),
]
OuterProblem = Annotated[
    OuterConfig | dict[str, Any] | None,
    Setting("how a learned weighting is trained (bi-level optimization)", config=OuterConfig),
]

# ---------------------------------------------------------------------- PaperCGE

SettingName = Annotated[
    str,
    Setting(
        "'transductive' (CGE-T) learns a vector for each node, 'inductive' (CGE-I) computes vectors from features, for "
        "new nodes too",
        choices=("transductive", "inductive"),
    ),
]
PaperWeighting = Annotated[
    str | Callable[[int], PathWeighting],
    Setting(
        "network that computes path weights A(p): {registry}; 'uniform' has no network, A(p) = 1, which is Planetoid",
        choices=("uniform",),
        registry=network_descriptions,
        callables="a callable takes the size of its input and returns a PathWeighting",
    ),
]
PaperDim = Annotated[int, Setting("size of the vectors", low=1, high=4096)]
PathWindow = Annotated[int, Setting("largest number of nodes in a path", low=2, high=100)]
Walks = Annotated[int, Setting("random walks from each node", low=1)]
PathLoss = Annotated[
    str,
    Setting(
        "path loss (Eq. 5): 'softmax' over all nodes, or 'negative' sampling; 'auto' depends on the size of the graph",
        choices=("auto", "softmax", "negative"),
    ),
]
UnsupWeight = Annotated[float, Setting("λ: weight of the path loss (Eq. 3)", low=0, high=1000)]
LabelPairs = Annotated[
    float, Setting("pairs of nodes with the same label, as a fraction of the pairs from walks", low=0, high=1)
]
HiddenUnits = Annotated[int, Setting("hidden units of the transductive classification head (Eq. 8)", low=1, high=65536)]
Outer = Annotated[
    str,
    Setting(
        "gradient of the weighting network: 'unrolled' is the exact gradient through one unrolled inner step, 'paper' "
        "is Eq. 15 as printed",
        choices=("unrolled", "paper"),
    ),
]
OuterLabels = Annotated[
    str,
    Setting(
        "labels of the outer problem: 'folds' of the training labels, or half of the 'validation' labels",
        choices=("folds", "validation"),
    ),
]
NFolds = Annotated[int, Setting("folds of the training labels", low=2, high=100)]
PaperTraining = Annotated[
    PaperTrainingConfig | dict[str, Any] | None,
    Setting("how vectors and classification head are trained", config=PaperTrainingConfig),
]
PaperOuterProblem = Annotated[
    PaperOuterConfig | dict[str, Any] | None,
    Setting("how the weighting network is trained", config=PaperOuterConfig),
]
