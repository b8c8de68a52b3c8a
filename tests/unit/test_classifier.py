"""Classifiers of nodes: the contract they share, and the baselines against dense forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import cge
from cge.errors import FileFormatError, InputError, UnknownNodeError
from cge.estimators import baselines
from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation, WalkClassifier
from cge.estimators.classifier import NodeClassifier, as_classes, known_labels, score_predictions
from cge.estimators.graph_networks import APPNP, GCN
from cge.estimators.label_roles import hold_out
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

KINDS: dict[str, NodeClassifier] = {
    "features": FeatureClassifier(),
    "sgc": SGC(hops=3),
    "spread": LabelPropagation(),
    "spread, mass": LabelPropagation(class_mass=True),
    "deepwalk": WalkClassifier(dim=8),
    "node2vec": WalkClassifier("node2vec", features=True, dim=8, p=0.5, q=2.0, random_state=3),
    "gcn": GCN(hidden=8, epochs=15, learning_rate=0.05),
    "appnp": APPNP(hops=3, alpha=0.2, hidden=8, epochs=15, learning_rate=0.05),
}
CLASSES = (FeatureClassifier, SGC, LabelPropagation, WalkClassifier, GCN, APPNP)


@pytest.fixture(params=list(KINDS))
def model(request: pytest.FixtureRequest) -> NodeClassifier:
    found: NodeClassifier = clone(KINDS[request.param])
    return found


# ---------------------------------------------------------------------- what is known


def test_labels_in_every_form_tell_the_same() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("c", "d")], node_ids=["a", "b", "c", "d", "e"])
    forms = (
        ({"b": "x", "c": "y"}, {"e": "x", "b": "y"}),
        ([None, "x", "y", None, None], {"e": "x"}),
        (np.array([None, "x", "y", None, None], object), np.array([None, "y", None, None, "x"], object)),
    )
    for y, more in forms:
        known = known_labels(graph, y, more)
        assert known.codes.tolist() == [-1, 0, 1, -1, 0]  # b is in both: it trains, with its label in y
        assert known.classes.tolist() == ["x", "y"]
        assert (known.train.tolist(), known.selection.tolist()) == ([1, 2], [4])
        assert known.members.tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [1, 0]]
        assert not known.several


def test_several_labels_of_a_node() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("c", "d")], node_ids=["a", "b", "c", "d"])
    known = known_labels(graph, {"a": ["x", "y"], "c": "z"}, {"d": ("y",), "a": ["z"]})
    assert known.several
    assert known.codes.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert known.members is known.codes
    assert (known.train.tolist(), known.selection.tolist()) == ([0, 2], [3])
    matrix = known_labels(graph, [[1, 0], [0, 0], [1, 1], [-1, -1]])
    assert (matrix.train.tolist(), matrix.selection.tolist()) == ([0, 2], [])
    assert matrix.classes.tolist() == [0, 1]


def test_labels_that_choose_do_not_change_what_was_given() -> None:
    y = labels_at(TRAIN_NODES)
    before = y.copy()
    known = known_labels(groups_with_sparse_features(), y, labels_at(VALIDATION_NODES))
    assert np.array_equal(y, before)
    assert np.array_equal(known.codes, labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES]))


@pytest.mark.parametrize(
    ("y", "validation", "sentence"),
    [
        ([-1, -1, -1, -1], None, "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({}, None, "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({0: "a", 2: "a"}, None, "y must hold at least two classes, found only 'a'"),
        ([0, 1], None, "y must have one entry for each of 4 nodes, found shape (2,)"),
        ({0: 0, 1: 1}, {2: [0, 1]}, "y and validation must have the same form: one label for each node, or several"),
        (
            {0: 0, 1: 1},
            {1: 1, 0: 0},
            "every node of validation has a label in y, too, so none is left to choose the round",
        ),
        (
            {0: "a", 1: "b"},
            {2: "c"},
            "validation has the class 'c', which no training label has; give it one, or leave it out",
        ),
        ({0: "a", 9: "b"}, None, "1 node in y is not in the graph: 9"),
        ({0: "a", 1: "b"}, {7: "b"}, "1 node in validation is not in the graph: 7"),
    ],
)
def test_labels_that_cannot_be_used(y: Any, validation: Any, sentence: str) -> None:
    graph = cge.Graph.from_edges([(0, 1), (2, 3)])
    with pytest.raises(InputError) as caught:
        LabelPropagation().fit(graph, y, validation)
    assert str(caught.value) == sentence


def test_only_a_graph_can_be_trained_on() -> None:
    with pytest.raises(InputError) as caught:
        FeatureClassifier().fit(np.eye(3), [0, 1, 0])  # type: ignore[arg-type]
    assert str(caught.value) == "fit takes a cge.Graph, found a ndarray; Graph.from_edges makes one"


# ---------------------------------------------------------------------- the contract


def test_what_every_classifier_does(model: NodeClassifier) -> None:
    graph = groups_with_sparse_features()
    names = np.array(["left", "right"])[TRUE_LABELS]
    ids = np.array([f"n{node}" for node in range(2 * GROUP_SIZE)], object)
    graph = cge.Graph.from_codes(*graph.to_scipy().nonzero(), ids, directed=True).with_features(graph.features)
    told = model.fit(
        graph, {ids[node]: names[node] for node in TRAIN_NODES}, {ids[node]: names[node] for node in VALIDATION_NODES}
    )
    assert told is model
    assert model.classes_.tolist() == ["left", "right"]
    assert model.node_ids_.tolist() == ids.tolist()
    assert model.labels_seen_ == {"train": 10, "outer": 0, "selection": 10}
    probabilities = model.predict_proba()
    assert (probabilities.shape, probabilities.dtype) == ((40, 2), np.float32)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(model.predict(), model.classes_[probabilities.argmax(axis=1)])
    some = ["n33", "n2", "n17"]
    assert np.array_equal(model.predict_proba(some), probabilities[[33, 2, 17]])
    assert model.predict(some).tolist() == model.predict()[[33, 2, 17]].tolist()
    assert model.score(ids, names) == np.mean(model.predict() == names) > 0.8
    assert model.score(some, ["left", "right", "right"]) == np.mean(model.predict(some) == ["left", "right", "right"])
    with pytest.raises(UnknownNodeError, match="1 node is not in the graph: 'n99'"):
        model.predict(["n99"])
    with pytest.raises(InputError, match=r"labels must have shape \(3,\), as the predictions, found \(2,\)"):
        model.score(some, ["left", "left"])


def test_without_validation_labels_a_fifth_chooses_and_then_all_train(model: NodeClassifier) -> None:
    graph, y = groups_with_sparse_features(), labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES])
    alone = clone(model).fit(graph, y)
    assert alone.labels_seen_ | {"outer": 0} == {"train": 20, "outer": 0, "selection": 4}
    train, held = hold_out(
        y, np.sort(np.r_[TRAIN_NODES, VALIDATION_NODES]), 0.2, model.get_params().get("random_state", 0)
    )
    assert len(held) == 4
    again, every = clone(model), known_labels(graph, y)
    _, choice = again._train(graph, replace(every, train=train, selection=held))
    final, _ = again._train(graph, replace(every, choice=choice))
    assert final.astype(np.float32).tobytes() == alone.predict_proba().tobytes()
    told = clone(model).fit(graph, labels_at(train), labels_at(held))
    assert told.predict_proba().tobytes() != alone.predict_proba().tobytes()  # four labels less
    nothing = clone(model).fit(graph, y, np.full(40, -1))
    assert nothing.predict_proba().tobytes() == alone.predict_proba().tobytes()


def test_few_labels_all_train(model: NodeClassifier) -> None:
    model.fit(groups_with_sparse_features(), {0: 0, 5: 0, 25: 1})
    assert model.labels_seen_ == {"train": 3, "outer": 0, "selection": 0}
    assert np.isfinite(model.predict_proba()).all()


def test_nodes_without_edges_or_features(model: NodeClassifier) -> None:
    graph = groups_with_sparse_features()
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    x = sp.csr_array(sp.vstack([graph.features, sp.csr_array((2, 24))]))
    lonely = cge.Graph.from_edges(edges, features=x, num_nodes=42)
    y = np.r_[labels_at(TRAIN_NODES), 1, -1]  # one of the two has a label
    model.fit(lonely, y, np.r_[labels_at(VALIDATION_NODES), -1, -1])
    probabilities = model.predict_proba()
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert model.score(range(40), TRUE_LABELS) > 0.8


def test_the_contract_of_scikit_learn(model: NodeClassifier) -> None:
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
        assert f"{name} : " in text
        assert f", default {default!r}\n    {setting.help}; " in text


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (SGC(hops=0), "hops must be a whole number of at least 1 and of at most 100, found 0"),
        (LabelPropagation(class_mass="yes"), "class_mass must be True or False, found 'yes'"),  # type: ignore[arg-type]
        (WalkClassifier("line"), "vectors must be one of 'deepwalk', 'node2vec', found 'line'"),
        (GCN("features"), "append must be one of 'none', 'cge', found 'features'"),
        (GCN(dropout=1.0), "dropout must be a number of at least 0 and of at most 0.95, found 1.0"),
        (APPNP(alpha=0.0), "back must be a number above 0 and of at most 1, found 0.0"),
    ],
)
def test_wrong_settings_name_what_is_legal(made: NodeClassifier, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        made.fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert str(caught.value) == sentence


# ---------------------------------------------------------------------- folders


@pytest.mark.parametrize("several", [False, True])
def test_every_classifier_comes_back_from_its_folder(model: NodeClassifier, several: bool, tmp_path: Path) -> None:
    graph = groups_with_sparse_features()
    names = [["left"], ["right", "odd"]] if several else ["left", "right"]
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
    ("array", "wrong", "says"),
    [
        ("chances", np.zeros((40, 3), np.float32), "the chances must be (40, 2) of float32"),
        ("chances", np.zeros((40, 2)), "the chances must be (40, 2) of float32"),
        ("embedding", np.zeros((40, 7), np.float32), "the vectors must be (40, 8) of float32"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(array: str, wrong: Any, says: str, tmp_path: Path) -> None:
    WalkClassifier(dim=8).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES)).save(tmp_path)
    stored = read_folder(tmp_path)
    write_folder(tmp_path, stored.kind, stored.metadata, stored.arrays | {array: wrong})
    with pytest.raises(FileFormatError) as caught:
        cge.load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: this is no whole WalkClassifier ({says}); save the model again"


# ---------------------------------------------------------------------- several labels per node


def test_several_labels_per_node(model: NodeClassifier) -> None:
    true = multilabel_targets()
    model.fit(groups_with_sparse_features(), labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    probabilities = model.predict_proba()
    assert probabilities.shape == (40, 5)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    told = model.predict()
    assert np.array_equal(told, (probabilities > 0.5).astype(int))
    right = int((told & true).sum())
    expected = 2 * right / (int(told.sum()) + int(true.sum()))
    assert model.score(range(40), true) == pytest.approx(expected)
    assert expected > 0.6
    assert probabilities[:, 3].mean() > probabilities[:, 2].mean() > probabilities[:, 4].mean()


def test_micro_f1_by_hand() -> None:
    classes = np.array(["a", "b", "c"])
    told = np.array([[1, 0, 0], [0, 1, 1]])
    assert score_predictions(told, [["a", "b"], ["c"]], classes, several=True) == pytest.approx(2 * 2 / (3 + 3))
    assert score_predictions(told, np.array([[0, 0, 1], [1, 0, 0]]), classes, several=True) == 0
    assert score_predictions(np.array(["a", "b"]), ["a", "c"], classes, several=False) == 0.5
    assert as_classes(np.array([[0.5, 0.6, 0.2]]), classes, several=True).tolist() == [[0, 1, 0]]
    assert as_classes(np.array([[0.1, 0.6, 0.3]]), classes, several=False).tolist() == ["b"]
    with pytest.raises(InputError, match="labels has the class 'z', which no training label has"):
        score_predictions(told, [["a"], ["z"]], classes, several=True)


# ---------------------------------------------------------------------- features, and smoothed features


def unit(graph: cge.Graph) -> Any:
    x = np.asarray(graph.features.toarray() if sp.issparse(graph.features) else graph.features, np.float64)
    return x / np.maximum(np.sqrt((x * x).sum(axis=1, keepdims=True)), 1e-12)


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
@pytest.mark.parametrize("dense", [True, False])
def test_chances_are_those_of_the_best_regression(hops: int, dense: bool) -> None:
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
def test_the_strength_is_chosen_by_the_selection_labels(hops: int) -> None:
    graph = groups_with_sparse_features(seed=5)
    made: NodeClassifier = SGC(hops) if hops else FeatureClassifier()
    x = np.linalg.matrix_power(normalized_adjacency(graph), hops) @ unit(graph)
    found = [
        LogisticRegression(C=strength, max_iter=1000).fit(x[TRAIN_NODES], TRUE_LABELS[TRAIN_NODES]).predict_proba(x)
        for strength in (0.1, 1.0, 10.0, 100.0, 1000.0)
    ]
    for seed in range(4):  # labels of chance, so that not always the same strength is the best
        choose = np.random.default_rng(seed).integers(0, 2, 40)
        right = [np.mean(one[VALIDATION_NODES].argmax(axis=1) == choose[VALIDATION_NODES]) for one in found]
        told = clone(made).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES, choose)).predict_proba()
        np.testing.assert_allclose(told, found[int(np.argmax(right))], atol=2e-3)


def test_features_alone_see_no_edge() -> None:
    graph, y = groups_with_sparse_features(), labels_at(TRAIN_NODES)
    other = cge.Graph.from_edges([(0, 1)], features=graph.features)
    with_edges, without = (FeatureClassifier().fit(one, y).predict_proba() for one in (graph, other))
    assert with_edges.tobytes() == without.tobytes()
    assert SGC().fit(graph, y).predict_proba().tobytes() != SGC().fit(other, y).predict_proba().tobytes()


@pytest.mark.parametrize("made", [FeatureClassifier(), SGC(), WalkClassifier(features=True, dim=4)])
def test_features_are_needed(made: NodeClassifier) -> None:
    with pytest.raises(InputError, match="this method needs node features, and the graph has none"):
        made.fit(two_groups(features=False), labels_at(TRAIN_NODES))


# ---------------------------------------------------------------------- labels that spread


def spread(graph: cge.Graph, labels: Any, passed: float, steps: int | None = None) -> Any:
    """Return (1−α) Σ_k α^k S^k Y, or its first terms as the iteration F ← α S F + (1−α) Y from F = Y has them."""
    adjacency = graph.to_scipy().toarray()
    out, into = adjacency.sum(axis=1), adjacency.sum(axis=0)
    smooth = np.divide(
        adjacency, np.sqrt(np.outer(out, into)), out=np.zeros_like(adjacency), where=np.outer(out, into) > 0
    )
    if steps is None:
        return (1 - passed) * np.linalg.solve(np.eye(len(graph)) - passed * smooth, labels)
    last = np.linalg.matrix_power(passed * smooth, steps)
    terms = sum((np.linalg.matrix_power(passed * smooth, k) for k in range(steps)), np.zeros_like(smooth))
    return (1 - passed) * terms @ labels + last @ labels


def one_hot(nodes: Any, true: Any = TRUE_LABELS) -> Any:
    return np.eye(int(true.max()) + 1)[true] * np.isin(np.arange(len(true)), nodes)[:, None]


def heavy(directed: bool = False) -> cge.Graph:
    """A ring with chords and weights; directed, node 20 has no way out and node 21 no way in."""
    edges = [(i, (i + k) % 20) for i in range(20) for k in (1, 3)] + [(4, 20), (9, 20), (21, 5), (21, 6)]
    weights = np.random.default_rng(2).random(len(edges)) + 0.5
    return cge.Graph.from_edges(edges, weights=weights, directed=directed, num_nodes=23)


RING = np.r_[np.arange(20) // 10, 1, 0, 1]
CORNERS = np.array([0, 5, 12, 15, 17, 20])


@pytest.mark.parametrize("directed", [False, True])
def test_labels_spread_as_the_closed_form_says(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_KEPT", (0.5,))
    graph = heavy(directed)
    y = labels_at(CORNERS, RING)
    found = LabelPropagation().fit(graph, y, labels_at([1, 13], RING)).predict_proba()
    expected = spread(graph, one_hot(CORNERS, RING), 0.5)
    total = expected.sum(axis=1, keepdims=True)
    reached = total[:, 0] > 0
    assert 1 <= np.count_nonzero(~reached) < 3
    np.testing.assert_allclose(found[reached], (expected / np.where(total > 0, total, 1))[reached], atol=1e-6)
    np.testing.assert_allclose(found[~reached], [[2 / 6, 4 / 6]] * np.count_nonzero(~reached), atol=1e-6)


@pytest.mark.parametrize("mass", [False, True])
def test_how_far_labels_spread_is_chosen(mass: bool) -> None:
    graph, train = two_groups(), np.array([0, 9, 14, 24, 28])
    labels = one_hot(train)
    share = np.array([3 / 5, 2 / 5])
    found = []
    for passed in (0.5, 0.8, 0.9, 0.95, 0.99):
        told = spread(graph, labels, passed, steps=50)
        told = told * share / told.sum(axis=0) if mass else told
        found.append(told / told.sum(axis=1, keepdims=True))
    best = []
    choose = np.setdiff1d(np.arange(40), train)
    for seed in range(6):
        labels_told = np.where(np.random.default_rng(seed).random(40) < 0.3, 1 - TRUE_LABELS, TRUE_LABELS)
        best.append(int(np.argmax([np.mean(one[choose].argmax(axis=1) == labels_told[choose]) for one in found])))
        model = LabelPropagation(mass).fit(graph, labels_at(train), labels_at(choose, labels_told))
        np.testing.assert_allclose(model.predict_proba(), found[best[-1]], atol=1e-6)
    assert len({one.tobytes() for one in found}) == 5
    assert mass or len(set(best)) > 1  # else nothing was chosen


def test_the_mass_of_a_class_is_its_share_of_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_KEPT", (0.5,))
    graph, train = two_groups(), np.array([0, 4, 8, 12, 30])  # class 0 has four labels, class 1 one
    told = spread(graph, one_hot(train), 0.5)
    scaled = told / told.sum(axis=0) * [4 / 5, 1 / 5]
    found = LabelPropagation(class_mass=True).fit(graph, labels_at(train), {35: 1}).predict_proba()
    np.testing.assert_allclose(found, scaled / scaled.sum(axis=1, keepdims=True), atol=1e-6)
    plain = LabelPropagation().fit(graph, labels_at(train), {35: 1}).predict_proba()
    assert np.abs(found - plain).max() > 1e-3


@pytest.mark.parametrize("mass", [False, True])
def test_several_labels_spread_each_on_its_own(mass: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_KEPT", (0.5,))
    graph = cge.Graph.from_edges(two_groups().to_scipy().nonzero(), num_nodes=41)  # the last has no edge
    true = np.r_[multilabel_targets()[:, :4], [[0, 0, 0, 0]]]
    labels = np.where(np.isin(np.arange(41), TRAIN_NODES)[:, None], true, 0)
    model = LabelPropagation(mass).fit(graph, labels, labels_at(VALIDATION_NODES, true))
    told = spread(graph, labels.astype(float), 0.5)
    reach = spread(graph, np.isin(np.arange(41), TRAIN_NODES).astype(float), 0.5)  # what all labeled nodes spread
    rate = labels[TRAIN_NODES].mean(axis=0)
    expected = told[:40] / reach[:40, None]
    if mass:
        expected *= rate / (told.sum(axis=0) / reach.sum())
    np.testing.assert_allclose(model.predict_proba()[:40], np.minimum(expected, 1), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba()[40], rate, atol=1e-6)
    assert model.predict()[:40, 3].all()  # what all have, all have


# ---------------------------------------------------------------------- vectors of walks


def test_vectors_are_those_of_the_walks_alone() -> None:
    graph = groups_with_sparse_features()
    deep = WalkClassifier(dim=8, random_state=2).fit(graph, labels_at(TRAIN_NODES))
    assert deep.embedding_.tobytes() == cge.DeepWalk(8, random_state=2).fit(graph).embedding_.tobytes()
    walked: dict[str, Any] = {"walk_length": 20, "walks_per_node": 3, "window": 4, "p": 0.25, "q": 4.0}
    node = WalkClassifier("node2vec", dim=8, **walked).fit(graph, labels_at(TRAIN_NODES))
    assert node.embedding_.tobytes() == cge.Node2Vec(8, **walked).fit(graph).embedding_.tobytes()
    other = WalkClassifier(dim=8, random_state=2).fit(graph, labels_at(VALIDATION_NODES))
    assert other.embedding_.tobytes() == deep.embedding_.tobytes()
    assert other.predict_proba().tobytes() != deep.predict_proba().tobytes()


def test_a_regression_reads_vectors_of_unit_length_and_features() -> None:
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
    found = [
        WalkClassifier(dim=8, n_jobs=n_jobs).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
        for n_jobs in (1, 2)
    ]
    assert found[0].predict_proba().tobytes() == found[1].predict_proba().tobytes()


def test_a_class_for_almost_every_label_is_no_reason_to_warn() -> None:
    graph = cge.Graph.from_edges([(0, 1)], features=np.eye(30), num_nodes=30)
    model = FeatureClassifier().fit(graph, {node: f"class {node % 20}" for node in range(30)})
    assert model.predict([3, 23]).tolist() == ["class 3", "class 3"]


def test_features_that_no_training_node_has_leave_the_shares_of_classes() -> None:
    features = np.zeros((6, 2))
    features[4:] = 1
    graph = cge.Graph.from_edges([(4, 5)], features=features, num_nodes=6)
    model = FeatureClassifier().fit(graph, {0: "a", 1: "a", 2: "b"}, {3: "a"})
    np.testing.assert_allclose(model.predict_proba([3, 4]), [[2 / 3, 1 / 3]] * 2, rtol=1e-6)
