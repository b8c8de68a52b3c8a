"""The data of charts: training curves, path weights, classes on paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.estimators.path_estimator import PathEstimator

WeightedPath = tuple[list[int], float]  # nodes and weight

_MAX_CLASSES = 60  # of a heatmap
_CURVES = {
    "supervised_loss": "supervised loss",
    "consistency_loss": "consistency loss",
    "path_loss": "path loss",
    "outer_loss": "outer loss",
    "validation_accuracy": "validation accuracy",
}


def training_curves(model: PathEstimator) -> list[dict[str, Any]]:
    """Return losses and validation accuracy by epoch."""
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    rows = history.rows()
    curves = []
    for key, name in _CURVES.items():
        points = [(row["epoch"], row[key]) for row in rows if row.get(key) is not None]
        if points:
            epochs, values = zip(*points, strict=True)
            rounded = [round(float(value), 5) for value in values]
            curves.append({"name": name, "x": list(epochs), "y": rounded, "is_accuracy": key == "validation_accuracy"})
    return curves


def weight_histogram(weights: Sequence[WeightedPath]) -> dict[str, Any] | None:
    """Return a histogram of |A| with logarithmic bins; weights of zero are left out."""
    values = np.abs([weight for _, weight in weights])
    values = np.log10(values[values > 0])
    if len(values) < 2:
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    count, edges = np.histogram(values, bins=30, range=(low, max(high, low + 1e-6)))
    centers = 10 ** ((edges[:-1] + edges[1:]) / 2)
    return {"center": [round(float(center), 4) for center in centers], "count": count.tolist()}


def weights_by_length(weights: Sequence[WeightedPath]) -> list[dict[str, Any]]:
    """Return the geometric mean of |A| by number of hops and of distinct nodes, with a standard error."""
    nonzero = [(path, abs(weight)) for path, weight in weights if weight]
    if not nonzero:
        return []
    values = np.log(np.array([weight for _, weight in nonzero]))
    properties = {
        "by hops": np.array([len(path) - 1 for path, _ in nonzero]),
        "by distinct nodes": np.array([len(set(path)) for path, _ in nonzero]),
    }
    curves = []
    for name, key in properties.items():
        sizes = [size for size in np.unique(key).tolist() if (key == size).sum() > 1]
        means = [float(np.exp(values[key == size].mean())) for size in sizes]
        errors = [float(values[key == size].std(ddof=1) / np.sqrt((key == size).sum())) for size in sizes]
        spread = [mean * error for mean, error in zip(means, errors, strict=True)]
        curves.append({"name": name, "x": sizes, "y": means, "error": spread})
    return curves


def relevance_matrix(
    weights: Sequence[WeightedPath], predicted: Array, labels: Array
) -> list[list[float | None]] | None:
    """Return the geometric mean of |A| of paths that contain class i, from nodes predicted to be of class j.

    `predicted` and `labels` are `(n, c)` booleans.
    """
    n_classes = labels.shape[1]
    if n_classes > _MAX_CLASSES:
        return None
    total, count = np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_classes))
    for path, weight in weights:
        if weight:
            cells = np.outer(labels[path[1:]].any(0), predicted[path[0]])
            total[cells] += np.log(abs(weight))
            count[cells] += 1
    if not count.any():
        return None
    means, columns = np.exp(total / np.maximum(count, 1)), range(n_classes)
    return [[round(float(means[i, j]), 4) if count[i, j] else None for j in columns] for i in columns]
