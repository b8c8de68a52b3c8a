"""Parts of a trained path encoder from the metadata and arrays of a model folder or checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.calibration import Calibration
from cge.graph import Graph
from cge.models.edge_weighting import EdgeScale, EdgeWeighting
from cge.models.weightings import closed_form, make_network
from cge.store import metadata_field, metadata_record
from cge.training.candidate_evaluation import SearchResult
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings
from cge.training.model_search import Selection
from cge.training.named_weighting import NamedWeighting
from cge.training.torch_state import TrainerState, load_module

if TYPE_CHECKING:
    from cge.estimators.cge import CGE


def restore_data(estimator: CGE, graph: Graph, metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> EncoderData:
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


def restore_calibration(metadata: Mapping[str, Any]) -> Calibration:
    """Return how probabilities are calibrated."""
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
