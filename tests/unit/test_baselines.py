"""Baselines: what all node classifiers share, and each one against a dense form."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import cge
from cge.errors import FileFormatError, InputError, UnknownNodeError
from cge.estimators import baselines
from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation, PropagatedFeatures, WalkClassifier
from cge.estimators.classifier import BaselineClassifier, hold_out, task_labels
from cge.estimators.estimator import NotFittedError
from cge.estimators.graph_networks import APPNP, GCN
from cge.estimators.settings import settings_of
from cge.store import read_folder, write_folder
from tests.fixtures import (
    GROUP_SIZE,
    TRAIN_NODES,
    TRUE_LABELS,
    VALIDATION_NODES,
    groups_with_sparse_features,
    labels_at,
    multilabel_targets,
    normalized_adjacency,
    two_groups,
)

CLASSIFIERS: dict[str, BaselineClassifier] = {
    "features": FeatureClassifier(),
    "sgc": SGC(hops=3),
    "label propagation": LabelPropagation(),
    "label propagation, class mass": LabelPropagation(class_mass=True),
    "deepwalk": WalkClassifier(dim=8, walks_per_node=5),
    "node2vec": WalkClassifier("node2vec", features=True, dim=8, walks_per_node=5, p=0.5, q=2.0, random_state=3),
    "gcn": GCN(hidden=8, epochs=15, learning_rate=0.05),
    "appnp": APPNP(hops=3, alpha=0.2, hidden=8, epochs=15, learning_rate=0.05),
}
CLASSES = (FeatureClassifier, SGC, LabelPropagation, WalkClassifier, GCN, APPNP)


@pytest.fixture(params=list(CLASSIFIERS))
def model(request: pytest.FixtureRequest) -> BaselineClassifier:
    classifier: BaselineClassifier = clone(CLASSIFIERS[request.param])
    return classifier


# ---------------------------------------------------------------------- labels


def test_labels_in_every_form_have_the_same_codes() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("c", "d")], node_ids=["a", "b", "c", "d", "e"])
    forms = (
        ({"b": "x", "c": "y"}, {"e": "x", "b": "y"}),
        ([None, "x", "y", None, None], {"e": "x"}),
        (np.array([None, "x", "y", None, None], object), np.array([None, "y", None, None, "x"], object)),
    )
    for y, validation in forms:
        labels = task_labels(graph, y, validation)
        assert labels.codes.tolist() == [-1, 0, 1, -1, 0]  # b is in both: it is for training, with its label in y
        assert labels.classes.tolist() == ["x", "y"]
        assert (labels.train.tolist(), labels.validation.tolist()) == ([1, 2], [4])
        assert labels.matrix(labels.train).tolist() == [[1, 0], [0, 1]]
        assert not labels.target.multilabel


def test_multilabel_codes() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("c", "d")], node_ids=["a", "b", "c", "d"])
    labels = task_labels(graph, {"a": ["x", "y"], "c": "z"}, {"d": ("y",), "a": ["z"]})
    assert labels.target.multilabel
    assert labels.codes.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert (labels.train.tolist(), labels.validation.tolist()) == ([0, 2], [3])
    matrix = task_labels(graph, [[1, 0], [0, 0], [1, 1], [-1, -1]])
    assert (matrix.train.tolist(), matrix.validation.tolist()) == ([0, 2], [])
    assert matrix.classes.tolist() == [0, 1]


def test_labels_are_not_changed_in_place() -> None:
    y = labels_at(TRAIN_NODES)
    before = y.copy()
    labels = task_labels(groups_with_sparse_features(), y, labels_at(VALIDATION_NODES))
    assert np.array_equal(y, before)
    assert np.array_equal(labels.codes, labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES]))


@pytest.mark.parametrize(
    ("y", "validation", "message"),
    [
        ([-1, -1, -1, -1], None, "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({0: "a", 2: "a"}, None, "y must hold at least two classes, found only 'a'"),
        ({0: 0, 1: 1}, {2: [0, 1]}, "y and validation must have the same form: one label for each node, or several"),
        (
            {0: 0, 1: 1},
            {1: 1, 0: 0},
            "every node of validation also has a label in y, so no validation labels remain",
        ),
        ({0: "a", 1: "b"}, {7: "b"}, "node 7 in validation is not in the graph (ids look like 0, 1)"),
    ],
)
def test_wrong_labels(y: Any, validation: Any, message: str) -> None:
    graph = cge.Graph.from_edges([(0, 1), (2, 3)])
    with pytest.raises(InputError) as caught:
        LabelPropagation().fit(graph, y, validation)
    assert str(caught.value) == message


def test_only_graphs_are_accepted() -> None:
    with pytest.raises(InputError) as caught:
        FeatureClassifier().fit(np.eye(3), [0, 1, 0])  # type: ignore[arg-type]
    assert (
        str(caught.value)
        == "fit takes a cge.Graph, found a numpy.ndarray; build a graph with Graph.from_edges or Graph.from_scipy"
    )


# ---------------------------------------------------------------------- what all classifiers share


def test_every_classifier_predicts(model: BaselineClassifier) -> None:
    graph = groups_with_sparse_features()
    names = np.array(["left", "right"])[TRUE_LABELS]
    ids = np.array([f"n{node}" for node in range(2 * GROUP_SIZE)], object)
    graph = cge.Graph.from_codes(*graph.to_scipy().nonzero(), ids, directed=True).with_features(graph.features)
    y, validation = ({ids[node]: names[node] for node in nodes} for nodes in (TRAIN_NODES, VALIDATION_NODES))
    assert model.fit(graph, y, validation) is model
    assert model.classes_.tolist() == ["left", "right"]
    assert model.node_ids_.tolist() == ids.tolist()
    assert model.labels_seen_ == {"train": 10, "outer": 0, "validation": 10}
    probabilities = model.predict_proba()
    assert (probabilities.shape, probabilities.dtype) == ((40, 2), np.float32)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(model.predict(), model.classes_[probabilities.argmax(axis=1)])
    three = ["n33", "n2", "n17"]
    assert np.array_equal(model.predict_proba(three), probabilities[[33, 2, 17]])
    assert model.predict(three).tolist() == model.predict()[[33, 2, 17]].tolist()
    assert model.score(ids, names) == np.mean(model.predict() == names) > 0.8
    assert model.score(three, ["left", "right", "right"]) == np.mean(model.predict(three) == ["left", "right", "right"])
    with pytest.raises(UnknownNodeError, match="node 'n99' is not in the graph"):
        model.predict(["n99"])
    with pytest.raises(InputError, match=r"labels must have shape \(3,\), like the predictions, found shape \(2,\)"):
        model.score(three, ["left", "left"])
    documented = re.findall(r"^(\w+_) : ", str(type(model).__doc__), re.MULTILINE)
    assert sorted(documented) == sorted(name for name in vars(model) if name.endswith("_"))


def test_without_validation_labels_a_fifth_selects_and_is_then_used(model: BaselineClassifier) -> None:
    graph, y = groups_with_sparse_features(), labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES])
    refitted = clone(model).fit(graph, y)
    assert refitted.labels_seen_ == {"train": 20, "outer": 0, "validation": 4}
    seed = model.get_params().get("random_state", 0)
    train_idx, validation_idx = hold_out(y, np.sort(np.r_[TRAIN_NODES, VALIDATION_NODES]), 0.2, seed)
    assert len(validation_idx) == 4
    by_hand, labels = clone(model), task_labels(graph, y)
    _, choice = by_hand._train(graph, replace(labels, train=train_idx, validation=validation_idx))
    probabilities, _ = by_hand._train(graph, replace(labels, choice=choice))
    assert probabilities.astype(np.float32).tobytes() == refitted.predict_proba().tobytes()
    fewer = clone(model).fit(graph, labels_at(train_idx), labels_at(validation_idx))  # four labels less for training
    assert fewer.predict_proba().tobytes() != refitted.predict_proba().tobytes()
    unlabeled = clone(model).fit(graph, y, np.full(40, -1))
    assert unlabeled.predict_proba().tobytes() == refitted.predict_proba().tobytes()


def test_few_labels_are_all_for_training(model: BaselineClassifier) -> None:
    model.fit(groups_with_sparse_features(), {0: 0, 5: 0, 25: 1})
    assert model.labels_seen_ == {"train": 3, "outer": 0, "validation": 0}
    assert np.isfinite(model.predict_proba()).all()


def test_nodes_without_edges_or_features(model: BaselineClassifier) -> None:
    graph = groups_with_sparse_features()
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    x = sp.csr_array(sp.vstack([graph.features, sp.csr_array((2, 24))]))
    graph = cge.Graph.from_edges(edges, features=x, num_nodes=42)
    y = np.r_[labels_at(TRAIN_NODES), 1, -1]  # one of the two has a label
    model.fit(graph, y, np.r_[labels_at(VALIDATION_NODES), -1, -1])
    probabilities = model.predict_proba()
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert model.score(range(40), TRUE_LABELS) > 0.8


def test_the_contract_of_scikit_learn(model: BaselineClassifier) -> None:
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(settings_of(type(model)))
    name = type(model).__name__
    calls: list[Any] = [model.predict, model.predict_proba, lambda: model.score([0], [0]), lambda: model.save("x")]
    for call in calls:
        with pytest.raises(NotFittedError, match=f"this {name} has not been trained yet; call fit first"):
            call()


@pytest.mark.parametrize("kind", CLASSES)
def test_every_setting_is_documented(kind: type) -> None:
    text = str(kind.__doc__)
    assert text.index("Parameters\n----------") < text.index("Attributes\n----------")
    for name, (_, setting, default) in settings_of(kind).items():
        first = f"{setting.help[0].upper()}{setting.help[1:]}".split()[:3]
        start = text.index(f"{name} : ")
        assert f", default={default!r}\n    {' '.join(first)}" in text[start:]


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (SGC(hops=0), "hops must be an integer from 1 to 100, found 0"),
        (LabelPropagation(class_mass="yes"), "class_mass must be True or False, found 'yes'"),  # type: ignore[arg-type]
        (WalkClassifier("line"), "vectors must be one of 'deepwalk', 'node2vec', found 'line'"),
        (GCN("features"), "append must be one of 'cge', 'cge-t', 'cge-i' or None, found 'features'"),
        (GCN(dropout=1.0), "dropout must be a number from 0 to 0.95, found 1.0"),
        (APPNP(alpha=0.0), "alpha must be a number above 0, at most 1, found 0.0"),
    ],
)
def test_illegal_values_name_the_setting_and_what_is_legal(classifier: BaselineClassifier, message: str) -> None:
    with pytest.raises(InputError) as caught:
        classifier.fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert str(caught.value) == message


# ---------------------------------------------------------------------- folders


@pytest.mark.parametrize("multilabel", [False, True])
def test_every_classifier_comes_back_from_its_folder(
    model: BaselineClassifier, multilabel: bool, tmp_path: Path
) -> None:
    graph = groups_with_sparse_features()
    names = [["left"], ["right", "odd"]] if multilabel else ["left", "right"]
    y: dict[int, Any] = {int(node): names[TRUE_LABELS[node]] for node in np.r_[TRAIN_NODES, VALIDATION_NODES]}
    model.fit(graph, y)
    model.save(tmp_path / "model")
    again = cge.load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.predict_proba().tobytes() == model.predict_proba().tobytes()
    assert again.predict([7, 31]).tolist() == model.predict([7, 31]).tolist()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.node_ids_.tolist() == model.node_ids_.tolist()
    assert again.labels_seen_ == model.labels_seen_
    assert again.score([0, 39], [names[0], names[1]]) == model.score([0, 39], [names[0], names[1]])
    if isinstance(model, WalkClassifier):
        assert again.embedding_.tobytes() == model.embedding_.tobytes()


@pytest.mark.parametrize(
    ("name", "array", "problem"),
    [
        ("probabilities", np.zeros((40, 3), np.float32), "the probabilities must be (40, 2) of float32"),
        ("probabilities", np.zeros((40, 2)), "the probabilities must be (40, 2) of float32"),
        ("embedding", np.zeros((40, 7), np.float32), "the vectors must be (40, 8) of float32"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(name: str, array: Any, problem: str, tmp_path: Path) -> None:
    WalkClassifier(dim=8).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES)).save(tmp_path)
    stored = read_folder(tmp_path)
    write_folder(tmp_path, stored.kind, stored.metadata, stored.arrays | {name: array})
    with pytest.raises(FileFormatError) as caught:
        cge.load(tmp_path)
    assert (
        str(caught.value)
        == f"{tmp_path}: this folder does not hold a complete WalkClassifier model ({problem}); save the model again"
    )


# ---------------------------------------------------------------------- multilabel tasks


def test_multilabel_predictions(model: BaselineClassifier) -> None:
    true = multilabel_targets()
    model.fit(groups_with_sparse_features(), labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    probabilities = model.predict_proba()
    assert probabilities.shape == (40, 5)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    predicted = model.predict()
    assert np.array_equal(predicted, (probabilities > 0.5).astype(int))
    expected = 2 * int((predicted & true).sum()) / (int(predicted.sum()) + int(true.sum()))
    assert model.score(range(40), true) == pytest.approx(expected)
    assert expected > 0.6
    assert probabilities[:, 3].mean() > probabilities[:, 2].mean() > probabilities[:, 4].mean()


# ---------------------------------------------------------------------- features, and propagated features


def unit(graph: cge.Graph) -> Any:
    x = np.asarray(graph.features.toarray() if sp.issparse(graph.features) else graph.features, np.float64)
    return x / np.maximum(np.sqrt((x * x).sum(axis=1, keepdims=True)), 1e-12)


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
@pytest.mark.parametrize("dense", [True, False])
def test_probabilities_are_those_of_the_best_regression(hops: int, dense: bool) -> None:
    """The gradient of the loss is zero at its minimum: w = C Σ_i x_i (y_i − p_i), with C = 10."""
    graph = groups_with_sparse_features(dense=dense)
    model = SGC(hops).fit(graph, {2: 0, 9: 0, 23: 1}) if hops else FeatureClassifier().fit(graph, {2: 0, 9: 0, 23: 1})
    x = np.linalg.matrix_power(normalized_adjacency(graph), hops) @ unit(graph)
    probabilities = model.predict_proba().astype(np.float64)
    train = [2, 9, 23]
    weights = 10 * x[train].T @ (np.array([0, 0, 1]) - probabilities[train, 1])
    bias = np.log(probabilities[:, 1] / probabilities[:, 0]) - x @ weights
    assert bias.std() < 2e-3 < 0.1 < (x @ weights).std()


@pytest.mark.parametrize("hops", [0, 2])
def test_validation_labels_select_the_strength_of_regularization(hops: int) -> None:
    graph = groups_with_sparse_features(seed=5)
    classifier: BaselineClassifier = SGC(hops) if hops else FeatureClassifier()
    x = np.linalg.matrix_power(normalized_adjacency(graph), hops) @ unit(graph)
    candidates = [
        LogisticRegression(C=strength, max_iter=1000).fit(x[TRAIN_NODES], TRUE_LABELS[TRAIN_NODES]).predict_proba(x)
        for strength in (0.1, 1.0, 10.0, 100.0, 1000.0)
    ]
    for seed in range(4):  # random labels, so that not always the same strength is the best
        labels = np.random.default_rng(seed).integers(0, 2, 40)
        correct = [each[VALIDATION_NODES].argmax(axis=1) == labels[VALIDATION_NODES] for each in candidates]
        model = clone(classifier).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES, labels))
        best = candidates[int(np.argmax(np.mean(correct, axis=1)))]
        np.testing.assert_allclose(model.predict_proba(), best, atol=2e-3)


def test_the_feature_classifier_ignores_edges() -> None:
    graph, y = groups_with_sparse_features(), labels_at(TRAIN_NODES)
    other = cge.Graph.from_edges([(0, 1)], features=graph.features)
    with_edges, without = (FeatureClassifier().fit(each, y).predict_proba() for each in (graph, other))
    assert with_edges.tobytes() == without.tobytes()
    assert SGC().fit(graph, y).predict_proba().tobytes() != SGC().fit(other, y).predict_proba().tobytes()


@pytest.mark.parametrize("classifier", [FeatureClassifier(), SGC(), WalkClassifier(features=True, dim=4)])
def test_features_are_needed(classifier: BaselineClassifier) -> None:
    with pytest.raises(InputError, match="this method needs node features, and the graph has none"):
        classifier.fit(two_groups(features=False), labels_at(TRAIN_NODES))


# ---------------------------------------------------------------------- label propagation


def propagate(graph: cge.Graph, labels: Any, alpha: float, iterations: int | None = None) -> Any:
    """Return (1−α) Σ_k α^k S^k Y, or the first iterations of F ← α S F + (1−α) Y, from F = Y."""
    adjacency = graph.to_scipy().toarray()
    degrees = np.outer(adjacency.sum(axis=1), adjacency.sum(axis=0))
    normalized = np.divide(adjacency, np.sqrt(degrees), out=np.zeros_like(adjacency), where=degrees > 0)
    if iterations is None:
        return (1 - alpha) * np.linalg.solve(np.eye(len(graph)) - alpha * normalized, labels)
    last = np.linalg.matrix_power(alpha * normalized, iterations)
    powers = (np.linalg.matrix_power(alpha * normalized, k) for k in range(iterations))
    return (1 - alpha) * sum(powers, np.zeros_like(normalized)) @ labels + last @ labels


def one_hot(nodes: Any, true: Any = TRUE_LABELS) -> Any:
    return np.eye(int(true.max()) + 1)[true] * np.isin(np.arange(len(true)), nodes)[:, None]


def weighted_ring(directed: bool = False) -> cge.Graph:
    """A ring with chords and weights; if directed, node 20 has no outgoing edge and node 21 no incoming one."""
    edges = [(i, (i + k) % 20) for i in range(20) for k in (1, 3)] + [(4, 20), (9, 20), (21, 5), (21, 6)]
    weights = np.random.default_rng(2).random(len(edges)) + 0.5
    return cge.Graph.from_edges(edges, weights=weights, directed=directed, num_nodes=23)


RING_LABELS = np.r_[np.arange(20) // 10, 1, 0, 1]
RING_TRAIN = np.array([0, 5, 12, 15, 17, 20])


@pytest.mark.parametrize("directed", [False, True])
def test_label_propagation_has_a_closed_form(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_ALPHAS", (0.5,))
    graph = weighted_ring(directed)
    y = labels_at(RING_TRAIN, RING_LABELS)
    probabilities = LabelPropagation().fit(graph, y, labels_at([1, 13], RING_LABELS)).predict_proba()
    expected = propagate(graph, one_hot(RING_TRAIN, RING_LABELS), 0.5)
    total = expected.sum(axis=1, keepdims=True)
    reached = total[:, 0] > 0
    assert 1 <= np.count_nonzero(~reached) < 3
    np.testing.assert_allclose(probabilities[reached], (expected / np.where(total > 0, total, 1))[reached], atol=1e-6)
    np.testing.assert_allclose(probabilities[~reached], [[2 / 6, 4 / 6]] * np.count_nonzero(~reached), atol=1e-6)


@pytest.mark.parametrize("class_mass", [False, True])
def test_validation_labels_select_alpha(class_mass: bool) -> None:
    graph, train = two_groups(), np.array([0, 9, 14, 24, 28])
    prior, candidates = np.array([3 / 5, 2 / 5]), []
    for alpha in (0.5, 0.8, 0.9, 0.95, 0.99):
        scores = propagate(graph, one_hot(train), alpha, iterations=50)
        scores = scores * prior / scores.sum(axis=0) if class_mass else scores
        candidates.append(scores / scores.sum(axis=1, keepdims=True))
    best = []
    validation = np.setdiff1d(np.arange(40), train)
    for seed in range(6):
        labels = np.where(np.random.default_rng(seed).random(40) < 0.3, 1 - TRUE_LABELS, TRUE_LABELS)
        correct = [each[validation].argmax(axis=1) == labels[validation] for each in candidates]
        best.append(int(np.argmax(np.mean(correct, axis=1))))
        model = LabelPropagation(class_mass).fit(graph, labels_at(train), labels_at(validation, labels))
        np.testing.assert_allclose(model.predict_proba(), candidates[best[-1]], atol=1e-6)
    assert len({each.tobytes() for each in candidates}) == 5
    assert class_mass or len(set(best)) > 1  # else nothing is selected


def test_class_mass_normalization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_ALPHAS", (0.5,))
    graph, train = two_groups(), np.array([0, 4, 8, 12, 30])  # class 0 has four labels, class 1 one
    scores = propagate(graph, one_hot(train), 0.5)
    scaled = scores / scores.sum(axis=0) * [4 / 5, 1 / 5]
    probabilities = LabelPropagation(class_mass=True).fit(graph, labels_at(train), {35: 1}).predict_proba()
    np.testing.assert_allclose(probabilities, scaled / scaled.sum(axis=1, keepdims=True), atol=1e-6)
    plain = LabelPropagation().fit(graph, labels_at(train), {35: 1}).predict_proba()
    assert np.abs(probabilities - plain).max() > 1e-3


@pytest.mark.parametrize("class_mass", [False, True])
def test_multilabel_classes_are_propagated_independently(class_mass: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_ALPHAS", (0.5,))
    graph = cge.Graph.from_edges(two_groups().to_scipy().nonzero(), num_nodes=41)  # the last has no edge
    true = np.r_[multilabel_targets()[:, :4], [[0, 0, 0, 0]]]
    labels = np.where(np.isin(np.arange(41), TRAIN_NODES)[:, None], true, 0)
    model = LabelPropagation(class_mass).fit(graph, labels, labels_at(VALIDATION_NODES, true))
    scores = propagate(graph, labels.astype(float), 0.5)
    total = propagate(graph, np.isin(np.arange(41), TRAIN_NODES).astype(float), 0.5)  # of all labeled nodes
    prior = labels[TRAIN_NODES].mean(axis=0)
    expected = scores[:40] / total[:40, None]
    if class_mass:
        expected *= prior / (scores.sum(axis=0) / total.sum())
    np.testing.assert_allclose(model.predict_proba()[:40], np.minimum(expected, 1), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba()[40], prior, atol=1e-6)
    assert model.predict()[:40, 3].all()  # a class of all training nodes


# ---------------------------------------------------------------------- vectors of walks


def test_vectors_of_walks_do_not_depend_on_labels() -> None:
    graph = groups_with_sparse_features()
    deepwalk = WalkClassifier(dim=8, random_state=2).fit(graph, labels_at(TRAIN_NODES))
    assert deepwalk.embedding_.tobytes() == cge.DeepWalk(8, random_state=2).fit(graph).embedding_.tobytes()
    walks: dict[str, Any] = {"walk_length": 20, "walks_per_node": 3, "window": 4, "p": 0.25, "q": 4.0}
    node2vec = WalkClassifier("node2vec", dim=8, **walks).fit(graph, labels_at(TRAIN_NODES))
    assert node2vec.embedding_.tobytes() == cge.Node2Vec(8, **walks).fit(graph).embedding_.tobytes()
    other = WalkClassifier(dim=8, random_state=2).fit(graph, labels_at(VALIDATION_NODES))
    assert other.embedding_.tobytes() == deepwalk.embedding_.tobytes()
    assert other.predict_proba().tobytes() != deepwalk.predict_proba().tobytes()


def test_the_regression_uses_vectors_of_unit_length_and_features() -> None:
    graph, y = groups_with_sparse_features(), {2: 0, 9: 0, 23: 1}
    for features in (False, True):
        model = WalkClassifier(features=features, dim=8).fit(graph, y)
        vectors = model.embedding_.astype(np.float64)
        x = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        x = np.c_[x, unit(graph)] if features else x
        probabilities = model.predict_proba().astype(np.float64)
        weights = 10 * x[list(y)].T @ (np.array([0, 0, 1]) - probabilities[list(y), 1])
        bias = np.log(probabilities[:, 1] / probabilities[:, 0]) - x @ weights
        assert bias.std() < 2e-3 < 0.1 < (x @ weights).std()


def test_walks_give_the_same_bytes_on_any_threads() -> None:
    models = [
        WalkClassifier(dim=8, n_jobs=n_jobs).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
        for n_jobs in (1, 2)
    ]
    assert models[0].predict_proba().tobytes() == models[1].predict_proba().tobytes()


def test_many_classes_do_not_warn() -> None:
    graph = cge.Graph.from_edges([(0, 1)], features=np.eye(30), num_nodes=30)
    model = FeatureClassifier().fit(graph, {node: f"class {node % 20}" for node in range(30)})
    assert model.predict([3, 23]).tolist() == ["class 3", "class 3"]


def test_features_that_no_training_node_has_leave_the_class_frequencies() -> None:
    features = np.zeros((6, 2))
    features[4:] = 1
    graph = cge.Graph.from_edges([(4, 5)], features=features, num_nodes=6)
    model = FeatureClassifier().fit(graph, {0: "a", 1: "a", 2: "b"}, {3: "a"})
    np.testing.assert_allclose(model.predict_proba([3, 4]), [[2 / 3, 1 / 3]] * 2, rtol=1e-6)


# ---------------------------------------------------------------------- propagated features


@pytest.mark.parametrize("directed", [False, True])
def test_propagated_features_are_components_of_the_mean_over_hops(directed: bool, tmp_path: Path) -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (0, 5)]
    x = sp.csr_array(np.random.default_rng(0).random((6, 5)) * (np.arange(30).reshape(6, 5) % 3 > 0))
    graph = cge.Graph.from_edges(edges, x, num_nodes=6, directed=directed)
    looped = graph.to_scipy().toarray() + np.eye(6)
    step = looped / np.sqrt(looped.sum(1, keepdims=True)) / np.sqrt(looped.sum(0, keepdims=True))
    rows = x.toarray() / np.linalg.norm(x.toarray(), axis=1, keepdims=True)
    mean = sum(np.linalg.matrix_power(step, k) @ rows for k in range(4)) / 4
    model = PropagatedFeatures(dim=5, hops=3).fit(graph)
    assert model.embedding_ == pytest.approx(mean, abs=1e-6)
    u, s, _ = np.linalg.svd(mean)
    first = PropagatedFeatures(dim=2, hops=3).fit(graph).embedding_.astype(np.float64)
    assert first @ first.T == pytest.approx(u[:, :2] * s[:2] ** 2 @ u[:, :2].T, abs=1e-5)
    model.save(tmp_path / "m")
    assert np.array_equal(cge.load(tmp_path / "m").embedding_, model.embedding_)
