"""The stored form of what the model search selected: metadata, and the parameters of its weightings as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cge.arrays import Array
from cge.errors import InputError
from cge.models.edge_weighting import EdgeWeighting
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.weightings import closed_form, is_by_relation, make_network
from cge.store import metadata_field, metadata_record
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import SearchResult, Selection
from cge.training.stored_state import TrainerState, finite_array


def selection_metadata(selection: Selection) -> dict[str, Any]:
    """Return what the model search selected; the parameters of the weighting are arrays."""
    initial_weighting = selection.weighting.initial_weighting
    return _metapath_metadata(selection.weighting) | {
        "weighting": selection.weighting.name,
        "sampled": list(selection.weighting.sampled),
        "start": None if initial_weighting is None else initial_weighting.name,
        "hop_weights": len(selection.weighting.edge_weighting.hop_weights),
        "classifier": selection.classifier,
        "label_propagation": selection.label_propagation,
        "search_results": [asdict(result) for result in selection.results],
        "gain_over_uniform": selection.gain_over_uniform,
        "averaged": [
            [weighting.name, classifier, *filter(None, [_metapath_metadata(weighting)])]
            for weighting, classifier in selection.averaged
        ],
    }


def selection_arrays(selection: Selection) -> dict[str, Array]:
    """Return the parameters of the weightings of a selection."""
    arrays = _weighting_arrays(selection.weighting.module, "weighting")
    for place, (weighting, _) in enumerate(selection.averaged):
        arrays |= _weighting_arrays(weighting.module, f"averaged.{place}")
    return arrays


def _weighting_arrays(module: Any, prefix: str) -> dict[str, Array]:
    if isinstance(module, EdgeWeighting | MetapathWeighting):
        return {f"{prefix}.{name}": array for name, array in module.arrays().items()}
    from cge.training.torch_state import module_arrays

    return module_arrays(module, prefix)


def _metapath_metadata(weighting: NamedWeighting) -> dict[str, Any]:
    """Return what the weights of metapaths belong to, and the closed-form weighting they start from; else nothing."""
    if not isinstance(weighting.module, MetapathWeighting) or weighting.initial_weighting is None:
        return {}
    metapaths = [list(metapath) for metapath in weighting.module.metapaths]
    return {"metapaths": metapaths, "start": weighting.initial_weighting.name}


def _restored_metapaths(metadata: Mapping[str, Any], prefix: str, arrays: Mapping[str, Array]) -> MetapathWeighting:
    metapaths = [[str(name) for name in metapath] for metapath in metadata["metapaths"]]
    weights = finite_array(arrays, f"{prefix}.weights", (len(metapaths),))
    return MetapathWeighting(metapaths, weights, finite_array(arrays, f"{prefix}.normalization", ()))


def _restored_network(weighting: Any, dim: int, arrays: Mapping[str, Array]) -> Any:
    from cge.training.torch_state import load_module

    network = make_network(weighting, dim)
    if network is None:
        raise InputError("the weighting network is missing")
    network.eval()
    load_module(network, "weighting", arrays)
    return network


def restore_selection(data: EncoderData, settings: EncoderSettings, saved: TrainerState) -> Selection:
    """Return what `selection_metadata` and the arrays of the weighting hold."""
    metadata = saved.metadata["selection"]
    sampled, count = tuple(int(part) for part in metadata["sampled"]), int(metadata["hop_weights"])
    initial_weighting = None
    if not 1 <= count <= settings.hops + 1:
        raise InputError(f"{count:,} hop weights, but paths have at most {settings.hops:,} hops")

    def edge_weighting(prefix: str, name: str) -> EdgeWeighting:
        shapes: Any = dict(zip(EdgeWeighting.NAMES, ((len(data.edge_scale.names),), (), (), (count,)), strict=True))
        parts = [finite_array(saved.arrays, f"{prefix}.{part}", shape) for part, shape in shapes.items()]
        return EdgeWeighting(*parts, by_relation=is_by_relation(name))

    if metadata["start"] is None:
        module: Any = edge_weighting("weighting", str(metadata["weighting"]))
    else:
        name = str(metadata["start"])
        initial_weighting = NamedWeighting(name, closed_form(name, data.edge_scale.names, count - 1))
        if "metapaths" in metadata:
            module = _restored_metapaths(metadata, "weighting", saved.arrays)
        else:
            dim = int(data.step_vectors(sampled[1]).shape[1])
            module = _restored_network(settings.weighting, dim, saved.arrays)

    weighting = NamedWeighting(str(metadata["weighting"]), module, (sampled[0], sampled[1]), initial_weighting)

    def averaged_weighting(prefix: str, name: str, metapaths: Mapping[str, Any] | None = None) -> NamedWeighting:
        if name == weighting.name:  # with another classifier; it may be a network
            return weighting
        if metapaths is None:
            return NamedWeighting(name, edge_weighting(prefix, name))
        closed = str(metapaths["start"])
        initial_weighting = NamedWeighting(closed, closed_form(closed, data.edge_scale.names, count - 1))
        module = _restored_metapaths(metapaths, prefix, saved.arrays)
        return NamedWeighting(name, module, initial_weighting=initial_weighting)

    gain = metadata["gain_over_uniform"]
    averaged = [
        (averaged_weighting(f"averaged.{place}", str(name), *metapaths), str(classifier))
        for place, (name, classifier, *metapaths) in enumerate(metadata_field(metadata, "averaged", list))
    ]
    return Selection(
        weighting,
        str(metadata["classifier"]),
        bool(metadata["label_propagation"]),
        tuple(metadata_record(SearchResult, row) for row in metadata_field(metadata, "search_results", list)),
        None if gain is None else (float(gain[0]), float(gain[1])),
        averaged=tuple(averaged),
    )
