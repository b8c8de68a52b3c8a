"""Logistic regression on propagated inputs: against other implementations, and as a classifier of the encoder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import cge
from cge.models.classifiers import LogisticClassifier
from cge.models.propagation import propagated_lengths
from cge.targets import Regression, Task, class_target
from cge.training.logistic_training import C_VALUES, LogisticTrainer
from tests.fixtures import (
    TRAIN_NODES,
    VALIDATION_NODES,
    labels_at,
    quick_cge,
    two_groups,
    used_vectors,
    with_sparse_features,
)

NODES = torch.arange(30)
NAMES = ("logistic", "logistic-unit")


def trainer(labels: Any, features: int, target: Any = None, **options: Any) -> LogisticTrainer:
    """Return a trainer on 30 training nodes with random inputs."""
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=(30, features)).astype(np.float32))
    classes = labels.shape[1] if labels.ndim == 2 else 1 if target is not None else int(labels.max()) + 1
    target = class_target(labels, np.arange(classes)) if target is None else target
    task = Task(two_groups(), None, torch.from_numpy(labels), target, NODES, NODES[:0])
    return LogisticTrainer(task, rows, LogisticClassifier(features, classes), **options)


def penalty(made: LogisticTrainer, number: int) -> float:
    return C_VALUES[number] / float(made.rows.double().square().sum(1).mean())


@pytest.mark.parametrize("features", [4, 50])  # fewer and more than labels
@pytest.mark.parametrize("balanced", [False, True])
def test_the_minimum_is_that_of_scikit_learn(features: int, balanced: bool) -> None:
    labels = np.random.default_rng(0).integers(0, 3, 40)
    weights = torch.tensor([0.5, 1.0, 2.0]) if balanced else None
    made = trainer(labels, features, class_weights=weights)
    made.run(4)
    rows, sample_weights = made.rows.double().numpy(), None
    scale = 1.0
    if weights is not None:
        sample_weights = weights.numpy()[labels[:30]]
        scale = len(NODES) / float(sample_weights.sum())  # the loss is a weighted mean
    expected = LogisticRegression(C=penalty(made, 3) * scale, tol=1e-10, max_iter=5000)
    expected.fit(rows, labels[:30], sample_weight=sample_weights)
    np.testing.assert_allclose(made.classifier.weight.detach().numpy(), expected.coef_.T, atol=1e-3)
    with torch.no_grad():
        probabilities = torch.softmax(made.best_scores(NODES), 1).numpy()
    np.testing.assert_allclose(probabilities, expected.predict_proba(rows), atol=1e-4)


def test_multilabel_is_one_logistic_regression_for_each_class() -> None:
    labels = np.random.default_rng(0).integers(0, 2, (40, 3))
    made = trainer(labels, 4)
    made.run(3)
    for column in range(3):
        expected = LogisticRegression(C=penalty(made, 2), tol=1e-10).fit(
            made.rows.double().numpy(), labels[:30, column]
        )
        np.testing.assert_allclose(made.classifier.weight[:, column].detach().numpy(), expected.coef_[0], atol=1e-3)


def test_numbers_are_predicted_by_ridge_regression() -> None:
    values = np.random.default_rng(0).normal(5, 2, 40)
    target = Regression(np.array(["value"]), float(values.mean()), float(values.std()))
    made = trainer(values, 4, target)
    made.run(2)
    rows, y = made.rows.double().numpy(), (values[:30] - target.mean) / target.std
    x = rows - rows.mean(0)
    ridge = np.linalg.solve(x.T @ x + np.eye(4) / (2 * penalty(made, 1)), x.T @ (y - y.mean()))
    np.testing.assert_allclose(made.classifier.weight[:, 0].detach().numpy(), ridge, atol=1e-4)


def test_propagated_labels_have_one_coefficient() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 40)
    scores = torch.zeros(40, 2)
    scores[:, 1] = torch.from_numpy(labels + np.random.default_rng(2).normal(0, 2, 40)).float()
    made = trainer(labels, 4, label_scores=scores)
    made.run(2)
    errors = torch.softmax(made.best_scores(NODES), 1).double().numpy() - np.eye(2)[labels[:30]]
    assert float((errors * scores[:30].numpy()).sum()) == pytest.approx(0, abs=1e-3)  # the gradient, without a penalty
    gradient = made.rows.double().numpy().T @ errors
    weight = made.classifier.weight.detach().double().numpy()
    np.testing.assert_allclose(gradient, -weight / penalty(made, 1), atol=1e-3)


@cache
def fitted(name: str) -> cge.CGE:
    graph = with_sparse_features(two_groups())
    return quick_cge("degree", classifier=name, label_propagation=False).fit(
        graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES)
    )


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_linear_in_propagated_inputs(name: str) -> None:
    model: Any = fitted(name)
    data, (trained,) = model.fitted_.data, model.fitted_.ensemble
    matrix = trained.weighting.propagation(data).matrix.csr.toarray().astype(np.float64)
    inputs = data.inputs("l2").csr.toarray().astype(np.float64)
    rows = sum(np.linalg.matrix_power(matrix, hop) @ inputs for hop in range(5)) / 5
    lengths = np.linalg.norm(rows, axis=1)
    nodes = np.arange(40)
    actual = propagated_lengths(trained.weighting.propagation(data), data.inputs("l2"), nodes)
    np.testing.assert_allclose(actual, lengths, rtol=1e-5)
    if name == "logistic-unit":
        rows /= lengths[:, None]
    scores = rows @ trained.classifier.projection + trained.classifier.output_bias
    expected = torch.softmax(torch.from_numpy(scores) / model.fitted_.temperature, 1)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_explanations_add_up(name: str) -> None:
    model: Any = fitted(name)
    (trained,) = model.fitted_.ensemble
    for node in (3, 25):
        explanation = model.explain(node)
        known = model.fitted_.inputs(None, np.array([node]))
        scores = known.class_scores([trained])[0][0]
        np.testing.assert_allclose(explanation.scores, scores, atol=1e-5)
        parts = explanation.constant + explanation.by_hop.sum(0) + explanation.label_propagation
        np.testing.assert_allclose(parts, scores, atol=1e-5)
        np.testing.assert_allclose(explanation.constant, trained.classifier.output_bias, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_model_predicts_the_same_also_for_another_graph(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path)
    again = cge.load(tmp_path)
    assert again.predict_proba().tobytes() == model.predict_proba().tobytes()
    copy = with_sparse_features(two_groups())
    np.testing.assert_allclose(again.predict_proba(graph=copy), model.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(again.transform(copy), model.embedding_, atol=1e-6)
    assert used_vectors(model).shape == (40, 2)


def test_a_stopped_path_of_penalties_continues_to_the_same_bytes() -> None:
    labels = np.random.default_rng(0).integers(0, 3, 40)
    whole, first, second = (trainer(labels, 50) for _ in range(3))
    whole.run()
    first.run(3)
    second.load(first.state())
    second.run()
    assert len(second.epochs) == len(C_VALUES)
    assert second.best_scores(NODES).numpy().tobytes() == whole.best_scores(NODES).numpy().tobytes()
    with pytest.raises(ValueError, match="only training and validation nodes"):
        whole.best_scores()


def test_the_search_compares_logistic_regression() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", label_propagation=False).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
    assert {*NAMES, "mlp"} < {row["classifier"] for row in model.search_results_}
