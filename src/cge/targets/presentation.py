"""What tables, JSON and reports show of the predictions of a kind of target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cge.arrays import Array
from cge.targets.node_groups import ClassGroups, NodeGroups
from cge.targets.texts import SINGLE_LABEL, TargetTexts

if TYPE_CHECKING:
    from collections.abc import Sequence


class Presentation(ABC):
    """How predictions of a target are shown; the defaults are those of classes.

    `metric` is the name of the score and `score_key` that in JSON, `texts` are those of commands and reports.
    `has_probabilities`: outputs are probabilities of classes. `exclusive_classes`: each node has exactly one of the
    classes, so that there are class priors and a confusion matrix. `multilabel`: a node may have any number of classes.
    """

    metric: ClassVar[str]
    score_key: ClassVar[str]
    texts: ClassVar[TargetTexts] = SINGLE_LABEL
    has_probabilities: ClassVar[bool] = True
    exclusive_classes: ClassVar[bool] = False
    multilabel: ClassVar[bool] = False
    classes: Array
    scoring: str | None

    @property
    def class_names(self) -> list[Any] | None:
        """The classes; None for values."""
        return list(self.classes.tolist())

    @property
    def validation_metric(self) -> str:
        """The name of the validation score."""
        return "macro-F1" if self.scoring == "macro_f1" else self.metric

    def describe(self) -> str:
        """Return what is predicted, in words."""
        return f"{len(self.classes)} classes"

    @abstractmethod
    def predicted_labels(self, outputs: Array) -> list[Any]:
        """Return the prediction of each node as Python values: a class, a list of classes, or a number."""

    @abstractmethod
    def confidence(self, outputs: Array) -> Array:
        """Return the probability of each prediction, `(k,)`; NaN for values."""

    # ------------------------------------------------------------------ tables and JSON

    def prediction_columns(self, outputs: Array, *, text: bool = False) -> dict[str, Any]:
        """Return predictions as columns of a table: classes are numbers, text or lists of text; or all are `text`."""
        predicted: Any = self.predicted_labels(outputs)
        if text or self.classes.dtype.kind not in "if":
            predicted = [str(name) for name in predicted]
        else:
            predicted = np.asarray(predicted, self.classes.dtype)
        return {"class": predicted, "confidence": self.confidence(outputs)}

    def prediction_values(self, outputs: Array) -> dict[str, list[Any]]:
        """Return predictions as columns of plain values, for JSON."""
        return {"class": self.predicted_labels(outputs), "confidence": short_floats(self.confidence(outputs))}

    def prediction_texts(self, outputs: Array) -> dict[str, list[str]]:
        """Return predictions as columns of text."""
        confidence = [f"{confidence:.3f}" for confidence in self.confidence(outputs)]
        return {"class": [str(predicted) for predicted in self.predicted_labels(outputs)], "confidence": confidence}

    def probability_columns(self, outputs: Array) -> dict[str, Array]:
        """Return the probabilities of each class, by its name as text; empty for values."""
        return dict(zip(map(str, self.classes.tolist()), outputs.T, strict=True))

    # ------------------------------------------------------------------ texts

    def format_score(self, score: float) -> str:
        """Return a score as people read it."""
        return f"{score:.3f}"

    def format_output(self, output: float) -> str:
        """Return an output as people read it."""
        return f"{output:.0%}"

    def describe_errors(self, outputs: Array, matrix: Array, residuals: tuple[Array, Array]) -> str:  # noqa: ARG002
        """Return a sentence about the errors of values, `residuals` as for `interval`; "" for classes."""
        return ""

    # ------------------------------------------------------------------ charts

    def predicted_classes(self, outputs: Array) -> list[list[tuple[int, float]]] | None:  # noqa: ARG002
        """Return number and probability of each predicted class of each node; None where nodes have one prediction."""
        return None

    def groups(self, matrix: Array) -> NodeGroups:  # noqa: ARG002 - for values
        """Return the groups by which charts color nodes; `matrix (k, c)` are known labels."""
        return ClassGroups([str(name) for name in self.classes.tolist()])


def short_floats(values: Sequence[Any] | Array) -> list[float]:
    """Return float32 as Python floats without spurious digits."""
    return [float(str(value)) for value in values]
