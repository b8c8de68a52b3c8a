"""The texts of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from cge.errors import counted
from cge.estimators.configs import OuterConfig, flat_params, flat_settings
from cge.estimators.encoder_options import encoder_settings, resolve_inputs
from cge.estimators.fitted_model import learned_weights_unused
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.persistence import name_of
from cge.explain.faithfulness import MAX_PATHS
from cge.models.weightings import WEIGHTINGS
from cge.report.scored_nodes import ScoredNodes, score_vectors
from cge.training.classifier_registry import CLASSIFIERS

_LOSSES = {  # columns of a history
    "supervised_loss": "Supervised loss: mean loss of the training labels.",
    "consistency_loss": "Consistency loss: squared distance between the predictions of augmented inputs and their "
    "sharpened mean; of 'distilled', cross-entropy from the propagated labels.",
    "path_loss": "Path loss: skip-gram loss of a sample of paths.",
    "outer_loss": "Outer loss: the loss by which the path weights are trained.",
}


def summary_sentences(
    model: PathEstimator, name: str, scored: ScoredNodes | None, rows: list[dict[str, Any]]
) -> list[str]:
    """Return what graph and labels the model was trained on, and its scores."""
    seen, graph = model.labels_seen_, model.graph_
    features = "no features" if graph.features is None else f"{graph.features.shape[1]:,} features"
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {features}, {len(model.classes_)} classes"
    labels = f"{seen['train']:,} training labels, {seen['validation']:,} validation labels."
    if model.selection_history_ is not None:
        held_back = f"{seen['validation']:,} of them held out for validation, then the model was refitted on all"
        if seen["validation"] > 0.7 * seen["train"]:
            held_back = "validated by 3-fold cross-validation, then all used for training"
        labels = f"{seen['train']:,} labels ({held_back})."
    first = f"{f'{name}: ' if name else ''}{sizes}. {labels}"
    if seen["outer"]:
        unused = learned_weights_unused(model.fitted_)
        first += f" Path weights were learned on {seen['outer']:,} training labels"
        first += ", but the model search selected a weighting without learned weights." if unused else "."
    if scored is None:
        return [first, "There are no labels to score the model on."]
    accuracy, low, high = (f"{100 * share:.1f}" for share in (rows[0]["accuracy"], *rows[0]["interval"]))
    metric = scored.target.metric[0].upper() + scored.target.metric[1:]
    labels = f"{len(scored.nodes):,} {scored.kind} labels"
    score = f"{metric} on {labels}: {accuracy} % (95 % confidence interval {low} to {high})."
    if not scored.is_test:
        score += " These labels also selected the model, so this is slightly optimistic."
    alone = score_vectors(model, scored)
    if alone is not None:
        score += f" Logistic regression on the vectors alone, trained on the same labels: {100 * alone:.1f} %."
    others = ", ".join(f"{row['method']} {100 * row['accuracy']:.1f} %" for row in rows[1:])
    return [first, score, *([f"Other methods, trained and scored on the same labels: {others}."] if others else [])]


def weighting_sentences(model: PathEstimator, scored: ScoredNodes | None, rows: list[dict[str, Any]]) -> list[str]:
    """Return how the weighting compares with uniform weights: in training, and in the comparison of methods."""
    gains = [row["gain"] for row in rows if row.get("gain") is not None]
    kind = "" if scored is None else scored.kind
    compared = [
        " ".join([f"In the comparison of methods, cge is {gain.describe(kind)}.", gain.caveat]).strip()
        for gain in gains
    ]
    return [*model.compare_weighting().sentences(), *compared]


def captions(
    model: PathEstimator, n_shown: int, n_tested: int, scored: ScoredNodes | None, projection: str
) -> dict[str, str]:
    """Return the captions of charts, by id.

    `n_shown` nodes are on the page, `n_tested` in the test of faithfulness; `projection` describes the map.
    """
    n_nodes = len(model.graph_)
    part = "" if n_nodes == n_shown else f" {n_shown:,} of {n_nodes:,} nodes are shown."
    labels = "" if scored is None else f"{len(scored.nodes):,} {scored.kind} labels."
    error = "" if scored is None else f"{100 * scored.reliability()['error']:.1f} %"
    classifier = model.explainer().classifier
    ensemble = classifier.count > 1
    attributed = "" if model.fitted_.exact else " For PaperCGE contributions are an attribution, not an exact sum."
    return {
        "curves-caption": _curves_caption(model),
        "map-caption": f"Vectors (embeddings), scaled to unit length, in two dimensions ({projection}). Colors show "
        "labels (training, validation and test) or, for nodes without a label, predictions. Click a node to see its "
        f"paths.{part}",
        "explorer-caption": "What contributes most to the score (logit) of the predicted class, positive or negative: "
        "the endpoints of paths, with their features and training labels, and single paths. A path is a walk: "
        "nodes may repeat, and every node has a self-loop. In the drawings of paths, a ring marks nodes with a "
        "training label." + (f" Scores are those of {classifier}." if ensemble else "") + attributed,
        "confusion-caption": f"{labels} Colors are normalized by row.",
        "by-class-caption": labels,
        "reliability-caption": "Accuracy of predictions by their confidence; on the diagonal, probabilities are well "
        f"calibrated. Larger points stand for more predictions. Expected calibration error: {error}, on {labels}",
        "strongest-caption": "The following charts show the paths with the largest contributions of each node, not all "
        "paths. Since these are selected by contribution, large weights are more frequent than among all paths.",
        "weighting-caption": _weighting_caption(model),
        "faithfulness-caption": "Probability of the predicted class as paths are deleted from the propagated inputs of "
        "a node, or inserted, in the order of their contributions, of their path weights |A(p)|, or at random. Only "
        f"the up to {MAX_PATHS:,} paths of each node with the largest weights are deleted or inserted; mean over "
        f"{counted(n_tested, 'node')}. The faster the probability changes, the more the first paths of an order matter "
        "for the prediction. The gap between “by contribution” and “by weight” shows what contributions add to weights."
        + (f" The probability is that of {classifier}." if ensemble else ""),
    }


def _curves_caption(model: PathEstimator) -> str:
    """Return the best epoch and what the curves mean."""
    refit = "" if model.selection_history_ is None else "; then the model was refitted on all labels"
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    curves = [text for name, text in _LOSSES.items() if any(row.get(name) for row in history.rows())]
    convex = [name for name in getattr(model, "classifiers_", ())[:1] if CLASSIFIERS[name].convex]
    values = ["An epoch is one value of the regularization parameter C."] if convex else []
    return " ".join([f"Best epoch {model.best_epoch_} (dotted line){refit}.", *values, *curves])


def _weighting_caption(model: PathEstimator) -> str:
    """Return the weighting with its classifiers, and what the names in its charts mean."""
    spec = WEIGHTINGS.get(model.weighting_)
    texts = [f"Weighting: {model.weighting_}{'' if spec is None else f' ({spec.description})'}."]
    if not model.fitted_.exact:
        return f"{texts[0]} A(p): weight of path p, the output of the network, from 0 to 1."
    texts.append(f"Classifiers: {', '.join(getattr(model, 'classifiers_', ()))}.")
    if _uses_network(model):
        texts.append(
            "Relative weight: output of the network (0 to 1) times the weight under the closed-form weighting its "
            "walks are sampled from, divided by that under uniform weights; only ratios between paths of one node "
            "are meaningful."
        )
    else:
        texts.append("Relative weight: path weight A(p) divided by that under uniform weights.")
    parameters = getattr(model, "weight_parameters_", None) or {"coefficients": {}, "hop_weights": []}
    if any(parameters["coefficients"].values()):
        texts.append(
            "Edge inputs: standardized numbers of each edge, such as the cosine of the features of its nodes, each "
            "aggregated with those of its neighbors (context cosine); where θ is positive, edges with large values "
            "have larger weights."
        )
    if parameters["hop_weights"]:
        texts.append("Hop weight: factor of the weights of all paths with that number of hops.")
    if model.graph_.num_relations > 1:
        texts.append("Metapath: sequence of the node and edge types along a path.")
    return " ".join(texts)


def color_caption(multilabel: bool, n_classes: int, n_colors: int) -> str:
    """Return how colors are assigned, and how to find a node with the keyboard."""
    several = "A node with several labels has the color of its largest class, a node without labels that of its most "
    largest = f"The {n_colors} largest classes have their own color, the others share one. "
    search = "To find a node by its id, use the path explorer below."
    return f"{f'{several}probable class. ' if multilabel else ''}{largest if n_classes > n_colors else ''}{search}"


def sign_caption(weights: Sequence[float]) -> str:
    """Return how many of the weights in charts are negative; nothing if none is."""
    negative = sum(weight < 0 for weight in weights)
    if not negative:
        return ""
    return (
        f"{negative:,} of these {len(weights):,} paths ({100 * negative / len(weights):.0f} %) have a negative weight, "
        "because their hop weight is negative. The charts show absolute values."
    )


def settings_rows(model: PathEstimator) -> list[list[str]]:
    """Return the settings of a model, with what was selected where a setting was open, without those not used."""
    used = {"weighting": model.weighting_}
    used["classifier"] = ", ".join(getattr(model, "classifiers_", ()))
    unused = {"n_jobs"}  # it does not change the result
    if model.fitted_.exact:
        used |= {name: str(getattr(model, f"{name}_")) for name in ("label_propagation", "prior_correction")}
        used["dim"] = str(encoder_settings(model, len(model.classes_)).dim)
        used["inputs"] = resolve_inputs("auto", model.graph_, model.fitted_.target)
        unused |= set() if model.labels_seen_["outer"] else {field.name for field in fields(OuterConfig)}
        unused |= set() if _uses_network(model) else {"walks_per_node"}
    rows = []
    for name, value in flat_params(model).items():
        text = str(value)
        if value is None:
            text = used.get(name) or _default_value(model, name)
        elif value == "auto" and used.get(name):
            text = f"{value}: {used[name]}"
        rows.append([name, text])
    return [row for row in rows if row[0] not in unused]


def _uses_network(model: Any) -> bool:
    """Return whether a neural network weights paths: one by name, or a class of the user."""
    spec = WEIGHTINGS.get(model.weighting_)
    return spec is None or spec.network is not None


def _default_value(model: PathEstimator, name: str) -> str:
    """Return the value that was used for a setting that was not given: that of each classifier, or in words."""
    settings = {key: CLASSIFIERS[key].settings for key in getattr(model, "classifiers_", ())}
    values = {key: str(getattr(each, name)) for key, each in settings.items() if hasattr(each, name)}
    if not values:
        return flat_settings(type(model))[name].setting.none or "none"
    if name == "max_epochs":  # may be reduced, to bound the time
        values = {"": str((model.selection_history_ or model.history_)[0].max_epochs)}
    same = len(set(values.values())) == 1
    return next(iter(values.values())) if same else ", ".join(f"{value} ({key})" for key, value in values.items())


def weight_axis_title(model: PathEstimator) -> str:
    """Return the title of an axis of path weights."""
    if model.fitted_.exact:
        return "relative weight"
    return "weight A(p) = 1" if model.weighting_ == "uniform" else "weight A(p) of the network, from 0 to 1"


def fit_call(model: PathEstimator) -> str:
    """Return the command that trained the model, or the call in Python with the settings that are not defaults."""
    if model.fit_call_["command"]:
        return str(model.fit_call_["command"])
    defaults = type(model)().get_params()
    settings = [
        f"{name}={_as_code(value)}"
        for name, value in model.get_params().items()
        if value != defaults[name] or name == "random_state"
    ]
    labels = "y, validation" if model.fit_call_["validation"] else "y"
    return f"cge.{type(model).__name__}({', '.join(settings)}).fit(graph, {labels})"


def _as_code(value: Any) -> str:
    """Return a setting as it is written in Python; a config object as a dictionary of its settings."""
    if is_dataclass(value) and not isinstance(value, type):
        default = vars(type(value)())
        return repr({name: setting for name, setting in vars(value).items() if setting != default[name]})
    return name_of(value) if callable(value) else repr(value)
