"""The sentences of a report: its summary, the comparison with uniform weights, and the settings of the model."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from cge.estimators.configs import OuterConfig, PaperOuterConfig, flat_params, flat_settings
from cge.estimators.encoder_options import encoder_settings, resolve_inputs
from cge.estimators.fitted_model import learned_weights_unused
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.persistence import name_of
from cge.report.captions import uses_network
from cge.report.scored_nodes import ScoredNodes, score_vectors
from cge.training.classifier_registry import CLASSIFIERS


def summary_sentences(
    model: PathEstimator, name: str, scored: ScoredNodes | None, rows: list[dict[str, Any]]
) -> list[str]:
    """Return what graph and labels the model was trained on, and its scores."""
    seen, graph = model.labels_seen_, model.graph_
    features = "no features" if graph.features is None else f"{graph.features.shape[1]:,} features"
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {features}, {model.fitted_.target.describe()}"
    labels = f"{seen['train']:,} training labels, {seen['validation']:,} validation labels."
    if model.selection_history_ is not None:
        held_back = f"{seen['validation']:,} of them held out for validation, then the model was refitted on all"
        if model.fitted_.log.cross_validated:
            held_back = "validated by 3-fold cross-validation, then all used for training"
        labels = f"{seen['train']:,} labels ({held_back})."
    first = f"{f'{name}: ' if name else ''}{sizes}. {labels}"
    if seen["outer"]:
        unused = learned_weights_unused(model.fitted_)
        kind = "other validation" if model.outer_labels == "validation" else "training"
        first += f" Path weights were learned on {seen['outer']:,} {kind} labels"
        first += ", but the model search selected a weighting without learned weights." if unused else "."
    if scored is None:
        return [first, "There are no labels to score the model on."]
    texts, metric = scored.target.texts, scored.target.metric[0].upper() + scored.target.metric[1:]
    accuracy, low, high = map(texts.number, (rows[0]["accuracy"], *rows[0]["interval"]))
    labels = f"{len(scored.nodes):,} {scored.kind} labels"
    score = f"{metric} on {labels}: {accuracy}{texts.unit} (95 % confidence interval {low} to {high})."
    residuals = model.fitted_.validation.probabilities, model.fitted_.validation.matrix
    score += scored.target.describe_errors(scored.probabilities, scored.labels, residuals)
    if not scored.is_test:
        score += " The model was selected on these labels, so this is slightly optimistic."
    vectors_score, trained = score_vectors(model, scored), "trained on the model's training labels"
    if vectors_score is not None:
        linear_model = texts.linear_model[0].upper() + texts.linear_model[1:]
        score += f" {linear_model} on the node embeddings (vectors) alone, {trained}, scored on the same {labels}:"
        score += f" {texts.number(vectors_score)}{texts.unit}."
    others = ", ".join(f"{row['method']} {texts.number(row['accuracy'])}{texts.unit}" for row in rows[1:])
    return [first, score, *([f"Other methods, {trained}, scored on the same {labels}: {others}."] if others else [])]


def weighting_sentences(model: PathEstimator, scored: ScoredNodes | None, rows: list[dict[str, Any]]) -> list[str]:
    """Return how the weighting compares with uniform weights: in training, and in the comparison of methods."""
    gains = [row["gain"] for row in rows if row.get("gain") is not None]
    kind = "" if scored is None else scored.kind
    compared = [
        " ".join([f"In the comparison of methods, cge is {gain.describe(kind)}.", gain.caveat]).strip()
        for gain in gains
    ]
    meaning = "A(p) = 1 for every path"
    if model.fitted_.exact:
        meaning = "those of a random walk that chooses edges with probability proportional to their weights"
    uniform = [] if model.weighting_ == "uniform" else [f"Uniform weights: {meaning}."]
    return [*model.compare_weighting().sentences(), *compared, *uniform]


def settings_rows(model: PathEstimator) -> list[list[str]]:
    """Return the settings of a model, with the selected value where a setting is 'auto' or None.

    Left out are those of the outer problem if no weights were learned, those that no classifier of the model uses,
    those of held-out labels if validation labels were passed, and `n_jobs`, which does not change the result.
    """
    used = {"weighting": model.weighting_}
    used["classifier"] = ", ".join(model.fitted_.registered_classifiers)
    unused = {"n_jobs", *(("validation_fraction", "refit") if model.fit_call_["validation"] else ())}
    if model.fitted_.exact:
        used |= {name: str(model.fitted_.selected[name]) for name in ("label_propagation", "prior_correction")}
        used["dim"] = str(encoder_settings(model, len(model.classes_)).dim)
        used["inputs"] = resolve_inputs("auto", model.graph_)
        unused |= set() if model.labels_seen_["outer"] else {field.name for field in fields(OuterConfig)}
        unused |= set() if uses_network(model) else {"walks_per_node"}
        unused |= set.intersection(*_unused_settings(model).values())
    elif model.weighting_ == "uniform":
        unused |= {"outer", "outer_labels", "n_folds", *(field.name for field in fields(PaperOuterConfig))}
    rows = []
    for name, value in flat_params(model).items():
        text = str(value)
        if value is None:
            text = used.get(name) or _default_value(model, name)
        elif value == "auto" and used.get(name):
            text = f"{value}: {used[name]}"
        rows.append([name, text])
    return [row for row in rows if row[0] not in unused]


def _unused_settings(model: PathEstimator) -> dict[str, set[str]]:
    """Return for each classifier of a model the settings that it does not use."""
    weight = flat_params(model).get("consistency_weight")
    return {name: CLASSIFIERS[name].unused_settings(weight) for name in model.fitted_.registered_classifiers}


def _default_value(model: PathEstimator, name: str) -> str:
    """Return the value that was used for a setting that was not given: those of the classifiers, or in words."""
    settings = {key: CLASSIFIERS[key].settings for key, unused in _unused_settings(model).items() if name not in unused}
    values = {key: str(getattr(each, name)) for key, each in settings.items() if hasattr(each, name)}
    if not values:
        return flat_settings(type(model))[name].setting.none or "none"
    if name == "max_epochs" and model.fitted_.classifier_names()[0] in values:  # may be reduced, to bound the time
        values = {"": str((model.selection_history_ or model.history_)[0].max_epochs)}
    same = len(set(values.values())) == 1
    return next(iter(values.values())) if same else ", ".join(f"{value} ({key})" for key, value in values.items())


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
