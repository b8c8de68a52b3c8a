"""A trained path encoder: predictions for its graph and for others, explanations, and its stored form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.data.graph_update import check_same_features
from cge.errors import InputError
from cge.estimators.calibration import Calibration, mean_outputs
from cge.estimators.classifier_inputs import ClassifierInputs, classifier_inputs
from cge.estimators.encoder_options import encoder_settings
from cge.estimators.fitted_model import FittedModel, LabeledNodes, normalized_by_start, restore_log, stored_labels
from cge.estimators.stored_selection import restore_selection, selection_arrays, selection_metadata
from cge.explain.explainer import Explainer
from cge.explain.explanation import ClassifierInfo
from cge.explain.metapath_paths import MetapathPaths
from cge.explain.metapaths import EdgeRelations
from cge.explain.path_search import PathSet
from cge.explain.path_sources import AllPaths, EdgeTypes, PathSource, SampledPaths
from cge.explain.path_sums import ClassifierScores, InputFeatures, LabelPaths, ScoreFunction
from cge.graph import Graph
from cge.models.edge_weighting import EdgeScale, EdgeWeighting
from cge.models.fixed_classifier import FixedClassifier
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.propagation import propagated_lengths
from cge.models.sparse_products import SparseFeatures
from cge.store import metadata_field, metadata_record
from cge.targets import restore_target
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.history import Epoch
from cge.training.named_weighting import LABEL_HOP_WEIGHTS, NamedWeighting
from cge.training.selection import Selection, TrainedClassifier
from cge.training.stored_state import TrainerState, finite_array

if TYPE_CHECKING:
    from cge.estimators.cge import CGE


@dataclass(eq=False, kw_only=True)
class EncoderModel(FittedModel):
    """A trained path encoder.

    `selection` holds the weighting and what else the search selected, `ensemble` the classifiers whose probabilities
    are averaged. The vector of a node is all that its prediction depends on (`ClassifierInputs.vectors`).
    """

    data: EncoderData
    selection: Selection
    ensemble: tuple[TrainedClassifier, ...]
    calibration: Calibration
    weighting_selected: bool

    inductive = True
    exact = True

    def __post_init__(self) -> None:
        self.graph, self.label_propagation = self.data.graph, self.selection.label_propagation
        self.weighting_name, self.gain_over_uniform = self.selection.weighting.name, self.selection.gain_over_uniform
        self._last: tuple[Graph, EncoderData] | None = None

    @property
    def temperature(self) -> float:
        """The temperature of the calibrated probabilities."""
        return self.calibration.temperature

    @property
    def weight_parameters(self) -> dict[str, Any]:
        """The parameters of an edge weighting; empty for networks."""
        module = self.selection.weighting.module
        if not isinstance(module, EdgeWeighting):
            return {}
        return {
            "coefficients": dict(zip(self.data.edge_scale.names, module.coefficients.tolist(), strict=True)),
            "self_loop": module.self_loop.item(),
            "normalization": module.normalization.item(),
            "hop_weights": module.normalized_hop_weights().tolist(),
        }

    def data_of(self, graph: Graph | None) -> EncoderData:
        """Return a graph, by default that of training, with inputs scaled as in training; the last one is kept."""
        if graph is None:
            return self.data
        if self._last is None or self._last[0] is not graph:
            if self.data.uses_features:
                check_same_features(self.graph, graph)
            self._last = graph, EncoderData(graph, n_jobs=self.data.n_jobs, training_data=self.data)
        return self._last[1]

    def inputs(self, graph: Graph | None, rows: Array, labels: tuple[Array, Array] | None = None) -> ClassifierInputs:
        """Return what the classifiers know of some nodes of a graph; `labels` are those in it, where they are known."""
        labels = self._labels_in(graph) if labels is None else labels
        return classifier_inputs(self.data_of(graph), self.selection, self.ensemble, labels, self.target, rows)

    @cached_property
    def _own_inputs(self) -> ClassifierInputs:
        return self.inputs(None, np.arange(len(self.graph)))

    @cached_property
    def _own_vectors(self) -> Array:
        return self._own_inputs.vectors(self.vector_scales, self.ensemble)

    @cached_property
    def vector_scales(self) -> list[float]:
        """The factor of each classifier's part of the vectors."""
        return self._own_inputs.scales(self.ensemble)

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, d)`."""
        if graph is None:
            return self._own_vectors
        return self.inputs(graph, np.arange(len(graph))).vectors(self.vector_scales, self.ensemble)

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""
        return self.probabilities_from(self.inputs(graph, rows), self.temperature)

    def probabilities_from(self, known: ClassifierInputs, temperature: float | Array) -> Array:
        """Return them from what is known of the nodes, and a temperature or one for each node."""
        outputs = self.target.scale(mean_outputs(known.class_scores(self.ensemble), self.target), temperature)
        outputs[~known.informed] = self.class_prior
        return outputs.astype(np.float32)

    @property
    def class_prior(self) -> Array:
        """The class frequencies that predictions assume, `(c,)`; a node of which nothing is known has them.

        Those of the training labels, or of the validation labels after a prior correction; in regression the mean.
        """
        prior: Array = (self.validation if self.calibration.prior_corrected else self.train).matrix.mean(axis=0)
        return prior

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return the weights of paths of node indices, `(k,)`; 0 for a sequence that is not a path of the graph."""
        return self.selection.weighting.path_weights(self.data, paths)

    def classifier_names(self) -> list[str]:
        """Return the names of the classifiers of the ensemble."""
        return [name for name, _, _ in self.ensemble]

    def explainer(
        self,
        classifier: int,
        seed: int,  # noqa: ARG002 - all paths
        graph: Graph | None = None,
        rows: Array | None = None,
    ) -> Explainer:
        """Return what explains the predictions of one classifier of the ensemble, for some nodes of a graph, or all."""
        return _explainer(self, classifier, graph, rows)

    def uniform_paths(self) -> AllPaths:
        """Return all paths of the training graph with uniform weights."""
        weights, count = self.data.uniform_weights(), len(self.selection.weighting.edge_weighting.hop_weights)
        return AllPaths(self.data.transitions, weights, [1 / count] * count, weights)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a model folder."""
        return self.log.metadata() | {
            "by_features": self.data.uses_features,
            "calibration": asdict(self.calibration),
            "edge_inputs": list(self.data.edge_scale.names),
            "ensemble": [[name, weighting.name] for name, _, weighting in self.ensemble],
            "selection": selection_metadata(self.selection),
            "target": self.target.metadata(),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a model folder, by name."""
        scale, dense, table = self.data.edge_scale, self.data.dense_scale, self.data.walk_vectors
        arrays: dict[str, Array] = {} if table is None else {"walks.vectors": table}
        arrays |= {"scale.mean": scale.mean, "scale.spread": scale.spread, "scale.idf": scale.idf}
        arrays |= {"dense.center": dense[0], "dense.spread": dense[1]}
        arrays |= {} if self.data.components is None else {"dense.components": self.data.components}
        arrays |= self.train.arrays("train") | self.validation.arrays("validation")
        closed_walks = self.data.closed_walks.get(self.weighting_name)
        if self.label_propagation and closed_walks is not None and np.array_equal(closed_walks[0], self.train.nodes):
            arrays["train.closed_walks"] = closed_walks[1]
        for place, (_, classifier, _) in enumerate(self.ensemble):
            arrays |= {f"ensemble.{place}.{part}": array for part, array in classifier.arrays().items()}
        return arrays | selection_arrays(self.selection)


def _explainer(model: EncoderModel, place: int, graph: Graph | None, rows: Array | None) -> Explainer:
    """Return what explains the predictions of one classifier of an ensemble: its scores are a sum over paths."""
    name, classifier, weighting = model.ensemble[place]
    data, labels = model.data_of(graph), LabeledNodes(*model._labels_in(graph))
    inputs, nodes = data.inputs(CLASSIFIERS[name].row_norm), np.arange(len(data.graph)) if rows is None else rows
    offset, projection = classifier.offset.astype(np.float64), classifier.projection.astype(np.float64)
    projected, features, label_paths = classifier.project(inputs).astype(np.float64), None, None
    if data.uses_features:
        rows_of_features: Any = inputs.rows if isinstance(inputs, SparseFeatures) else inputs
        if data.components is not None:
            rows_of_features, projection = data.dense_rows, data.components @ projection
        features = InputFeatures(rows_of_features, projection, data.input_names)
        projected = rows_of_features @ projection  # in float64, so that features add up to inputs
    if model.label_propagation:
        sums = weighting.label_sums(data, labels.nodes, labels.matrix, rows)
        weight = float(classifier.label_weight)
        paths = _label_paths(data, weighting)
        label_paths = LabelPaths(paths, model.target, labels.nodes, labels.matrix, *sums, weight)
    lengths = np.ones(len(data.graph), np.float32)
    if CLASSIFIERS[name].unit_rows:
        lengths[nodes] = propagated_lengths(weighting.propagation(data), inputs, nodes)
    probabilities = np.zeros((len(data.graph), len(model.target.classes)), np.float32)
    probabilities[nodes] = model.probabilities(graph, nodes)
    return Explainer(
        _paths(data, weighting),
        ScoreFunction(projected, ClassifierScores(classifier, lengths), offset, label_paths, features=features),
        probabilities,
        data.graph.node_ids,
        labels.table(model.target),
        model.temperature,
        ClassifierInfo(place, len(model.ensemble), name),
        EdgeRelations.of(data.graph, data.transitions),
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
        values, weights = weighting.module.edge_weights(inputs), weighting.module.coded(inputs.relations)
        types = EdgeTypes.of(data.graph, data.transitions)
        codes = np.where(inputs.relations.codes < len(inputs.relations), inputs.relations.codes, -1)
        return MetapathPaths(data.transitions, codes, values, weights, data.uniform_weights(), types)
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


def restore_encoder(
    estimator: CGE,
    graph: Graph,
    classes: Array,
    metadata: dict[str, Any],
    arrays: Mapping[str, Array],
    num_nodes: int | None = None,
) -> EncoderModel:
    """Return the model that a folder holds; `num_nodes` is the size of its graph, where another one is passed."""
    data = _restore_data(estimator, graph, metadata, arrays)
    if not len(classes):
        raise InputError("there must be a class")
    settings = encoder_settings(estimator, len(classes))
    selection = restore_selection(data, settings, TrainerState({"selection": metadata["selection"]}, dict(arrays)))

    train, validation = stored_labels(arrays, num_nodes or len(graph), len(classes))
    if "train.closed_walks" in arrays:
        closed_walks = np.array(arrays["train.closed_walks"], np.float64)
        if closed_walks.shape != train.nodes.shape or not np.isfinite(closed_walks).all():
            raise InputError("the training labels and the weights of their closed walks do not agree")
        data.closed_walks[selection.weighting.name] = train.nodes, closed_walks
    unknown = [name for name, _ in metadata["ensemble"] if name not in CLASSIFIERS]
    if not metadata["ensemble"] or unknown:
        raise InputError(f"there is no classifier {', '.join(map(str, unknown))}".rstrip())
    weightings = {each.name: each for each in (selection.weighting, *(other for other, _ in selection.averaged))}
    return EncoderModel(
        data=data,
        selection=selection,
        ensemble=tuple(
            TrainedClassifier(name, _restore_classifier(arrays, place, data, len(classes)), weightings[weighting])
            for place, (name, weighting) in enumerate(metadata["ensemble"])
        ),
        train=train,
        validation=validation,
        target=restore_target(metadata["target"], classes),
        calibration=_restore_calibration(metadata["calibration"]),
        weighting_selected=estimator.weighting == "auto",
        log=restore_log(metadata, Epoch),
    )


def _restore_data(
    estimator: CGE, graph: Graph, metadata: Mapping[str, Any], arrays: Mapping[str, Array]
) -> EncoderData:
    """Return the graph as the encoder sees it, with the scales of training."""
    names = tuple(str(name) for name in metadata["edge_inputs"])
    scale = EdgeScale(names, *(np.array(arrays[f"scale.{part}"], np.float64) for part in ("mean", "spread", "idf")))
    if len(scale.mean) != len(scale.spread) or len(scale.mean) > len(names):
        raise InputError("the edge inputs and their scale do not agree")
    if not (scale.spread > 0).all():
        raise InputError("the scale of edge inputs must be positive")
    dense = np.array(arrays["dense.center"], np.float32), np.array(arrays["dense.spread"], np.float32)
    table = None if "walks.vectors" not in arrays else np.array(arrays["walks.vectors"], np.float32)
    if table is not None and (table.ndim != 2 or len(table) != len(graph)):
        raise InputError(f"the vectors of walks must have a row for each of {len(graph):,} nodes")
    inputs = estimator.inputs if estimator.inputs == "features" else "auto" if metadata["by_features"] else "learned"
    components = arrays.get("dense.components")
    if components is not None:
        components = finite_array(arrays, "dense.components", (len(dense[0]), components.shape[-1])).astype(np.float32)
    given: Any = {"edge_scale": scale, "dense_scale": dense, "walk_vectors": table, "components": components}
    return EncoderData(graph, inputs, estimator.n_jobs, **given)


def _restore_classifier(arrays: Mapping[str, Array], place: int, data: EncoderData, classes: int) -> FixedClassifier:
    prefix, dim = f"ensemble.{place}.", len(arrays[f"ensemble.{place}.offset"])
    shapes: dict[str, tuple[int, ...]] = {"projection": (data.input_dim, dim), "offset": (dim,), "label_weight": ()}
    if f"{prefix}output_weight" in arrays or dim != classes:
        shapes["output_weight"] = (classes, dim)
    if f"{prefix}output_bias" in arrays or "output_weight" in shapes:
        shapes["output_bias"] = (classes,)
    parts = {name: finite_array(arrays, prefix + name, shape) for name, shape in shapes.items()}
    return FixedClassifier(**{name: part.astype(np.float32) for name, part in parts.items()})


def _restore_calibration(metadata: Mapping[str, Any]) -> Calibration:
    calibration = metadata_record(Calibration, metadata)
    by_evidence = [metadata_field(calibration.by_evidence, name, float) for name in calibration.by_evidence]
    if not all(0 < value < np.inf for value in (calibration.temperature, *by_evidence)):
        raise InputError("temperatures must be positive and finite")
    return calibration
