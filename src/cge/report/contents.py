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
from dataclasses import replace
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
from cge.explain.path_sums import LABEL
from cge.report import captions, sentences
from cge.report.charts import (
    PROJECTIONS,
    NodePaths,
    check_projection,
    rounded,
    strongest_paths,
    training_curves,
    weight_by_class_matrix,
    weight_histogram,
    weights_by_length,
)
from cge.report.scored_nodes import plain_rows, scored_nodes
from cge.report.shown_nodes import COLORS, ShownNodes, color_groups, first_node, node_table, on_paths, shown_nodes
from cge.store.atomic import writable_file, write_files

_TOP_METAPATHS = 8
_FAITHFULNESS_NODES = 40
_TOP_PATHS, _TOP_NEIGHBORS = 5, 6  # of a node
_INPUT_NAMES = {
    "cosine": "context cosine of features",
    "degrees": "log-degree sum",
    "degree difference": "log-degree difference",
}
_ORDERS = {"by contribution": "", "by weight": "by_weight_", "in random order": "random_"}


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

    `test_labels`, in the form of `scored_nodes`, are labels of nodes that were not trained on: they are shown, and the
    model is scored on them, by default on its validation labels. `method_scores` are the rows of `compare_methods`, by
    default only that of the model. `command` is the command or Python call that reproduces the training; by default,
    the one recorded in the model. `projection` of the vectors is "pca" or "umap".
    """
    if model.fitted_model is None:
        raise InputError("a report needs a trained model", hint="call fit first")
    check_projection(projection)
    scored = scored_nodes(model, test_labels)
    rows = list(method_scores) or ([] if scored is None else [scored.row("cge", scored.probabilities)])
    target, nodes, explainer = model.fitted_.target, shown_nodes(model, test_labels), model.explainer()
    paths = strongest_paths(explainer, nodes.shown, _TOP_PATHS)
    nodes = replace(nodes, on_page=on_paths(nodes.shown, paths))
    shown, classes = nodes.shown, nodes.groups.names
    weights = [(path, weight) for node_paths in paths for path, weight, _, kind in node_paths.paths if kind != LABEL]
    varying = weights if len({weight for _, weight in weights}) > 1 else []  # of uniform weights there are no charts
    predicted = nodes.groups.of_predictions(nodes.outputs, target.indicators(nodes.outputs))
    tested = min(_FAITHFULNESS_NODES, len(shown))
    texts = captions.captions(model, len(shown), _TOP_PATHS, tested, scored, PROJECTIONS[projection])
    texts["colors-caption"] = captions.color_caption(target.texts, len(classes), len(COLORS))
    texts["signs-caption"] = captions.sign_caption([weight for _, weight in weights])
    if not varying:
        del texts["strongest-caption"]
    return {
        "title": f"cge: {title or f'{len(model.graph_):,} nodes'}",
        "summary": sentences.summary_sentences(model, title, scored, rows),
        "weighting": sentences.weighting_sentences(model, scored, rows),
        "captions": texts,
        "accuracy": plain_rows(rows),
        "metric": target.metric,
        "has_probabilities": target.has_probabilities,
        "target": {"noun": target.texts.noun, "output": target.texts.output},
        "reliability": scored and scored.reliability(),
        "reliability_axes": list(target.texts.reliability_axes),
        "confusion": scored and scored.confusion(),
        "by_class": scored and scored.class_scores(),
        "curves": training_curves(model),
        "best_epoch": model.best_epoch_,
        "classes": classes,
        "groups": color_groups(nodes.group_sizes),
        "nodes": node_table(model, nodes, projection),
        **_explorer(paths, nodes, explainer),
        "neighbors": _neighbors(model.embedding_[shown]),
        "first_node": first_node(model, nodes, scored),
        **_weight_parameters(model),
        "metapaths": _metapaths(model),
        "weight_name": captions.weight_name(model),
        "weight_axis": captions.weight_axis_title(model),
        "histogram": weight_histogram(varying),
        "by_length": weights_by_length(varying),
        "weight_by_class": weight_by_class_matrix(varying, predicted, nodes.labels > 0),
        "faithfulness": _faithfulness(model, shown),
        "command": command or sentences.fit_call(model),
        "settings": sentences.settings_rows(model),
        "footer": "Created by cge. This page works offline: chart library and data are part of it.",
    }


def _explorer(paths: list[NodePaths], nodes: ShownNodes, explainer: Explainer) -> dict[str, Any]:
    """Return the paths and endpoints of each node with the page's node numbers, and sentences about them."""
    numbers = {node: number for number, node in enumerate(nodes.on_page.tolist())}

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
            node_paths.coverage if explainer.is_informed(node) else explainer.labels.target.texts.no_information
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
    fitted = model.fitted_
    any_nonzero = any(fitted.edge_coefficients.values())
    coefficients = sorted(fitted.edge_coefficients.items(), key=lambda pair: abs(pair[1])) if any_nonzero else []
    return {
        "edge_coefficients": [[_INPUT_NAMES.get(name, name), round(value, 4)] for name, value in coefficients],
        "hop_weights": rounded(fitted.hop_weights),
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
