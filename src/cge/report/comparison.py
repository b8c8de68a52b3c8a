"""A trained model beside plain methods and its twin with A ≡ 1, trained on the same labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import CgeWarning
from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation
from cge.explain.worth import Gain
from cge.report.measured import Measured

__all__ = ["compared"]

Array = npt.NDArray[Any]

_TWIN = "cge, A ≡ 1"


def compared(
    model: Any, measured: Measured, on_method: Callable[[str], object] | None = None, twin: Any = None
) -> list[dict[str, Any]]:
    """Return the scores of a trained `CGE` and of others, as rows of "method", "accuracy" and "interval".

    All train on the labels that trained the model; those that chose for it choose for them. The row of the twin has the
    "gain" of the model over it. `on_method` is told each method before it trains; a `twin` that is trained already is
    taken as it is.
    """
    rows = [measured.row("cge", measured.chances)]
    y, validation = _labels(model, measured)
    others: dict[str, Any] = {}
    if twin is not None or model.weights_ != "none":
        others[_TWIN] = type(model)(**(model.get_params() | {"weighting": "none", "outer": "unrolled"}))
    if model.graph_.features is not None:
        others |= {"SGC": SGC(), "features only": FeatureClassifier()}
    others["label propagation"] = LabelPropagation()
    for name, method in others.items():
        if name == _TWIN and twin is not None:
            chances = twin.predict_proba()
        else:
            if on_method is not None:
                on_method(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CgeWarning)
                method.fit(model.graph_, y, validation)
            chances = np.zeros((len(model.graph_), len(model.classes_)), np.float32)
            chances[:, method.classes_] = method.predict_proba()  # a class may have no training label
        rows.append(measured.row(name, chances[measured.nodes]))
        if name == _TWIN:
            both = (measured.right(one) for one in (measured.chances, chances[measured.nodes]))
            rows[-1]["gain"] = Gain.between(*both)
    return [rows[0], *sorted(rows[1:], key=lambda row: (row["method"] != _TWIN, -row["accuracy"]))]


def _labels(model: Any, measured: Measured) -> tuple[Array, Array | None]:
    """Return the labels that train and those that choose, as class numbers or as zeros and ones."""
    fitted, chosen = model._fitted, model._fitted.chosen
    held = model.selection_history_ is not None  # some of the training labels chose, and then trained
    y = _spread(model, fitted.known, fitted.matrix)
    if held and measured.unseen:
        return y, None  # each method holds out its own
    if held:
        y[chosen.nodes] = 0 if fitted.several else -1
    return y, _spread(model, chosen.nodes, chosen.matrix) if len(chosen.nodes) else None


def _spread(model: Any, nodes: Array, matrix: Array) -> Array:
    """Return the labels of some nodes as those of all."""
    if model._fitted.several:
        found = np.zeros((len(model.graph_), matrix.shape[1]), np.int64)
        found[nodes] = matrix
        return found
    codes = np.full(len(model.graph_), -1)
    codes[nodes] = matrix.argmax(1) if len(nodes) else 0
    return codes
