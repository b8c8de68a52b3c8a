"""What all node classifiers share: labels as class numbers, and predictions from probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from cge.data.label_arrays import labeled
from cge.errors import InputError, Message, Param
from cge.estimators.label_roles import hold_out
from cge.estimators.labels import encode_labels, members, one_hot
from cge.estimators.not_fitted import NotFittedError
from cge.estimators.settings import check_settings
from cge.estimators.storing import save_estimator
from cge.graph import Graph
from cge.metrics import accuracy, micro_f1
from cge.store import pack_values, unpack_values

__all__ = ["NodeClassifier", "TaskLabels", "as_classes", "score_predictions", "task_labels"]

Array = npt.NDArray[Any]

_VALIDATION_FRACTION = 0.2  # of the training labels, where no validation labels are passed


@dataclass(frozen=True, eq=False)
class TaskLabels:
    """The labels of a task: `codes (n,)` with −1 for unlabeled nodes or `(n, c)`, and training and validation nodes.

    `choice` is the hyperparameter that validation labels selected before they became training labels.
    """

    codes: Array
    classes: Array
    train: Array
    validation: Array
    choice: Any = None

    @property
    def multilabel(self) -> bool:
        """Whether a node can have several classes."""
        return self.codes.ndim == 2

    def one_hot(self, nodes: Array) -> Array:
        """Return the classes of some labeled nodes as zeros and ones, `(k, c)`."""
        return one_hot(self.codes[nodes], len(self.classes))


def task_labels(graph: Graph, y: Any, validation: Any = None) -> TaskLabels:
    """Return `y` and `validation`, each in any form that `CGE.fit` takes, as class numbers; nodes in both train."""
    if not isinstance(graph, Graph):
        raise InputError(f"fit takes a cge.Graph, found a {type(graph).__name__}; Graph.from_edges makes one")
    codes, classes = encode_labels(graph, y, "y")
    if not labeled(codes).any():
        hint = "label some nodes, or use cge.DeepWalk, which needs none"
        raise InputError(Message.of("{y} holds no labels"), parameter="y", hint=hint)
    if len(classes) < 2:
        problem = f" must hold at least two classes, found only {classes.tolist()[0]!r}"
        raise InputError(Message(Param("y"), problem), parameter="y")
    train_idx, validation_idx = np.flatnonzero(labeled(codes)), np.empty(0, np.int64)
    if validation is not None:
        validation_codes, _ = encode_labels(graph, validation, "validation", classes)
        if validation_codes.ndim != codes.ndim:
            same = Message.of("{y} and {validation} must have the same form: one label for each node, or several")
            raise InputError(same, parameter="validation")
        validation_idx = np.setdiff1d(np.flatnonzero(labeled(validation_codes)), train_idx)
        if labeled(validation_codes).any() and not len(validation_idx):
            problem = Message.of("every node of {validation} also has a label in {y}, so no validation labels remain")
            raise InputError(problem, parameter="validation")
        codes = codes.copy()
        codes[validation_idx] = validation_codes[validation_idx]
    return TaskLabels(codes, classes, train_idx, validation_idx)


class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier of the nodes of one graph. A subclass implements `_train`, which returns probabilities.

    Attributes
    ----------
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict
        The number of labels used for training ("train"), to learn path weights ("outer") and to select hyperparameters
        ("validation").
    """

    _outer_labels = 0

    def fit(self, graph: Graph, y: Any, validation: Any = None) -> NodeClassifier:
        """Train on the labels `y`; those of `validation` select hyperparameters. Both take the forms of `CGE.fit`.

        Without `validation` a fifth of `y` is held out to select them, and is then used for training, too.
        """
        check_settings(self)
        labels = task_labels(graph, y, validation)
        validation_labels = len(labels.validation)
        if not validation_labels:
            seed = self.get_params().get("random_state", 0)
            train_idx, validation_idx = hold_out(labels.codes, labels.train, _VALIDATION_FRACTION, seed)
            validation_labels = len(validation_idx)
            if validation_labels:
                _, choice = self._train(graph, replace(labels, train=train_idx, validation=validation_idx))
                labels = replace(labels, choice=choice)
        self._set_model(graph, labels.classes, labels.multilabel, self._train(graph, labels)[0])
        seen = {"train": len(labels.train), "outer": self._outer_labels, "validation": validation_labels}
        self.labels_seen_ = seen
        return self

    def _train(self, graph: Graph, labels: TaskLabels) -> tuple[Array, Any]:
        """Return the probability of each class for all nodes, `(n, c)`, and the selected hyperparameter."""
        raise NotImplementedError

    def _arrays(self) -> dict[str, Array]:
        """Return further arrays that a subclass has learned, for `save`."""
        return {}

    def _set_model(self, graph: Graph, classes: Array, multilabel: bool, probabilities: Array) -> None:
        self.graph_, self.node_ids_, self.classes_, self.multilabel_ = graph, graph.node_ids, classes, multilabel
        self._probabilities = probabilities.astype(np.float32)

    def predict_proba(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; in a multilabel task each class has its own.

        `nodes` are ids, None means all.
        """
        self._need_fit()
        return self._probabilities.copy() if nodes is None else self._probabilities[self.graph_.indices_of(nodes)]

    def predict(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the most probable class, `(k,)`; in a multilabel task zeros and ones, `(k, c)`."""
        return as_classes(self.predict_proba(nodes), self.classes_, self.multilabel_)

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the accuracy of the predictions; in a multilabel task, micro-F1.

        `labels` has an entry for each of `nodes`: a class, or zeros and ones, or a list of classes.
        """
        return score_predictions(self.predict(nodes), labels, self.classes_, self.multilabel_)

    def save(self, folder: str | Path) -> None:
        """Write the predictions to a folder, which `cge.load` reads: safetensors and JSON, no pickle."""
        self._need_fit()
        arrays = {"probabilities": self._probabilities} | pack_values(self.classes_, "classes.") | self._arrays()
        metadata = {"multilabel": self.multilabel_, "labels_seen": self.labels_seen_}
        save_estimator(self, folder, self.graph_, metadata, arrays)

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore what `save` wrote."""
        classes, probabilities = unpack_values(arrays, "classes."), arrays["probabilities"]
        if probabilities.shape != (len(graph), len(classes)) or probabilities.dtype != np.float32:
            raise InputError(f"the probabilities must be ({len(graph)}, {len(classes)}) of float32")
        self._set_model(graph, classes, bool(metadata["multilabel"]), probabilities)
        self.labels_seen_ = dict(metadata["labels_seen"])

    def _need_fit(self) -> None:
        if not hasattr(self, "graph_"):
            raise NotFittedError(f"this {type(self).__name__} has not been trained yet; call fit first")


def as_classes(probabilities: Array, classes: Array, multilabel: bool) -> Array:
    """Return the predicted classes of probabilities `(k, c)`."""
    predicted: Array = (probabilities > 0.5).astype(np.int64) if multilabel else classes[probabilities.argmax(1)]
    return predicted


def score_predictions(predicted: Array, labels: Any, classes: Array, multilabel: bool) -> float:
    """Return the accuracy of predictions; in a multilabel task, micro-F1."""
    true = members(labels, classes) if multilabel else np.asarray(labels)
    if predicted.shape != true.shape:
        raise InputError(f"labels must have shape {predicted.shape}, as the predictions, found {true.shape}")
    return micro_f1(predicted > 0, true > 0) if multilabel else accuracy(predicted, true)
