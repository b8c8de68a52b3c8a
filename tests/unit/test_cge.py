"""CGE as an estimator: its contract, its labels, and a defined outcome for every odd input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import cge
from cge.targets.label_encoding import encode_labels
from cge.estimators.settings import settings_of
from cge.training.history import PaperEpoch
from tests.fixtures import (
    GROUP_SIZE,
    SMALL_PAPER,
    TRUE_LABELS,
    ConstantWeighting,
    paper_cge,
    partial_labels,
    two_groups,
)


@pytest.fixture(scope="module")
def fitted() -> cge.CGE:
    model = paper_cge(weighting="average", weighting_lr=0.1, **SMALL_PAPER)
    return model.fit(two_groups(), partial_labels(), validation=partial_labels(TRUE_LABELS, 4))


# ---------------------------------------------------------------------- the contract


def test_the_contract_of_scikit_learn() -> None:
    model = cge.CGE(weighting="cnn", dim=7)
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(settings_of(cge.CGE))
    assert model.set_params(window=9).window == 9
    assert repr(cge.CGE(dim=7)) == "CGE(dim=7)"
    for call in (model.predict, model.predict_proba, model.transform, lambda: model.save("x")):
        with pytest.raises(NotFittedError, match="this CGE has not been trained yet; call fit first"):
            call()
    assert clone(cge.CGE(weighting=ConstantWeighting)).weighting is ConstantWeighting


def test_the_constructor_only_stores() -> None:
    model = cge.CGE(encoder="nonsense", dim=-1)  # type: ignore[arg-type]
    assert model.dim == -1
    with pytest.raises(cge.CgeError, match="encoder must be one of 'paths', 'table', 'features', found 'nonsense'"):
        model.fit(two_groups(), partial_labels())


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("dim", 0, "a whole number of at least 1 and of at most 4096 or None"),
        ("window", 1, "a whole number of at least 2 and of at most 100"),
        ("max_epochs", 0, "a whole number of at least 1 or None"),
        ("validation_fraction", 0.7, "a number of at least 0 and of at most 0.5"),
        ("refit", "yes", "True or False"),
        ("learning_rate", 0.0, "a number above 0 and of at most 10 or None"),
        (
            "weighting",
            "rnn",
            "one of 'auto', 'none', 'degree', 'cosine', 'gates', 'steps', 'average', 'cnn', 'lstm' or a callable",
        ),
        ("outer", "both", "one of 'unrolled', 'paper'"),
        ("virtual_lr", -1, "a number of at least 0 and of at most 1e+06"),
    ],
)
def test_wrong_settings_name_what_is_legal(name: str, value: Any, legal: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        paper_cge(**{name: value}).fit(two_groups(), partial_labels())
    assert str(caught.value) == f"{name} must be {legal}, found {value!r}"


def test_what_is_learned(fitted: cge.CGE) -> None:
    assert fitted.embedding_.shape == (2 * GROUP_SIZE, 16)
    assert fitted.embedding_.dtype == np.float32
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.node_ids_.tolist() == list(range(2 * GROUP_SIZE))
    probabilities = fitted.predict_proba()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(fitted.predict(), fitted.classes_[probabilities.argmax(axis=1)])
    assert np.array_equal(fitted.predict([5, 2]), fitted.predict()[[5, 2]])
    assert fitted.score(fitted.node_ids_, TRUE_LABELS) > 0.9
    assert len(fitted.history_) == 6
    # Every third node trains, every twelfth is in both and stays with training.
    assert fitted.labels_seen_ == {"train": 14, "outer": 14, "selection": 6}


def test_every_setting_is_documented() -> None:
    for kind in (cge.CGE, cge.DeepWalk, cge.Node2Vec):
        text = str(kind.__doc__)
        assert text.index("Parameters\n----------") < text.index("Attributes\n----------")
        for name, (_, setting, default) in settings_of(kind).items():
            assert f"{name} : " in text
            assert f", default {default!r}\n    {setting.help}; " in text


def test_vectors_by_id(fitted: cge.CGE) -> None:
    assert np.array_equal(fitted.transform([7, 3]), fitted.embedding_[[7, 3]])
    with pytest.raises(cge.CgeError, match="1 node is not in the graph: 99"):
        fitted.transform([99])


def test_weights_of_paths(fitted: cge.CGE) -> None:
    weights = fitted.path_weights([[0, 1, 2], [0, 1], [5]])
    assert weights.shape == (3,)
    assert ((weights > 0) & (weights < 1)).all()
    assert fitted.path_weights([[0, 1]])[0] == weights[1]
    assert fitted.path_weights([]).shape == (0,)
    twin = paper_cge(weighting="uniform", **SMALL_PAPER).fit(two_groups(), partial_labels())
    assert twin.path_weights([[0, 1], [3]]).tolist() == [1, 1]
    with pytest.raises(cge.CgeError, match="1 node in paths is not in the graph: 99"):
        fitted.path_weights([[0, 99]])
    with pytest.raises(cge.CgeError, match="a path needs at least one node, found an empty one"):
        fitted.path_weights([[0], []])


def test_progress_is_told_round_by_round() -> None:
    told: list[PaperEpoch] = []
    model = paper_cge(weighting="uniform", **SMALL_PAPER).fit(
        two_groups(), partial_labels(), partial_labels(TRUE_LABELS, 4), callback=told.append
    )
    assert told == list(model.history_)
    assert [(one.epoch, one.max_epochs) for one in told] == [(k, 6) for k in range(1, 7)]


# ---------------------------------------------------------------------- labels


def test_labels_in_every_form_give_the_same_model() -> None:
    graph = two_groups()
    names = np.array(["ape", "bee"])
    as_numbers = paper_cge(weighting="uniform", **SMALL_PAPER).fit(graph, partial_labels())
    forms: list[Any] = [
        {int(i): str(names[TRUE_LABELS[i]]) for i in range(0, 2 * GROUP_SIZE, 3)},
        np.array([names[TRUE_LABELS[i]] if i % 3 == 0 else None for i in range(2 * GROUP_SIZE)], object),
        [names[TRUE_LABELS[i]] if i % 3 == 0 else -1 for i in range(2 * GROUP_SIZE)],
        {int(i): TRUE_LABELS[i] for i in range(0, 2 * GROUP_SIZE, 3)},
        np.where(np.arange(2 * GROUP_SIZE) % 3 == 0, TRUE_LABELS, np.nan),
    ]
    for form in forms:
        model = paper_cge(weighting="uniform", **SMALL_PAPER).fit(graph, form)
        assert np.array_equal(model.embedding_, as_numbers.embedding_)
        assert np.array_equal(np.searchsorted(model.classes_, model.predict()), as_numbers.predict())


def test_a_column_with_an_index_goes_by_it() -> None:
    pandas = pytest.importorskip("pandas")
    graph = two_groups()
    known = {node: int(TRUE_LABELS[node]) for node in range(0, 40, 3)}
    column = pandas.Series(known)
    expected, classes = encode_labels(graph, known, "y")
    for y in (
        column,
        column.iloc[::-1],
        pandas.Series(some_codes := np.where(np.arange(40) % 3 == 0, TRUE_LABELS, -1)),
    ):
        found, names = encode_labels(graph, y, "y")
        assert np.array_equal(found, expected)
        assert np.array_equal(names, classes)
    turned = pandas.Series(some_codes).iloc[::-1]  # every node, in another order
    assert np.array_equal(encode_labels(graph, turned, "y")[0], expected)


@pytest.mark.filterwarnings("ignore:path weights stayed flat")  # an early round is as good as any
def test_several_labels_per_node() -> None:
    graph = two_groups()
    matrix = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(2 * GROUP_SIZE) % 2]).astype(int)
    known = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], matrix, 0)
    model = paper_cge(weighting="average", **SMALL_PAPER, max_epochs=8).fit(graph, known)
    probabilities = model.predict_proba()
    assert probabilities.shape == (2 * GROUP_SIZE, 3)
    assert not np.allclose(probabilities.sum(axis=1), 1)
    assert set(np.unique(model.predict())) <= {0, 1}
    predicted = model.predict()
    hits = np.sum((predicted == 1) & (matrix == 1))
    assert model.score(model.node_ids_, matrix) == pytest.approx(2 * hits / (predicted.sum() + matrix.sum()))
    assert np.mean(predicted[:, :2] == matrix[:, :2]) > 0.9
    lists = {i: [name for name, has in zip("abc", matrix[i], strict=True) if has] for i in range(0, 2 * GROUP_SIZE, 3)}
    named = paper_cge(weighting="average", **SMALL_PAPER, max_epochs=8).fit(graph, lists)
    assert named.classes_.tolist() == ["a", "b", "c"]
    assert named.score(list(lists), list(lists.values())) == model.score(list(lists), matrix[list(lists)])
    assert model.score([0, 3], matrix[[0, 3]].tolist()) == model.score([0, 3], matrix[[0, 3]])
    with pytest.raises(cge.CgeError, match="labels has the class 'z', which no training label has"):
        named.score([0], [["z"]])
    assert np.array_equal(named.predict_proba(), probabilities)
    unknown = np.where(known.any(axis=1, keepdims=True), known, -1)
    assert np.array_equal(
        paper_cge(weighting="average", **SMALL_PAPER, max_epochs=8).fit(graph, unknown).predict_proba(), probabilities
    )


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.full(40, -1), "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({}, "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({0: "a", 1: "a"}, "y must hold at least two classes, found only 'a'"),
        ({0: "a", 99: "b"}, "1 node in y is not in the graph: 99"),
        ({0: "a", 1: 7}, "y must hold classes of one kind, strings or numbers; found int and str"),
        ([0, 1], r"y must have one entry for each of 40 nodes, found shape \(2,\)"),
        (np.full((40, 2), 2), "y with several columns must be zeros and ones, found"),
        (np.ones((3, 2)), r"y must have shape \(40, 2\), found \(3, 2\)"),
        ("cat", "y must be {node id: label}, one label for each node, or"),
    ],
)
def test_wrong_labels_are_refused_in_one_sentence(labels: Any, sentence: str) -> None:
    with pytest.raises(cge.CgeError, match=sentence):
        paper_cge(**SMALL_PAPER).fit(two_groups(), labels)


def test_validation_labels_must_fit_the_training_labels() -> None:
    with pytest.raises(cge.CgeError, match="validation has the class 5, which no training label has"):
        paper_cge(**SMALL_PAPER).fit(two_groups(), partial_labels(), {1: 5})
    with pytest.raises(cge.CgeError, match="y and validation must have the same form"):
        paper_cge(**SMALL_PAPER).fit(two_groups(), partial_labels(), np.ones((40, 2)))
    with pytest.raises(cge.CgeError, match="every node of validation has a label in y, too, so none is left"):
        paper_cge(**SMALL_PAPER).fit(two_groups(), partial_labels(), partial_labels())


def test_one_labeled_node_cannot_weigh_paths() -> None:
    with pytest.raises(cge.CgeError, match="weights are learned from at least two labeled nodes; label more, or"):
        paper_cge(**SMALL_PAPER).fit(two_groups(), {3: ["a", "b"]})
    assert paper_cge(weighting="uniform", **SMALL_PAPER).fit(two_groups(), {3: ["a", "b"]}).predict().shape == (40, 2)


# ---------------------------------------------------------------------- which labels do what


def test_without_validation_labels_some_are_held_out_and_then_used() -> None:
    refit = paper_cge(weighting="uniform", **SMALL_PAPER).fit(two_groups(), partial_labels())
    assert refit.labels_seen_ == {"train": 14, "outer": 0, "selection": 3}
    assert refit.selection_history_ is not None
    assert set(refit.history_.column("stage")) == {"refit"}
    assert len(refit.history_) == refit.best_epoch_
    chosen = refit.selection_history_.column("validation_accuracy")
    assert chosen[refit.best_epoch_ - 1] == max(chosen)
    kept = paper_cge(weighting="uniform", refit=False, **SMALL_PAPER).fit(two_groups(), partial_labels())
    assert kept.labels_seen_ == {"train": 11, "outer": 0, "selection": 3}
    assert kept.selection_history_ is None
    last = paper_cge(weighting="uniform", validation_fraction=0.0, **SMALL_PAPER).fit(two_groups(), partial_labels())
    assert last.labels_seen_["selection"] == 0
    assert last.best_epoch_ == 6


def test_no_class_loses_its_last_label_to_the_choice() -> None:
    model = paper_cge(weighting="uniform", validation_fraction=0.5, **SMALL_PAPER).fit(
        two_groups(), {0: "a", 1: "a", 2: "a", 25: "b"}
    )
    assert set(model.predict_proba().shape) == {40, 2}
    assert 1 <= model.labels_seen_["selection"] <= 2


def test_half_of_the_validation_labels_can_weigh_paths() -> None:
    model = paper_cge(weighting="average", outer_labels="validation", **SMALL_PAPER)
    model.fit(two_groups(), partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.labels_seen_ == {"train": 14, "outer": 3, "selection": 3}
    assert all(one.outer_loss is not None for one in model.history_)
    with pytest.raises(cge.CgeError, match="outer_labels='validation' needs validation labels; pass validation="):
        paper_cge(outer_labels="validation", **SMALL_PAPER).fit(two_groups(), partial_labels())
    with pytest.raises(cge.CgeError, match="needs at least two validation labels; pass more of them"):
        paper_cge(outer_labels="validation", **SMALL_PAPER).fit(two_groups(), partial_labels(), {4: 0})


def test_folds_need_rounds_without_labels() -> None:
    with pytest.raises(cge.CgeError, match="use pretrain=1 or more, or outer_labels='validation'"):
        paper_cge(pretrain=0, **SMALL_PAPER).fit(two_groups(), partial_labels())
    paper_cge(pretrain=0, weighting="uniform", **SMALL_PAPER).fit(two_groups(), partial_labels())


# ---------------------------------------------------------------------- odd graphs


def test_a_label_for_every_node() -> None:
    model = paper_cge(weighting="average", **SMALL_PAPER).fit(two_groups(), TRUE_LABELS)
    assert model.score(model.node_ids_, TRUE_LABELS) == 1.0


def test_isolated_nodes_and_components_are_predicted() -> None:
    plain = two_groups()
    ids = [f"n{i}" for i in range(2 * GROUP_SIZE)]
    edges = [
        (ids[u], ids[v])
        for u, v in zip(*plain.to_scipy().nonzero(), strict=True)
        if (u < GROUP_SIZE) == (v < GROUP_SIZE)
    ]
    graph = cge.Graph.from_edges(edges, node_ids=[*ids, "alone"])
    labels = {ids[i]: int(TRUE_LABELS[i]) for i in range(0, 2 * GROUP_SIZE, 3)}
    model = paper_cge(weighting="lstm", **SMALL_PAPER).fit(graph, labels)
    assert model.score(ids, TRUE_LABELS) == 1.0
    assert not model.embedding_[-1].any()
    assert model.predict(["alone"])[0] in (0, 1)
    assert np.isfinite(model.predict_proba(["alone"])).all()


def test_directed_and_weighted_graphs() -> None:
    edges = [(i, (i + 1) % 10) for i in range(10)] + [(10 + i, 10 + (i + 1) % 10) for i in range(10)] + [(0, 10)]
    graph = cge.Graph.from_edges(edges, directed=True, weights=np.arange(1, 22))
    model = paper_cge(weighting="cnn", **SMALL_PAPER).fit(graph, {0: "a", 4: "a", 10: "b", 15: "b"})
    assert model.predict([2, 13]).tolist() == ["a", "b"]


def test_graphs_without_nodes_or_edges_are_refused() -> None:
    empty = cge.Graph.from_edges(np.empty((0, 2), int), num_nodes=0)
    with pytest.raises(cge.CgeError, match="the graph has no edges, so there are no paths to learn from"):
        cge.CGE().fit(empty, np.empty(0, int))
    with pytest.raises(cge.CgeError, match="the graph has no edges, so there are no paths to learn from"):
        cge.CGE().fit(cge.Graph.from_edges(np.empty((0, 2), int), num_nodes=3), [0, 1, -1])
    with pytest.raises(cge.CgeError, match=r"fit takes a cge.Graph, found a list; Graph.from_edges makes one"):
        cge.CGE().fit([(0, 1)], [0, 1])  # type: ignore[arg-type]


def test_features_of_every_form_and_of_no_node() -> None:
    graph = two_groups()
    features = np.array(graph.features)
    features[5] = 0  # a node without features
    dense = graph.with_features(features)
    sparse = graph.with_features(sp.csr_array(features))
    for encoder in ("table", "features"):
        one = paper_cge(encoder, "none", **SMALL_PAPER).fit(dense, partial_labels())
        two = paper_cge(encoder, "none", **SMALL_PAPER).fit(sparse, partial_labels())
        np.testing.assert_allclose(one.predict_proba(), two.predict_proba(), atol=2e-3)
        assert np.isfinite(one.predict_proba([5])).all()
    with pytest.raises(cge.CgeError, match="encoder='features' needs node features, and the graph has none"):
        paper_cge("features", **SMALL_PAPER).fit(two_groups(features=False), partial_labels())


def test_unseen_nodes_need_features() -> None:
    graph = two_groups()
    model = paper_cge("features", "average", weighting_lr=0.2, **SMALL_PAPER).fit(graph, partial_labels())
    assert np.array_equal(model.transform(), model.embedding_)
    swapped = cge.Graph.from_edges([("x", "y")], node_ids=["x", "y"], features=np.array(graph.features)[[7, 3]])
    np.testing.assert_allclose(model.transform(swapped), model.embedding_[[7, 3]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(["y"], graph=swapped), model.predict_proba([3]), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(cge.CgeError, match="new nodes need 6 features, as in training, found 0"):
        model.transform(two_groups(features=False))
    table = paper_cge("table", "none", **SMALL_PAPER).fit(graph, partial_labels())
    with pytest.raises(cge.CgeError, match="use encoder='features' or 'paths' for new ones"):
        table.transform(swapped)


def test_a_window_fits_into_a_walk() -> None:
    with pytest.raises(
        cge.CgeError, match="window must be at most walk_length, 3, for no path is longer than its walk"
    ):
        paper_cge(**SMALL_PAPER, walk_length=3).fit(two_groups(), partial_labels())


# ---------------------------------------------------------------------- guards of the weights


def test_flat_weights_are_said() -> None:
    with pytest.warns(cge.CgeWarning, match=r"path weights stayed flat \(spread 0 around 0.5\)"):
        paper_cge(weighting=ConstantWeighting, **SMALL_PAPER).fit(two_groups(), partial_labels())


def test_collapsed_weights_are_said() -> None:
    settings = SMALL_PAPER | {"outer": "paper", "weighting_lr": 0.5, "outer_steps": 20, "max_epochs": 6, "patience": 99}
    for validation in (partial_labels(TRUE_LABELS, 4), None):
        with pytest.warns(cge.CgeWarning, match=r"path weights collapsed to a mean of .*; use outer='unrolled'"):
            paper_cge(weighting="average", **settings).fit(two_groups(), partial_labels(), validation)


class Wide(ConstantWeighting):
    def score(self, projected: Any, length: Any) -> Any:
        return projected[:, 0, :2]


class Endless(ConstantWeighting):
    def score(self, projected: Any, length: Any) -> Any:
        return projected[:, 0, 0] * float("nan") * self.unused.sum()


class Fixed(cge.PathWeighting):
    def __init__(self, dim: int) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("weighting", "sentence"),
    [
        (Wide, r"Wide.score must return one number for each of \d+ paths, shape \(\d+,\), found \(\d+, 2\)"),
        (Endless, "Endless gave weights that are no numbers; try a tenth of weighting_lr"),
        (Fixed, "Fixed has no trainable parameters"),
        (ConstantWeighting(16), "weighting must be the class Constant or what makes it, not a made one"),
        (lambda dim: dim, "must return a cge.PathWeighting, found a int"),
    ],
)
def test_faulty_weightings_are_named(weighting: Any, sentence: str) -> None:
    with pytest.raises(cge.CgeError, match=sentence):
        paper_cge(weighting=weighting, **SMALL_PAPER).fit(two_groups(), partial_labels())


@pytest.mark.slow
def test_the_printed_rule_collapses_on_cora_and_the_unrolled_does_not() -> None:
    data = cge.load_dataset("cora")
    y, v = np.full(len(data.labels), -1), np.full(len(data.labels), -1)
    y[data.split.train], v[data.split.validation] = data.labels[data.split.train], data.labels[data.split.validation]
    settings: dict[str, Any] = {"weighting": "average", "outer_steps": 40, "patience": 99}
    with pytest.warns(cge.CgeWarning, match="path weights collapsed"):
        paper = paper_cge(outer="paper", **settings).fit(data.graph, y, v)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unrolled = paper_cge(outer="unrolled", **settings).fit(data.graph, y, v)
    assert paper.history_[-1].weight_mean < 0.02
    assert unrolled.history_[-1].weight_mean > 0.2
    test = data.graph.node_ids[data.split.test]
    true = data.labels[data.split.test]
    assert unrolled.score(test, true) > paper.score(test, true) + 0.02


# ---------------------------------------------------------------------- save, load, resume


def test_a_saved_model_comes_back_whole(tmp_path: Path, fitted: cge.CGE) -> None:
    fitted.save(tmp_path / "model")
    back = cge.load(tmp_path / "model")
    assert back.get_params() == fitted.get_params()
    assert np.array_equal(back.embedding_, fitted.embedding_)
    assert np.array_equal(back.predict_proba(), fitted.predict_proba())
    assert np.array_equal(back.path_weights([[0, 1, 2]]), fitted.path_weights([[0, 1, 2]]))
    assert list(back.history_) == list(fitted.history_)
    assert back.labels_seen_ == fitted.labels_seen_
    assert back.classes_.tolist() == [0, 1]
    assert sorted(path.suffix for path in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]


def test_strings_several_labels_and_walk_vectors_come_back(tmp_path: Path) -> None:
    graph = cge.Graph.from_edges([("ä", "b"), ("b", "c"), ("c", "ä"), ("d", "e"), ("e", "f"), ("f", "d")])
    model = paper_cge(weighting="uniform", dim=8).fit(graph, {"ä": ["x"], "d": ["x", "y"], "e": ["y"]})
    model.save(tmp_path / "several")
    back = cge.load(tmp_path / "several")
    assert back.classes_.tolist() == ["x", "y"]
    assert np.array_equal(back.predict(["ä", "f"]), model.predict(["ä", "f"]))
    for kind in (cge.DeepWalk, cge.Node2Vec):
        walks = kind(dim=8, walks_per_node=2, walk_length=5, window=2).fit(graph)
        walks.save(tmp_path / kind.__name__)
        again = cge.load(tmp_path / kind.__name__)
        assert isinstance(again, kind)
        assert np.array_equal(again.transform(["ä"]), walks.transform(["ä"]))


def test_own_weightings_are_given_again(tmp_path: Path) -> None:
    with pytest.warns(cge.CgeWarning, match="flat"):
        model = paper_cge(weighting=ConstantWeighting, **SMALL_PAPER).fit(two_groups(), partial_labels())
    model.save(tmp_path)
    with pytest.raises(cge.CgeError, match=r"weighs paths with 'Constant'; pass it as load\(…, weighting=…\)"):
        cge.load(tmp_path)
    with pytest.raises(cge.CgeError, match="weighs paths with 'Constant', but weighting is 'Wide'; pass the one"):
        cge.load(tmp_path, weighting=Wide)
    assert cge.load(tmp_path, weighting=ConstantWeighting).path_weights([[0, 1]]).tolist() == [0.5]


def test_damaged_models_are_refused(tmp_path: Path, fitted: cge.CGE) -> None:
    fitted.save(tmp_path)
    with pytest.raises(cge.CgeError, match="was not trained with a weighting of your own; leave weighting out"):
        cge.load(tmp_path, weighting=ConstantWeighting)
    manifest = tmp_path / "model.json"
    whole = manifest.read_text()
    for old, new in (('"dim": 16', '"dim": 17'), ('"dim": 16', '"dim": "x"'), ('"several": false', '"zeveral": 0')):
        assert old in whole
        manifest.write_text(whole.replace(old, new))
        with pytest.raises(cge.CgeError, match="this is no whole CGE"):
            cge.load(tmp_path)
    manifest.write_text(whole)
    tensors = next(tmp_path.glob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(cge.CgeError, match="safetensors"):
        cge.load(tmp_path)


def test_a_checkpoint_belongs_to_one_fit(tmp_path: Path) -> None:
    graph = two_groups()
    paper_cge(weighting="uniform", **SMALL_PAPER).fit(graph, partial_labels(), resume=tmp_path)
    again = paper_cge(weighting="uniform", n_jobs=1, **SMALL_PAPER).fit(
        graph, partial_labels(), resume=tmp_path
    )  # nothing left to do
    assert np.array_equal(
        again.embedding_, paper_cge(weighting="uniform", **SMALL_PAPER).fit(graph, partial_labels()).embedding_
    )
    for other, labels in (
        (paper_cge(weighting="uniform", **SMALL_PAPER, random_state=1), partial_labels()),
        (again, partial_labels(TRUE_LABELS, 2)),
    ):
        with pytest.raises(cge.CgeError, match="holds a checkpoint of another fit"):
            clone(other).fit(graph, labels, resume=tmp_path)
    with pytest.raises(cge.CgeError, match="holds a checkpoint of another fit"):  # of a stage that it will not reach
        clone(again).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4), resume=tmp_path)
    file = next(tmp_path.glob("*.json"))
    content = json.loads(file.read_text())
    content["metadata"]["best_epoch"] = 1000
    file.write_text(json.dumps(content))
    with pytest.raises(cge.CgeError, match="was changed since it was saved"):
        clone(again).fit(graph, partial_labels(), resume=tmp_path)


_FIT = """
import sys
import numpy as np
import cge
from tests.fixtures import SMALL_PAPER, partial_labels, two_groups
model = cge.CGE("table", weighting="lstm", rounds=8, patience=99, **SMALL_PAPER)
model.fit(two_groups(100), partial_labels(np.repeat([0, 1], 100)), resume=sys.argv[1])
model.save(sys.argv[2])
"""


def test_a_killed_fit_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """kill −9 at two moments, in the choice of the round and in the second training; then run to the end."""

    def start(name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", _FIT, str(tmp_path / name), str(tmp_path / f"{name}-model")])

    assert start("whole").wait() == 0
    for stage in ("select", "refit"):
        child = start("cut")
        limit = time.monotonic() + 120
        while not (tmp_path / "cut" / f"{stage}.json").exists():
            assert child.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.005)
        child.kill()
        assert child.wait() == -9
        assert not (tmp_path / "cut-model").exists()
    assert start("cut").wait() == 0
    tensors = [next((tmp_path / f"{name}-model").glob("*.safetensors")).read_bytes() for name in ("whole", "cut")]
    assert tensors[0] == tensors[1]


def test_tables_are_told_how_to_be_passed() -> None:
    pandas = pytest.importorskip("pandas")
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "d")])
    table = pandas.DataFrame({"node": ["a", "d"], "label": ["x", "y"]})
    with pytest.raises(cge.CgeError, match=r"y has 2 rows for 4 nodes; .* table.set_index\('node'\)\['label'\]"):
        cge.CGE().fit(graph, table)
    model = cge.CGE(training={"max_epochs": 2}).fit(graph, table.set_index("node")["label"])
    with pytest.raises(cge.CgeError, match=r"found a table; pass its column of ids, such as table\['node'\]"):
        model.predict(table[["node"]])
    assert len(model.predict(table["node"])) == 2
