"""What all classifiers of nodes share: labels come in, classes and chances go out."""

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
from cge.estimators.labels import encode_labels, members
from cge.estimators.not_fitted import NotFittedError
from cge.estimators.settings import check_settings
from cge.estimators.storing import save_estimator
from cge.graph import Graph
from cge.metrics import accuracy, micro_f1
from cge.store import pack_values, unpack_values

__all__ = ["Known", "NodeClassifier", "as_classes", "known_labels", "score_predictions"]

Array = npt.NDArray[Any]

_HELD_OUT = 0.2  # share of the labels that chooses, where no others are given


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of nodes: `codes (n,)` with −1 for unknown or `(n, c)`, and which of them train or choose.

    `choice` is what labels chose that now train: nothing is left to choose.
    """

    codes: Array
    classes: Array
    train: Array
    selection: Array
    choice: Any = None

    @property
    def several(self) -> bool:
        """Whether a node can have several classes."""
        return self.codes.ndim == 2

    @property
    def members(self) -> Array:
        """The classes of all nodes as zeros and ones, `(n, c)`; rows of unlabeled nodes are zero."""
        if self.several:
            return self.codes
        found = np.zeros((len(self.codes), len(self.classes)), np.int64)
        there = np.flatnonzero(self.codes >= 0)
        found[there, self.codes[there]] = 1
        return found


def known_labels(graph: Graph, y: Any, validation: Any = None) -> Known:
    """Return what `y` and `validation` tell, each in any form that `CGE.fit` takes; a node that is in both trains."""
    if not isinstance(graph, Graph):
        raise InputError(f"fit takes a cge.Graph, found a {type(graph).__name__}; Graph.from_edges makes one")
    codes, classes = encode_labels(graph, y, "y")
    if not labeled(codes).any():
        hint = "label some nodes, or use cge.DeepWalk, which needs none"
        raise InputError(Message.of("{y} holds no labels"), parameter="y", hint=hint)
    if len(classes) < 2:
        classes_found = f" must hold at least two classes, found only {classes.tolist()[0]!r}"
        raise InputError(Message(Param("y"), classes_found), parameter="y")
    train, selection = np.flatnonzero(labeled(codes)), np.empty(0, np.int64)
    if validation is not None:
        more, _ = encode_labels(graph, validation, "validation", classes)
        if more.ndim != codes.ndim:
            same = Message.of("{y} and {validation} must have the same form: one label for each node, or several")
            raise InputError(same, parameter="validation")
        selection = np.setdiff1d(np.flatnonzero(labeled(more)), train)
        if labeled(more).any() and not len(selection):
            template = "every node of {validation} has a label in {y}, too, so no validation label is left"
            raise InputError(Message.of(template), parameter="validation")
        codes = codes.copy()
        codes[selection] = more[selection]
    return Known(codes, classes, train, selection)


class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier of the nodes of one graph. A subclass writes `_train`, which returns chances.

    Attributes
    ----------
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict
        How many labels served training and the choice of settings ("selection"); "outer" is the number of those that
        taught weights of paths.
    """

    _outer = 0

    def fit(self, graph: Graph, y: Any, validation: Any = None) -> NodeClassifier:
        """Train on the labels `y`; those of `validation` choose. Both come in any form that `CGE.fit` takes.

        Without `validation` a fifth of `y` chooses first, and trains as well then.
        """
        check_settings(self)
        known = known_labels(graph, y, validation)
        chose = len(known.selection)
        if not chose:
            seed = self.get_params().get("random_state", 0)
            train, selection = hold_out(known.codes, known.train, _HELD_OUT, seed)
            chose = len(selection)
            if chose:
                _, choice = self._train(graph, replace(known, train=train, selection=selection))
                known = replace(known, choice=choice)
        self._keep(graph, known.classes, known.several, self._train(graph, known)[0])
        self.labels_seen_ = {"train": len(known.train), "outer": self._outer, "selection": chose}
        return self

    def _train(self, graph: Graph, known: Known) -> tuple[Array, Any]:
        """Return the chance of each class for all nodes, `(n, c)`, and what the selection labels chose."""
        raise NotImplementedError

    def _arrays(self) -> dict[str, Array]:
        """Return what a subclass has learned besides, for `save`."""
        return {}

    def _keep(self, graph: Graph, classes: Array, several: bool, probabilities: Array) -> None:
        self.graph_, self.node_ids_, self.classes_, self._several = graph, graph.node_ids, classes, several
        self._probabilities = probabilities.astype(np.float32)

    def predict_proba(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; with several labels per node, one chance for each.

        `nodes` are ids, None means all.
        """
        self._need_fit()
        return self._probabilities.copy() if nodes is None else self._probabilities[self.graph_.indices_of(nodes)]

    def predict(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the most likely class, `(k,)`; with several labels per node, zeros and ones, `(k, c)`."""
        return as_classes(self.predict_proba(nodes), self.classes_, self._several)

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the share of right predictions; with several labels per node, micro-F1.

        `labels` has an entry for each of `nodes`: a class, or zeros and ones, or a list of classes.
        """
        return score_predictions(self.predict(nodes), labels, self.classes_, self._several)

    def save(self, folder: str | Path) -> None:
        """Write what it predicts to a folder, which `cge.load` reads: safetensors and JSON, no pickle."""
        self._need_fit()
        arrays = {"chances": self._probabilities} | pack_values(self.classes_, "classes.") | self._arrays()
        facts = {"several": self._several, "labels_seen": self.labels_seen_}
        save_estimator(self, folder, self.graph_, facts, arrays)

    def _unpack(self, graph: Graph, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over what `save` wrote."""
        classes = unpack_values(arrays, "classes.")
        if arrays["chances"].shape != (len(graph), len(classes)) or arrays["chances"].dtype != np.float32:
            raise InputError(f"the chances must be ({len(graph)}, {len(classes)}) of float32")
        self._keep(graph, classes, bool(facts["several"]), arrays["chances"])
        self.labels_seen_ = dict(facts["labels_seen"])

    def _need_fit(self) -> None:
        if not hasattr(self, "graph_"):
            raise NotFittedError(f"this {type(self).__name__} has not been trained yet; call fit first")


def as_classes(probabilities: Array, classes: Array, several: bool) -> Array:
    """Return the classes that chances `(k, c)` speak for."""
    found: Array = (probabilities > 0.5).astype(np.int64) if several else classes[probabilities.argmax(1)]
    return found


def score_predictions(predicted: Array, labels: Any, classes: Array, several: bool) -> float:
    """Return the share of right predictions; with several labels per node, micro-F1."""
    true = members(labels, classes) if several else np.asarray(labels)
    if predicted.shape != true.shape:
        raise InputError(f"labels must have shape {predicted.shape}, as the predictions, found {true.shape}")
    if several:
        return micro_f1(predicted > 0, true > 0)
    return accuracy(predicted, true)
