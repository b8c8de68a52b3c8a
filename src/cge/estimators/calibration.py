"""Calibration on the validation labels: temperature scaling, also for new nodes, and the correction of class priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.estimators.classifier_inputs import classifier_inputs
from cge.estimators.fitted_model import ValidationNodes
from cge.graph import Graph
from cge.metrics import class_prior_ratio, log_losses
from cge.models.classifiers import PathClassifier
from cge.targets import Target
from cge.training.candidate_evaluation import CandidateScore
from cge.training.candidates import MIN_VALIDATION
from cge.training.encoder_data import EncoderData
from cge.training.model_search import Selection

_MIN_STANDARD_ERRORS = 3.0  # by which the prior correction has to lower the log loss
MIN_PRIOR_LABELS = 50  # validation labels: fewer cannot estimate class frequencies


@dataclass(frozen=True)
class Calibration:
    """The temperature of the probabilities, and whether class scores were shifted to the validation priors.

    `by_evidence` has other temperatures for new nodes, by the evidence there is for them ("edges", "features").
    """

    temperature: float = 1.0
    prior_corrected: bool = False
    by_evidence: dict[str, float] = field(default_factory=dict)


def mean_outputs(scores: Sequence[Tensor], target: Target) -> Array:
    """Return the mean outputs of the scores of an ensemble, `(k, c)`: probabilities, or values."""
    outputs: Array = torch.stack([target.outputs(part) for part in scores]).double().mean(0).numpy()
    return outputs


def uncalibrated_probabilities(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    labels: tuple[Array, Array] | None,
    target: Target,
    rows: Array,
) -> Array:
    """Return the probability of each class for some nodes, `(k, c)`, before calibration; see `classifier_inputs`."""
    known = classifier_inputs(data, selection, classifiers, labels, target, rows)
    return mean_outputs(known.class_scores(classifiers), target)


def calibrate(
    scores: Sequence[Tensor], labels: Array, target: Target, train_counts: Array | None, *, always: bool = False
) -> tuple[Array, float, Array | None]:
    """Return calibrated probabilities of the validation labels, the temperature, and the shift of class scores.

    Training labels are often drawn so that every class has the same number; nodes are not. With `train_counts (c,)`,
    the training labels of each class, class scores may be shifted by the log ratio of class frequencies in validation
    and training labels. Each validation label is scored with frequencies estimated from the others, and the shift is
    accepted only where it lowers the log loss by more than chance explains, or `always`.
    """
    probabilities = mean_outputs(scores, target)
    if len(labels) < MIN_VALIDATION:
        return probabilities, 1.0, None
    temperature = target.fit_temperature(probabilities, labels)
    plain = target.scale(probabilities, temperature)
    if train_counts is None or len(labels) < MIN_PRIOR_LABELS:
        return plain, temperature, None
    shift, shift_from_others = class_prior_ratio(labels, train_counts)
    shifts = temperature * torch.from_numpy(shift_from_others)
    shifted = mean_outputs([part + shifts for part in scores], target)
    shifted_temperature = target.fit_temperature(shifted, labels)
    corrected = target.scale(shifted, shifted_temperature)
    candidate, incumbent = _score(corrected, labels), _score(plain, labels)
    saved, saved_error = candidate.log_loss_gain(incumbent)
    gain, gain_error = candidate.accuracy_gain(incumbent)
    if not always and (saved <= _MIN_STANDARD_ERRORS * saved_error or gain < -gain_error):
        return plain, temperature, None
    return corrected, shifted_temperature, temperature * shift


def _score(probabilities: Array, labels: Array) -> CandidateScore:
    correct = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    return CandidateScore(float(correct.mean()), correct, log_losses(probabilities, labels))


def missing_input_temperatures(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    labels: tuple[Array, Array],
    validation: ValidationNodes,
    target: Target,
) -> dict[str, float]:
    """Return temperatures for new nodes with "edges" only and with "features" only.

    They are fitted on the validation nodes with their features (or edges) hidden. Nodes without features have no inputs
    when they have no edges.
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
    edges = {name: getattr(graph, name) for name in ("indices", "weights", "edge_types")}
    none = {name: value[:0] for name, value in edges.items() if value is not None}
    indptr, features = np.zeros(len(nodes) + 1, graph.indptr.dtype), cast(Any, graph.features)[nodes]
    return replace(graph, indptr=indptr, node_ids=graph.node_ids[nodes], features=features, **none)
