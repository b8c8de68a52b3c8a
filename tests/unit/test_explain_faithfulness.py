"""Curves of deletion and insertion: worked by hand, and on a small model."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import softmax
from sklearn.base import clone

import cge
from cge.explain.faithfulness import FRACTIONS, Faithfulness, delete_paths, faithfulness_curves, insert_paths
from cge.targets import Regression
from tests.fixtures import (
    TRUE_LABELS,
    paper_cge,
    partial_labels,
    quick_cge,
    two_groups,
    used_vectors,
    with_sparse_features,
)

Array = npt.NDArray[Any]

PARTS = np.array([[1.0, 0.0], [0.0, 4.0], [2.0, 0.0], [0.0, 8.0]])
REST = np.array([10.0, 20.0])


def test_vectors_lose_and_gain_paths_in_order() -> None:
    order, fractions = np.array([3, 0, 2, 1]), np.array([0.0, 0.25, 0.5, 1.0])
    assert delete_paths(PARTS, REST, order, fractions).tolist() == [[13, 32], [13, 24], [12, 24], [10, 20]]
    assert insert_paths(PARTS, REST, order, fractions).tolist() == [[10, 20], [10, 28], [11, 28], [13, 32]]
    nothing = np.empty((0, 2))
    assert delete_paths(nothing, REST, np.empty(0, int), fractions).tolist() == [[10, 20]] * 4


def test_curves_by_importance_weight_and_in_random_order() -> None:
    fractions = np.array([0.0, 0.5, 1.0])
    orders = [np.random.default_rng(3), np.random.default_rng(3)]
    weight = np.array([0.1, 0.2, 0.4, 0.3])  # the third path is the heaviest, then the fourth

    def predict(vectors: Array) -> Array:
        return np.asarray(vectors.sum(1))

    curves = faithfulness_curves(PARTS, REST, PARTS.sum(1), weight, predict, fractions, 5, orders[0])
    assert curves.deletion.tolist() == [[45, 33, 30]]
    assert curves.insertion.tolist() == [[30, 42, 45]]
    assert curves.by_weight_deletion.tolist() == [[45, 35, 30]]
    assert curves.by_weight_insertion.tolist() == [[30, 40, 45]]
    for gap in curves.gaps_over_weight:
        assert gap.tolist() == [1]  # a triangle of base 1 and height 2
    permutations = [orders[1].permutation(4) for _ in range(5)]
    half = np.mean([PARTS[order[:2]].sum() for order in permutations])
    np.testing.assert_allclose(curves.random_deletion, [[45, 45 - half, 30]])
    np.testing.assert_allclose(curves.random_insertion, [[30, 30 + half, 45]])
    down, up = curves.gaps
    np.testing.assert_allclose(down, [(12 - half) / 2])  # a triangle of base 1
    np.testing.assert_allclose(up, down)
    both = Faithfulness.concatenate([curves, curves], fractions, curves.texts)
    assert both.deletion.shape == both.random_insertion.shape == (2, 3)
    for name, curve in vars(curves).items():
        if name == "texts":
            continue
        np.testing.assert_array_equal(vars(both)[name], curve if name == "fractions" else np.concatenate([curve] * 2))
    assert Faithfulness.concatenate([], fractions, curves.texts).deletion.shape == (0, 3)


def probability(model: cge.CGE, vector: Array, column: int) -> float:
    """Return the calibrated probability of a class for a vector."""
    fitted: Any = model.fitted_
    classifier = fitted.ensemble[0].classifier
    return float(softmax(classifier.scores(vector[None]) / fitted.temperature, axis=1)[0, column])


def test_paths_are_deleted_from_the_vector_of_the_classifier() -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, label_propagation=False, validation_fraction=0.0).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    node = 1  # its neighbors differ in degree
    curves = model.faithfulness([node], fractions=[0.0, 0.5, 1.0], repeats=3)
    column = int(model.predict_proba([node])[0].argmax())
    vector = used_vectors(model)[node] / model.fitted_.vector_scales[0]  # type: ignore[attr-defined]
    assert curves.deletion[0, 0] == pytest.approx(probability(model, vector, column), abs=1e-5)
    constant = model.explainer(0).score_function.offset
    assert curves.deletion[0, -1] == pytest.approx(probability(model, constant, column), abs=1e-5)
    np.testing.assert_allclose(curves.insertion[:, ::-1][:, [0, -1]], curves.deletion[:, [0, -1]], atol=1e-6)
    # Half of the paths, those with the largest contributions, are deleted.
    every = sorted(model.explain(node, top=1000), key=lambda path: -path.contribution)
    deleted = every[: round(len(every) / 2)]
    inputs = model.explainer(0).score_function.inputs
    coefficients = {each.path: _coefficient(model, each.path) for each in every}
    rest = vector - sum(coefficients[each.path] * inputs[each.path[-1]] for each in deleted)
    assert curves.deletion[0, 1] == pytest.approx(probability(model, rest, column), abs=1e-5)
    # By weight, cut where no two paths have the same weight.
    order = sorted(coefficients, key=lambda path: -coefficients[path])
    cut = next(k for k in range(2, len(order)) if coefficients[order[k - 1]] > coefficients[order[k]] + 1e-6)
    assert set(order[:cut]) != {each.path for each in every[:cut]}
    rest = vector - sum(coefficients[path] * inputs[path[-1]] for path in order[:cut])
    curves = model.faithfulness([node], fractions=[cut / len(order)])
    assert curves.by_weight_deletion[0, 0] == pytest.approx(probability(model, rest, column), abs=1e-5)


@pytest.mark.parametrize(("multilabel", "label_propagation"), [(False, True), (True, False)])
def test_with_all_paths_the_probability_is_that_of_predict_proba(multilabel: bool, label_propagation: bool) -> None:
    both = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 2]).astype(int)
    nodes = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    y, validation = (both * mask[:, None] if multilabel else np.where(mask, TRUE_LABELS, -1) for mask in nodes)
    model = quick_cge("degree", classifier="mlp", hops=1, label_propagation=label_propagation, max_epochs=15)
    model.fit(with_sparse_features(two_groups()), y, validation)
    fitted: Any = model.fitted_
    assert len(fitted.ensemble) == 1
    for temperature in (fitted.temperature, 0.4, 3.0):
        fitted.calibration = replace(fitted.calibration, temperature=temperature)
        model._explainers.clear()
        curves = model.faithfulness([2, 8, 31], fractions=[0.0, 1.0])
        confidence = model.predict_proba([2, 8, 31]).max(1)
        np.testing.assert_allclose(curves.deletion[:, 0], confidence, atol=1e-5)
        np.testing.assert_allclose(curves.random_insertion[:, 1], confidence, atol=1e-5)


@pytest.mark.parametrize("label_propagation", [False, True])
@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_without_deletion_a_curve_is_the_prediction(kind: str, label_propagation: bool) -> None:
    values = 40 + 10.0 * TRUE_LABELS + np.arange(40) / 10
    several = np.column_stack([TRUE_LABELS == 0, np.arange(40) % 2]).astype(int)
    labeled, nodes = np.arange(40) % 3 != 2, [2, 8, 32]
    y: Any = several * labeled[:, None] if kind == "multilabel" else np.where(labeled, values, np.nan)
    task = "regression" if kind == "regression" else "classification"
    options = {"label_propagation": label_propagation, "validation_fraction": 0.0, "max_epochs": 15, "task": task}
    model = quick_cge("degree", classifier="mlp", hops=1, **options).fit(with_sparse_features(two_groups()), y)
    curves, predicted = model.faithfulness(nodes, fractions=[0.0, 0.5, 1.0]), model.predict(nodes)
    if kind == "multilabel":
        top = model.predict_proba(nodes).argmax(1)
        assert ((curves.deletion[:, 0] > 0.5) == predicted[np.arange(3), top]).all()
        predicted = model.predict_proba(nodes)[np.arange(3), top]
    assert curves.deletion[:, 0] == pytest.approx(predicted, rel=1e-5)
    assert curves.by_weight_insertion[:, 2] == pytest.approx(predicted, rel=1e-5)
    assert (np.abs(curves.deletion[:, 2] - predicted) > 1e-4).all()
    assert curves.deletion[:, 2] == pytest.approx(curves.insertion[:, 0], rel=1e-5)


def test_with_two_classifiers_the_probability_is_that_of_one() -> None:
    model = quick_cge("degree", classifier="mlp", n_estimators=2, hops=1, validation_fraction=0.0, max_epochs=8).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    first, second = (model.faithfulness([7], fractions=[0.0], classifier=index).deletion[0, 0] for index in (0, 1))
    assert first != second
    assert (first + second) / 2 == pytest.approx(
        model.predict_proba([7]).max(), abs=1e-5
    )  # no validation labels, so no calibration


def _coefficient(model: cge.CGE, path: tuple[int, ...]) -> float:
    """Return the coefficient of a path of a model with one hop: both lengths have weight ½."""
    return float(0.5 * np.prod([_edge_weight(model, u, v) for u, v in pairwise(path)]))


def _edge_weight(model: cge.CGE, u: int, v: int) -> float:
    """Return s of an edge with symmetric normalization: every node also has a self-loop."""
    degrees = model.graph_.degrees + 1
    return float(1 / np.sqrt(degrees[u] * degrees[v]))


@pytest.mark.filterwarnings("ignore:path weights are nearly constant")
@pytest.mark.parametrize(
    "estimator",
    [
        quick_cge("edges+hops", classifier="mlp", hops=2, max_epochs=40),
        quick_cge("average", classifier="consistency", hops=2, max_epochs=40),
        paper_cge("transductive", "average", dim=8, window=3, walk_length=5),
        paper_cge("inductive", "uniform", dim=8, window=3, walk_length=5),
    ],
    ids=["edges+hops", "average", "transductive", "inductive"],
)
def test_explanations_are_better_than_random(estimator: Any) -> None:
    model = clone(estimator).set_params(validation_fraction=0.0)
    model.fit(with_sparse_features(two_groups()), partial_labels(TRUE_LABELS, 2))
    curves = model.faithfulness(model.node_ids_[::5])
    assert curves.fractions.tolist() == list(FRACTIONS)
    assert curves.deletion.shape == (8, len(FRACTIONS))
    down, up = curves.gaps
    assert down.mean() > 0
    assert up.mean() > 0
    assert np.mean(down > 0) > 0.8
    again = model.faithfulness(model.node_ids_[::5])
    np.testing.assert_array_equal(again.random_deletion, curves.random_deletion)
    assert model.faithfulness([]).deletion.shape == (0, len(FRACTIONS))
    few = model.faithfulness([3], max_paths=2, fractions=[0.0, 1.0])
    assert few.deletion[0, 0] == pytest.approx(few.random_deletion[0, 0], abs=1e-6)


def test_curves_of_values_have_columns_for_large_numbers() -> None:
    values = np.array([[123456.0, -98765.4]])
    lines = str(Faithfulness(np.array([0.0, 1.0]), *[values] * 6, texts=Regression.texts)).splitlines()
    assert lines[0] == "predicted value, mean of 1 nodes"
    assert lines[2].split() == ["deletion", "1.235e+05", "-9.877e+04"]
    assert not any("probability" in line or "class" in line for line in lines)


def test_faithfulness_prints_the_mean_curves() -> None:
    low, high = np.array([[0.8, 0.2], [0.6, 0.2]]), np.array([[0.8, 0.4], [0.6, 0.4]])
    curves = Faithfulness(np.array([0.0, 1.0]), low, high, high, low, high, low)
    assert repr(curves) == "Faithfulness(2 nodes, 2 fractions)"
    lines = str(curves).splitlines()
    assert lines[:3] == [
        "probability of the predicted class, mean of 2 nodes",
        "fraction of paths         0     1",
        "deletion               0.70  0.20",
    ]
    assert [line.split()[0] for line in lines[3:8]] == [
        "by_weight_deletion",
        "random_deletion",
        "insertion",
        "by_weight_insertion",
        "random_insertion",
    ]
    assert lines[8] == "mean area from the curves in random order: deletion +0.100, insertion +0.100"
    assert len(lines) == 10
    empty = Faithfulness(np.array([0.0]), *[np.empty((0, 1))] * 6)
    assert len(str(empty).splitlines()) == 2
