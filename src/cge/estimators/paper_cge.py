"""`PaperCGE`: the paper's algorithm, which trains vectors on pairs of path ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.cge_parameters import (
    HiddenUnits,
    LabelPairs,
    NFolds,
    Outer,
    OuterLabels,
    PaperDim,
    PaperOuterProblem,
    PaperTraining,
    PaperWeighting,
    PathLoss,
    PathWindow,
    Refit,
    SettingName,
    UnsupWeight,
    ValidationFraction,
    Walks,
)
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.classifier import TaskLabels
from cge.estimators.configs import PaperTrainingConfig, as_config
from cge.estimators.embeddings import Jobs, Negatives, Seed, WalkLength
from cge.estimators.paper_fit import fit_paper
from cge.estimators.paper_model import PaperModel
from cge.estimators.paper_store import paper_arrays, paper_metadata, restore_paper
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.settings import documented
from cge.graph import Graph


@documented
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

    def __init__(
        self,
        setting: SettingName = "transductive",
        weighting: PaperWeighting = "lstm",
        dim: PaperDim = 128,
        *,
        window: PathWindow = 6,
        walk_length: WalkLength = 10,
        walks_per_node: Walks = 5,
        loss: PathLoss = "auto",
        negatives: Negatives = 5,
        unsup_weight: UnsupWeight = 1.0,
        label_pairs: LabelPairs = 0.1,
        hidden: HiddenUnits = 64,
        validation_fraction: ValidationFraction = 0.2,
        refit: Refit = True,
        outer: Outer = "unrolled",
        outer_labels: OuterLabels = "folds",
        n_folds: NFolds = 3,
        training: PaperTraining = None,
        outer_problem: PaperOuterProblem = None,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.setting = setting
        self.weighting = weighting
        self.dim = dim
        self.window = window
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.loss = loss
        self.negatives = negatives
        self.unsup_weight = unsup_weight
        self.label_pairs = label_pairs
        self.hidden = hidden
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.outer = outer
        self.outer_labels = outer_labels
        self.n_folds = n_folds
        self.training = training
        self.outer_problem = outer_problem
        self.random_state = random_state
        self.n_jobs = n_jobs

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
