"""What explains a prediction: single paths with what they bring to each class, and sums over all paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ONLY_CLASSIFIER", "Explanation", "PathShare", "WhichClassifier"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WhichClassifier:
    """The reader whose scores are explained: its `place` among as many as are averaged, `count`, and its `name`.

    >>> print(WhichClassifier(0, 3, "deep"))
    reader 1 of 3 (deep)
    """

    place: int = 0
    count: int = 1
    name: str = "head"

    def __str__(self) -> str:
        return f"reader {self.place + 1} of {self.count} ({self.name})"


ONLY_CLASSIFIER = WhichClassifier()


@dataclass(frozen=True, eq=False)
class PathShare:
    """A path from a node, and how much of the node's scores it brings.

    Attributes
    ----------
    path : tuple
        Ids of its nodes, the explained one first.
    weight : float
        A, as `CGE.path_weights` gives it.
    contribution : float
        What it brings to the score of the explained class.
    contributions : (c,) float64
        What it brings to the score of each class.
    diversity : int
        Number of distinct nodes.
    labels : tuple
        For each of its nodes the label that is known from training, or None; with several labels per node, a tuple.
    types : tuple of str
        The type of each step, "(stays)" for a step to the node itself; empty where edges have no types.
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
        """Number of nodes, each as often as the path meets it: one more than steps."""
        return len(self.path)

    def row(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return it as plain values by name."""
        brought = dict(zip(map(str, classes), self.contributions.tolist(), strict=True))
        return {
            "path": list(self.path),
            "labels": [list(one) if isinstance(one, tuple) else one for one in self.labels],
            "types": list(self.types),
            "length": self.length,
            "diversity": self.diversity,
            "weight": self.weight,
            "contribution": self.contribution,
            "contributions": brought,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Sequence[PathShare]):
    """Why a node, or a class, is predicted: a sequence of the strongest paths, and sums over all paths.

    `constant + votes + hops.sum(0) + remainder` are the `scores`, of which the chances are made. Where it explains a
    class, all numbers are means over the nodes that are predicted to be in it.

    Attributes
    ----------
    node : node id, or None
        The node that is explained; None for a class.
    end : node id, or None
        Where it is about the paths between two nodes, the other one.
    predicted : class
        The most likely class of the node, or the class that is explained.
    predicted_all : tuple of classes
        All that are predicted, the most likely first; where nodes may have several classes these can be none.
    explained : class
        The class whose score is explained: the predicted one, unless another was asked for.
    classes : (c,)
        All classes, in the order of the columns below.
    chances : (c,) float64
        What `predict_proba` says.
    scores : (c,) float64
        The class scores of the explained reader.
    constant : (c,) float64
        What does not depend on paths.
    votes : (c,) float64
        What known labels at the ends of paths vote; zero where they do not.
    hops : (K+1, c) float64
        What all paths of 0, 1, …, K steps bring; with `end`, all that end there.
    edge_types : {name: (c,) float64}
        The same by types of edges; a path counts for the types of its steps in equal parts. Empty without types.
    remainder : (c,) float64
        What these paths do not account for. Zero for a node or a class with encoder "paths".
    exact : bool
        Whether the scores are a sum over paths (encoder "paths"), or are only attributed to them.
    num_nodes : int
        Nodes that it is about.
    paths : tuple of PathShare
        The strongest, the strongest first.
    reader : WhichReader
        Whose scores these are, where several readers are averaged.
    """

    node: Any
    end: Any
    predicted: Any
    predicted_all: tuple[Any, ...]
    explained: Any
    classes: Array
    probabilities: Array
    scores: Array
    constant: Array
    votes: Array
    hops: Array
    edge_types: dict[str, Array]
    remainder: Array
    exact: bool
    num_nodes: int
    paths: tuple[PathShare, ...]
    classifier: WhichClassifier = ONLY_CLASSIFIER

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: Any) -> Any:
        return self.paths[place]

    def __iter__(self) -> Iterator[PathShare]:
        return iter(self.paths)

    def __repr__(self) -> str:
        about = f"class {self.predicted!r}" if self.node is None else f"node {self.node!r}"
        about += "" if self.end is None else f" and node {self.end!r}"
        return f"Explanation({about}, {len(self)} paths)"

    def __str__(self) -> str:
        table = [("path", "length", "diversity", "weight", f"brings {self.explained}")]
        for one in self.paths:
            numbers = f"{one.weight:.3g}", f"{one.contribution:+.4f}"
            table.append((" → ".join(map(str, one.path)), str(one.length), str(one.diversity), *numbers))
        first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
        lines = [
            "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))])
            for row in table
        ]
        return "\n".join(lines)

    @property
    def place(self) -> int:
        """Which of the classes is explained."""
        return int(np.flatnonzero(self.classes == self.explained)[0])

    @property
    def runner_up(self) -> int | None:
        """Which of the classes is the most likely beside the explained one; None where it is the only one."""
        others = [place for place in np.argsort(-self.probabilities, kind="stable").tolist() if place != self.place]
        return others[0] if others else None

    @property
    def classifier_note(self) -> Any:
        """The class that the explained reader, by itself, holds most likely; `predicted` is that of all readers."""
        return self.classes.tolist()[int(self.scores.argmax())]

    def classifier_words(self) -> str:
        """Say which of several readers is explained, and where it is of another opinion; nothing where there is one."""
        if self.classifier.count == 1:
            return ""
        differs = self.node is not None and self.classifier_note != self.predicted
        own = f" By itself it says {self.classifier_note}, and together they say {self.predicted}." if differs else ""
        return f"These are the scores of {self.classifier}; chances are averaged over all of them.{own}"

    def facts(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        numbers = ("chances", "scores", "constant", "votes", "remainder")
        return {
            "node": self.node,
            "end": self.end,
            "predicted": self.predicted,
            "predicted_all": list(self.predicted_all),
            "explained": self.explained,
            "classifier": self.classifier.place,
            "classifiers": self.classifier.count,
            "reader_name": self.classifier.name,
            "reader_says": self.classifier_note,
            "exact": self.exact,
            "num_nodes": self.num_nodes,
            "classes": self.classes.tolist(),
            **{name: getattr(self, name).tolist() for name in numbers},
            "hops": self.hops.tolist(),
            "edge_types": {name: brought.tolist() for name, brought in self.edge_types.items()},
            "paths": self.rows(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the paths as plain values, for tables."""
        return [one.row(self.classes.tolist()) for one in self.paths]
