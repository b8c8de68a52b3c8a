"""A trained path encoder as metadata and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.calibration import Calibration
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.fitted_model import FitLog, ValidationNodes, stored_labels
from cge.graph import Graph
from cge.models.classifiers import PathClassifier
from cge.models.edge_weighting import EdgeScale, EdgeWeighting
from cge.models.weightings import closed_form, make_network
from cge.store import metadata_field, metadata_record
from cge.targets import restore_target
from cge.training.candidate_evaluation import SearchResult
from cge.training.classifier_registry import make_classifier
from cge.training.encoder_data import EncoderData, NamedWeighting
from cge.training.encoder_settings import EncoderSettings
from cge.training.history import Epoch, History
from cge.training.model_search import Selection
from cge.training.torch_state import TrainerState, load_module, module_arrays

if TYPE_CHECKING:
    from cge.estimators.cge import CGE


def history_metadata(log: FitLog) -> dict[str, Any]:
    """Return how a fit went, for the metadata of a model folder."""
    selection = log.selection_history
    return {
        "best_epoch": log.best_epoch,
        "history": log.history.rows(),
        "labels_seen": log.labels_seen,
        "selection_history": None if selection is None else selection.rows(),
    }


def encoder_metadata(model: EncoderModel) -> dict[str, Any]:
    """Return the metadata of a model folder."""
    return history_metadata(model.log) | {
        "by_features": model.data.uses_features,
        "calibration": asdict(model.calibration),
        "edge_inputs": list(model.data.edge_scale.names),
        "embedder": model.embedder[0],
        "ensemble": [name for name, _ in model.ensemble],
        "selection": selection_metadata(model.selection),
        "target": model.target.metadata(),
    }


def encoder_arrays(model: EncoderModel) -> dict[str, Array]:
    """Return the arrays of a model folder, by name."""
    scale, dense, table = model.data.edge_scale, model.data.dense_scale, model.data.walk_vectors
    arrays: dict[str, Array] = {} if table is None else {"walks.vectors": table}
    arrays |= {
        "scale.mean": scale.mean,
        "scale.spread": scale.spread,
        "scale.idf": scale.idf,
        "dense.center": dense[0],
        "dense.spread": dense[1],
    }
    arrays |= model.train.arrays("train") | model.validation.arrays("validation")
    closed_walks = model.data.closed_walks.get(model.weighting_name)
    if model.label_propagation and closed_walks is not None and np.array_equal(closed_walks[0], model.train.nodes):
        arrays["train.closed_walks"] = closed_walks[1]
    for place, (_, classifier) in enumerate(model.ensemble):
        arrays |= module_arrays(classifier, f"ensemble.{place}")
    arrays |= module_arrays(model.embedder[1], "embedder")
    return arrays | module_arrays(model.selection.weighting.module, "weighting")


def restore_encoder(
    estimator: CGE, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: Mapping[str, Array]
) -> EncoderModel:
    """Return the model that a folder holds."""
    from cge.estimators.encoder_fit import encoder_settings

    data = _restore_data(estimator, graph, metadata, arrays)
    if not (len(classes) and len(arrays["embedder.bias"])):
        raise InputError("there must be a class, and vectors of at least one number")
    settings = replace(encoder_settings(estimator, len(classes)), dim=len(arrays["embedder.bias"]))
    selection = restore_selection(data, settings, TrainerState({"selection": metadata["selection"]}, dict(arrays)))

    def restored(name: str, prefix: str) -> tuple[str, PathClassifier]:
        classifier = make_classifier(name, data, settings.dim, len(classes), 0)
        load_module(classifier, prefix, dict(arrays))
        return name, classifier

    train = stored_labels(arrays, "train", len(graph), len(classes))
    validation = stored_labels(arrays, "validation", len(graph), len(classes))
    if not isinstance(validation, ValidationNodes):
        raise InputError("the probabilities of the validation labels are missing")
    if "train.closed_walks" in arrays:
        closed_walks = np.array(arrays["train.closed_walks"], np.float64)
        if closed_walks.shape != train.nodes.shape or not np.isfinite(closed_walks).all():
            raise InputError("the training labels and the weights of their closed walks do not agree")
        data.closed_walks[selection.weighting.name] = train.nodes, closed_walks
    if not metadata["ensemble"]:
        raise InputError("there is no classifier")
    return EncoderModel(
        data=data,
        selection=selection,
        ensemble=tuple(restored(name, f"ensemble.{place}") for place, name in enumerate(metadata["ensemble"])),
        embedder=restored(metadata["embedder"], "embedder"),
        train=train,
        validation=validation,
        target=restore_target(metadata["target"], classes),
        calibration=_restore_calibration(metadata["calibration"]),
        weighting_selected=estimator.weighting == "auto",
        log=restore_log(metadata, Epoch),
    )


def restore_log(metadata: Mapping[str, Any], epoch: Any) -> FitLog:
    """Return how a fit went; `epoch` is the class of a row of its history."""
    rows = metadata_field(metadata, "selection_history", list, type(None))
    selection = None if rows is None else History([metadata_record(epoch, row) for row in rows])
    history = History([metadata_record(epoch, row) for row in metadata_field(metadata, "history", list)])
    counts = metadata_field(metadata, "labels_seen", dict)
    labels_seen = {name: int(metadata_field(counts, name, int)) for name in ("train", "outer", "validation")}
    return FitLog(history, metadata_field(metadata, "best_epoch", int), selection, labels_seen)


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
    inputs = "auto" if metadata["by_features"] else "learned"
    return EncoderData(graph, inputs, estimator.n_jobs, edge_scale=scale, dense_scale=dense, walk_vectors=table)


def _restore_calibration(metadata: Mapping[str, Any]) -> Calibration:
    calibration = metadata_record(Calibration, metadata)
    by_evidence = [metadata_field(calibration.by_evidence, name, float) for name in calibration.by_evidence]
    if not all(0 < value < np.inf for value in (calibration.temperature, *by_evidence)):
        raise InputError("temperatures must be positive and finite")
    return calibration


def selection_metadata(selection: Selection) -> dict[str, Any]:
    """Return what the model search selected; the parameters of the weighting are arrays."""
    prior = selection.weighting.base
    return {
        "weighting": selection.weighting.name,
        "sampled": list(selection.weighting.sampled),
        "prior": None if prior is None else prior.name,
        "hops": len(selection.weighting.edge_weighting.hops),
        "classifiers": list(selection.classifiers),
        "label_propagation": selection.label_propagation,
        "search_results": [asdict(result) for result in selection.results],
        "gain_over_uniform": selection.gain_over_uniform,
    }


def restore_selection(data: EncoderData, settings: EncoderSettings, saved: TrainerState) -> Selection:
    """Return what `selection_metadata` and the arrays of the weighting hold."""
    metadata = saved.metadata["selection"]
    sampled, prior, hops = tuple(int(part) for part in metadata["sampled"]), None, int(metadata["hops"])
    if not 1 <= hops <= settings.hops + 1:
        raise InputError(f"{hops:,} hop weights, but paths have at most {settings.hops:,} edges")
    if metadata["prior"] is None:
        module: Any = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0] * hops)
    else:
        name = str(metadata["prior"])
        prior = NamedWeighting(name, closed_form(name, data.edge_scale.names, hops - 1))
        module = make_network(settings.weighting, int(data.token_vectors(sampled[1]).shape[1]))
        if module is None:
            raise InputError("the weighting network is missing")
        module.eval()
    load_module(module, "weighting", saved.arrays)
    weighting = NamedWeighting(str(metadata["weighting"]), module, (sampled[0], sampled[1]), prior)
    gain = metadata["gain_over_uniform"]
    return Selection(
        weighting,
        tuple(str(name) for name in metadata["classifiers"]),
        bool(metadata["label_propagation"]),
        tuple(metadata_record(SearchResult, row) for row in metadata_field(metadata, "search_results", list)),
        None if gain is None else (float(gain[0]), float(gain[1])),
    )
