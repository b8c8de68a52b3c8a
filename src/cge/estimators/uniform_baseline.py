"""The same model with uniform weights: a baseline for the path weighting of a trained model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from cge.arrays import Array
from cge.errors import CgeWarning, InputError
from cge.explain.weighting_comparison import Gain

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator


def uniform_copy(model: PathEstimator) -> Any:
    """Return an untrained copy of an estimator with uniform weights.

    Where the model held labels out for validation, the copy is passed them (`labels_of`), and must not use them to
    correct class priors either.
    """
    copy = clone(model).set_params(weighting="uniform")
    if "outer" in copy.get_params():
        copy.set_params(outer="unrolled")
    if model.selection_history_ is not None and "prior_correction" in copy.get_params():
        copy.set_params(prior_correction="no")
    return copy


def labels_of(model: PathEstimator, as_passed: bool = False) -> tuple[Array, Array | None]:
    """Return the training and validation labels of a model, as class numbers or as zeros and ones.

    Where the model held validation labels out of the training labels, and then trained on them as well, they are
    validation labels here; with `as_passed` they are training labels, as they were passed to `fit`.
    """
    fitted = model.fitted_
    was_held_out = model.selection_history_ is not None
    y = _for_all_nodes(model, fitted.train.nodes, fitted.train.matrix)
    if was_held_out and as_passed:
        return y, None
    validation = fitted.validation
    if was_held_out:
        y[validation.nodes] = fitted.target.unlabeled(len(validation))
    return y, _for_all_nodes(model, validation.nodes, validation.matrix) if len(validation) else None


def _for_all_nodes(model: PathEstimator, nodes: Array, matrix: Array) -> Array:
    """Return the labels of some nodes in an array for all nodes, others unlabeled."""
    target = model.fitted_.target
    labels = target.unlabeled(len(model.graph_))
    labels[nodes] = target.from_matrix(matrix)
    return labels


def fit_like(method: Any, model: PathEstimator, labels: tuple[Array, Array | None]) -> Array:
    """Train a method on `labels_of` a model, and return its probabilities for all nodes, `(n, c)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CgeWarning)
        method.fit(model.graph_, *labels)
    probabilities = np.zeros((len(model.graph_), len(model.classes_)), np.float32)
    probabilities[:, method.classes_] = method.predict_proba()  # a class may have no training label
    return probabilities


def probabilities_of_nodes(method: Any, probabilities: Array, nodes: Array) -> Array:
    """Return a method's probabilities for some nodes, from those of all, `(n, c)`.

    For its own validation nodes these are the probabilities of the training that had not seen their labels.
    """
    fitted = getattr(method, "fitted_", None)
    validation = None if fitted is None else fitted.validation
    if (
        validation is not None
        and np.array_equal(validation.nodes, nodes)
        and validation.probabilities.shape[1] == probabilities.shape[1]
    ):
        unseen: Array = validation.probabilities
        return unseen
    return probabilities[nodes]


def gain_over_uniform(model: PathEstimator) -> Gain | None:
    """Train a copy with uniform weights and return the gain over it on the validation labels; None for uniform."""
    if model.weighting_ == "uniform":
        return None
    fitted = model.fitted_
    validation = fitted.validation
    if not len(validation):
        raise InputError("this model has no validation labels to compare on; fit it with validation labels")
    baseline = uniform_copy(model)
    other = probabilities_of_nodes(baseline, fit_like(baseline, model, labels_of(model)), validation.nodes)
    labels, target = fitted.target.from_matrix(validation.matrix), fitted.target
    own, uniform = (target.node_correct(outputs, labels) for outputs in (validation.probabilities, other))
    return Gain.between(own, uniform, selected=fitted.weighting_selected)
