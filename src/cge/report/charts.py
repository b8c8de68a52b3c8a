"""The data of charts: paths with the largest contributions, relative weights, training curves, vectors in 2-D."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.path_estimator import PathEstimator
from cge.explain.explainer import Explainer
from cge.explain.explanation import describe_coverage
from cge.explain.path_sums import PathSum
from cge.models.sparse_products import unit_rows

StrongPath = tuple[list[int], float, float, str]  # nodes, relative weight, contribution, what it propagates
WeightedPath = tuple[list[int], float]  # nodes and relative weight

_MAX_SUMMED = 2_000_000_000  # nodes × edges: in larger graphs contributions are not added up by endpoint
_AT_ONCE = 64  # nodes
PROJECTIONS = {"pca": "the first two principal components", "umap": "UMAP"}
_MAX_CLASSES = 60  # of a heatmap
_CURVES = {
    "supervised_loss": "supervised loss",
    "consistency_loss": "consistency loss",
    "path_loss": "path loss",
    "outer_loss": "outer loss",
    "validation_accuracy": "validation {metric}",
}


class NodePaths(NamedTuple):
    """The top paths of a node, its top endpoints (contributions of inputs and of the label), and the coverage."""

    paths: list[StrongPath]
    endpoints: list[tuple[int, float, float]]
    coverage: str


def rounded(values: Iterable[float], digits: int = 4) -> list[float]:
    """Return numbers as rounded Python floats."""
    return [round(float(value), digits) for value in values]


def strongest_paths(explainer: Explainer, nodes: Array, top: int) -> list[NodePaths]:
    """Return for each node, ascending, what contributes most to the predicted class, as `CGE.explain` does.

    In large graphs sums by endpoint and the coverage are left out.
    """
    of_node = {node: NodePaths([], [], "") for node in nodes.tolist()}
    summed = len(nodes) * len(explainer.paths.indices) <= _MAX_SUMMED
    for terms in explainer.predicted_terms(nodes):
        for term in terms:
            paths = term.top(top)
            columns = paths.nodes(term.source.indices), paths.length, term.source.weights(paths)
            contributions = paths.contributions(term.nodes, term.gradients, term.inputs, term.source.indices)
            for path, length, *values in zip(*(column.tolist() for column in (*columns, contributions)), strict=True):
                of_node[path[0]].paths.append((path[:length], *values, term.kind))
        for node in terms[0].nodes.tolist():
            of_node[node].paths.sort(key=lambda path: -abs(path[2]))
            del of_node[node].paths[top:]
        for start in range(0, len(terms[0].nodes) if summed else 0, _AT_ONCE):
            _add_sums([term.some(slice(start, start + _AT_ONCE)) for term in terms], of_node, top)
    return list(of_node.values())


def _add_sums(terms: list[PathSum], of_node: dict[int, NodePaths], top: int) -> None:
    """Add sums by endpoint, and what part of the contributions the `top` paths of each node are."""
    each, counts = np.array([term.each() for term in terms]), np.sum([term.num_paths() for term in terms], axis=0)
    signed = zip(terms, each, strict=True)
    sizes = [np.abs(own if term.source.nonnegative else term.each(np.abs)).sum(axis=0) for term, own in signed]
    for column, node in enumerate(terms[0].nodes.tolist()):
        paths, inputs, label = of_node[node].paths, each[0, :, column], each[1:, :, column].sum(0)
        order = np.argsort(-np.abs(inputs + label), kind="stable")[:top].tolist()
        of_node[node].endpoints.extend((end, inputs[end], label[end]) for end in order if inputs[end] or label[end])
        total = sum(size[column] for size in sizes)
        if paths and total:
            covered = min(sum(abs(path[2]) for path in paths) / total, 1.0)
            sentence = describe_coverage(len(paths), covered, counts[column])
            of_node[node] = of_node[node]._replace(coverage=sentence)


def training_curves(model: PathEstimator) -> list[dict[str, Any]]:
    """Return losses and the validation score by epoch."""
    metric = model.fitted_.target.validation_metric
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    curves = []
    for key, name in _CURVES.items():
        rows = [row for row in history.rows() if row.get(key) is not None]
        points = {"x": [row["epoch"] for row in rows], "y": rounded((row[key] for row in rows), 5)}
        if any(points["y"]):
            curves.append({"name": name.format(metric=metric), **points, "is_accuracy": key == "validation_accuracy"})
    return curves


def weight_histogram(weights: Sequence[WeightedPath]) -> dict[str, Any] | None:
    """Return a histogram of absolute relative weights with logarithmic bins; weights of zero are left out."""
    values = np.abs([weight for _, weight in weights])
    values = np.log10(values[values > 0])
    if len(values) < 2:
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    count, edges = np.histogram(values, bins=30, range=(low, max(high, low + 1e-6)))
    centers = 10 ** ((edges[:-1] + edges[1:]) / 2)
    return {"center": rounded(centers), "count": count.tolist()}


def weights_by_length(weights: Sequence[WeightedPath]) -> list[dict[str, Any]]:
    """Return the geometric mean of absolute weights by number of hops and of distinct nodes, with a standard error."""
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


def weight_by_class_matrix(
    weights: Sequence[WeightedPath], predicted: Array, labels: Array
) -> list[list[float | None]] | None:
    """Return the geometric mean of absolute weights of paths with class i after their start, predicted as class j."""
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


def check_projection(name: str) -> None:
    """Refuse an unknown projection, and one whose package is not installed."""
    if name not in PROJECTIONS:
        raise InputError(parameter="projection", expected="'pca' or 'umap'", found=name)
    if name == "umap" and find_spec("umap") is None:
        problem = Message.of("{projection} needs the package umap-learn", projection="umap")
        hint = Message.of("run pip install 'cge[umap]', or use {projection}", projection="pca")
        raise InputError(problem, parameter="projection", hint=hint)


def project(vectors: Array, name: str, seed: int) -> Array:
    """Return vectors, normalized to unit length, in two dimensions, `(n, 2)`.

    >>> np.abs(project(np.array([[1.0, 0, 0], [0, 2, 0], [0, 3, 0]]), "pca", 0)).round(2).tolist()
    [[0.94, 0.0], [0.47, 0.0], [0.47, 0.0]]
    """
    check_projection(name)
    unit = unit_rows(vectors)
    if name == "umap":
        import umap

        neighbors = max(min(15, len(unit) - 1), 2)  # 15 is UMAP's default
        reducer = umap.UMAP(n_components=2, n_neighbors=neighbors, random_state=seed, n_jobs=1)
        return np.asarray(reducer.fit_transform(unit))
    centered = unit - unit.mean(0)
    _, _, components = np.linalg.svd(centered, full_matrices=False)
    projected: Array = centered @ components[:2].T
    return projected if projected.shape[1] == 2 else np.column_stack([projected, np.zeros(len(projected))])
