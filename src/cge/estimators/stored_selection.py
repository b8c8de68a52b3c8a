"""The stored form of what the model search selected: metadata, and the parameters of its weightings as arrays."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cge.arrays import Array
from cge.errors import InputError
from cge.models.edge_weighting import EdgeWeighting
from cge.models.weightings import closed_form, is_by_relation, make_network
from cge.store import metadata_field, metadata_record
from cge.training.candidate_evaluation import SearchResult
from cge.training.encoder_data import EncoderData, NamedWeighting
from cge.training.encoder_settings import EncoderSettings
from cge.training.model_search import Selection
from cge.training.torch_state import TrainerState, load_module, module_arrays


def selection_metadata(selection: Selection) -> dict[str, Any]:
    """Return what the model search selected; the parameters of the weighting are arrays."""
    start = selection.weighting.start
    return {
        "weighting": selection.weighting.name,
        "sampled": list(selection.weighting.sampled),
        "start": None if start is None else start.name,
        "hop_weights": len(selection.weighting.edge_weighting.hop_weights),
        "classifiers": list(selection.classifiers),
        "label_propagation": selection.label_propagation,
        "search_results": [asdict(result) for result in selection.results],
        "gain_over_uniform": selection.gain_over_uniform,
        "runners_up": [[weighting.name, classifier] for weighting, classifier in selection.runners_up],
    }


def selection_arrays(selection: Selection) -> dict[str, Array]:
    """Return the parameters of the weightings of a selection."""
    arrays = module_arrays(selection.weighting.module, "weighting")
    for place, (weighting, _) in enumerate(selection.runners_up):
        arrays |= module_arrays(weighting.module, f"runner_up.{place}")
    return arrays


def restore_selection(data: EncoderData, settings: EncoderSettings, saved: TrainerState) -> Selection:
    """Return what `selection_metadata` and the arrays of the weighting hold."""
    metadata = saved.metadata["selection"]
    sampled, start, count = tuple(int(part) for part in metadata["sampled"]), None, int(metadata["hop_weights"])
    if not 1 <= count <= settings.hops + 1:
        raise InputError(f"{count:,} hop weights, but paths have at most {settings.hops:,} hops")

    def edge_weighting(prefix: str, name: str) -> EdgeWeighting:
        by_relation = is_by_relation(name)
        module = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0] * count, by_relation=by_relation)
        load_module(module, prefix, saved.arrays)
        return module

    if metadata["start"] is None:
        module: Any = edge_weighting("weighting", str(metadata["weighting"]))
    else:
        name = str(metadata["start"])
        start = NamedWeighting(name, closed_form(name, data.edge_scale.names, count - 1))
        module = make_network(settings.weighting, int(data.step_vectors(sampled[1]).shape[1]))
        if module is None:
            raise InputError("the weighting network is missing")
        module.eval()
        load_module(module, "weighting", saved.arrays)
    weighting = NamedWeighting(str(metadata["weighting"]), module, (sampled[0], sampled[1]), start)
    gain = metadata["gain_over_uniform"]
    runners_up = [
        (NamedWeighting(str(name), edge_weighting(f"runner_up.{place}", str(name))), str(classifier))
        for place, (name, classifier) in enumerate(metadata_field(metadata, "runners_up", list))
    ]
    return Selection(
        weighting,
        tuple(str(name) for name in metadata["classifiers"]),
        bool(metadata["label_propagation"]),
        tuple(metadata_record(SearchResult, row) for row in metadata_field(metadata, "search_results", list)),
        None if gain is None else (float(gain[0]), float(gain[1])),
        runners_up=tuple(runners_up),
    )
