"""A trained model beside plain methods and its twin with A ≡ 1, trained on the same labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation
from cge.estimators.uniform_baseline import fit_like, labels_of, probabilities_of_nodes, uniform_copy
from cge.explain.weighting_comparison import Gain
from cge.report.test_scores import Measured

__all__ = ["compared"]

_TWIN = "cge, A ≡ 1"


def compared(
    model: Any, measured: Measured, on_method: Callable[[str], object] | None = None, twin: Any = None
) -> list[dict[str, Any]]:
    """Return the scores of a trained `CGE` and of others, as rows of "method", "accuracy" and "interval".

    All train on the labels that trained the model; those that chose for it choose for them. The row of the twin has the
    "gain" of the model over it. `on_method` is told each method before it trains; a `twin` that is trained already is
    taken as it is.
    """
    rows = [measured.row("cge", measured.probabilities)]
    labels = labels_of(model, as_passed=measured.unseen)
    others: dict[str, Any] = {}
    if twin is not None or model.weighting_ != "uniform":
        others[_TWIN] = uniform_copy(model)
    if model.graph_.features is not None:
        others |= {"SGC": SGC(), "features only": FeatureClassifier()}
    others["label propagation"] = LabelPropagation()
    for name, method in others.items():
        if name == _TWIN and twin is not None:
            method, probabilities = twin, twin.predict_proba()
        else:
            if on_method is not None:
                on_method(name)
            probabilities = fit_like(method, model, labels)
        told = probabilities_of_nodes(method, probabilities, measured.nodes)
        rows.append(measured.row(name, told))
        if name == _TWIN:
            both = (measured.right(one) for one in (measured.probabilities, told))
            chose = not measured.unseen and model.fitted_.searched
            rows[-1]["gain"] = Gain.between(*both, selected=chose)
    return [rows[0], *sorted(rows[1:], key=lambda row: (row["method"] != _TWIN, -row["accuracy"]))]
