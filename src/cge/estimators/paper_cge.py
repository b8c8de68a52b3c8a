"""`PaperCGE`: the paper's algorithm, which trains vectors on pairs of path ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.classifier import TaskLabels, folds_of
from cge.estimators.configs import PaperOuterConfig, PaperTrainingConfig, flat_params
from cge.estimators.fitted_model import FitLog, LabeledNodes, ValidationNodes
from cge.estimators.path_estimator import REFIT, VALIDATION_FRACTION, Callback, PathEstimator
from cge.estimators.persistence import Checkpoints
from cge.estimators.settings import N_JOBS, RANDOM_STATE, documented, param
from cge.graph import Graph
from cge.models.weightings import network_descriptions
from cge.targets import Task
from cge.training.candidates import MIN_VALIDATION

if TYPE_CHECKING:
    from cge.estimators.paper_model import PaperModel
    from cge.models.path_networks import PathWeighting
    from cge.training.paper_parameters import TrainingSettings

_COLLAPSED, _CONSTANT = 0.02, 0.02  # mean of A below the one, relative standard deviation of A below the other


@documented
@dataclass(eq=False, repr=False)
class PaperCGE(PathEstimator):
    """The algorithm of Hou et al., Customized Graph Embedding: CGE-T ("transductive") and CGE-I ("inductive").

    Paths are sub-walks of random walks. The two nodes at the ends of a path are trained as a pair, as in DeepWalk, with
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
        "which of the paper's two models",
        choices={
            "transductive": "CGE-T learns a vector for each node",
            "inductive": "CGE-I computes vectors from features, for new nodes too",
        },
    )
    weighting: str | Callable[[int], PathWeighting] = param(
        "lstm",
        "network that computes path weights A(p) from node vectors",
        choices={"uniform": "no network, A(p) = 1 (Planetoid)"},
        registry=network_descriptions,
        callables="a callable takes the dimension of the vectors along a path and returns a `PathWeighting`",
    )
    dim: int = param(128, "dimension of the vectors (embeddings)", low=1, high=4096)
    _: KW_ONLY
    window: int = param(6, "maximum number of nodes of a path", low=2, high=100)
    walk_length: int = param(10, "nodes in a walk", low=2)
    walks_per_node: int = param(5, "random walks from each node", low=1)
    loss: str = param(
        "auto",
        "path loss (Eq. 5)",
        choices={"auto": "by the size of the graph", "softmax": "over all nodes", "negative": "sampling"},
    )
    negatives: int = param(5, "negative samples per pair", low=1, high=100)
    unsup_weight: float = param(1.0, "λ: weight of the path loss (Eq. 3)", low=0, high=1000)
    label_pairs: float = param(
        0.1, "pairs of nodes with the same label, as a fraction of the pairs from walks", low=0, high=1
    )
    hidden: int = param(64, "hidden units of the transductive classification head (Eq. 8)", low=1, high=65536)
    validation_fraction: float = param(0.2, VALIDATION_FRACTION, low=0, high=0.5)
    refit: bool = param(True, REFIT)
    outer: str = param(
        "unrolled",
        "gradient of the weighting network",
        choices={"unrolled": "of the held-out loss, through one unrolled inner step", "paper": "Eq. 15 as printed"},
    )
    outer_labels: str = param(
        "folds",
        "labels of the outer problem",
        choices={"folds": "folds of the training labels", "validation": "half of the validation labels"},
    )
    n_folds: int = param(3, "folds of the training labels", low=2, high=100)
    training: PaperTrainingConfig | dict[str, Any] | None = param(
        None, "how vectors and classification head are trained", config=PaperTrainingConfig
    )
    outer_problem: PaperOuterConfig | dict[str, Any] | None = param(
        None, "how the weighting network is trained", config=PaperOuterConfig
    )
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    @property
    def inductive(self) -> bool:
        """Whether nodes of other graphs than the training graph can be predicted."""
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

    def _outer_labels(self, codes: Array, train_idx: Array, validation_idx: Array) -> StageLabels:
        """Return the labels of a training, of which some are labels of the outer problem."""
        folds, remaining = _outer_folds(self, codes, train_idx, validation_idx)
        return StageLabels(codes, train_idx, remaining, folds, self.outer_labels == "validation")

    def _train(self, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback) -> PaperModel:
        """Train, with labels held out for validation and a second training where no validation labels are given."""
        import torch

        from cge.estimators.paper_model import PaperModel, normalized_features
        from cge.training.paper_training import train

        settings, stages = training_settings(self), label_stages(self, labels)
        features, seen = normalized_features(graph.features, self.n_jobs), count_labels(stages)

        def run(part: StageLabels, stage: str, stop_after: int | None = None) -> Any:
            arrays = part.train, part.validation, *part.folds
            nodes = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
            roles = nodes[0], nodes[1], nodes[2:]
            task = Task(graph, features, torch.from_numpy(part.codes), labels.target, *roles, part.outer_only)
            saved, writer = checkpoints.read(stage), checkpoints.writer(stage)
            return train(task, settings, stop_after=stop_after, saved=saved, callback=callback, on_state=writer)

        train_idx, validation_idx, refit = stages[0].train, stages[0].validation, len(stages) > 1
        trained = run(stages[0], "select" if refit else "train")
        matrix = labels.matrix(validation_idx)
        model = PaperModel(
            graph=graph,
            features=features,
            parameters=trained.parameters,
            train=LabeledNodes(train_idx, labels.matrix(train_idx)),
            validation=ValidationNodes(validation_idx, matrix, np.empty((0, len(labels.classes)))),
            target=labels.target,
            log=FitLog(trained.history, trained.best_epoch, None, seen),
            window=self.window,
            n_jobs=self.n_jobs,
        )
        if len(validation_idx) >= MIN_VALIDATION:
            plain = model.probabilities(None, validation_idx)
            model.temperature = labels.target.fit_temperature(plain, labels.codes[validation_idx])
        model.validation = ValidationNodes(validation_idx, matrix, model.probabilities(None, validation_idx))
        if refit:
            again = run(stages[1], "refit", trained.best_epoch)
            model = replace(
                model,
                parameters=again.parameters,
                train=LabeledNodes(labels.train, labels.matrix(labels.train)),
                log=FitLog(again.history, again.best_epoch, trained.history, seen),
            )
        model.log = replace(model.log, notices=_notices(model.log, self.outer))
        return model

    def _restore(self, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: dict[str, Array]) -> PaperModel:
        from cge.estimators.paper_model import restore_paper

        return restore_paper(self, graph, classes, metadata, arrays)


