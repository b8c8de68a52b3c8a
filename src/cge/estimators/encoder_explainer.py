"""Explanations of a trained path encoder: the paths of its weightings, and class scores as sums over them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.estimators.fitted_model import LabeledNodes, normalized_by_start
from cge.explain.explainer import Explainer
from cge.explain.explanation import ClassifierInfo
from cge.explain.metapath_paths import MetapathPaths
from cge.explain.metapaths import EdgeRelations
from cge.explain.path_search import PathSet
from cge.explain.path_sources import AllPaths, EdgeTypes, PathSource, SampledPaths
from cge.explain.path_sums import ClassifierScores, InputFeatures, LabelPaths, ScoreFunction
from cge.graph import Graph
from cge.models.edge_weighting import EdgeWeighting
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.propagation import propagated_lengths
from cge.models.sparse_products import SparseFeatures
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import LABEL_HOP_WEIGHTS, NamedWeighting

if TYPE_CHECKING:
    from cge.estimators.encoder_model import EncoderModel


def encoder_explainer(model: EncoderModel, classifier_index: int, graph: Graph | None, rows: Array | None) -> Explainer:
    """Return what explains the predictions of one classifier of an ensemble: its scores are a sum over paths."""
    name, classifier, weighting, _ = model.ensemble[classifier_index]
    data, labels = model.data_of(graph), LabeledNodes(*model._labels_in(graph))
    inputs, nodes = data.inputs(CLASSIFIERS[name].row_norm), np.arange(len(data.graph)) if rows is None else rows
    offset, projection = classifier.offset.astype(np.float64), classifier.projection.astype(np.float64)
    projected, features, label_paths = classifier.project(inputs).astype(np.float64), None, None
    if data.uses_features:
        rows_of_features: Any = inputs.csr if isinstance(inputs, SparseFeatures) else inputs
        if data.components is not None:
            rows_of_features, projection = data.dense_rows, data.components @ projection
        features = InputFeatures(rows_of_features, projection, data.input_names)
        projected = rows_of_features @ projection  # in float64, so that features add up to inputs
    if model.label_propagation:
        sums = weighting.label_sums(data, labels.nodes, labels.matrix, model.target, rows)
        weight = float(classifier.label_weight)
        paths = _label_paths(data, weighting)
        label_paths = LabelPaths(paths, model.target, labels.nodes, labels.matrix, *sums, weight)
    lengths = np.ones(len(data.graph), np.float32)
    if CLASSIFIERS[name].unit_rows:
        lengths[nodes] = propagated_lengths(weighting.propagation(data), inputs, nodes)
    of_classifiers = model.inputs(graph, nodes)
    probabilities = np.zeros((len(data.graph), len(model.target.classes)), np.float32)
    probabilities[nodes] = model.probabilities_from(of_classifiers, model.temperature)
    informed = np.zeros(len(data.graph), bool)
    informed[nodes] = of_classifiers.has_information
    return Explainer(
        _paths(data, weighting),
        ScoreFunction(projected, ClassifierScores(classifier, lengths), offset, label_paths, features=features),
        probabilities,
        data.graph.node_ids,
        labels.table(model.target),
        model.temperature,
        ClassifierInfo(classifier_index, len(model.ensemble), name),
        EdgeRelations.of(data.graph, data.transitions),
        informed,
    )


def _edge_weights(data: EncoderData, weighting: EdgeWeighting) -> Array:
    weights = weighting.normalized_weights(data.transitions, data.edge_inputs_of(weighting))
    return np.asarray(weights, np.float64)


def _paths(data: EncoderData, weighting: NamedWeighting) -> PathSource:
    """Return the paths that a weighting weights."""
    if isinstance(weighting.module, EdgeWeighting):
        return _all_paths(data, weighting.module)
    if isinstance(weighting.module, MetapathWeighting):
        inputs: Any = data.edge_inputs
        values, weights = weighting.module.edge_weights(inputs), weighting.module.weights_by_code(inputs.relations)
        types = EdgeTypes.of(data.graph, data.transitions)
        codes = np.where(inputs.relations.codes < len(inputs.relations), inputs.relations.codes, -1)
        hops = len(weighting.edge_weighting.hop_weights) - 1
        return MetapathPaths(data.transitions, codes, values, weights, data.uniform_weights(), hops, types)
    return _sampled_paths(data, weighting)


def _all_paths(data: EncoderData, weighting: EdgeWeighting) -> AllPaths:
    weights = _edge_weights(data, weighting), weighting.normalized_hop_weights().tolist(), data.uniform_weights()
    return AllPaths(data.transitions, *weights, EdgeTypes.of(data.graph, data.transitions))


def _label_paths(data: EncoderData, weighting: NamedWeighting) -> AllPaths:
    """Return the paths along which labels are propagated; those that return to a node are left out."""
    closed_walks, (nodes, weights) = np.zeros(len(data.graph)), data.closed_walks.get(weighting.name, ([], 0))
    closed_walks[nodes] = weights
    uniform, types = data.uniform_weights(), EdgeTypes.of(data.graph, data.transitions)
    values, _ = weighting.label_weights(data)
    return AllPaths(data.transitions, values, LABEL_HOP_WEIGHTS, uniform, types, closed_walks)


def _sampled_paths(data: EncoderData, weighting: NamedWeighting) -> SampledPaths:
    sizes = len(weighting.edge_weighting.hop_weights) - 1, data.transitions.indices, data.transitions.num_nodes
    types = EdgeTypes.of(data.graph, data.transitions)
    return SampledPaths(partial(_network_paths, data, weighting), *sizes, partial(weighting.path_weights, data), types)


def _network_paths(data: EncoderData, weighting: NamedWeighting, nodes: Array) -> PathSet:
    """Return the sampled paths of some nodes, each with its share of their weighted mean."""
    propagation = weighting.trainable(data, nodes)
    paths = propagation.prefixes
    weights = paths.count * propagation.weights().astype(np.float64)
    share = normalized_by_start(paths.start, weights, data.transitions.num_nodes)
    return PathSet(paths.start, paths.tokens[:, 1:], paths.length, share)
