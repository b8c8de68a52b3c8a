"""What a trained `CGE` or `PaperCGE` consists of: the interface that reports, explanations and commands use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.explain.contribution_tables import Labels
from cge.explain.explainer import Explainer
from cge.explain.path_sources import AllPaths
from cge.graph import Graph
from cge.models.weightings import is_learned
from cge.store import metadata_field, metadata_record
from cge.targets import Target
from cge.training.history import History

SELECTED = ("weight_parameters", "classifiers", "label_propagation", "prior_correction", "search_results")


@dataclass(frozen=True, eq=False)
class LabeledNodes:
    """Nodes with labels: `nodes (k,)` and the labels as a matrix, `(k, c)`."""

    nodes: Array
    matrix: Array

    def __len__(self) -> int:
        return len(self.nodes)

    def table(self, target: Target) -> Labels:
        """Return the labels as explanations show them."""
        order = np.argsort(self.nodes)
        return Labels(target, self.nodes[order], self.matrix[order])

    def arrays(self, name: str) -> dict[str, Array]:
        """Return the arrays that a model folder stores, by name."""
        kind = np.int8 if self.matrix.dtype.kind in "iub" else np.float64
        return {f"{name}.nodes": self.nodes.astype(np.int64), f"{name}.labels": self.matrix.astype(kind)}


@dataclass(frozen=True, eq=False)
class ValidationNodes(LabeledNodes):
    """Validation labels, with the calibrated `probabilities (k, c)` of a training that had not seen them."""

    probabilities: Array

    def arrays(self, name: str) -> dict[str, Array]:
        """Return the arrays that a model folder stores, by name."""
        return super().arrays(name) | {f"{name}.probabilities": self.probabilities.astype(np.float32)}


def normalized_by_start(start: Array, values: Array, nodes: int) -> Array:
    """Return values as shares of all values of the same start."""
    share: Array = values / np.maximum(np.bincount(start, values, minlength=nodes), 1e-12)[start]
    return share


def stored_labels(arrays: Mapping[str, Array], nodes: int, classes: int) -> tuple[LabeledNodes, ValidationNodes]:
    """Return the training and validation labels that a model folder stores."""
    if "validation.probabilities" not in arrays:
        raise InputError("the probabilities of the validation labels are missing")
    probabilities = np.array(arrays["validation.probabilities"], np.float32)
    validation = _stored_labels(arrays, "validation", nodes, classes)
    if probabilities.shape != validation.matrix.shape:
        raise InputError("the validation labels and their probabilities do not agree")
    train = _stored_labels(arrays, "train", nodes, classes)
    return train, ValidationNodes(validation.nodes, validation.matrix, probabilities)


def _stored_labels(arrays: Mapping[str, Array], name: str, nodes: int, classes: int) -> LabeledNodes:
    labeled, matrix = np.array(arrays[f"{name}.nodes"]), np.array(arrays[f"{name}.labels"])
    matrix = matrix.astype(np.int64) if matrix.dtype.kind in "iub" else matrix
    inside = labeled.dtype == np.int64 and (not len(labeled) or 0 <= labeled.min() <= labeled.max() < nodes)
    if matrix.shape != (len(labeled), classes) or not inside:
        raise InputError(f"the {name} labels do not belong to this graph")
    return LabeledNodes(labeled, matrix)


@dataclass(frozen=True, eq=False)
class FitLog:
    """How a fit went: epochs, the best one, and how many labels served what.

    `cross_validated`: the validation labels are training labels, each predicted by a classifier trained on other folds.
    """

    history: History
    best_epoch: int
    selection_history: History | None  # the epochs that selected the best one, where a second training followed
    labels_seen: dict[str, int]
    notices: tuple[Message, ...] = ()  # what `fit` warns of
    cross_validated: bool = False

    def metadata(self) -> dict[str, Any]:
        """Return the log for the metadata of a model folder."""
        selection = self.selection_history
        return {
            "best_epoch": self.best_epoch,
            "cross_validated": self.cross_validated,
            "history": self.history.rows(),
            "labels_seen": self.labels_seen,
            "selection_history": None if selection is None else selection.rows(),
        }


def restore_log(metadata: Mapping[str, Any], epoch: Any) -> FitLog:
    """Return how a fit went; `epoch` is the class of a row of its history."""
    rows = metadata_field(metadata, "selection_history", list, type(None))
    selection = None if rows is None else History([metadata_record(epoch, row) for row in rows])
    history = History([metadata_record(epoch, row) for row in metadata_field(metadata, "history", list)])
    counts = metadata_field(metadata, "labels_seen", dict)
    labels_seen = {name: int(metadata_field(counts, name, int)) for name in ("train", "outer", "validation")}
    known = {"cross_validated": False} | dict(metadata)  # not in the folders of earlier versions
    cross_validated = metadata_field(known, "cross_validated", bool)
    best_epoch = metadata_field(metadata, "best_epoch", int)
    return FitLog(history, best_epoch, selection, labels_seen, cross_validated=cross_validated)


@dataclass(eq=False, kw_only=True)
class FittedModel(ABC):
    """A trained model, by node numbers.

    `inductive`: nodes of other graphs can be predicted. `exact`: class scores are a sum over paths, not only attributed
    to paths. `weighting_selected`: validation labels selected the weighting. `gain_over_uniform`: validation accuracy
    above that of uniform weights, with its standard error, where the search measured it.
    """

    exact: ClassVar[bool]
    target: Target
    train: LabeledNodes
    validation: ValidationNodes
    log: FitLog
    graph: Graph = field(init=False)
    weighting_name: str = field(init=False)
    inductive: bool = field(init=False)
    weighting_selected: bool = field(init=False)
    gain_over_uniform: tuple[float, float] | None = field(init=False)

    @property
    @abstractmethod
    def temperature(self) -> float:
        """The temperature of the calibrated probabilities."""

    @property
    def validation_score(self) -> float | None:
        """The score of the predictions on the validation labels: accuracy, micro-F1 or R²; None without such labels."""
        if not len(self.validation):
            return None
        return self.target.score_outputs(self.validation.probabilities, self.validation.matrix)

    @property
    def weight_parameters(self) -> dict[str, Any] | None:
        """What determines path weights, see `CGE.weight_parameters_`; None for the paper's algorithm."""
        return None

    @property
    def edge_coefficients(self) -> dict[str, float]:
        """The coefficients of the edge inputs; empty for networks and weights of metapaths."""
        return dict((self.weight_parameters or {}).get("coefficients", {}))

    @property
    def hop_weights(self) -> list[float]:
        """The weights of paths of 0, 1, … hops; empty for networks and weights of metapaths."""
        return list((self.weight_parameters or {}).get("hop_weights", ()))

    @property
    def selected(self) -> dict[str, Any]:
        """What the model search selected, by name; None for the paper's algorithm, which has no search."""
        return dict.fromkeys(SELECTED)

    def warm_up(self) -> None:  # noqa: B027 - nothing for the paper's algorithm
        """Compute what all predictions share, before the first one."""

    def default_rows(self, graph: Graph) -> Array:
        """Return the nodes of a graph that are predicted by default: all, or those of the type of training labels."""
        types, names = self.graph.node_types, self.graph.node_type_names
        name = "" if types is None or not len(self.train) else names[types[self.train.nodes[0]]]
        return graph.nodes_of_type(name) if name in graph.node_type_names else np.arange(len(graph))

    @abstractmethod
    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, dim)`."""

    @abstractmethod
    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""

    @abstractmethod
    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return the weights of paths of node indices, `(k,)`."""

    def _labels_in(self, graph: Graph | None) -> tuple[Array, Array]:
        """Return the nodes of a graph that have a training label, and their classes as zeros and ones."""
        if graph is None:
            return self.train.nodes, self.train.matrix
        ids = self.graph.node_ids[self.train.nodes]
        present = graph.contains(ids)
        return graph.indices_of(ids[present]), self.train.matrix[present]

    def classifier_names(self) -> list[str]:
        """Return the names of the classifiers that are averaged."""
        return ["head"]

    @property
    def registered_classifiers(self) -> list[str]:
        """The names of those in the table of classifiers, each once; none for the head of the paper's algorithm."""
        return []

    def weighting_names(self) -> list[str]:
        """Return the names of their weightings, each once."""
        return [self.weighting_name]

    @abstractmethod
    def explainer(self, classifier: int, seed: int, graph: Graph | None = None, rows: Array | None = None) -> Explainer:
        """Return what explains predictions for all nodes, or for `rows` of a graph, by default that of training.

        `classifier` is the index of one in an ensemble.
        """

    def uniform_paths(self) -> AllPaths:
        """Return all paths of the training graph with uniform weights."""
        raise InputError("the paper's algorithm has no weights of metapaths", hint="train a CGE")

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a model folder."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a model folder, by name."""


def learned_weights_unused(model: FittedModel) -> bool:
    """Say whether weights were learned in the model search, but all classifiers have fixed weightings."""
    any_learned = any(map(is_learned, model.weighting_names()))
    return model.weighting_selected and model.log.labels_seen["outer"] > 0 and not any_learned
