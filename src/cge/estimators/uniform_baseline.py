"""The twin of a trained model: the same settings and the same labels, with A ≡ 1."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import CgeWarning, InputError
from cge.explain.weighting_comparison import Gain
from cge.metrics import node_f1, predicted_indicators

__all__ = ["gain_over_uniform", "judged_by", "labels_of", "probabilities_of", "uniform_copy"]

Array = npt.NDArray[Any]


def uniform_copy(model: Any) -> Any:
    """Return the twin of a `CGE`, not trained yet.

    Where the model held labels out, the twin is given them (`labels_of`), but may learn no more from them.
    """
    told = model.get_params() | {"weighting": "uniform", "outer": "unrolled"}
    if model.selection_history_ is not None:
        told["prior_correction"] = "no"
    return type(model)(**told)


def labels_of(model: Any, again: bool = False) -> tuple[Array, Array | None]:
    """Return the labels that trained a model and those that chose, as class numbers or as zeros and ones.

    Where some of the training labels chose, and then trained as well, they only choose here; with `again` they train,
    and whoever is trained on them holds out its own.
    """
    fitted, chosen = model._fitted, model._fitted.chosen
    held = model.selection_history_ is not None  # some of the training labels chose, and then trained
    y = _spread(model, fitted.known, fitted.matrix)
    if held and again:
        return y, None
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


def probabilities_of(method: Any, model: Any, labels: tuple[Array, Array | None]) -> Array:
    """Train a method on `labels_of` a model, and return its chances for all nodes, `(n, c)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CgeWarning)
        method.fit(model.graph_, *labels)
    probabilities = np.zeros((len(model.graph_), len(model.classes_)), np.float32)
    probabilities[:, method.classes_] = method.predict_proba()  # a class may have no training label
    return probabilities


def judged_by(method: Any, probabilities: Array, nodes: Array) -> Array:
    """Return a method's chances `(n, c)` for some nodes; for labels that chose, those that it judged them by."""
    chosen = getattr(getattr(method, "_fitted", None), "chosen", None)
    if (
        chosen is not None
        and np.array_equal(chosen.nodes, nodes)
        and chosen.probabilities.shape[1] == probabilities.shape[1]
    ):
        kept: Array = chosen.probabilities
        return kept
    return probabilities[nodes]


def gain_over_uniform(model: Any) -> Gain | None:
    """Train the twin and return the gain over it, on the labels that chose; None with A ≡ 1."""
    if model.weighting_ == "uniform":
        return None
    chosen, several = model._fitted.chosen, model._fitted.several
    if not len(chosen.nodes):
        raise InputError(
            "this model keeps no labels that chose, so there is nothing to compare by; fit it with validation labels"
        )
    twin = uniform_copy(model)
    other = judged_by(twin, probabilities_of(twin, model, labels_of(model)), chosen.nodes)
    one, two = (node_f1(predicted_indicators(each, several), chosen.matrix) for each in (chosen.probabilities, other))
    return Gain.between(one, two, chose=model.encoder == "paths" and model.weighting == "auto")
