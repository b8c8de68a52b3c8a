"""Calibration on the validation labels: temperature scaling, also for new nodes, and the correction of class priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.estimators.classifier_inputs import ClassifierInputs, classifier_inputs
from cge.estimators.fitted_model import ValidationNodes
from cge.graph import Graph
from cge.metrics import class_prior_ratio, log_losses, node_accuracy
from cge.targets import Target
from cge.training.candidates import MIN_VALIDATION
from cge.training.encoder_data import EncoderData
from cge.training.selection import Selection, TrainedClassifier, mean_and_error

if TYPE_CHECKING:
    from cge.training.path_trainer import PathTrainer

_MARGINS = 3.0, 2.0  # standard errors by which the prior correction must lower the log loss, and beat the majority
_N_FOLDS = 5  # of the validation labels
_MIN_PROBABILITY = 1e-30  # whose logarithm is taken
MIN_PRIOR_LABELS = 50  # validation labels: fewer cannot estimate class frequencies


@dataclass(frozen=True)
class Calibration:
    """The temperature of the probabilities, and whether class scores were adjusted to the validation priors.

    `by_evidence` has other temperatures for new nodes, by the evidence there is for them ("edges", "features").
    """

    temperature: float = 1.0
    prior_corrected: bool = False
    by_evidence: dict[str, float] = field(default_factory=dict)


class EnsembleScores(NamedTuple):
    """The class scores of each classifier of an ensemble, `(k, c)`, and the weights of the classifiers."""

    scores: Sequence[Array]
    weights: Sequence[float] = (1.0,)

    def rows(self, mask: Array) -> EnsembleScores:
        """Return those of some nodes."""
        return self._replace(scores=[part[mask] for part in self.scores])

    def mean_outputs(self, target: Target, shift: Array | float = 0.0) -> Array:
        """Return the weighted mean of the outputs of (shifted) scores, `(k, c)` float64: probabilities, or values."""
        outputs = [target.outputs(part.astype(np.float64) + shift) for part in self.scores]
        return np.asarray(np.average(outputs, axis=0, weights=self.weights))


def uncalibrated_probabilities(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[TrainedClassifier],
    labels: tuple[Array, Array] | None,
    target: Target,
    rows: Array,
) -> Array:
    """Return the probability of each class for some nodes, `(k, c)`, before calibration; see `classifier_inputs`."""
    inputs = classifier_inputs(data, selection, classifiers, labels, target, rows)
    return ensemble_scores(inputs, classifiers).mean_outputs(target)


def ensemble_scores(inputs: ClassifierInputs, classifiers: Sequence[TrainedClassifier]) -> EnsembleScores:
    """Return the class scores of the classifiers of an ensemble, with their weights."""
    return EnsembleScores(inputs.class_scores(classifiers), [trained.weight for trained in classifiers])


def calibrate(
    scores: EnsembleScores,
    labels: Array,
    target: Target,
    train: tuple[EnsembleScores, Array] | None,
    *,
    always: bool = False,
) -> tuple[Array, float, Array | None]:
    """Return calibrated probabilities of the validation labels, the temperature, and the score shift, or None.

    Training labels are often drawn with the same number per class, although the classes of the graph are not balanced.
    With `train`, scores and labels of the training nodes, class scores may be shifted by T times the log ratio of the
    class frequencies in validation and training labels, where that helps or `always`; the probabilities are then
    cross-fitted.
    """
    probabilities = scores.mean_outputs(target)
    if len(labels) < MIN_VALIDATION:
        return probabilities, 1.0, None
    if train is not None and len(labels) >= MIN_PRIOR_LABELS:
        train_counts = np.bincount(train[1], minlength=len(target.classes))
        log_ratio, plain_temperature, temperature = _fit_shift(scores, labels, target, train_counts)
        shift = plain_temperature * log_ratio
        corrected, plain, frequencies = _cross_fitted(scores, labels, target, train_counts)
        train_gain = _training_gain(*train, target, shift, log_ratio)
        if always or _is_accepted(corrected, plain, frequencies, labels, train_gain):
            return corrected, temperature, shift
    temperature = target.fit_temperature(probabilities, labels)
    return target.scale(probabilities, temperature), temperature, None


def comparable_scores(trainer: PathTrainer, *, always: bool = False) -> Array:
    """Return class scores of the validation nodes with the prior correction that `calibrate` would make, `(k, c)`.

    Candidates that differ in how much they favor frequent classes are compared by what they are after it.
    """
    task = trainer.task
    scores, train_scores = (trainer.best_scores(nodes).numpy() for nodes in (task.validation, task.train))
    labels, train_labels = (task.labels[nodes].numpy() for nodes in (task.validation, task.train))
    train = EnsembleScores([train_scores]), train_labels
    corrected, _, shift = calibrate(EnsembleScores([scores]), labels, task.target, train, always=always)
    return scores if shift is None else np.log(np.maximum(corrected, _MIN_PROBABILITY))


def _fit_shift(
    scores: EnsembleScores, labels: Array, target: Target, train_counts: Array
) -> tuple[Array, float, float]:
    """Return the log ratio of class frequencies `(c,)`, and the temperatures before and after the shift."""
    log_ratio = class_prior_ratio(np.bincount(labels, minlength=len(train_counts)), train_counts)
    temperature = target.fit_temperature(scores.mean_outputs(target), labels)
    shifted = scores.mean_outputs(target, temperature * log_ratio)
    return log_ratio, temperature, target.fit_temperature(shifted, labels)


def _cross_fitted(
    scores: EnsembleScores, labels: Array, target: Target, train_counts: Array
) -> tuple[Array, Array, Array]:
    """Return probabilities with and without the shift, `(k, c)`, and the class frequencies of other labels, `(k, c)`.

    Shift, temperatures and class frequencies for a label are fitted on the other folds of the validation labels.
    """
    corrected, plain = np.empty((2, len(labels), len(train_counts)))
    frequencies, fold_of = np.empty_like(corrected), np.arange(len(labels)) % _N_FOLDS
    for fold in range(_N_FOLDS):
        held_out_mask, others = fold_of == fold, fold_of != fold
        held_out_scores, other_scores = scores.rows(held_out_mask), scores.rows(others)
        log_ratio, plain_temperature, temperature = _fit_shift(other_scores, labels[others], target, train_counts)
        plain[held_out_mask] = target.scale(held_out_scores.mean_outputs(target), plain_temperature)
        corrected[held_out_mask] = target.scale(
            held_out_scores.mean_outputs(target, plain_temperature * log_ratio), temperature
        )
        frequencies[held_out_mask] = np.bincount(labels[others], minlength=len(train_counts))
    return corrected, plain, frequencies


def _training_gain(
    scores: EnsembleScores, labels: Array, target: Target, shift: Array, log_ratio: Array
) -> tuple[float, float]:
    """Return the gain in training accuracy, weighted to the validation frequencies, and its standard error."""
    before, after = (node_accuracy(scores.mean_outputs(target, each), labels) for each in (0.0, shift))
    return mean_and_error(np.exp(log_ratio)[labels] * (after - before))


def _is_accepted(
    corrected: Array, plain: Array, frequencies: Array, labels: Array, train_gain: tuple[float, float]
) -> bool:
    """Return whether the correction lowers the log loss, not the accuracy, and beats the most frequent class.

    Scores that do not predict the validation labels get so high a temperature that the shift alone decides: all nodes
    are assigned the most frequent class, with a lower log loss. Training accuracy may fall by chance, or by no more
    than validation accuracy rises: a classifier that fits all training labels can only lose there.
    """
    loss_gain, loss_error = mean_and_error(log_losses(plain, labels) - log_losses(corrected, labels))
    correct, before, majority = (node_accuracy(outputs, labels) for outputs in (corrected, plain, frequencies))
    gain, error = mean_and_error(correct - before)
    gain_over_majority, majority_error = mean_and_error(correct - majority)
    if loss_gain <= _MARGINS[0] * loss_error or gain_over_majority <= _MARGINS[1] * majority_error:
        return False
    return gain >= -error and train_gain[0] >= -max(gain, train_gain[1])


def missing_input_temperatures(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[TrainedClassifier],
    labels: tuple[Array, Array],
    validation: ValidationNodes,
    target: Target,
) -> dict[str, float]:
    """Return temperatures for new nodes with "edges" only and with "features" only.

    They are fitted on the validation nodes with their features (or edges) hidden; that for "features" only if the model
    uses features, since a node without edges has no inputs otherwise.
    """
    true = target.from_matrix(validation.matrix)

    def temperature(hidden: EncoderData, labels: tuple[Array, Array] | None, rows: Array) -> float:
        outputs = uncalibrated_probabilities(hidden, selection, classifiers, labels, target, rows)
        return target.fit_temperature(outputs, true)

    options: Any = {"n_jobs": data.n_jobs, "training_data": data}
    edges = EncoderData(_without_inputs(data, validation.nodes), transitions=data.transitions, **options)
    temperatures = {"edges": temperature(edges, labels, validation.nodes)}
    if data.uses_features:
        features = EncoderData(_without_edges(data.graph, validation.nodes), **options)
        temperatures["features"] = temperature(features, None, np.arange(len(validation)))
    return temperatures


def _without_inputs(data: EncoderData, nodes: Array) -> Graph:
    """Return the graph in which some nodes have no inputs of their own."""
    graph, features = data.graph, cast(Any, data.graph.features)
    if not data.uses_features:  # nodes are matched by their ids
        ids = graph.node_ids.astype(object)
        ids[nodes] = [object() for _ in nodes]
        return replace(graph, node_ids=ids)
    if sp.issparse(features):
        visible = np.ones((len(graph), 1), np.float32)
        visible[nodes] = 0
        return replace(graph, features=sp.csr_array(features.multiply(visible)))
    dense = np.array(features)
    dense[nodes] = data.dense_scale[0]
    return replace(graph, features=dense)


def _without_edges(graph: Graph, nodes: Array) -> Graph:
    """Return some nodes of a graph without any edge."""
    parts: dict[str, Any] = {name: value[:0] for name, value in graph.edge_arrays() if value is not None}
    parts["indptr"], parts["indices"] = np.zeros(len(nodes) + 1, graph.indptr.dtype), graph.indices[:0]
    if graph.node_types is not None:
        parts["node_types"] = graph.node_types[nodes]
    return replace(graph, node_ids=graph.node_ids[nodes], features=cast(Any, graph.features)[nodes], **parts)
