"""By which labels a model is measured, and how it does on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.label_arrays import labeled
from cge.evaluation.significance import f1_interval, wilson_interval
from cge.metrics import node_f1, predicted_indicators, reliability

__all__ = ["Measured", "measured_by"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Measured:
    """Nodes whose labels did not train: `nodes (k,)`, `truth (k, c)` of zeros and ones, the model's `probabilities (k, c)`.

    `unseen` says whether the labels served nothing; otherwise they chose, and what they say is a little too good.
    """

    nodes: Array
    truth: Array
    probabilities: Array
    several: bool
    unseen: bool

    @property
    def name(self) -> str:
        """What to call the labels."""
        return "labels that it has not seen" if self.unseen else "selection labels"

    @property
    def score_name(self) -> str:
        """What to call the score."""
        return "micro-F1" if self.several else "right"

    def told(self, probabilities: Array) -> Array:
        """Return what chances speak for, as zeros and ones, `(k, c)`."""
        return predicted_indicators(probabilities, self.several)

    def right(self, probabilities: Array) -> Array:
        """Return how right each node is, `(k,)`: 0 or 1, or the F1 of its classes."""
        return node_f1(self.told(probabilities), self.truth)

    def row(self, method: str, probabilities: Array) -> dict[str, Any]:
        """Return the score of a method, with its 95 % interval."""
        told = self.told(probabilities)
        hits, every = int((told & (self.truth > 0)).sum()), int(told.sum() + self.truth.sum())
        interval = f1_interval(told, self.truth) if self.several else wilson_interval(hits, len(self.nodes))
        return {"method": method, "accuracy": 2 * hits / max(every, 1), "interval": list(interval)}

    def reliability(self) -> dict[str, Any]:
        """Return the model's chances beside how often they came true."""
        found = reliability(self.probabilities, self.truth if self.several else self.truth.argmax(1))
        numbers = {name: [round(float(one), 4) for one in getattr(found, name)] for name in ("confidence", "accuracy")}
        return numbers | {"count": found.count.tolist(), "error": round(found.error, 4)}

    def confusion(self) -> list[list[int]] | None:
        """Return how many nodes of each class were told to be of which; None with several labels per node."""
        if self.several:
            return None
        classes = self.truth.shape[1]
        counts = np.bincount(self.truth.argmax(1) * classes + self.probabilities.argmax(1), minlength=classes**2)
        return [row.tolist() for row in counts.reshape(classes, classes)]

    def by_class(self) -> list[dict[str, Any]] | None:
        """Return precision, recall and F1 of each class, with several labels per node."""
        if not self.several:
            return None
        told, true = self.told(self.probabilities), self.truth > 0
        hits, said, there = (told & true).sum(0), told.sum(0), true.sum(0)
        shares = {"precision": hits / np.maximum(said, 1), "recall": hits / np.maximum(there, 1)}
        shares["f1"] = 2 * hits / np.maximum(said + there, 1)
        return [
            {"nodes": int(there[one])} | {name: round(float(values[one]), 4) for name, values in shares.items()}
            for one in range(len(there))
        ]


def measured_by(model: Any, truth: Array | None = None) -> Measured | None:
    """Return what a trained `CGE` is measured by; None where there is nothing.

    By `truth`, the labels of nodes that were not trained on: `(n,)` class numbers of `model.classes_` with −1 for
    unknown, or `(n, c)` of zeros and ones. Without it, by the selection labels.
    """
    fitted = model.fitted_
    if truth is None:
        chosen = fitted.validation
        return (
            Measured(chosen.nodes, chosen.matrix, chosen.probabilities, fitted.target.multilabel, False)
            if len(chosen.nodes)
            else None
        )
    served = np.zeros(len(truth), bool)
    served[fitted.train.nodes] = served[fitted.validation.nodes] = True
    nodes = np.flatnonzero(labeled(truth) & ~served)
    if not len(nodes):
        return None
    return Measured(
        nodes, fitted.target.matrix(truth[nodes]), fitted.probabilities(None, nodes), fitted.target.multilabel, True
    )
