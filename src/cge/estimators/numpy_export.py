"""A trained `CGE` for other programs: its inference as arrays for plain NumPy, and a table of nodes for maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.models.propagation import column_blocks, propagate_rows, propagated_lengths
from cge.training.classifier_registry import CLASSIFIERS

if TYPE_CHECKING:
    from cge.estimators.cge import CGE
    from cge.estimators.encoder_model import EncoderModel


def inference_arrays(estimator: CGE) -> dict[str, Array]:
    """Return the parameters of inference on propagated inputs; `CGE.to_numpy` has the formula."""
    model: EncoderModel = estimator.fitted_  # type: ignore[assignment]
    arrays: dict[str, Array] = {"temperature": np.array(model.temperature), "classes": np.asarray(model.target.classes)}
    for place, each in enumerate(model.ensemble):
        arrays |= {f"{name}_{place}": array for name, array in each.classifier.arrays().items()}
        arrays[f"weight_{place}"] = np.array(each.weight)
    return arrays


def propagated_inputs(estimator: CGE, nodes: Any, classifier: int) -> tuple[Array, Array]:
    """Return what a classifier of the ensemble reads: propagated inputs `(k, f)` and label scores `(k, c)`."""
    model: EncoderModel = estimator.fitted_  # type: ignore[assignment]
    if not 0 <= classifier < len(model.ensemble):
        raise InputError(parameter="classifier", expected=f"an index below {len(model.ensemble)}", found=classifier)
    rows, (name, _, weighting, _) = model.graph.indices_of(nodes), model.ensemble[classifier]
    inputs, propagation = model.data.inputs(CLASSIFIERS[name].row_norm), weighting.propagation(model.data)
    table = np.concatenate([propagate_rows(propagation, block, rows) for block in column_blocks(inputs)], axis=1)
    if CLASSIFIERS[name].unit_rows:
        table = table / propagated_lengths(propagation, inputs, rows)[:, None]
    scores = model.inputs(None, rows).label_scores
    return table, np.zeros((len(rows), len(model.target.classes)), np.float32) if scores is None else scores


def write_atlas(estimator: CGE, file: str | Path, vectors: bool) -> None:
    """Write a Parquet table of nodes with coordinates; see `CGE.to_atlas`."""
    from cge.store.atomic import write_files
    from cge.store.export_formats import checked_texts, write_parquet_table

    outputs, target, embedding = (
        estimator._outputs(None, estimator.graph_),
        estimator.fitted_.target,
        estimator.embedding_,
    )
    ids = estimator.node_ids_ if estimator.node_ids_.dtype.kind == "i" else checked_texts(estimator.node_ids_)
    labels = np.full(len(ids), "", object)
    train = estimator.fitted_.train
    labels[train.nodes] = ["; ".join(map(str, names)) for names in target.names(train.matrix)]
    columns: dict[str, Any] = {"node": ids, **target.prediction_columns(outputs, text=True)}
    columns["training_label"] = labels.tolist()
    columns |= dict(zip("xy", _principal_components(embedding).T, strict=True))
    if vectors:
        columns |= {f"v{place}": column for place, column in enumerate(np.ascontiguousarray(embedding.T))}
    write_files({Path(file): lambda stream: write_parquet_table(stream, columns)})


def _principal_components(vectors: Array) -> Array:
    """Return the first two principal components, `(n, 2)` float32; the largest loading of each is positive."""
    centered = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    axes = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    components = np.zeros((len(vectors), 2), np.float32)
    components[:, : axes.shape[1]] = centered @ axes
    return components
