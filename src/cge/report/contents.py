"""All that a report shows about a trained model, as JSON holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.label_arrays import labeled
from cge.errors import InputError
from cge.estimators.nearest import lengths, nearest_rows
from cge.metrics import predicted_indicators
from cge.report.charts import curves_of, histogram_of, lengths_of, relevance_of
from cge.report.maps import MAPS, flattened, need_map
from cge.report.sentences import (
    call_of,
    colors_of,
    hints_of,
    settings_of,
    signs_of,
    verdict_of,
    weight_axis_of,
    words_of,
)
from cge.report.strongest_paths import strongest_of
from cge.report.test_scores import Measured, measured_by

__all__ = ["facts_of"]

Array = npt.NDArray[Any]

_MOST_NODES = 4000  # on the page
_TAKEN = 40  # nodes whose paths are taken away
_PATHS, _NEAR = 5, 6  # of a node
_COLORS = (
    "#2f6fd0", "#d9822b", "#2a9d5c", "#c4483f", "#8456b8", "#8c6d4f", "#d06fae", "#6f7a1f", "#1f9aa8", "#b8932a",
)  # fmt: skip
_ORDERS = {"strongest first": "", "heaviest first": "by_weight_", "random order": "random_"}  # in which paths go
_OTHERS = "#8a94a3"


def facts_of(
    model: Any,
    *,
    name: str = "",
    truth: Array | None = None,
    accuracy: Sequence[dict[str, Any]] = (),
    titles: Array | None = None,
    class_names: Sequence[str] | None = None,
    command: str = "",
    flat: str = "pca",
) -> dict[str, Any]:
    """Return all that the page shows.

    Parameters
    ----------
    name : str
        What to call the graph; it may be nothing.
    truth : (n,) or (n, c), optional
        Labels of nodes that were not trained on, as class numbers of `model.classes_` with −1 for unknown, or zeros and
        ones: they are shown, and measure the model. Without them, its selection labels do.
    accuracy : rows of "method", "accuracy" and "interval", optional
        The model beside others, as `cge.report.compared` tells; without them, the model alone.
    titles : (n,), optional
        What people call the nodes.
    class_names : (c,), optional
        What people call the classes.
    command : str, optional
        What repeats the training; by default what the model remembers, or the call in Python.
    flat : "pca" or "umap"
        How vectors become a map of two dimensions; UMAP needs the package umap-learn.
    """
    if not hasattr(model, "fitted_"):
        raise InputError("the report is about a trained model; call fit first")
    need_map(flat)
    probabilities = model.predict_proba()
    told, classes = (
        probabilities.argmax(1),
        [str(one) for one in (model.classes_ if class_names is None else class_names)],
    )
    known = _members(model, None)
    labels = known | _members(model, truth)
    format_value = _chosen(labeled(known), labeled(labels))
    measured = measured_by(model, truth)
    rows = list(accuracy) or ([] if measured is None else [measured.row("cge", measured.probabilities)])
    strongest = strongest_of(model, format_value, _PATHS)
    weights = [(path, weight) for mine in strongest for path, weight, _ in mine]
    met = np.unique([node for path, _ in weights for node in path]).astype(np.int64)
    format_list = np.concatenate(
        [format_value, np.setdiff1d(met, format_value)]
    )  # nodes that only paths lead to come last
    said = predicted_indicators(probabilities, model.fitted_.target.multilabel)
    sizes = np.where(labeled(labels)[:, None], labels, np.eye(len(classes), dtype=np.int64)[told])[format_value].sum(0)
    shades = np.where(labeled(labels), np.where(labels > 0, sizes, -1).argmax(1), told)  # the classes that give colors
    parameters = getattr(model, "weight_parameters_", None) or {"coefficients": {}, "hops": []}
    gates = (
        sorted(parameters["coefficients"].items(), key=lambda pair: abs(pair[1]))
        if any(parameters["coefficients"].values())
        else []
    )
    return {
        "title": f"cge: {name or f'{len(told):,} nodes'}",
        "words": words_of(model, name, measured, rows),
        "verdict": verdict_of(model, rows),
        "hints": {
            **hints_of(model, len(told), len(format_value), measured, MAPS[flat]),
            "colors-words": colors_of(model.fitted_.target.multilabel, len(classes), len(_COLORS)),
            "signs-words": signs_of([weight for _, weight in weights]),
        },
        "accuracy": [{key: row[key] for key in ("method", "accuracy", "interval")} for row in rows],
        "score": "right" if measured is None else measured.score_name,
        "reliability": None if measured is None else measured.reliability(),
        "confusion": None if measured is None else measured.confusion(),
        "by_class": None if measured is None else measured.by_class(),
        "curves": curves_of(model),
        "step": "epoch",
        "classes": classes,
        "groups": _groups(sizes),
        "nodes": {
            **_nodes(model, format_value, format_list, labels, labeled(known), probabilities, titles, flat),
            "shade": shades[format_list].tolist(),
            "said": _said(probabilities[format_list]) if model.fitted_.target.multilabel else None,
        },
        "paths": _numbered(strongest, format_list, len(told)),
        "near": _near(model.embedding_, format_value),
        "first": _first(model, format_value, measured),
        "edges": [[key, round(value, 4)] for key, value in gates],
        "hops": [round(one, 4) for one in parameters["hops"]],
        "weight_axis": weight_axis_of(model),
        "histogram": histogram_of(weights),
        "lengths": lengths_of(weights),
        "relevance": relevance_of(weights, said, labels > 0),
        "faithful": _faithful(model, format_value),
        "command": command or call_of(model),
        "settings": settings_of(model),
        "footer": "Made by cge. This page needs no network: chart library and data are inside.",
    }


def _members(model: Any, truth: Array | None) -> Array:
    """Return the training labels, or others, as zeros and ones, `(n, c)`; rows of nodes without are zero."""
    found = np.zeros((len(model.node_ids_), len(model.classes_)), np.int64)
    if truth is None:
        found[model.fitted_.train.nodes] = model.fitted_.train.matrix
    else:
        nodes = np.flatnonzero(labeled(truth))
        found[nodes] = model.fitted_.target.matrix(truth[nodes])
    return found


def _chosen(trained: Array, labels: Array) -> Array:
    """Return the nodes that are on the page: all, or in a large graph training nodes first, then others by chance."""
    count = len(trained)
    if count <= _MOST_NODES:
        return np.arange(count)
    first = np.flatnonzero(trained)
    first = first[np.linspace(0, len(first) - 1, min(len(first), _MOST_NODES // 2)).astype(np.int64)]
    rest = np.setdiff1d(np.flatnonzero(labels) if labels.sum() >= _MOST_NODES else np.arange(count), first)
    more = rest[np.linspace(0, len(rest) - 1, _MOST_NODES - len(first)).astype(np.int64)]
    return np.unique(np.concatenate([first, more]))


def _said(probabilities: Array) -> list[list[list[Any]]]:
    """Return the classes that are predicted for each node, the most likely first, and their chances."""
    orders = np.argsort(-probabilities, axis=1, kind="stable").tolist()
    return [
        [[one, round(float(mine[one]), 4)] for one in order if mine[one] > 0.5]
        for mine, order in zip(probabilities, orders, strict=True)
    ]


def _groups(sizes: Array) -> list[dict[str, Any]]:
    """Return the classes that have a color of their own, the largest ones first, and the others together."""
    order = np.argsort(-sizes, kind="stable").tolist()
    own, others = order[: len(_COLORS)], sorted(order[len(_COLORS) :])
    found: list[dict[str, Any]] = [{"classes": [one], "color": color} for one, color in zip(own, _COLORS, strict=False)]
    return [*found, {"classes": others, "color": _OTHERS}] if others else found


def _nodes(
    model: Any,
    format_value: Array,
    format_list: Array,
    labels: Array,
    trained: Array,
    probabilities: Array,
    titles: Array | None,
    flat: str,
) -> dict[str, Any]:
    """Return what is told of each node on the page; those on the map come first, and have keys."""
    explainer = model._explainer(0)
    names = np.asarray(model.node_ids_ if titles is None else titles, object)[format_list]
    across, told = flattened(model.embedding_[format_value], flat, model.random_state), probabilities.argmax(1)
    return {
        "keys": list(range(len(format_value))),
        "id": [str(one) for one in names],
        "label": [np.flatnonzero(row).tolist() for row in labels[format_list]],
        "trained": trained[format_list].astype(int).tolist(),
        "told": told[format_list].tolist(),
        "sure": [round(float(one), 4) for one in probabilities[format_list, told[format_list]]],
        "says": explainer.predict_alone(format_value).tolist() if explainer.classifier.count > 1 else None,
        "x": [round(float(one), 4) for one in across[:, 0]],
        "y": [round(float(one), 4) for one in across[:, 1]],
    }


def _numbered(strongest: list[list[Any]], format_list: Array, count: int) -> list[list[Any]]:
    """Return the paths of each node as the page numbers nodes."""
    places = np.empty(count, np.int64)
    places[format_list] = np.arange(len(format_list))
    return [
        [[places[path].tolist(), float(f"{weight:.4g}"), float(f"{brings:.4g}")] for path, weight, brings in mine]
        for mine in strongest
    ]


def _near(vectors: Array, format_value: Array) -> list[list[int]]:
    """Return the nodes on the page nearest to each, by cosine."""
    some = vectors[format_value]
    if len(some) < 2:
        return [[] for _ in some]
    found: list[list[int]] = nearest_rows(some, np.arange(len(some)), min(_NEAR, len(some) - 1), lengths(some))[
        0
    ].tolist()
    return found


def _faithful(model: Any, format_value: Array) -> dict[str, Any]:
    """Return how the chance of the predicted class falls as paths go, and rises as they come: means over some nodes."""
    some = format_value[np.linspace(0, len(format_value) - 1, min(_TAKEN, len(format_value))).astype(np.int64)]
    found = model.faithfulness(model.node_ids_[np.unique(some)].tolist())
    curves = {
        way: {name: getattr(found, order + way) for name, order in _ORDERS.items()} for way in ("deletion", "insertion")
    }
    means = {
        way: [{"name": name, "chance": [round(float(one), 4) for one in curve.mean(0)]} for name, curve in each.items()]
        for way, each in curves.items()
    }
    return {"share": found.fractions.tolist(), **means}


def _first(model: Any, format_value: Array, measured: Measured | None) -> int:
    """Return which node the explorer begins with: one that was measured, with several neighbors."""
    good = model.graph_.degrees[format_value] >= 3
    if measured is not None and measured.unseen:
        good &= np.isin(format_value, measured.nodes)
    return int(np.flatnonzero(good)[0]) if good.any() else 0
