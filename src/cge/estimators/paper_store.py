"""A trained model of the paper's algorithm as metadata and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.encoder_store import history_metadata, restore_log
from cge.estimators.fitted_model import ValidationNodes, stored_labels
from cge.estimators.paper_model import PaperModel, normalized_features
from cge.graph import Graph
from cge.targets import restore_target
from cge.training.history import PaperEpoch
from cge.training.paper_parameters import ModelShape, Parameters

if TYPE_CHECKING:
    from cge.estimators.paper_cge import PaperCGE

_PREFIX = "parameters."


def paper_metadata(model: PaperModel) -> dict[str, Any]:
    """Return the metadata of a model folder."""
    shape = asdict(model.parameters.shape)
    del shape["weighting"]  # is in the settings
    return history_metadata(model.log) | {
        "shape": shape,
        "target": model.target.metadata(),
        "temperature": model.temperature,
    }


def paper_arrays(model: PaperModel) -> dict[str, Array]:
    """Return the arrays of a model folder, by name."""
    arrays = {f"{_PREFIX}{name}": array for name, array in model.parameters.arrays().items()}
    return arrays | model.train.arrays("train") | model.validation.arrays("validation")


def restore_paper(
    estimator: PaperCGE, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: Mapping[str, Array]
) -> PaperModel:
    """Return the model that a folder holds."""
    shape = ModelShape(weighting=estimator.weighting, **metadata["shape"])
    width = 0 if graph.features is None else int(graph.features.shape[1])
    sizes = (graph.num_nodes, width, len(classes), estimator.setting, estimator.dim, estimator.hidden)
    if (shape.nodes, shape.features, shape.classes, shape.setting, shape.dim, shape.hidden) != sizes:
        raise InputError("the sizes of graph, classes and parameters do not agree")
    parameters = Parameters(shape)
    parameters.load({name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)})
    temperature = float(metadata["temperature"])
    if not 0 < temperature < np.inf:
        raise InputError("the temperature must be positive and finite")
    validation = stored_labels(arrays, "validation", len(graph), len(classes))
    if not isinstance(validation, ValidationNodes):
        raise InputError("the probabilities of the validation labels are missing")
    return PaperModel(
        graph=graph,
        features=normalized_features(graph.features, estimator.n_jobs),
        parameters=parameters,
        train=stored_labels(arrays, "train", len(graph), len(classes)),
        validation=validation,
        target=restore_target(metadata["target"], classes),
        log=restore_log(metadata, PaperEpoch),
        window=estimator.window,
        n_jobs=estimator.n_jobs,
        temperature=temperature,
    )