class StageLabels(NamedTuple):
    """The labels of one training: `codes` of all nodes, and the numbers of training, validation and outer nodes.

    With `outer_only` the `folds` are used in the outer problem only, otherwise they are folds of the training nodes.
    """

    codes: Array
    train: Array
    validation: Array
    folds: Sequence[Array]
    outer_only: bool


def label_stages(estimator: PaperCGE, labels: TaskLabels) -> tuple[StageLabels, ...]:
    """Return the labels of the first training, and of the second, on all of them, where one follows."""
    train_idx, validation_idx, refit, _ = labels.split(estimator)
    parts = [(train_idx, validation_idx)] + [(labels.train, np.empty(0, np.int64))] * refit
    return tuple(estimator._outer_labels(labels.codes, *part) for part in parts)


def count_labels(stages: Sequence[StageLabels]) -> dict[str, int]:
    """Return how many labels the last training uses, and how many validate the first."""
    last = stages[-1]
    outer = sum(map(len, last.folds))
    return {"train": len(last.train), "outer": outer, "validation": len(stages[0].validation)}


def training_settings(estimator: PaperCGE) -> TrainingSettings:
    """Return the settings of a training."""
    from cge.training.paper_parameters import TrainingSettings

    params, names = flat_params(estimator), [field.name for field in fields(TrainingSettings) if field.name != "seed"]
    return TrainingSettings(**{name: params[name] for name in names}, seed=estimator.random_state)


def _outer_folds(
    estimator: PaperCGE, codes: Array, train_idx: Array, validation_idx: Array
) -> tuple[Sequence[Array], Array]:
    """Return the labels of the outer problem in folds, and the validation labels that remain."""
    if estimator.weighting == "uniform" or estimator.outer == "paper":  # Eq. 15 as printed uses no labels
        return [], validation_idx
    if estimator.outer_labels == "folds":
        if len(train_idx) < 2:
            hint = Message.of("label more, or use {weighting}", weighting="uniform")
            raise InputError("weights are learned from at least two labeled nodes", parameter="weighting", hint=hint)
        return folds_of(codes, train_idx, estimator.n_folds, estimator.random_state), validation_idx
    if len(validation_idx) < 2:
        problem = Message.of("{outer_labels} needs at least two validation labels", outer_labels="validation")
        raise InputError(problem, parameter="outer_labels", hint="pass more of them")
    outer, remaining = folds_of(codes, validation_idx, 2, estimator.random_state)
    return [outer], remaining


def _notices(log: FitLog, outer: str) -> tuple[Message, ...]:
    """Return what to warn of: learned weights that collapsed, or are nearly constant."""
    # A second training may end before the weights collapse as they did in the first.
    best, last = log.history[log.best_epoch - 1], (log.selection_history or log.history)[-1]
    if last.weight_mean is None:
        return ()
    if last.weight_mean < _COLLAPSED:
        used = f" (epoch {best.epoch}, which is used, has {best.weight_mean:.2g})"
        used = "" if best.weight_mean < _COLLAPSED else used
        problem = f"path weights collapsed to a mean of {last.weight_mean:.2g}{used}, so paths hardly train the vectors"
        use = Message.of("use {outer}", outer="unrolled")
        hint = use if outer == "paper" else Message.of("try a lower {weighting_lr}")
        return (Message(problem, "; ", hint),)
    if best.weight_std < _CONSTANT * best.weight_mean:
        problem = f"path weights are nearly constant ({best.weight_mean:.2g} ± {best.weight_std:.2g})"
        uniform = Message.of("{weighting} gives about the same vectors", weighting="uniform")
        return (Message(problem, "; ", uniform),)
    return ()
