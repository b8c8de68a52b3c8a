"""The stored form of a trained path encoder: what a model folder holds, and the model restored from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.calibration import Calibration
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.encoder_options import encoder_settings
from cge.estimators.fitted_model import restore_log, stored_labels
from cge.estimators.stored_selection import restore_selection
from cge.graph import Graph
from cge.models.edge_weighting import EdgeScale
from cge.models.fixed_classifier import FixedClassifier
from cge.store import metadata_field, metadata_record
from cge.targets import restore_target
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.history import Epoch
from cge.training.selection import TrainedClassifier
from cge.training.stored_state import TrainerState, finite_array

if TYPE_CHECKING:
    from cge.estimators.cge import CGE


def restore_encoder(
    estimator: CGE,
    graph: Graph,
    classes: Array,
    metadata: dict[str, Any],
    arrays: Mapping[str, Array],
    num_nodes: int | None = None,
) -> EncoderModel:
    """Return the model that a folder holds; `num_nodes` is the size of its graph, where another one is passed."""
    data = _restore_data(estimator, graph, metadata, arrays, num_nodes or len(graph))
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
    unknown = [name for name, *_ in metadata["ensemble"] if name not in CLASSIFIERS]
    if not metadata["ensemble"] or unknown:
        raise InputError(f"there is no classifier {', '.join(map(str, unknown))}".rstrip())
    n_scales = len(metadata["ensemble"]) if len(arrays["vectors.scales"]) else 0
    weightings = {each.name: each for each in (selection.weighting, *(other for other, _ in selection.averaged))}
    return EncoderModel(
        data=data,
        selection=selection,
        ensemble=tuple(
            TrainedClassifier(
                name, _restore_classifier(arrays, place, data, len(classes)), weightings[weighting], weight
            )
            for place, (name, weighting, weight) in enumerate(metadata["ensemble"])
        ),
        train=train,
        validation=validation,
        target=restore_target(metadata["target"], classes).with_scoring(estimator.scoring),
        calibration=_restore_calibration(metadata["calibration"]),
        weighting_selected=estimator.weighting == "auto",
        stored_scales=tuple(finite_array(arrays, "vectors.scales", (n_scales,)).tolist()),
        updated=_node_array(arrays, "updated.nodes", len(graph)),
        log=restore_log(metadata, Epoch),
    )


def _restore_data(
    estimator: CGE, graph: Graph, metadata: Mapping[str, Any], arrays: Mapping[str, Array], num_nodes: int
) -> EncoderData:
    """Return the graph as the encoder sees it, with the scales of training; new nodes follow those of training."""
    names = tuple(str(name) for name in metadata["edge_inputs"])
    scale = EdgeScale(names, *(np.array(arrays[f"scale.{part}"], np.float64) for part in ("mean", "spread", "idf")))
    if len(scale.mean) != len(scale.spread) or len(scale.mean) > len(names):
        raise InputError("the edge inputs and their scale do not agree")
    if not (scale.spread > 0).all():
        raise InputError("the scale of edge inputs must be positive")
    dense = np.array(arrays["dense.center"], np.float32), np.array(arrays["dense.spread"], np.float32)
    table = None if "walks.vectors" not in arrays else np.array(arrays["walks.vectors"], np.float32)
    trained_nodes = metadata_field(metadata, "trained_nodes", int)
    if not 0 < trained_nodes <= num_nodes:
        raise InputError(f"{trained_nodes:,} nodes of training are not among {num_nodes:,}")
    if table is not None and (table.ndim != 2 or len(table) != trained_nodes):
        raise InputError(f"the vectors of walks must have a row for each of {trained_nodes:,} nodes")
    inputs = estimator.inputs if estimator.inputs == "features" else "auto" if metadata["by_features"] else "learned"
    components = arrays.get("dense.components")
    if components is not None:
        components = finite_array(arrays, "dense.components", (len(dense[0]), components.shape[-1])).astype(np.float32)
    options: Any = {"edge_scale": scale, "dense_scale": dense, "walk_vectors": table, "components": components}
    self_loop_weight = metadata_field(metadata, "self_loop_weight", float)
    if not 0 < self_loop_weight < np.inf:
        raise InputError("the weight of self-loops must be positive and finite")
    data = EncoderData(graph, inputs, estimator.n_jobs, **options)
    data.learned_nodes = _node_array(arrays, "trained.learned_nodes", trained_nodes)
    data.self_loop_weight = self_loop_weight
    if trained_nodes >= len(graph):
        return data
    trained = data.without_edges()
    trained.graph = replace(
        trained.graph, node_ids=graph.node_ids[:trained_nodes], indptr=trained.graph.indptr[: trained_nodes + 1]
    )
    return EncoderData(graph, n_jobs=estimator.n_jobs, training_data=trained)


def _node_array(arrays: Mapping[str, Array], name: str, count: int) -> Array:
    """Return an array of node indices."""
    nodes = np.array(arrays[name])
    if nodes.dtype != np.int64 or nodes.ndim != 1 or (len(nodes) and not 0 <= nodes.min() <= nodes.max() < count):
        raise InputError(f"{name} are not nodes of this graph")
    return nodes


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
