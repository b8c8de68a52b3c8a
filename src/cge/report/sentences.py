"""What a report says in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cge.estimators.configs import flat_params
from cge.estimators.fitted_model import learned_weights_unused
from cge.estimators.storing import name_of
from cge.report.test_scores import Measured

__all__ = [
    "call_of",
    "colors_of",
    "hints_of",
    "settings_of",
    "signs_of",
    "verdict_of",
    "weight_axis_of",
    "words_of",
]


def words_of(model: Any, name: str, measured: Measured | None, rows: list[dict[str, Any]]) -> list[str]:
    """Say what the model is about, and how well it does."""
    seen, graph = model.labels_seen_, model.graph_
    features = "no features" if graph.features is None else f"{graph.features.shape[1]:,} features"
    weights = "weights of paths that are not used" if learned_weights_unused(model.fitted_) else "the weights of paths"
    first = (
        f"A model of {f'{name}: ' if name else ''}{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {features}, "
        f"{len(model.classes_)} classes. {seen['train']:,} labels trained it, {seen['outer']:,} taught {weights}"
        f", {seen['validation']:,} chose what was left open."
    )
    if measured is None:
        return [first, "There are no labels to measure it by."]
    low, high = rows[0]["interval"]
    between = f"(95 % interval {100 * low:.1f} to {100 * high:.1f})"
    score = f"{100 * rows[0]['accuracy']:.1f} %"
    told = f"its micro-F1 is {score}" if measured.several else f"{score} are right"
    count, chose = len(measured.nodes), "" if measured.unseen else ": these labels chose, so that is a little too good"
    which = "whose labels it has not seen" if measured.unseen else "whose labels chose"
    words = [first, f"{'On' if measured.several else 'Of'} {count:,} nodes {which}, {told} {between}{chose}."]
    others = [f"{row['method']} {100 * row['accuracy']:.1f} %" for row in rows[1:]]
    if others:
        words.append(f"For comparison, trained on the same labels and measured by the same: {', '.join(others)}.")
    return words


def verdict_of(model: Any, rows: list[dict[str, Any]]) -> list[str]:
    """Say whether weights were worth it: what training asked, and what the comparison found."""
    gains = [row["gain"] for row in rows if row.get("gain") is not None]
    told = [" ".join([f"In this comparison they are {one}.", one.caveat]).strip() for one in gains]
    return [*model.compare_weighting().sentences(), *told]


def hints_of(model: Any, nodes: int, format_value: int, measured: Measured | None, flat: str) -> dict[str, str]:
    """Say what stands beside the charts, by section; `flat` says how the map came about."""
    some = "" if nodes == format_value else f" {format_value:,} of {nodes:,} nodes are shown."
    by = "" if measured is None else f"{len(measured.nodes):,} {measured.name}."
    error = "" if measured is None else f"{100 * measured.reliability()['error']:.1f} %"
    classifier = model._explainer(0).classifier
    whose, which = (
        f" {what} of {classifier}." if classifier.count > 1 else ""
        for what in ("The chance is that", "Scores are those")
    )
    exact = "" if model.fitted_.exact else " With this encoder that is an attribution, no identity."
    return {
        "curves-words": f"The best epoch was number {model.best_epoch_}.",
        "map-words": f"Every node by the direction of its vector, in two dimensions ({flat}), colored by its label or "
        f"else by its prediction. Click a node to see its paths.{some}",
        "explorer-words": "The paths that bring most to the score of the predicted class, for it or against it. A path "
        f"may stay at a node. A ring marks a node whose label trained the model.{which}{exact}",
        "confusion-words": f"{by} Colors are shares of a line.",
        "by-class-words": by,
        "reliability-words": "Of predictions that were given 80 %, 80 % should be right. The expected calibration "
        f"error, the mean distance between the two, is {error}; {by}",
        "faithful-words": "The chance of the predicted class as paths are taken away from a node, and as they are "
        "given back to a node without any: those that bring most first, the heaviest first whatever they say, or in a "
        "random order. The faster it falls, and the faster it rises, the more the explained paths matter; what lies "
        "between the strongest and the heaviest is knowing what a path brings, and not only how much it weighs. A mean "
        f"over some nodes.{whose}",
        "strong-words": "What follows is of the paths that were selected for what they bring, the strongest of each "
        "node, and not of all paths: heavy ones are more frequent among them.",
        "weights-words": f"Weighting: {model.weighting_}.{_classifiers(model)}",
    }


def colors_of(several: bool, classes: int, colors: int) -> str:
    """Say how a node comes to its color, and how to reach it without a mouse."""
    which = "A node with several labels has the color of the largest of these classes; one without any label, that of "
    few = f"The {colors} largest classes have colors, the others share one. " if classes > colors else ""
    reach = "The path explorer below finds every node by its id, without a mouse as well."
    return f"{f'{which}its most likely class. ' if several else ''}{few}{reach}"


def signs_of(weights: Sequence[float]) -> str:
    """Say how many of the weights that charts show are negative, where any is."""
    negative = sum(weight < 0 for weight in weights)
    if not negative:
        return ""
    share = f"{100 * negative / len(weights):.0f} %"
    return (
        f"{negative:,} of these {len(weights):,} paths weigh less than nothing ({share}), "
        "because hops do: what their ends carry counts the other way round. The charts show sizes, |A|."
    )


def _classifiers(model: Any) -> str:
    return f" Classifiers: {', '.join(model.classifiers_)}." if hasattr(model, "classifiers_") else ""


def settings_of(model: Any) -> list[list[str]]:
    """Return the settings of a model, and what was selected where that was left open."""
    used = {"weighting": model.weighting_, "dim": str(model.embedding_.shape[1])}
    if hasattr(model, "classifiers_"):
        used["classifier"] = ", ".join(model.classifiers_)
    for name in ("label_propagation", "prior_correction"):
        if hasattr(model, f"{name}_"):
            used[name] = "yes" if getattr(model, f"{name}_") else "no"
    rows = []
    for name, value in flat_params(model).items():
        if name != "n_jobs":  # changes nothing
            text = "by default" if value is None else str(value)
            selected = used.get(name) if value is None or value == "auto" else None
            rows.append([name, f"{text}: {selected}" if selected else text])
    return rows


def weight_axis_of(model: Any) -> str:
    """Say what A is on an axis."""
    if model.fitted_.exact:
        return "A, relative to a random walk"
    return "A, the same for all" if model.weighting_ == "uniform" else "A, what the network says, from 0 to 1"


def call_of(model: Any) -> str:
    """Return what trained the model: the command, or the call in Python with the settings that are not the defaults."""
    if model.fit_call_["command"]:
        return str(model.fit_call_["command"])
    defaults = type(model)().get_params()
    settings = [
        f"{name}={name_of(value) if callable(value) else repr(value)}"
        for name, value in model.get_params().items()
        if value != defaults[name] or name == "random_state"  # the seed is told in any case
    ]
    labels = "y, validation" if model.fit_call_["validation"] else "y"
    return f"cge.{type(model).__name__}({', '.join(settings)}).fit(graph, {labels})"
