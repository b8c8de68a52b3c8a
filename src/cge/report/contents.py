"""The report as one HTML file that opens offline: everything that it shows, as values for JSON, and the file.

Data and the chart library (Plotly) are in the page as compressed text. The user's texts are never inserted as markup.
JSON escapes what is not ASCII, because ids may contain half of a surrogate pair, which UTF-8 cannot encode.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.similar import nearest_rows, row_norms
from cge.explain.explainer import Explainer
from cge.explain.explanation import NO_INFORMATION
from cge.explain.path_sums import LABEL
from cge.report import captions, sentences
from cge.report.charts import (
    PROJECTIONS,
    NodePaths,
    check_projection,
    project,
    rounded,
    strongest_paths,
    training_curves,
    weight_by_class_matrix,
    weight_histogram,
    weights_by_length,
)
from cge.report.scored_nodes import ScoredNodes, scored_nodes
from cge.store.atomic import writable_file, write_files

_MAX_NODES = 4000  # on the page
_TOP_METAPATHS = 8
_FAITHFULNESS_NODES = 40
_TOP_PATHS, _TOP_NEIGHBORS = 5, 6  # of a node
_COLORS = (
    "#2f6fd0", "#d9822b", "#2a9d5c", "#c4483f", "#8456b8", "#8c6d4f", "#d06fae", "#6f7a1f", "#1f9aa8", "#b8932a",
)  # fmt: skip
_OTHER_COLOR = "#8a94a3"
_INPUT_NAMES = {
    "cosine": "context cosine of features",
    "degrees": "log-degree sum",
    "degree difference": "log-degree difference",
}
_ORDERS = {"by contribution": "", "by weight": "by_weight_", "in random order": "random_"}


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Labels `(n, c)` and probabilities of all nodes.

    `shown` are the nodes of the 2-D chart; `listed` are these, followed by nodes that occur only on their paths.
    """

    train_labels: Array
    labels: Array
    probabilities: Array
    shown: Array
    listed: Array

    @property
    def predicted(self) -> Array:
        """The most probable class of each node, `(n,)`."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def class_sizes(self) -> Array:
        """Nodes shown by label or, without a label, by prediction, `(c,)`."""
        one_hot = np.eye(self.labels.shape[1], dtype=np.int64)[self.predicted]
        return np.asarray(np.where(self.labels.any(1, keepdims=True), self.labels, one_hot)[self.shown].sum(0))

    @property
    def color_class(self) -> Array:
        """The class that gives a node its color, `(n,)`: the largest of its labels, or else the predicted one."""
        largest = np.where(self.labels > 0, self.class_sizes, -1).argmax(1)
        return np.where(self.labels.any(1), largest, self.predicted)


def write_page(model: PathEstimator, out: str | Path, **options: Any) -> int:
    """Write the report of a trained model to a file, atomically; return its size in bytes.

    `options` are those of `report_contents`.
    """
    from plotly.offline import get_plotlyjs

    path, folder = writable_file(out), files("cge.report")
    contents = report_contents(model, **options)
    page = Template((folder / "page.html").read_text("utf-8")).substitute(
        style=(folder / "page.css").read_text("utf-8"),
        script=(folder / "page.js").read_text("utf-8"),
        library=_compressed(get_plotlyjs()),
        data=_compressed(json.dumps(contents, ensure_ascii=True, allow_nan=False)),
    )
    content = page.encode()
    write_files({path: lambda stream: stream.write(content)})
    return len(content)


def _compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def report_contents(
    model: PathEstimator,
    *,
    title: str = "",
    test_labels: Array | None = None,
    method_scores: Sequence[dict[str, Any]] = (),
    command: str = "",
    projection: str = "pca",
) -> dict[str, Any]:
    """Return everything that the page shows; `title` is the name of the graph.

    `test_labels`, `(n,)` class numbers of `model.classes_` with −1 for unknown or `(n, c)` zeros and ones, are labels
    of nodes that were not trained on: they are shown, and the model is scored on them, by default on its validation
    labels. `method_scores` are the rows of `compare_methods`, by default only that of the model. `command` is the
    command or Python call that reproduces the training; by default, the one recorded in the model. `projection` of the
    vectors is "pca" or "umap".
    """
    if not hasattr(model, "fitted_"):
        raise InputError("a report needs a trained model", hint="call fit first")
    check_projection(projection)
    scored = scored_nodes(model, test_labels)
    rows = list(method_scores) or ([] if scored is None else [scored.row("cge", scored.probabilities)])
    classes, target = [str(label) for label in model.classes_], model.fitted_.target
    train_labels, labels = _label_matrices(model, test_labels)
    shown = _select_nodes(train_labels, labels)
    explainer = model.explainer()
    paths = strongest_paths(explainer, shown, _TOP_PATHS)
    weights = [(path, weight) for node_paths in paths for path, weight, _, kind in node_paths.paths if kind != LABEL]
    varying = weights if len({weight for _, weight in weights}) > 1 else []  # of uniform weights there are no charts
    on_paths = {node for node_paths in paths for path, *_ in node_paths.paths for node in path}
    on_paths |= {end for node_paths in paths for end, *_ in node_paths.endpoints}
    listed = np.concatenate([shown, np.setdiff1d(np.array([*on_paths], np.int64), shown)])
    nodes = _Nodes(train_labels, labels, model.predict_proba(model.node_ids_), shown, listed)
    tested = min(_FAITHFULNESS_NODES, len(shown))
    texts = captions.captions(model, len(shown), _TOP_PATHS, tested, scored, PROJECTIONS[projection])
    texts["colors-caption"] = captions.color_caption(target.multilabel, len(classes), len(_COLORS))
    texts["signs-caption"] = captions.sign_caption([weight for _, weight in weights])
    if not varying:
        del texts["strongest-caption"]
    return {
        "title": f"cge: {title or f'{len(labels):,} nodes'}",
        "summary": sentences.summary_sentences(model, title, scored, rows),
        "weighting": sentences.weighting_sentences(model, scored, rows),
        "captions": texts,
        "accuracy": [{key: row[key] for key in ("method", "accuracy", "interval")} for row in rows],
        "metric": target.metric,
        "reliability": scored and scored.reliability(),
        "reliability_axes": captions.reliability_axes(target.multilabel),
        "confusion": scored and scored.confusion(),
        "by_class": scored and scored.class_scores(),
        "curves": training_curves(model),
        "best_epoch": model.best_epoch_,
        "classes": classes,
        "groups": _color_groups(nodes.class_sizes),
        "nodes": _node_table(model, nodes, projection),
        **_explorer(paths, nodes, explainer),
        "neighbors": _neighbors(model.embedding_[shown]),
        "first_node": _first_node(model, nodes, scored),
        **_weight_parameters(model),
        "metapaths": _metapaths(model),
        "weight_name": captions.weight_name(model),
        "weight_axis": captions.weight_axis_title(model),
        "histogram": weight_histogram(varying),
        "by_length": weights_by_length(varying),
        "weight_by_class": weight_by_class_matrix(varying, target.indicators(nodes.probabilities), labels > 0),
        "faithfulness": _faithfulness(model, shown),
        "command": command or sentences.fit_call(model),
        "settings": sentences.settings_rows(model),
        "footer": "Created by cge. This page works offline: chart library and data are part of it.",
    }


def _label_matrices(model: PathEstimator, test_labels: Array | None) -> tuple[Array, Array]:
    """Return the training labels, and all known labels, as zeros and ones, `(n, c)`; rows of other nodes are zero."""
    fitted, target = model.fitted_, model.fitted_.target
    train_labels = np.zeros((len(model.node_ids_), len(model.classes_)), np.int64)
    train_labels[fitted.train.nodes] = fitted.train.matrix
    labels = train_labels.copy()
    labels[fitted.validation.nodes] |= np.asarray(fitted.validation.matrix, np.int64)
    if test_labels is not None:
        nodes = np.flatnonzero(target.labeled(test_labels))
        labels[nodes] |= np.asarray(target.matrix(test_labels[nodes]), np.int64)
    return train_labels, labels


def _select_nodes(train_labels: Array, labels: Array) -> Array:
    """Return the nodes on the page: all, or in a large graph training nodes first, then evenly spaced others."""
    count = len(labels)
    if count <= _MAX_NODES:
        return np.arange(count)
    first, labeled = np.flatnonzero(train_labels.any(axis=1)), np.flatnonzero(labels.any(axis=1))
    first = first[np.linspace(0, len(first) - 1, min(len(first), _MAX_NODES // 2)).astype(np.int64)]
    rest = np.setdiff1d(labeled if len(labeled) >= _MAX_NODES else np.arange(count), first)
    more = rest[np.linspace(0, len(rest) - 1, _MAX_NODES - len(first)).astype(np.int64)]
    return np.unique(np.concatenate([first, more]))


def _color_groups(sizes: Array) -> list[dict[str, Any]]:
    """Return the classes with their own color, the largest first, and the others together."""
    order = np.argsort(-sizes, kind="stable").tolist()
    others = sorted(order[len(_COLORS) :])
    groups: list[dict[str, Any]] = [
        {"classes": [column], "color": color} for column, color in zip(order, _COLORS, strict=False)
    ]
    return [*groups, {"classes": others, "color": _OTHER_COLOR}] if others else groups


def _node_table(model: PathEstimator, nodes: _Nodes, projection: str) -> dict[str, Any]:
    """Return the columns of the nodes on the page; those shown in 2-D come first, and have keys."""
    explainer, listed = model.explainer(), nodes.listed
    projected = project(model.embedding_[nodes.shown], projection, model.random_state)
    ensemble = explainer.classifier.count > 1
    return {
        "keys": list(range(len(nodes.shown))),
        "id": [str(node) for node in model.node_ids_[listed].tolist()],
        "label": [np.flatnonzero(row).tolist() for row in nodes.labels[listed]],
        "is_training": nodes.train_labels[listed].any(1).astype(int).tolist(),
        "predicted": nodes.predicted[listed].tolist(),
        "confidence": rounded(nodes.probabilities[listed].max(1)),
        "predicted_all": _predicted_all(nodes.probabilities[listed]) if model.fitted_.target.multilabel else None,
        "classifier_prediction": explainer.predict_alone(nodes.shown).tolist() if ensemble else None,
        "color_class": nodes.color_class[listed].tolist(),
        "x": rounded(projected[:, 0]),
        "y": rounded(projected[:, 1]),
    }


def _predicted_all(probabilities: Array) -> list[list[list[Any]]]:
    """Return all predicted classes of each node in a multilabel task, the most probable first, with probabilities."""
    orders = np.argsort(-probabilities, axis=1, kind="stable").tolist()
    return [
        [[column, round(float(row[column]), 4)] for column in order if row[column] > 0.5]
        for row, order in zip(probabilities, orders, strict=True)
    ]


def _explorer(paths: list[NodePaths], nodes: _Nodes, explainer: Explainer) -> dict[str, Any]:
    """Return the paths and endpoints of each node with the page's node numbers, and sentences about them."""
    numbers = {node: number for number, node in enumerate(nodes.listed.tolist())}

    def short(*values: float) -> list[float]:
        return [float(f"{value:.4g}") for value in values]

    return {
        "paths": [
            [
                [[numbers[node] for node in path], *short(weight, value), kind]
                for path, weight, value, kind in node_paths.paths
            ]
            for node_paths in paths
        ],
        "endpoints": [
            [[numbers[end], *short(*values)] for end, *values in node_paths.endpoints] for node_paths in paths
        ],
        "notes": [
            node_paths.coverage if explainer.is_informed(node) else NO_INFORMATION
            for node, node_paths in zip(nodes.shown.tolist(), paths, strict=True)
        ],
    }


