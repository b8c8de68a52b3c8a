"""A trained model compared with baselines and with uniform weights, trained on the same labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation
from cge.estimators.explanation_mixin import fit_like, labels_of, probabilities_of_nodes, uniform_copy
from cge.estimators.path_estimator import PathEstimator
from cge.explain.weighting_comparison import Gain
from cge.report.scored_nodes import ScoredNodes

_UNIFORM = "cge (uniform weights)"


def compare_methods(
    model: PathEstimator,
    scored: ScoredNodes,
    on_method: Callable[[str], object] | None = None,
    uniform_model: PathEstimator | None = None,
) -> list[dict[str, Any]]:
    """Return the scores of a trained model and of other methods, as rows of "method", "accuracy" and "interval".

    All methods use the training and validation labels of the model. The row of uniform weights has the "gain" of the
    model over it. `on_method` is called with the name of each method before it is trained. A `uniform_model` that is
    already trained is not trained again.
    """
    rows = [scored.row("cge", scored.probabilities)]
    labels = labels_of(model, as_passed=scored.is_test)
    methods: dict[str, Any] = {}
    if uniform_model is not None or model.weighting_ != "uniform":
        methods[_UNIFORM] = uniform_copy(model)
    if model.graph_.features is not None:
        methods |= {"SGC": SGC(), "logistic regression (features)": FeatureClassifier()}
    methods["label propagation"] = LabelPropagation()
    for name, method in methods.items():
        if name == _UNIFORM and uniform_model is not None:
            method, all_nodes = uniform_model, uniform_model.predict_proba()
        else:
            if on_method is not None:
                on_method(name)
            all_nodes = fit_like(method, model, labels)
        probabilities = probabilities_of_nodes(method, all_nodes, scored.nodes)
        rows.append(scored.row(name, probabilities))
        if name == _UNIFORM:
            node_scores = (scored.node_scores(each) for each in (scored.probabilities, probabilities))
            selected = not scored.is_test and model.fitted_.weighting_selected
            rows[-1]["gain"] = Gain.between(*node_scores, selected=selected)
    return [rows[0], *sorted(rows[1:], key=lambda row: (row["method"] != _UNIFORM, -row["accuracy"]))]
