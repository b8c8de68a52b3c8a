"""What the charts of a report show: training, weights of paths, classes on paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["curves_of", "histogram_of", "lengths_of", "relevance_of"]

Array = npt.NDArray[Any]
Weighed = tuple[list[int], float]  # a path and its weight

_MOST_CLASSES = 60  # of a heat map


def curves_of(model: Any) -> list[dict[str, Any]]:
    """Return losses and accuracy by epoch or round."""
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    rows = history.rows()
    wanted = (
        ("supervised_loss", "loss of the labels", False),
        ("consistency_loss", "disagreement", False),
        ("path_loss", "loss of paths", False),
        ("outer_loss", "outer loss", False),
        ("validation_accuracy", "accuracy on selection labels", True),
    )
    found = []
    for key, name, share in wanted:
        points = [(row["epoch"], row[key]) for row in rows if row.get(key) is not None]
        if points:
            x, y = zip(*points, strict=True)
            found.append({"name": name, "x": list(x), "y": [round(float(one), 5) for one in y], "share": share})
    return found


def histogram_of(weights: Sequence[Weighed]) -> dict[str, Any] | None:
    """Return how often |A| is how large, by powers of ten; weights of zero are left out."""
    values = np.abs([weight for _, weight in weights])
    values = np.log10(values[values > 0])
    if len(values) < 2:
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    count, edges = np.histogram(values, bins=30, range=(low, max(high, low + 1e-6)))
    return {"middle": [round(float(one), 4) for one in 10 ** ((edges[:-1] + edges[1:]) / 2)], "count": count.tolist()}


def lengths_of(weights: Sequence[Weighed]) -> list[dict[str, Any]]:
    """Return the geometric mean of |A| by number of steps and of distinct nodes, with a standard error."""
    kept = [(path, abs(weight)) for path, weight in weights if weight]
    if not kept:
        return []
    values = np.log(np.array([weight for _, weight in kept]))
    kinds = {
        "by steps": np.array([len(path) - 1 for path, _ in kept]),
        "by distinct nodes": np.array([len(set(path)) for path, _ in kept]),
    }
    found = []
    for name, key in kinds.items():
        sizes = [size for size in np.unique(key).tolist() if (key == size).sum() > 1]
        means = [float(np.exp(values[key == size].mean())) for size in sizes]
        errors = [float(values[key == size].std(ddof=1) / np.sqrt((key == size).sum())) for size in sizes]
        spread = [mean * error for mean, error in zip(means, errors, strict=True)]
        found.append({"name": name, "x": sizes, "y": means, "error": spread})
    return found


def relevance_of(weights: Sequence[Weighed], said: Array, labels: Array) -> list[list[float | None]] | None:
    """Return the geometric mean of |A| of paths that contain class i, of nodes predicted to be of class j.

    `said` and `labels` are what is predicted and known of nodes, `(n, c)` booleans; a node may have several classes.
    """
    classes = labels.shape[1]
    if classes > _MOST_CLASSES:
        return None
    total, count = np.zeros((classes, classes)), np.zeros((classes, classes))
    for path, weight in weights:
        if weight:
            both = np.outer(labels[path[1:]].any(0), said[path[0]])
            total[both] += np.log(abs(weight))
            count[both] += 1
    if not count.any():
        return None
    means = np.exp(total / np.maximum(count, 1))
    return [[round(float(means[i, j]), 4) if count[i, j] else None for j in range(classes)] for i in range(classes)]
