"""What explains a trained `CGE`: its paths, and the class scores as a function of the propagated inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.fitted_model import label_table
from cge.explain.explainer import Explainer, ScoreFunction
from cge.explain.explanation import ClassifierInfo
from cge.explain.path_search import PathSet
from cge.explain.path_sources import AllPaths, EdgeTypes, SampledPaths
from cge.models.classifiers import PathClassifier
from cge.models.edge_weighting import EdgeWeighting
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData, NamedWeighting

if TYPE_CHECKING:
    from cge.estimators.encoder_model import EncoderModel


def encoder_explainer(model: EncoderModel, place: int) -> Explainer:
    """Return what explains the predictions of one classifier of an ensemble: its scores are a sum over paths."""
    count = len(model.ensemble)
    if place >= count:
        legal = f"a whole number below {count}, the number of classifiers of this model"
        raise InputError(parameter="classifier", expected=legal, found=place)
    name, classifier = model.ensemble[place]
    data, weighting, label_scores = model.data, model.selection.weighting, None
    with torch.no_grad():
        inputs = classifier.project(data.inputs(CLASSIFIERS[name].row_norm)).double().numpy()
        offset = classifier.offset().double().numpy()
    if model.label_propagation:
        propagated = weighting.propagate_labels(data, model.train.nodes, model.train.matrix, model.target)
        label_scores = float(classifier.label_weight.detach()) * propagated.astype(np.float64)
    exact = isinstance(weighting.module, EdgeWeighting)
    return Explainer(
        _all_paths(data, weighting.module) if exact else _sampled_paths(model),  # type: ignore[arg-type]
        ScoreFunction(inputs, _ClassifierScores(classifier), offset, label_scores),
        model.probabilities(None, np.arange(len(model.graph))),
        data.graph.node_ids,
        label_table(model.train, model.target),
        model.temperature,
        ClassifierInfo(place, count, name),
    )


@dataclass(frozen=True, eq=False)
class _ClassifierScores:
    """The scores of a classifier; they do not depend on the node."""

    classifier: PathClassifier

    def __call__(self, nodes: Tensor, vectors: Tensor) -> Tensor:  # noqa: ARG002 - same call as the paper's heads
        return self.classifier.scores(vectors)


def _all_paths(data: EncoderData, weighting: EdgeWeighting) -> AllPaths:
    uniform = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0])
    with torch.no_grad():
        values, walk = (
            module.edge_weights(data.transitions, data.edge_inputs).double().numpy() for module in (weighting, uniform)
        )
        hops = weighting.hop_weights().tolist()
    return AllPaths(data.transitions, values, hops, walk, EdgeTypes.of(data.graph, data.transitions))


def _sampled_paths(model: EncoderModel) -> SampledPaths:
    data, weighting = model.data, model.selection.weighting
    sizes = len(weighting.edge_weighting.hops) - 1, data.transitions.indices, data.transitions.num_nodes
    types = EdgeTypes.of(data.graph, data.transitions)
    return SampledPaths(_NetworkPaths(data, weighting), *sizes, model.path_weights, types)


@dataclass(frozen=True, eq=False)
class _NetworkPaths:
    """The sampled paths of some nodes, each with its share of their weighted mean."""

    data: EncoderData
    weighting: NamedWeighting

    def __call__(self, nodes: Array) -> PathSet:
        propagation = self.weighting.trainable(self.data, nodes)
        paths = propagation.prefixes
        weights = paths.count * propagation.weights().astype(np.float64)
        share = normalized_by_start(paths.start, weights, self.data.transitions.num_nodes)
        return PathSet(paths.start, paths.tokens[:, 1:], paths.length, share)


def normalized_by_start(start: Array, values: Array, nodes: int) -> Array:
    """Return values as shares of all values of the same start."""
    share: Array = values / np.maximum(np.bincount(start, values, minlength=nodes), 1e-12)[start]
    return share