def _neighbors(vectors: Array) -> list[list[int]]:
    """Return the nearest of the other vectors, by cosine."""
    if len(vectors) < 2:
        return [[] for _ in vectors]
    top = min(_TOP_NEIGHBORS, len(vectors) - 1)
    nearest, _ = nearest_rows(vectors, np.arange(len(vectors)), top, row_norms(vectors))
    return list(nearest.tolist())


def _weight_parameters(model: PathEstimator) -> dict[str, Any]:
    """Return the coefficients θ of the edge inputs, by absolute value, and the hop weights; empty if all θ are 0."""
    parameters = getattr(model, "weight_parameters_", None) or {"coefficients": {}, "hop_weights": []}
    any_nonzero = any(parameters["coefficients"].values())
    coefficients = sorted(parameters["coefficients"].items(), key=lambda pair: abs(pair[1])) if any_nonzero else []
    return {
        "edge_coefficients": [[_INPUT_NAMES.get(name, name), round(value, 4)] for name, value in coefficients],
        "hop_weights": rounded(parameters["hop_weights"]),
    }


def _metapaths(model: PathEstimator) -> list[dict[str, Any]]:
    """Return the metapaths with the largest contributions; none without node or edge types, and for networks."""
    with suppress(InputError):
        return [row.to_dict() for row in model.metapaths(_TOP_METAPATHS)]
    return []


