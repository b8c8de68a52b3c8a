"""`PaperCGE`: the paper's algorithm, which trains vectors on pairs of path ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.classifier import TaskLabels
from cge.estimators.configs import PaperOuterConfig, PaperTrainingConfig, as_config
from cge.estimators.paper_fit import fit_paper
from cge.estimators.paper_model import PaperModel, paper_arrays, paper_metadata, restore_paper
from cge.estimators.path_estimator import PathEstimator, refit_param, validation_fraction_param
from cge.estimators.settings import documented, n_jobs_param, param, random_state_param
from cge.graph import Graph
from cge.models.path_networks import PathWeighting
from cge.models.weightings import network_descriptions


@documented
@dataclass(eq=False, repr=False)
class PaperCGE(PathEstimator):
    """The algorithm of Hou et al., Customized Graph Embedding: CGE-T ("transductive") and CGE-I ("inductive").

    Paths are sub-paths of random walks. The two nodes at the ends of a path are trained as a pair, as in DeepWalk, with
    the weight A(p) that a network assigns to the path; the network is trained by bi-level optimization. With uniform
    weights the model is Planetoid. Equations are those of the paper; `docs/deviations.md` lists where the code departs
    from it.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = PaperCGE(weighting="uniform", dim=8).fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> model.predict([2, 5]).tolist()
    ['left', 'right']
    >>> model.path_weights([[0, 1, 2]]).tolist()
    [1.0]
    """

    setting: str = param(
        "transductive",
        "'transductive' (CGE-T) learns a vector for each node, 'inductive' (CGE-I) computes vectors from features, for "
        "new nodes too",
        choices=("transductive", "inductive"),
    )
    weighting: str | Callable[[int], PathWeighting] = param(
        "lstm",
        "network that computes path weights A(p): {registry}; 'uniform' has no network, A(p) = 1, which is Planetoid",
        choices=("uniform",),
        registry=network_descriptions,
        callables="a callable takes the size of its input and returns a PathWeighting",
    )
    dim: int = param(128, "size of the vectors", low=1, high=4096)
    _: KW_ONLY
    window: int = param(6, "largest number of nodes in a path", low=2, high=100)
    walk_length: int = param(10, "nodes in a walk", low=2)
    walks_per_node: int = param(5, "random walks from each node", low=1)
    loss: str = param(
        "auto",
        "path loss (Eq. 5): 'softmax' over all nodes, or 'negative' sampling; 'auto' depends on the size of the graph",
        choices=("auto", "softmax", "negative"),
    )
    negatives: int = param(5, "negative samples per pair", low=1, high=100)
    unsup_weight: float = param(1.0, "λ: weight of the path loss (Eq. 3)", low=0, high=1000)
    label_pairs: float = param(
        0.1, "pairs of nodes with the same label, as a fraction of the pairs from walks", low=0, high=1
    )
    hidden: int = param(64, "hidden units of the transductive classification head (Eq. 8)", low=1, high=65536)
    validation_fraction: float = validation_fraction_param()
    refit: bool = refit_param()
    outer: str = param(
        "unrolled",
        "gradient of the weighting network: 'unrolled' is the exact gradient through one unrolled inner step, 'paper' "
        "is Eq. 15 as printed",
        choices=("unrolled", "paper"),
    )
    outer_labels: str = param(
        "folds",
        "labels of the outer problem: 'folds' of the training labels, or half of the 'validation' labels",
        choices=("folds", "validation"),
    )
    n_folds: int = param(3, "folds of the training labels", low=2, high=100)
    training: PaperTrainingConfig | dict[str, Any] | None = param(
        None, "how vectors and classification head are trained", config=PaperTrainingConfig
    )
    outer_problem: PaperOuterConfig | dict[str, Any] | None = param(
        None, "how the weighting network is trained", config=PaperOuterConfig
    )
    random_state: int = random_state_param()
    n_jobs: int | None = n_jobs_param()

    @property
    def inductive(self) -> bool:
        """Whether nodes of other graphs than the one of training can be predicted."""
        return self.setting == "inductive"

    def _check_task(self, graph: Graph, labels: TaskLabels) -> None:
        if self.window > self.walk_length:
            problem = Message(
                Message.of("{window} must be at most {walk_length}, because no path is longer than its walk"),
                f", found {self.window} and {self.walk_length}",
            )
            raise InputError(problem, parameter="window")
        if self.setting == "inductive" and graph.features is None:
            problem = Message.of("{setting} needs node features, and the graph has none", setting="inductive")
            hint = Message.of("use {setting}", setting="transductive")
            raise InputError(problem, parameter="setting", hint=hint)
        learns = self.weighting != "uniform" and self.outer == "unrolled"
        if learns and self.outer_labels == "validation" and not len(labels.validation):
            problem = Message.of("{outer_labels} needs validation labels", outer_labels="validation")
            raise InputError(problem, parameter="outer_labels", hint=Message.of("pass {validation}"))
        if learns and self.outer_labels == "folds" and not as_config(PaperTrainingConfig, self.training).pretrain:
            template = "{outer_labels} can train the weighting only while labels do not change the vectors"
            problem = Message.of(template, outer_labels="folds")
            hint = Message.of("use {pretrain} or more, or {outer_labels}", pretrain=1, outer_labels="validation")
            raise InputError(problem, parameter="outer_labels", hint=hint)

    def _train(
        self, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callable[[Any], None] | None
    ) -> PaperModel:
        return fit_paper(self, graph, labels, checkpoints, callback)

    def _stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        model: Any = self.fitted_
        return paper_metadata(model), paper_arrays(model)

    def _restore(self, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: dict[str, Array]) -> PaperModel:
        return restore_paper(self, graph, classes, metadata, arrays)
