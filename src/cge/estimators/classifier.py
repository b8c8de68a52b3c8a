"""What all node classifiers share: labels as class numbers, and predictions from probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cge.arrays import Array
from cge.data.splits import folds as stratified_folds
from cge.errors import MAKE_GRAPH, InputError, Message, qualified_type
from cge.estimators.estimator import Estimator, not_fitted
from cge.estimators.persistence import save_estimator
from cge.estimators.settings import check_settings
from cge.graph import Graph
from cge.graph_conversions import object_kind
from cge.graph_types import check_label_type
from cge.store import pack_values, unpack_values
from cge.targets import Target, encode_target, restore_target

_VALIDATION_FRACTION = 0.2  # of the training labels, where no validation labels are passed
_MIN_HELD_OUT = 50  # labels: where fewer are held out, they are cross-fitted instead
_CROSS_FIT_FOLDS = 3
_MIN_CROSS_FIT = 20  # held-out labels in all folds; fewer cannot choose a number of epochs


def check_fitted(estimator: Any) -> None:
    """Refuse to use an estimator before `fit`."""
    if not hasattr(estimator, "graph_"):
        raise not_fitted(f"this {type(estimator).__name__} has not been trained yet; call fit first")


def as_graph(graph: Any) -> Graph:
    """Return what `fit` takes as a graph: a `Graph`, or an object that `Graph.of` understands."""
    if object_kind(graph) is None:
        raise InputError(f"fit takes a cge.Graph, found {qualified_type(graph)}", hint=MAKE_GRAPH)
    return Graph.of(graph)


class LabelSplit(NamedTuple):
    """Which labels a fit first trains on and which validate it, and whether a training on all labels follows.

    Under cross-validation, `folds` are pairs of training and held-out nodes, `train` are all training labels, and
    `validation` are the held-out nodes of one fold after the other.
    """

    train: Array
    validation: Array
    refit: bool
    folds: Sequence[tuple[Array, Array]] = ()


@dataclass(frozen=True, eq=False)
class TaskLabels:
    """The labels of a task: `codes (n, …)` of all nodes, their target, and the training and validation nodes.

    `choice` is the hyperparameter that validation labels selected before they became training labels.
    """

    codes: Array
    target: Target
    train: Array
    validation: Array
    choice: Any = None

    @property
    def classes(self) -> Array:
        """The classes, `(c,)`."""
        return self.target.classes

    @property
    def nodes(self) -> Array:
        """The labeled nodes, ascending."""
        return np.union1d(self.train, self.validation)

    @property
    def strata(self) -> Array:
        """The classes that folds are stratified by."""
        return self.target.strata(self.codes)

    def split(self, estimator: Any) -> LabelSplit:
        """Return the labels that a fit first trains on and those that validate it."""
        if len(self.validation):
            return LabelSplit(self.train, self.validation, refit=False)
        folds = self.cross_fit(estimator)
        if folds:
            return LabelSplit(self.train, np.concatenate([held_out_idx for _, held_out_idx in folds]), True, folds)
        fraction, seed = estimator.validation_fraction, estimator.random_state
        train_idx, validation_idx = hold_out(self.strata, self.train, fraction, seed)
        return LabelSplit(train_idx, validation_idx, bool(estimator.refit and len(validation_idx)))

    def cross_fit(self, estimator: Any) -> list[tuple[Array, Array]]:
        """Return folds of the training labels as pairs of training and held-out nodes; none where one split is enough.

        They are used without validation labels, where one split would hold out few labels and a second training
        follows.
        """
        if not estimator.cross_fits or not estimator.refit or len(self.validation):
            return []
        if not 0 < estimator.validation_fraction * len(self.train) < _MIN_HELD_OUT or len(self.train) < 4:
            return []
        held_out_folds = folds_of(self.strata, self.train, _CROSS_FIT_FOLDS, estimator.random_state)
        folds = [_keep_classes(self.strata, np.setdiff1d(self.train, fold), fold) for fold in held_out_folds]
        folds = [(train_idx, held_out_idx) for train_idx, held_out_idx in folds if len(held_out_idx)]
        return folds if sum(len(held_out_idx) for _, held_out_idx in folds) >= _MIN_CROSS_FIT else []

    def part(self, nodes: Array) -> TaskLabels:
        """Return the labels of some nodes, ascending, which have all labels; they are then numbered from 0."""
        train, validation = np.searchsorted(nodes, self.train), np.searchsorted(nodes, self.validation)
        return replace(self, codes=self.codes[nodes], train=train, validation=validation)

    def matrix(self, nodes: Array) -> Array:
        """Return the labels of some labeled nodes as a matrix, `(k, c)`."""
        return self.target.matrix(self.codes[nodes])


def task_labels(graph: Graph, y: Any, validation: Any = None, task: str = "classification") -> TaskLabels:
    """Return `y` and `validation`, each in any form that `CGE.fit` takes, as arrays.

    Nodes that are in both count as training nodes.
    """
    graph = as_graph(graph)
    codes, target = encode_target(graph, y, "y", task)
    train_idx, validation_idx = np.flatnonzero(target.labeled(codes)), np.empty(0, np.int64)
    if not len(train_idx):
        hint = "label some nodes, or use cge.DeepWalk, which needs none"
        raise InputError(Message.of("{y} holds no labels"), parameter="y", hint=hint)
    target.check(codes[train_idx])
    if validation is not None:
        validation_codes = target.encode(graph, validation, "validation")
        labeled = target.labeled(validation_codes)
        validation_idx = np.setdiff1d(np.flatnonzero(labeled), train_idx)
        if labeled.any() and not len(validation_idx):
            problem = Message.of("every node of {validation} also has a label in {y}, so no validation labels remain")
            raise InputError(problem, parameter="validation")
        codes = codes.copy()
        codes[validation_idx] = validation_codes[validation_idx]
    check_label_type(graph, train_idx, validation_idx)
    return TaskLabels(codes, target, train_idx, validation_idx)


def hold_out(codes: Array, nodes: Array, fraction: float, seed: int) -> tuple[Array, Array]:
    """Return the nodes that remain for training and those held out for validation; no class loses its last label."""
    none, exact = np.empty(0, np.int64), Fraction(fraction).limit_denominator(100)
    parts = exact.denominator
    if not 0 < exact < 1 or parts > len(nodes):
        return nodes, none
    held_out_idx = np.concatenate(stratified_folds(nodes, codes, parts, seed)[: exact.numerator])
    remaining = np.setdiff1d(nodes, held_out_idx)
    if len(remaining) < 2:
        return nodes, none
    return _keep_classes(codes, remaining, held_out_idx)


def _keep_classes(codes: Array, remaining: Array, held_out_idx: Array) -> tuple[Array, Array]:
    """Return the nodes to train on and those held out, without the last labels of a class."""
    if codes.ndim == 1:
        last_of_class = ~np.isin(codes[held_out_idx], codes[remaining])
    else:
        last_of_class = np.asarray((codes[held_out_idx] > codes[remaining].any(axis=0)).any(axis=1))
    return np.sort(np.concatenate([remaining, held_out_idx[last_of_class]])), held_out_idx[~last_of_class]


def folds_of(codes: Array, nodes: Array, count: int, seed: int) -> Sequence[Array]:
    """Return nodes in `count` folds, fewer where there are fewer nodes, stratified by class."""
    return stratified_folds(nodes, codes, min(count, len(nodes)), seed)


class BaselineClassifier(Estimator, ABC):
    """A classifier of the nodes of one graph.

    Attributes
    ----------
    graph_ : Graph
        The training graph.
    node_ids_ : (n,)
        The node ids of the graph.
    classes_ : (c,)
        The classes of `y`, sorted.
    target_ : Target
        What is predicted.
    labels_seen_ : dict
        The number of labels used for training ("train"), to learn path weights ("outer") and to select hyperparameters
        ("validation").
    """

    _outer_labels = 0

    def fit(self, graph: Graph, y: Any, validation: Any = None) -> BaselineClassifier:
        """Train on the labels `y`; those of `validation` select hyperparameters. Both take the forms of `CGE.fit`.

        Without `validation` a fifth of `y` is held out to select them, and is then used for training, too.
        """
        check_settings(self)
        graph = as_graph(graph)
        if isinstance(y, TaskLabels):  # of another estimator: only its own score differs from the default
            labels = replace(y, target=y.target.with_scoring(None))
        else:
            labels = task_labels(graph, y, validation)
        validation_labels = len(labels.validation)
        if not validation_labels:
            seed = self.get_params().get("random_state", 0)
            train_idx, validation_idx = hold_out(labels.strata, labels.train, _VALIDATION_FRACTION, seed)
            validation_labels = len(validation_idx)
            if validation_labels:
                _, choice = self._train(graph, replace(labels, train=train_idx, validation=validation_idx))
                labels = replace(labels, choice=choice)
        self._set_model(graph, labels.target, self._train(graph, labels)[0])
        self.labels_seen_ = {"train": len(labels.train), "outer": self._outer_labels, "validation": validation_labels}
        return self

    @abstractmethod
    def _train(self, graph: Graph, labels: TaskLabels) -> tuple[Array, Any]:
        """Return the outputs for all nodes, `(n, c)`: class probabilities, or values; and the hyperparameter."""

    def _arrays(self) -> dict[str, Array]:
        """Return further arrays that a subclass has learned, for `save`."""
        return {}

    def _set_model(self, graph: Graph, target: Target, probabilities: Array) -> None:
        self.graph_, self.node_ids_, self.classes_, self.target_ = graph, graph.node_ids, target.classes, target
        self._probabilities = probabilities.astype(np.float32)

    def predict_proba(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; in a multilabel task each class has its own.

        `nodes` are ids, None means all.
        """
        check_fitted(self)
        self.target_.check_probabilities()
        return self._outputs(nodes)

    def _outputs(self, nodes: Iterable[Hashable] | None = None, graph: None = None) -> Array:  # noqa: ARG002
        """Return what is predicted, `(k, c)`: class probabilities, or values."""
        check_fitted(self)
        return self._probabilities.copy() if nodes is None else self._probabilities[self.graph_.indices_of(nodes)]

    def predict(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the most probable class, `(k,)`; in a multilabel task zeros and ones, `(k, c)`."""
        outputs = self._outputs(nodes)
        return self.target_.predict(outputs)

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the accuracy of the predictions; in a multilabel task, micro-F1.

        `labels` has an entry for each of `nodes`: a class, or zeros and ones, or a list of classes.
        """
        predicted = self.predict(nodes)
        return self.target_.score_predictions(predicted, labels)

    def save(self, folder: str | Path) -> None:
        """Write the predictions to a folder, which `cge.load` reads: safetensors and JSON, no pickle."""
        check_fitted(self)
        arrays = {"probabilities": self._probabilities} | pack_values(self.classes_, "classes.") | self._arrays()
        metadata = {"target": self.target_.metadata(), "labels_seen": self.labels_seen_}
        save_estimator(self, folder, self.graph_, metadata, arrays)

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore what `save` wrote."""
        classes, probabilities = unpack_values(arrays, "classes."), arrays["probabilities"]
        if probabilities.shape != (len(graph), len(classes)) or probabilities.dtype != np.float32:
            raise InputError(f"the probabilities must be ({len(graph)}, {len(classes)}) of float32")
        self._set_model(graph, restore_target(metadata["target"], classes), probabilities)
        self.labels_seen_ = dict(metadata["labels_seen"])
