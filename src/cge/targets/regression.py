"""A number per node: squared error of standardized values, R², prediction intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message, Param, format_value
from cge.graph import Graph
from cge.metrics import r2_score
from cge.models.backends import Values
from cge.targets.node_groups import ValueGroups
from cge.targets.presentation import short_floats
from cge.targets.score_intervals import normal_interval, r2_interval
from cge.targets.target import Target, same_shape
from cge.targets.texts import NUMERIC, TargetTexts

if TYPE_CHECKING:
    from torch import Tensor

_STRATA = 5  # quantiles that folds are stratified by


class Regression(Target):
    """Labels `(n,)` are numbers, NaN for unlabeled nodes.

    Scores are standardized by the `mean` and `std` of the training labels; outputs have the scale of the labels.
    """

    kind: ClassVar[str] = "regression"
    metric: ClassVar[str] = "R²"
    score_key: ClassVar[str] = "r2"
    texts: ClassVar[TargetTexts] = NUMERIC
    has_probabilities: ClassVar[bool] = False

    def __init__(self, classes: Array, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__(classes)
        self.mean, self.std = mean, std

    @classmethod
    def from_labels(cls, graph: Graph, y: Any, name: str) -> tuple[Array, Self]:
        """Return numbers as users write them as an array for all nodes, and their target."""
        labels = _encode(graph, y, name)
        known = labels[np.isfinite(labels)]
        std = float(known.std()) if len(known) else 0.0
        return labels, cls(np.array(["value"]), float(known.mean()) if len(known) else 0.0, std or 1.0)

    @classmethod
    def restored(cls, metadata: Mapping[str, Any], classes: Array) -> Self:
        """Return the target that a model folder stores."""
        mean, std = float(metadata["mean"]), float(metadata["std"])
        if not (np.isfinite(mean) and 0 < std < np.inf):
            raise InputError("mean and standard deviation of the labels must be finite, and the latter positive")
        return cls(classes, mean, std)

    def with_scoring(self, scoring: str | None) -> Self:
        """Refuse scores of classes."""
        if scoring is not None:
            raise InputError(Message.of("{scoring} is for classes", scoring=scoring), parameter="scoring")
        return self

    def metadata(self) -> dict[str, Any]:
        """Return what a model folder stores besides the classes."""
        return {"kind": self.kind, "mean": self.mean, "std": self.std}

    def check(self, labels: Array) -> None:
        """Refuse labels that are all the same."""
        if labels.min() == labels.max():
            problem = f" must hold at least two different numbers, found only {labels[0]:g}"
            raise InputError(Message(Param("y"), problem), parameter="y")

    def encode(self, graph: Graph, y: Any, name: str) -> Array:
        """Return further numbers as an array for all nodes."""
        return _encode(graph, y, name)

    def encode_names(self, graph: Graph, codes: Array, names: Sequence[str], file: str) -> Array:  # noqa: ARG002
        """Return the numbers in a file as an array for all nodes."""
        return _encode(graph, [None if code < 0 else names[code] for code in codes.tolist()], "labels")

    def decode(self, labels: Array) -> list[Any]:
        """Return the number of each node."""
        return list(labels.tolist())

    def class_index(self, target_class: Any) -> int:  # noqa: ARG002
        """Refuse: there are no classes."""
        raise InputError("a regression model has no classes", hint=Message.of("leave out {target_class}"))

    def unlabeled(self, count: int) -> Array:
        """Return NaN for each node."""
        return np.full(count, np.nan)

    def labeled(self, labels: Array) -> Array:
        """Return which nodes have a number."""
        return np.isfinite(labels)

    def matrix(self, labels: Array) -> Array:
        """Return one column."""
        return np.asarray(labels[:, None], np.float64)

    def from_matrix(self, matrix: Array) -> Array:
        """Return the column."""
        return np.asarray(matrix[:, 0], np.float64)

    def names(self, matrix: Array) -> list[list[Any]]:
        """Return the number of each row."""
        return [[value] for value in self.from_matrix(matrix).tolist()]

    def strata(self, labels: Array) -> Array:
        """Return the quantile of each number, −1 for unlabeled nodes."""
        known = np.flatnonzero(np.isfinite(labels))
        strata = np.full(len(labels), -1)
        rank = np.argsort(np.argsort(labels[known], kind="stable"), kind="stable")
        strata[known] = rank * min(_STRATA, len(known)) // max(len(known), 1)
        return strata

    def _standardized(self, labels: Tensor) -> Tensor:
        return ((labels - self.mean) / self.std).float()

    def loss(self, scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return the mean squared error of the standardized labels."""
        return ((scores[:, 0] - self._standardized(labels)) ** 2).mean()

    def constant_loss(self, labels: Tensor, class_weights: Tensor | None = None) -> float:  # noqa: ARG002
        """Return the variance of the standardized labels."""
        return float(self._standardized(labels).double().var(correction=0))

    def outputs(self, scores: Values) -> Values:
        """Return values."""
        return scores * self.std + self.mean

    def consistency_target(self, mean: Tensor, sharpening: float) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return the mean itself; all nodes count."""
        return mean, mean.new_ones(len(mean))

    def distillation_losses(self, scores: Tensor, label_scores: Tensor) -> Tensor:
        """Return the squared error from the propagated labels."""
        return ((scores - label_scores) ** 2).sum(1)

    def balanced_weights(self, matrix: Array) -> Array:  # noqa: ARG002
        """Refuse to weight classes."""
        raise InputError(Message.of("{class_weight} is for classes", class_weight="balanced"), parameter="class_weight")

    def label_scores(self, sums: Array, count: Array, reachable: Array) -> Array:
        """Return the weighted mean of the labels, standardized."""
        mean = sums / np.where(reachable, count, 1.0)
        return np.where(reachable, (mean - self.mean) / self.std, 0).astype(np.float32)

    def label_values(self, matrix: Array) -> Array:
        """Return standardized labels: their weighted mean is the label score."""
        return np.asarray((matrix - self.mean) / self.std)

    def mean_labels(self, sums: Array, count: Array) -> Array:
        """Return the weighted mean of the labels."""
        return np.where(count > 0, sums / np.maximum(count, 1e-300), np.nan)

    def linear_outputs(self, x: Any, nodes: Array, labels: Array, strength: float) -> Array:
        """Return the values of ridge regression."""
        from sklearn.linear_model import Ridge

        model: Any = Ridge(alpha=1 / strength).fit(x[nodes], (labels - self.mean) / self.std)
        return np.asarray(self.outputs(model.predict(x)[:, None]))

    def _errors(self, scores: Array, labels: Array) -> Array:
        return np.asarray(scores[:, 0].astype(np.float64) - (labels - self.mean) / self.std)

    def as_scores(self, outputs: Array) -> Array:
        """Return standardized values."""
        return (outputs - self.mean) / self.std

    def score(self, scores: Array, labels: Array) -> float:
        """Return R² of standardized scores."""
        return r2_score(scores[:, 0].astype(np.float64) * self.std + self.mean, labels)

    def node_scores(self, scores: Array, labels: Array) -> Array:
        """Return −squared error, standardized."""
        return np.asarray(-(self._errors(scores, labels) ** 2))

    def node_losses(self, scores: Array, labels: Array) -> Array:
        """Return absolute errors, standardized."""
        return np.abs(self._errors(scores, labels))

    def node_correct(self, outputs: Array, labels: Array) -> Array:
        """Return 1 − squared error over the variance of the training labels: its mean is about R²."""
        return np.asarray(1 - ((outputs[:, 0] - labels) / self.std) ** 2)

    def output_losses(self, outputs: Array, labels: Array) -> Array:
        """Return squared errors, standardized."""
        return np.asarray(((outputs[:, 0] - labels) / self.std) ** 2)

    def scale(self, outputs: Array, temperature: float | Array) -> Array:  # noqa: ARG002
        """Return values as they are."""
        return outputs

    def fit_temperature(self, outputs: Array, labels: Array) -> float:  # noqa: ARG002
        """Return 1: values have no temperature."""
        return 1.0

    def check_probabilities(self) -> None:
        """Refuse: outputs are values."""
        raise InputError("a regression model predicts numbers, and no probabilities", hint="use predict")

    def predict(self, outputs: Array) -> Array:
        """Return the numbers, `(k,)`."""
        return np.asarray(outputs[:, 0])

    def indicators(self, outputs: Array) -> Array:
        """Return True: there is one output."""
        return np.ones(outputs.shape, bool)

    def predicted_labels(self, outputs: Array) -> list[Any]:
        """Return the number of each node."""
        return [float(f"{value:.6g}") for value in self.predict(outputs).tolist()]

    def confidence(self, outputs: Array) -> Array:
        """Return NaN: see `interval`."""
        return np.full(len(outputs), np.nan)

    def score_predictions(self, predicted: Array, labels: Any) -> float:
        """Return R²."""
        numbers = same_shape(np.asarray(labels, object), predicted)
        return r2_score(predicted, np.array([_number(value, "labels", optional=False) for value in numbers.tolist()]))

    def score_outputs(self, outputs: Array, matrix: Array) -> float:
        """Return R²."""
        return r2_score(outputs[:, 0].astype(np.float64), matrix[:, 0])

    def score_interval(self, outputs: Array, matrix: Array) -> tuple[float, float]:
        """Return the bootstrap interval of R²."""
        return r2_interval(outputs[:, 0].astype(np.float64), matrix[:, 0])

    def difference_interval(self, mean: float, error: float, n: int) -> tuple[float, float]:  # noqa: ARG002
        """Return the interval of a normal distribution."""
        return normal_interval(mean, error)

    def other_scores(self, outputs: Array, matrix: Array) -> dict[str, float]:
        """Return the mean absolute error and the root mean squared error."""
        errors = outputs[:, 0].astype(np.float64) - matrix[:, 0]
        return {"mae": float(np.abs(errors).mean()), "rmse": float(np.sqrt((errors**2).mean()))}

    @property
    def class_names(self) -> None:
        """None: there are no classes."""
        return

    def describe(self) -> str:
        """Return that labels are numbers."""
        return "numeric labels"

    def prediction_columns(self, outputs: Array, *, text: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """Return the values."""
        return {"value": outputs[:, 0]}

    def prediction_values(self, outputs: Array) -> dict[str, list[Any]]:
        """Return the values as Python floats."""
        return {"value": short_floats(outputs[:, 0])}

    def prediction_texts(self, outputs: Array) -> dict[str, list[str]]:
        """Return the values as text."""
        return {"value": [self.format_output(value) for value in self.predict(outputs).tolist()]}

    def probability_columns(self, outputs: Array) -> dict[str, Array]:  # noqa: ARG002
        """Return no columns."""
        return {}

    def format_output(self, output: float) -> str:
        """Return a value with six digits."""
        return f"{output:.6g}"

    def describe_errors(self, outputs: Array, matrix: Array, residuals: tuple[Array, Array]) -> str:
        """Return the mean absolute error, and the width of prediction intervals where there are enough residuals."""
        text = f" Mean absolute error: {np.abs(outputs[:, 0].astype(np.float64) - matrix[:, 0]).mean():.4g}"
        with suppress(InputError):
            low, high = self.interval(np.zeros((1, 1)), residuals, 0.95)[0]
            text += f"; 95 % prediction intervals (split conformal): predicted value ± {(high - low) / 2:.4g}"
        return f"{text}."

    def groups(self, matrix: Array) -> ValueGroups:
        """Return ranges between the quantiles of the known labels."""
        return ValueGroups.of_values(matrix[:, 0])

    def interval(self, outputs: Array, residuals: tuple[Array, Array], level: float) -> Array:
        """Return values ± a quantile of the absolute validation residuals, `(k, 2)` (split conformal prediction)."""
        if not 0 < level < 1:
            raise InputError(parameter="level", expected="a number between 0 and 1", found=level)
        errors = np.sort(np.abs(residuals[0][:, 0] - residuals[1][:, 0]))
        rank = int(np.ceil((len(errors) + 1) * level))
        if rank > len(errors):
            hint = "pass more validation labels, or ask for a lower level"
            raise InputError(f"{len(errors)} validation labels give no interval of level {level:g}", hint=hint)
        width = errors[rank - 1]
        return np.asarray(outputs[:, :1] + [-width, width])


def _encode(graph: Graph, y: Any, name: str) -> Array:
    """Return numbers as users write them, by node id or for all nodes, as an array with NaN for unlabeled nodes."""
    labels = np.full(graph.num_nodes, np.nan)
    if hasattr(y, "items"):  # a mapping, or a pandas Series with node ids as its index
        pairs = dict(y.items())
        nodes, values = graph.indices_of(list(pairs), Param(name)), list(pairs.values())
    else:
        values = list(np.ravel(np.asarray(y, object)))
        nodes = np.arange(graph.num_nodes)
        if len(values) != graph.num_nodes:
            problem = f" must have one entry for each of {graph.num_nodes:,} nodes, found {len(values):,}"
            raise InputError(Message(Param(name), problem), parameter=name)
    labels[nodes] = [_number(value, name) for value in values]
    return labels


def _number(value: Any, name: str, *, optional: bool = True) -> float:
    """Return a label as a finite number; NaN where it is missing, which must be `optional`."""
    try:
        number = np.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        problem = f" must hold numbers, found {format_value(value)}"
        raise InputError(Message(Param(name), problem), parameter=name) from None
    if np.isinf(number):
        raise InputError(Message(Param(name), " must hold finite numbers, found an infinite one"), parameter=name)
    if np.isnan(number) and not optional:
        problem = f" must hold a number for each node, found {format_value(value)}"
        raise InputError(Message(Param(name), problem), parameter=name)
    return number
