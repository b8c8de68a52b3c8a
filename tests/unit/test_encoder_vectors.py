"""Vectors of `CGE`: they carry all that predictions depend on, and nothing is predicted where nothing is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import softmax

import cge
from cge.estimators.baselines import classify_vectors
from cge.estimators.classifier import task_labels
from cge.estimators.classifier_inputs import NEIGHBORHOOD_DIM
from cge.estimators.predictions import EVIDENCE, predict_nodes
from cge.targets.classification import _SMOOTHING
from tests.fixtures import (
    GROUP_SIZE,
    TRAIN_NODES,
    TRUE_LABELS,
    VALIDATION_NODES,
    labels_at,
    multilabel_targets,
    quick_cge,
    two_groups,
    used_vectors,
    with_sparse_features,
)

NODES = 2 * GROUP_SIZE
CLASSIFIERS = ("mlp", "consistency", "sparse", "distilled")
MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"classifier": "mlp", "label_propagation": False},
    "mlp with labels": {"classifier": "mlp", "label_propagation": True},
    "linear": {"classifier": "sparse", "label_propagation": True},
    "distilled": {"classifier": "distilled"},
    "several": {"classifier": "mlp", "label_propagation": True, "n_estimators": 3},
}


def fitted(name: str, features: bool = True, labels: Any = TRUE_LABELS) -> cge.CGE:
    graph = two_groups(features=False)
    graph = with_sparse_features(graph) if features else graph
    y, validation = labels_at(TRAIN_NODES, labels), labels_at(VALIDATION_NODES, labels)
    return quick_cge("degree", **MODELS[name]).fit(graph, y, validation)


def dense_powers(graph: cge.Graph, hops: int) -> Any:
    """Return Σ_k M^k for 1 … `hops`, with M = D^-½ (A + I) D^-½."""
    adjacency = graph.to_scipy().toarray().astype(np.float64) + np.eye(len(graph))
    scale = 1 / np.sqrt(adjacency.sum(1))
    matrix = scale[:, None] * adjacency * scale
    return [np.linalg.matrix_power(matrix, k) for k in range(hops + 1)]


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_a_function_of_the_vectors(name: str, features: bool) -> None:
    model = fitted(name, features)
    fit, rest, outputs = model.fitted_, used_vectors(model).astype(np.float64), []
    parts = []
    for scale, (_, classifier, _, _) in zip(fit.vector_scales, fit.ensemble, strict=True):
        width = len(classifier.offset)
        parts.append(rest[:, :width] / scale)
        rest = rest[:, width:]
    assert rest.shape[1] == (2 if model.label_propagation_ else 0)
    weights = [classifier.label_weight.item() for _, classifier, _, _ in fit.ensemble]
    scores_of = [classifier.scores(part) for part, (_, classifier, _, _) in zip(parts, fit.ensemble, strict=True)]
    for scores, weight in zip(scores_of, weights, strict=True):
        if model.label_propagation_:  # the logs of their squares, less what the inputs give, are the label scores
            scores = scores + weight * (2 * np.log(rest) - np.mean(scores_of, axis=0)) / np.mean(weights)
        outputs.append(torch.softmax(torch.from_numpy(scores), dim=1).numpy())
    expected = fit.target.scale(np.mean(outputs, axis=0), fit.temperature)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-5)


def test_the_last_numbers_are_roots_of_probabilities_with_propagated_labels_but_the_own_one() -> None:
    model = fitted("mlp with labels", features=False)
    total = np.sum(dense_powers(model.graph_, 10), axis=0)  # M^0 … M^10
    labels = np.zeros((NODES, 2))
    labels[TRAIN_NODES, TRUE_LABELS[TRAIN_NODES]] = 1
    sums = (total - np.diag(np.diag(total))) @ labels
    share = sums / sums.sum(1, keepdims=True)
    ((_, classifier, _, _),), (scale,) = model.fitted_.ensemble, model.fitted_.vector_scales
    label_scores = np.log(((1 - _SMOOTHING) * share + _SMOOTHING / 2) * 2)
    used = used_vectors(model).astype(np.float64)
    scores = classifier.scores(used[:, :-2] / scale) + classifier.label_weight.item() * label_scores
    np.testing.assert_allclose(used[:, -2:], np.sqrt(softmax(scores, axis=1)), rtol=1e-4, atol=1e-4)


def test_the_rest_is_a_projection_of_the_propagated_inputs() -> None:
    model = fitted("mlp with labels")
    features: Any = model.graph_.features
    rows = features.toarray().astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    propagated = np.mean(dense_powers(model.graph_, model.hops), axis=0) @ rows
    propagated /= np.linalg.norm(propagated, axis=1, keepdims=True)
    lengths = np.linalg.norm(used_vectors(model).astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(model.embedding_[:, -12:], 0.35 * lengths * propagated, atol=1e-5)
    plain = fitted("mlp", features=False)  # walk vectors of 128 numbers
    assert plain.embedding_.shape[1] == used_vectors(plain).shape[1] + NEIGHBORHOOD_DIM


def variance(values: Any) -> float:
    return float(np.square(values - values.mean(0)).sum(1).mean())


def test_a_part_varies_as_much_as_the_scores_it_gives() -> None:
    model = fitted("mlp")
    ((_, classifier, _, _),), (scale,) = model.fitted_.ensemble, model.fitted_.vector_scales
    part = used_vectors(model).astype(np.float64)
    np.testing.assert_allclose(variance(part), variance(classifier.scores(part / scale)), rtol=1e-4)


def test_parts_vary_less_than_the_class_coordinates_where_labels_are_propagated() -> None:
    model = fitted("several")
    used = used_vectors(model).astype(np.float64)
    np.testing.assert_allclose(variance(used[:, :-2]), 0.25**2 * variance(used[:, -2:]), rtol=1e-4)


def test_a_node_that_is_alone_in_its_class_has_no_label_scores_but_what_was_learned_of_it() -> None:
    labels = np.where(np.arange(NODES) == 8, 2, TRUE_LABELS)
    model = fitted("mlp with labels", labels=labels)
    inputs = model.fitted_.own_inputs
    assert not inputs.label_scores[8].any()
    assert inputs.label_scores[[0, 4, 12]].any(axis=1).all()
    explanation = model.explain(8)
    assert not explanation.label_propagation.any()
    parts = explanation.constant + explanation.label_propagation + explanation.by_hop.sum(0) + explanation.remainder
    np.testing.assert_allclose(parts, explanation.scores, atol=1e-5)


def test_vectors_alone_are_as_accurate_as_the_model_where_labels_are_propagated() -> None:
    model = fitted("mlp with labels", features=False)
    labels = task_labels(model.graph_, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
    alone = classify_vectors(model.embedding_, labels)[0].argmax(1)
    test = np.setdiff1d(np.arange(NODES), [*TRAIN_NODES, *VALIDATION_NODES])
    assert (alone[test] == TRUE_LABELS[test]).mean() >= model.score(test, TRUE_LABELS[test]) - 0.01


@pytest.mark.parametrize("name", ["mlp with labels", "linear"])
def test_vectors_of_a_larger_graph_and_of_a_stored_model(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    graph = model.graph_
    edges = [*np.stack(graph.to_scipy().nonzero(), axis=1).tolist(), [NODES, 3], [NODES, 5]]
    features: Any = sp.vstack([graph.features, sp.csr_array((1, 12), dtype=np.float32)])
    vectors = model.transform(cge.Graph.from_edges(edges, num_nodes=NODES + 1, features=sp.csr_array(features)))
    assert vectors.shape == (NODES + 1, model.embedding_.shape[1])
    assert vectors[NODES, -14] > vectors[NODES, -13]  # its neighbors are in the first group
    model.save(tmp_path / "model")
    assert np.array_equal(cge.load(tmp_path / "model").embedding_, model.embedding_)


# ---------------------------------------------------------------------- nodes without information


def isolated(features: bool) -> cge.Graph:
    """Two groups and a node without edges and features."""
    edges = np.stack(two_groups(features=False).to_scipy().nonzero(), axis=1)
    rows: Any = with_sparse_features(two_groups(features=False)).features
    rows = sp.csr_array(sp.vstack([rows, sp.csr_array((1, 12), dtype=np.float32)]))
    return cge.Graph.from_edges(edges, num_nodes=NODES + 1, features=rows if features else None)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("features", [True, False])
def test_a_node_without_information_has_the_class_prior(classifier: str, features: bool) -> None:
    y = labels_at(TRAIN_NODES[:7])  # five of the first group, two of the second
    propagation = classifier == "distilled"
    model = quick_cge("degree", classifier=classifier, label_propagation=propagation, validation_fraction=0.0)
    model.fit(isolated(features), np.append(y, -1))
    np.testing.assert_allclose(model.predict_proba([NODES]), [[5 / 7, 2 / 7]], rtol=1e-6)
    predictions, _ = predict_nodes(model, [NODES, 0])
    assert [EVIDENCE[number] for number in predictions.evidence] == ["no information", "training graph"]


def test_no_information_in_a_multilabel_task_and_in_regression() -> None:
    graph, labels = isolated(False), multilabel_targets()[:, :3]
    y = np.vstack([labels_at(TRAIN_NODES, labels), np.zeros((1, 3), int)])
    model = quick_cge("degree", classifier="mlp", validation_fraction=0.0, inputs="learned").fit(graph, y)
    np.testing.assert_allclose(model.predict_proba([NODES])[0], labels[TRAIN_NODES].mean(0), rtol=1e-6)
    values = {int(node): float(node) for node in TRAIN_NODES}
    regression = quick_cge("degree", classifier="mlp", task="regression", validation_fraction=0.0).fit(graph, values)
    np.testing.assert_allclose(regression.predict([NODES]), TRAIN_NODES.mean(), rtol=1e-6)
