"""What explains a trained `CGE`: its paths, and how classes are read off what they bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.errors import InputError
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.paper_fit import PaperModel
from cge.explain.all_paths import AllPaths
from cge.explain.edge_types import EdgeTypes
from cge.explain.explainer import Explainer, Labels
from cge.explain.explanation import WhichClassifier
from cge.explain.linear_scores import Reading
from cge.explain.path_search import Found
from cge.explain.sampled_paths import SampledPaths
from cge.models import PathWeighting, TransductiveHead
from cge.models.classifiers import PathClassifier
from cge.models.edge_weighting import EdgeWeighting
from cge.models.path_prefixes import sample_prefixes
from cge.models.path_tree import PathTree
from cge.models.sparse_products import NodeFeatures, take_rows
from cge.models.transitions import TransitionMatrix
from cge.sampling import Walker
from cge.training.classifier_recipes import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import NamedWeighting
from cge.training.paper_inner import MIN_PATH_NODES

__all__ = ["explainer_of"]

Array = npt.NDArray[Any]

_WALKS = 100  # from a node, to whose beginnings the paper's encoders attribute a prediction


def explainer_of(fitted: EncoderModel | PaperModel, model: Any, place: int) -> Explainer:
    """Return what explains the predictions of a trained model, or those of one of its readers."""
    return _path_explainer(fitted, model, place) if isinstance(fitted, EncoderModel) else _pairs(fitted, model, place)


# ---------------------------------------------------------------------- the path encoder


def _path_explainer(fitted: EncoderModel, model: Any, place: int) -> Explainer:
    """Explain a reader: its scores are a sum over paths."""
    classifiers = len(fitted.ensemble)
    if place >= classifiers:
        legal = f"a whole number below {classifiers}, the number of classifiers of this model"
        raise InputError(parameter="classifier", expected=legal, found=place)
    name, classifier = fitted.ensemble[place]
    data, weights, votes = fitted.data, fitted.plan.weighting, None
    with torch.no_grad():
        carried = classifier.project(data.inputs(CLASSIFIERS[name].rows)).double().numpy()
        offset = classifier.offset().double().numpy()
    if fitted.plan.label_propagation:
        cast = weights.propagate_labels(data, fitted.known, fitted.matrix, fitted.several)
        votes = float(classifier.label_weight.detach()) * cast.astype(np.float64)
    probabilities = fitted.probabilities(None, np.arange(len(fitted.graph)))
    paths = _all_paths(data, weights.module) if isinstance(weights.module, EdgeWeighting) else _sampled(fitted)
    return Explainer(
        paths,
        Reading(carried, _ClassifierScores(classifier), offset, votes),
        probabilities,
        data.graph.node_ids,
        _labels(fitted, model),
        fitted.temperature,
        WhichClassifier(place, classifiers, name),
    )


@dataclass(frozen=True, eq=False)
class _ClassifierScores:
    """The scores of a reader; they do not depend on the node."""

    classifier: PathClassifier

    def __call__(self, nodes: Tensor, vectors: Tensor) -> Tensor:  # noqa: ARG002 - as heads are called
        return self.classifier.scores(vectors)


def _all_paths(data: EncoderData, weighting: EdgeWeighting) -> AllPaths:
    plain = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0])
    with torch.no_grad():
        values, walk = (
            one.edge_weights(data.transitions, data.edge_inputs).double().numpy() for one in (weighting, plain)
        )
        hops = weighting.hop_weights().tolist()
    return AllPaths(data.transitions, values, hops, walk, EdgeTypes.of(data.graph, data.transitions))


def _sampled(fitted: EncoderModel) -> SampledPaths:
    data, weights = fitted.data, fitted.plan.weighting
    sizes = len(weights.edge_weighting.hops) - 1, data.transitions.indices, data.transitions.num_nodes
    types = EdgeTypes.of(data.graph, data.transitions)
    return SampledPaths(_NetworkPaths(data, weights), *sizes, fitted.path_weights, types)


@dataclass(frozen=True, eq=False)
class _NetworkPaths:
    """The sampled paths of some nodes, each with its share of their weighted mean."""

    data: EncoderData
    weights: NamedWeighting

    def __call__(self, nodes: Array) -> Found:
        propagation = self.weights.trainable(self.data, nodes)
        paths = propagation.prefixes
        share = _shares(
            paths.start, paths.count * propagation.weights().astype(np.float64), self.data.transitions.num_nodes
        )
        return Found(paths.start, paths.tokens[:, 1:], paths.length, share)


def _shares(start: Array, values: Array, nodes: int) -> Array:
    """Return values as shares of all values of the same start."""
    share: Array = values / np.maximum(np.bincount(start, values, minlength=nodes), 1e-12)[start]
    return share


# ---------------------------------------------------------------------- the paper's encoders


def _pairs(fitted: PaperModel, model: Any, place: int) -> Explainer:
    """Attribute the scores of a head to paths.

    Heads read vectors of unit length. What a path brings is taken to be the vector of its end, times the path's share;
    what a node's vector holds besides is the remainder.
    """
    if place:
        raise InputError(parameter="classifier", expected="0 (this model has one classifier)", found=place)
    graph, parameters = fitted.graph, fitted.trained.parameters
    vectors = fitted.own.astype(np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    score = _HeadScores(parameters.head, fitted.features)
    reading = Reading(vectors, score, np.zeros(vectors.shape[1]), vectors=vectors)
    steps = TransitionMatrix(graph, model.n_jobs)
    told: dict[str, Any] = {"seed": model.random_state, "n_jobs": model.n_jobs, "stream": ("explain",)}
    walked = _WalkedPaths(Walker(graph, model.window, _WALKS, **told), steps, parameters.network, fitted.own)
    sizes = model.window - 1, steps.indices, steps.num_nodes
    paths = SampledPaths(walked, *sizes, fitted.path_weights, EdgeTypes.of(graph, steps), exact=False)
    probabilities = fitted.probabilities(None, np.arange(len(graph)))
    return Explainer(paths, reading, probabilities, graph.node_ids, _labels(fitted, model))


def _labels(fitted: EncoderModel | PaperModel, model: Any) -> Labels:
    order = np.argsort(fitted.known)
    return Labels(model.classes_, fitted.known[order], fitted.matrix[order], fitted.several)


@dataclass(frozen=True, eq=False)
class _HeadScores:
    """The scores of a head for vectors of unit length, or what is left of them."""

    head: Any
    features: NodeFeatures | None

    def __call__(self, nodes: Tensor, vectors: Tensor) -> Tensor:
        scores: Tensor = self.head.from_e(vectors)
        if isinstance(self.head, TransductiveHead):
            scores = self.head.score_e(torch.relu(scores))
        if self.features is None:
            return scores
        with torch.no_grad():
            *_, of_x = self.head.branches(take_rows(self.features, nodes), torch.zeros_like(vectors))
        found: Tensor = scores + of_x
        return found


@dataclass(frozen=True, eq=False)
class _WalkedPaths:
    """The beginnings of walks from some nodes, weighed; of two nodes at least, as those that train."""

    walker: Walker
    steps: TransitionMatrix
    network: PathWeighting | None
    vectors: Array

    def __call__(self, nodes: Array) -> Found:
        first, count, size = int(nodes[0]), int(nodes[-1] - nodes[0]) + 1, self.steps.num_nodes
        rounds = [turn * size + first for turn in range(self.walker.walks_per_node)]
        walks = np.concatenate([self.walker.sample(begin, count)[nodes - first] for begin in rounds])
        paths = sample_prefixes(walks, self.steps)
        values, long = paths.count.astype(np.float64), np.flatnonzero(paths.length >= MIN_PATH_NODES)
        found = Found(paths.start, paths.tokens[:, 1:], paths.length, values)
        if self.network is not None:
            tree = PathTree.grow(found.nodes(self.steps.indices), paths.length, paths.parents)
            values = values * self.network.weigh(torch.from_numpy(self.vectors), tree, self.steps.n_jobs)
        found = found.take(long)
        return Found(found.start, found.steps, found.length, _shares(found.start, values[long], size))
