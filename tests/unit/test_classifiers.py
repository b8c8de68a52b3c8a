"""Classifiers against their formulas, and the registry of classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.models.classifiers import LogisticClassifier, MLPClassifier, SparseClassifier
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting, make_edge_inputs
from cge.models.hidden_layer import hidden_units
from cge.models.propagation import FixedPropagation, TransitionMatrix
from cge.models.sparse_products import SparseFeatures
from cge.training.classifier_registry import CLASSIFIERS, ClassifierSettings, ClassifierSpec
from cge.training.torch_state import seeded
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features


def test_the_mlp_has_two_layers() -> None:
    with seeded(0, "classifier"):
        classifier = MLPClassifier(5, 4, 3)
    random = np.random.default_rng(0)
    inputs, vectors = random.normal(size=(6, 5)), random.normal(size=(6, 4))
    weight, score, shift = (
        part.detach().double().numpy() for part in (classifier.weight, classifier.score.weight, classifier.score.bias)
    )
    x, e = (torch.from_numpy(array.astype(np.float32)) for array in (inputs, vectors))
    np.testing.assert_allclose(classifier.project(x).detach(), inputs @ weight, atol=1e-5)
    hidden = np.maximum(vectors, 0)
    np.testing.assert_allclose(classifier.scores(e).detach(), hidden @ score.T + shift, atol=1e-5)
    dropped = classifier.dropped_scores(e - classifier.bias, 0.0, random)
    np.testing.assert_allclose(dropped.detach(), hidden @ score.T + shift, atol=1e-5)
    key = np.random.default_rng(3).integers(2**64, dtype=np.uint64)
    mask = hidden_units(torch.ones(6, 4), torch.zeros(4), 0.5, key).numpy()
    dropped = classifier.dropped_scores(e - classifier.bias, 0.5, np.random.default_rng(3))
    np.testing.assert_allclose(dropped.detach(), hidden * mask @ score.T + shift, atol=1e-5)


def test_the_sparse_classifier_standardizes_features() -> None:
    random = np.random.default_rng(0)
    features = random.random((6, 5)).astype(np.float32)
    center, spread = features.mean(0), features.std(0)
    with seeded(0, "classifier"):
        classifier = SparseClassifier(torch.from_numpy(center), torch.from_numpy(spread), 3)
    with torch.no_grad():
        classifier.relevance.copy_(torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5]))
        classifier.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], num_nodes=6)
    transitions = TransitionMatrix(graph)
    adjacency = graph.to_scipy().toarray() + np.eye(6)
    walk = adjacency / adjacency.sum(1, keepdims=True)
    uniform = EdgeWeighting([0.0] * 4, 0.0, 0.0, [1.0])
    values = EdgePropagation(transitions, make_edge_inputs(graph, transitions)[0], uniform).normalized_weights()
    propagation = FixedPropagation(transitions, values, [0.25, 0.75])
    expected = (0.25 * np.eye(6) + 0.75 * walk) @ ((features.astype(float) - center) / spread)
    expected = expected * [1.0, 0.0, 2.0, -1.0, 0.5] @ classifier.weight.detach().double().numpy() + [0.1, 0.2, 0.3]
    for inputs in (torch.from_numpy(features), SparseFeatures(sp.csr_array(features))):
        with torch.no_grad():
            scores = classifier.scores(propagation(classifier.project(inputs)) + classifier.offset())
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "sparse", "logistic"])
def test_arrays_and_tensors_have_the_same_scores_and_gradients(kind: str) -> None:
    """Predictions and explanations compute with NumPy, training with PyTorch."""
    random = np.random.default_rng(1)
    statistics = (torch.from_numpy(random.random(5) + 0.5) for _ in range(2))
    classifier: Any = LogisticClassifier(5, 3) if kind == "logistic" else MLPClassifier(5, 4, 3)
    classifier = (SparseClassifier(*statistics, 3) if kind == "sparse" else classifier).double()
    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.copy_(torch.from_numpy(random.normal(size=parameter.shape)))
    fixed, inputs = classifier.fixed(), random.normal(size=(6, 5))
    projected = classifier.project(torch.from_numpy(inputs))
    np.testing.assert_allclose(fixed.project(inputs), projected.detach(), rtol=1e-13)
    np.testing.assert_allclose(fixed.project(SparseFeatures(sp.csr_array(inputs))), projected.detach(), rtol=1e-13)
    at = (projected + classifier.offset()).detach().requires_grad_()
    scores = classifier.scores(at)
    np.testing.assert_allclose(fixed.project(inputs) + fixed.offset, at.detach(), rtol=1e-13)
    np.testing.assert_allclose(fixed.scores(at.detach().numpy()), scores.detach(), rtol=1e-13)
    assert float(fixed.label_weight) == classifier.label_weight.item()
    outputs = {"mlp": {"output_weight", "output_bias"}, "logistic": {"output_bias"}, "sparse": set()}
    assert fixed.arrays().keys() - {"projection", "offset", "label_weight"} == outputs[kind]
    for classes in (2, np.array([0, 1, 2, 2, 1, 0])):
        (expected,) = torch.autograd.grad(scores[np.arange(6), classes].sum(), at, retain_graph=True)
        np.testing.assert_allclose(fixed.gradients(at.detach().numpy(), classes), expected, rtol=1e-13)


# ---------------------------------------------------------------------- the registry


@pytest.fixture
def registered() -> Iterator[str]:
    """A classifier that is registered as a user would do it."""
    settings = ClassifierSettings(n_augmentations=2, drop_node=0.3, max_epochs=30, warmup_epochs=2, rampup_epochs=3)
    text = "has a consistency loss between two augmentations"
    spec = cge.ClassifierSpec("two-views", text, settings=settings, evaluate_after=10)
    cge.register_classifier(spec)
    yield "two-views"
    del CLASSIFIERS["two-views"]


def test_a_registered_classifier_is_trained_and_stored(registered: str, tmp_path: Path) -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier=registered, label_propagation=False, max_epochs=100)
    model.fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.classifiers_ == [registered]
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.8
    model.save(tmp_path / "model")
    assert np.array_equal(cge.load(tmp_path / "model").predict_proba(), model.predict_proba())


def test_the_model_search_compares_a_registered_classifier(registered: str) -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", label_propagation=False).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    compared = [row["classifier"] for row in model.search_results_]
    assert compared[:6] == ["mlp", "consistency", "sparse", "logistic", "logistic-unit", registered]


def test_names_and_dependencies_are_checked() -> None:
    for name in ("mlp", "auto"):
        with pytest.raises(cge.CgeError, match=f"there is a classifier '{name}' already"):
            cge.register_classifier(ClassifierSpec(name, "is new"))
    with pytest.raises(cge.CgeError, match="'mine' depends on 'other', which does not exist"):
        cge.register_classifier(ClassifierSpec("mine", "is new", refines="other"))
