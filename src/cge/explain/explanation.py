"""The explanation of a prediction: the contributions of single paths to each class score, and sums over all paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array

TEXT_COLUMNS = ("path", "training labels", "edge types")  # of the table of paths; the others are numbers
_MAX_NAME = 14  # characters of a class in a column title


def label_text(label: Any) -> str:
    """Return an id or a label as text; a node may have several labels."""
    return "; ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def signed(number: float) -> str:
    """Return a number with its sign; a small one with two significant digits."""
    return f"{number:+.4f}" if abs(number) >= 0.001 or not number else f"{number:+.2g}"


@dataclass(frozen=True)
class ClassifierInfo:
    """Which classifier of an ensemble is explained: its `index`, the `count` of classifiers, and its `name`.

    >>> print(ClassifierInfo(0, 3, "consistency"))
    classifier 0 of 0…2 (consistency)
    """

    index: int = 0
    count: int = 1
    name: str = "head"

    def __str__(self) -> str:
        return f"classifier {self.index} of 0…{self.count - 1} ({self.name})"


SINGLE_CLASSIFIER = ClassifierInfo()


@dataclass(frozen=True, eq=False)
class PathContribution:
    """A path from a node, and its contributions to the node's class scores.

    Attributes
    ----------
    path : tuple
        Ids of its nodes, the explained one first.
    weight : float
        The relative path weight: A(p) divided by that of uniform weights, as in `CGE.path_weights`.
    contribution : float
        To the score of the target class.
    contributions : (c,) float64
        To the score of each class.
    diversity : int
        Number of distinct nodes.
    labels : tuple
        The training label of each of its nodes, or None; in a multilabel task a tuple.
    types : tuple of str
        The type of each edge, "(self-loop)" for a step to the node itself; empty where edges have no types.
    """

    path: tuple[Any, ...]
    weight: float
    contribution: float
    contributions: Array
    diversity: int
    labels: tuple[Any, ...]
    types: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Number of nodes, repeated ones included: one more than hops."""
        return len(self.path)

    @property
    def hops(self) -> int:
        """Number of edges."""
        return len(self.path) - 1

    def row(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return plain values by name."""
        return {
            "path": list(self.path),
            "labels": [list(label) if isinstance(label, tuple) else label for label in self.labels],
            "types": list(self.types),
            "length": self.length,
            "hops": self.hops,
            "diversity": self.diversity,
            "weight": self.weight,
            "contribution": self.contribution,
            "contributions": dict(zip(map(str, classes), self.contributions.tolist(), strict=True)),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Sequence[PathContribution]):
    """Why a node, or a class, is predicted: a sequence of the strongest paths, and sums over all paths.

    `constant + label_propagation + by_hop.sum(0) + remainder` equals `scores`, whose softmax (sigmoid in a multilabel
    task), calibrated, is the probability. The explanation of a class contains means over the nodes predicted to be in
    it.

    Attributes
    ----------
    node : node id, or None
        The explained node; None for a class.
    endpoint : node id, or None
        The other node, where only the paths between two nodes are explained.
    predicted : class
        The most probable class of the node, or the explained class.
    predicted_all : tuple of classes
        All predicted classes, the most probable first; in a multilabel task possibly none.
    target_class : class
        The class whose score is explained: by default the predicted one.
    classes : (c,)
        All classes, in the order of the columns below.
    probabilities : (c,) float64
        Those of `predict_proba`.
    scores : (c,) float64
        The class scores of the explained classifier.
    constant : (c,) float64
        The part of the scores that does not depend on paths.
    label_propagation : (c,) float64
        The contribution of the propagated training labels; zero where they are not used.
    by_hop : (K+1, c) float64
        The contributions of all paths of 0, 1, …, K hops; with `endpoint`, of all that end there.
    by_edge_type : {name: (c,) float64}
        The same by edge type; a path counts for the types of its edges in equal parts. Empty without types.
    remainder : (c,) float64
        The part of the scores that these paths do not explain. Zero for a node or a class of `CGE`.
    exact : bool
        Whether the scores are a sum over paths (`CGE`), or are only attributed to them (`PaperCGE`).
    num_nodes : int
        Number of explained nodes.
    paths : tuple of PathContribution
        The strongest paths, in descending order.
    classifier : ClassifierInfo
        Which classifier the scores are from, where several are averaged.
    """

    node: Any
    endpoint: Any
    predicted: Any
    predicted_all: tuple[Any, ...]
    target_class: Any
    classes: Array
    probabilities: Array
    scores: Array
    constant: Array
    label_propagation: Array
    by_hop: Array
    by_edge_type: dict[str, Array]
    remainder: Array
    exact: bool
    num_nodes: int
    paths: tuple[PathContribution, ...]
    classifier: ClassifierInfo = SINGLE_CLASSIFIER

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        return self.paths[index]

    def __repr__(self) -> str:
        subject = f"class {self.predicted!r}" if self.node is None else f"node {self.node!r}"
        subject += "" if self.endpoint is None else f" and node {self.endpoint!r}"
        return f"Explanation({subject}, {len(self)} paths)"

    def __str__(self) -> str:
        columns = []
        for title, cells in self.table().items():
            width = max(map(len, (title, *cells)))
            columns.append([f"{cell:{'<' if title in TEXT_COLUMNS else '>'}{width}}" for cell in (title, *cells)])
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join([*lines, self.table_footer()])

    def table(self, text: Callable[[Any], str] = label_text) -> dict[str, list[str]]:
        """Return the paths as columns of text, by title; `text` writes an id, a label or a type."""

        def joined(values: Iterable[Any]) -> str:
            return " → ".join("·" if value is None else text(value) for value in values)

        columns = {
            "path": [joined(path.path) for path in self.paths],
            "training labels": [joined(path.labels) for path in self.paths],
            "edge types": [joined(path.types) for path in self.paths],
            "hops": [str(path.hops) for path in self.paths],
            "distinct nodes": [str(path.diversity) for path in self.paths],
            "weight": [f"{path.weight:.3g}" for path in self.paths],
        }
        if not self.by_edge_type:
            del columns["edge types"]
        title = f"contribution to {_shortened(text(self.target_class))}"
        columns[title] = [signed(path.contribution) for path in self.paths]
        if self.runner_up is not None:
            title = f"to {_shortened(text(self.classes.tolist()[self.runner_up]))}"
            columns[title] = [signed(float(path.contributions[self.runner_up])) for path in self.paths]
        return columns

    def table_footer(self, text: Callable[[Any], str] = label_text) -> str:
        """Return what the columns of the table mean."""
        weight = "relative to a random walk (uniform weights = 1)" if self.exact else "the output of the network"
        parts = ["· = no training label", f"weight is {weight}"]
        if self.runner_up is not None:
            name = _shortened(text(self.classes.tolist()[self.runner_up]))
            parts.append(f"'to {name}' = contribution to the runner-up class")
        return "; ".join(parts)

    @property
    def target_index(self) -> int:
        """The column of the target class."""
        return int(np.flatnonzero(self.classes == self.target_class)[0])

    @property
    def runner_up(self) -> int | None:
        """The column of the most probable class apart from the target class; None where there is no other."""
        ranked = np.argsort(-self.probabilities, kind="stable").tolist()
        return next((column for column in ranked if column != self.target_index), None)

    @property
    def classifier_prediction(self) -> Any:
        """The class that the explained classifier predicts by itself; `predicted` is that of the ensemble."""
        return self.classes.tolist()[int(self.scores.argmax())]

    def describe_classifier(self) -> str:
        """Return which classifier of an ensemble is explained, and whether it differs from the ensemble; else ""."""
        if self.classifier.count == 1:
            return ""
        sentence = f"These are the scores of {self.classifier}; probabilities are averaged over the ensemble."
        if self.node is None or self.classifier_prediction == self.predicted:
            return sentence
        return f"{sentence} By itself it predicts {self.classifier_prediction}; the ensemble predicts {self.predicted}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = ("node", "endpoint", "predicted", "predicted_all", "target_class")
        arrays = ("classes", "probabilities", "scores", "constant", "label_propagation", "remainder", "by_hop")
        return {
            **{name: getattr(self, name) for name in plain},
            "predicted_all": list(self.predicted_all),
            "classifier": self.classifier.index,
            "n_classifiers": self.classifier.count,
            "classifier_name": self.classifier.name,
            "classifier_prediction": self.classifier_prediction,
            "exact": self.exact,
            "num_nodes": self.num_nodes,
            **{name: getattr(self, name).tolist() for name in arrays},
            "by_edge_type": {name: values.tolist() for name, values in self.by_edge_type.items()},
            "paths": self.rows(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the paths as plain values, for tables."""
        return [path.row(self.classes.tolist()) for path in self.paths]