def _faithfulness(model: PathEstimator, shown: Array) -> dict[str, Any]:
    """Return the curves of deletion and insertion: means over evenly spaced nodes."""
    places = np.linspace(0, len(shown) - 1, min(_FAITHFULNESS_NODES, len(shown))).astype(np.int64)
    curves = model.faithfulness(model.node_ids_[np.unique(shown[places])].tolist())
    return {"fractions": curves.fractions.tolist()} | {
        change: [
            {"name": name, "probability": rounded(getattr(curves, order + change).mean(0))}
            for name, order in _ORDERS.items()
        ]
        for change in ("deletion", "insertion")
    }


def _first_node(model: PathEstimator, nodes: _Nodes, scored: ScoredNodes | None) -> int:
    """Return which node the explorer shows first.

    A node with at least three neighbors and a correct prediction of medium confidence; a test node, if there are any,
    or else one without a training label. Conditions that no node meets are ignored.
    """
    shown, predicted = nodes.shown, nodes.predicted[nodes.shown]
    suitable, is_test = np.ones(len(shown), bool), scored is not None and scored.is_test
    unseen = np.isin(shown, scored.nodes) if scored is not None and is_test else ~nodes.train_labels[shown].any(axis=1)
    for condition in (unseen, nodes.labels[shown, predicted] > 0, model.graph_.degrees[shown] >= 3):
        suitable = suitable & condition if (suitable & condition).any() else suitable
    if not len(shown):
        return 0
    confidence = nodes.probabilities[shown, predicted]
    medium = (confidence[suitable].min() + confidence[suitable].max()) / 2
    return int(np.where(suitable, np.abs(confidence - medium), np.inf).argmin())
