"""`PaperCGE`: training, the roles of labels, odd graphs, warnings, saving, and fits that continue after a stop."""

from __future__ import annotations

import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import cge
from cge.estimators.configs import flat_params
from cge.estimators.path_estimator import checked_labels
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
from tests.stored_files import with_hash

NODES = 2 * GROUP_SIZE
VALIDATION = partial_labels(TRUE_LABELS, 4)


def small(weighting: Any = "average", setting: str = "transductive", **settings: Any) -> cge.PaperCGE:
    return paper_cge(setting, weighting, **(SMALL_PAPER | settings))


@pytest.fixture(scope="module")
def fitted() -> cge.PaperCGE:
    return small(weighting_lr=0.1).fit(two_groups(), partial_labels(), VALIDATION)


def test_a_trained_model_has_only_the_attributes_of_the_algorithm(fitted: cge.PaperCGE) -> None:
    assert fitted.score(fitted.node_ids_, TRUE_LABELS) > 0.9
    assert fitted.weighting_ == "average"
    assert fitted.labels_seen_ == {"train": 14, "outer": 14, "validation": 6}
    assert len(fitted.history_) == 6
    weights = fitted.path_weights([[0, 1, 2], [0, 30, 7]])  # any sequence of nodes
    assert ((weights > 0) & (weights < 1)).all()
    for name in (
        "classifiers_",
        "label_propagation_",
        "prior_correction_",
        "search_results_",
        "weight_parameters_",
    ):
        assert not hasattr(fitted, name)
    uniform = small("uniform", max_epochs=1).fit(two_groups(), partial_labels())
    assert uniform.path_weights([[0, 1], [3]]).tolist() == [1, 1]


def test_the_callback_gets_each_epoch() -> None:
    epochs: list[PaperEpoch] = []
    model = small("uniform").fit(two_groups(), partial_labels(), VALIDATION, callback=epochs.append)
    assert epochs == list(model.history_)
    assert [(epoch.epoch, epoch.max_epochs) for epoch in epochs] == [(k, 6) for k in range(1, 7)]


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("setting", "both", "one of 'transductive', 'inductive'"),
        ("weighting", "degree", "one of 'uniform', 'average', 'cnn', 'lstm' or a callable"),
        ("dim", None, "an integer from 1 to 4096"),
        ("window", 1, "an integer from 2 to 100"),
        ("outer", "both", "one of 'unrolled', 'paper'"),
        ("virtual_lr", -1, "a number from 0 to 1e+06"),
    ],
)
def test_illegal_values_name_the_setting_and_what_is_legal(name: str, value: Any, legal: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        paper_cge(**{name: value}).fit(two_groups(), partial_labels())
    assert str(caught.value) == f"{name} must be {legal}, found {value!r}"


# ---------------------------------------------------------------------- multilabel tasks


@pytest.mark.filterwarnings("ignore:path weights are nearly constant")  # an early epoch is as good as any
def test_multilabel_labels_in_every_form() -> None:
    graph = two_groups()
    matrix = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(NODES) % 2]).astype(int)
    y = np.where((np.arange(NODES) % 3 == 0)[:, None], matrix, 0)
    model = small(max_epochs=8).fit(graph, y)
    probabilities, predicted = model.predict_proba(), model.predict()
    assert probabilities.shape == (NODES, 3)
    assert not np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(predicted, probabilities > 0.5)
    hits = np.sum((predicted == 1) & (matrix == 1))
    assert model.score(model.node_ids_, matrix) == pytest.approx(2 * hits / (predicted.sum() + matrix.sum()))
    assert np.mean(predicted[:, :2] == matrix[:, :2]) > 0.9
    assert model.score([0, 3], matrix[[0, 3]].tolist()) == model.score([0, 3], matrix[[0, 3]])
    lists = {i: [name for name, has in zip("abc", matrix[i], strict=True) if has] for i in range(0, NODES, 3)}
    named = small(max_epochs=8).fit(graph, lists)
    assert named.classes_.tolist() == ["a", "b", "c"]
    assert np.array_equal(named.predict_proba(), probabilities)
    assert named.score(list(lists), list(lists.values())) == model.score(list(lists), matrix[list(lists)])
    with pytest.raises(cge.CgeError, match="labels has the class 'z', which no training label has"):
        named.score([0], [["z"]])
    unlabeled = np.where(y.any(axis=1, keepdims=True), y, -1)
    assert np.array_equal(checked_labels(small(), graph, unlabeled).codes, y)


# ---------------------------------------------------------------------- the roles of labels


def test_without_validation_labels_some_are_held_out_and_then_used() -> None:
    refit = small("uniform").fit(two_groups(), partial_labels())
    assert refit.labels_seen_ == {"train": 14, "outer": 0, "validation": 3}
    assert refit.selection_history_ is not None
    assert set(refit.history_.column("stage")) == {"refit"}
    assert len(refit.history_) == refit.best_epoch_
    accuracy = refit.selection_history_.column("validation_accuracy")
    assert accuracy[refit.best_epoch_ - 1] == max(accuracy)
    first = small("uniform", refit=False).fit(two_groups(), partial_labels())
    assert first.labels_seen_ == {"train": 11, "outer": 0, "validation": 3}
    assert first.selection_history_ is None
    last = small("uniform", validation_fraction=0.0).fit(two_groups(), partial_labels())
    assert last.labels_seen_["validation"] == 0
    assert last.best_epoch_ == 6


def test_no_class_loses_its_last_training_label_to_validation() -> None:
    labels = {0: "a", 1: "a", 2: "a", 25: "b"}
    model = small("uniform", validation_fraction=0.5, refit=False).fit(two_groups(), labels)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.fitted_.train.matrix.any(axis=0).all()
    assert 1 <= model.labels_seen_["validation"] <= 2


def test_half_of_the_validation_labels_can_train_the_weighting() -> None:
    model = small(outer_labels="validation", outer_steps=None).fit(two_groups(), partial_labels(), VALIDATION)
    assert model.labels_seen_ == {"train": 14, "outer": 3, "validation": 3}
    assert all(epoch.outer_loss is not None for epoch in model.history_)
    with pytest.raises(cge.CgeError, match="outer_labels='validation' needs validation labels; pass validation"):
        small(outer_labels="validation").fit(two_groups(), partial_labels())
    with pytest.raises(cge.CgeError, match="needs at least two validation labels; pass more of them"):
        small(outer_labels="validation").fit(two_groups(), partial_labels(), {4: 0})


def test_folds_need_no_epochs_without_labels() -> None:
    quick = small(pretrain=0, max_epochs=2, weighting_lr=0.1, outer_steps=None)
    model = quick.fit(two_groups(), partial_labels(), VALIDATION)
    assert all(epoch.outer_loss is not None for epoch in model.history_)


def test_one_labeled_node_cannot_train_a_weighting() -> None:
    with pytest.raises(cge.CgeError, match="weights are learned from at least two labeled nodes; label more, or use"):
        small().fit(two_groups(), {3: ["a", "b"]})
    assert small("uniform", max_epochs=1).fit(two_groups(), {3: ["a", "b"]}).predict().shape == (NODES, 2)


# ---------------------------------------------------------------------- odd graphs and features


def test_a_label_for_every_node() -> None:
    model = small().fit(two_groups(), TRUE_LABELS)
    assert model.score(model.node_ids_, TRUE_LABELS) == 1.0


def test_isolated_nodes_and_components_are_predicted() -> None:
    ids = [f"n{i}" for i in range(NODES)]
    pairs = zip(*two_groups().to_scipy().nonzero(), strict=True)
    edges = [(ids[u], ids[v]) for u, v in pairs if (u < GROUP_SIZE) == (v < GROUP_SIZE)]
    graph = cge.Graph.from_edges(edges, node_ids=[*ids, "alone"])
    labels = {ids[i]: int(TRUE_LABELS[i]) for i in range(0, NODES, 3)}
    model = small("lstm", outer_paths=16).fit(graph, labels)
    assert model.score(ids, TRUE_LABELS) == 1.0
    assert not model.embedding_[-1].any()
    assert model.predict(["alone"])[0] in (0, 1)
    assert np.isfinite(model.predict_proba(["alone"])).all()


def test_directed_and_weighted_graphs() -> None:
    edges = [(i, (i + 1) % 10) for i in range(10)] + [(10 + i, 10 + (i + 1) % 10) for i in range(10)] + [(0, 10)]
    graph = cge.Graph.from_edges(edges, directed=True, weights=np.arange(1, 22))
    model = small("cnn").fit(graph, {0: "a", 4: "a", 10: "b", 15: "b"})
    assert model.predict([2, 13]).tolist() == ["a", "b"]


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_dense_and_sparse_features_and_a_node_without_any(setting: str) -> None:
    graph = two_groups()
    features = np.array(graph.features)
    features[5] = 0
    dense, sparse = (
        small("uniform", setting).fit(graph.with_features(x), partial_labels()).predict_proba()
        for x in (features, sp.csr_array(features))
    )
    np.testing.assert_allclose(dense, sparse, atol=2e-3)
    assert np.isfinite(dense[5]).all()


def test_new_nodes_need_the_inductive_setting_and_features() -> None:
    graph = two_groups()
    with pytest.raises(cge.CgeError, match="setting='inductive' needs node features, and the graph has none"):
        small(setting="inductive").fit(two_groups(features=False), partial_labels())
    model = small(setting="inductive", weighting_lr=0.2).fit(graph, partial_labels())
    swapped = cge.Graph.from_edges([("x", "y")], node_ids=["x", "y"], features=np.array(graph.features)[[7, 3]])
    np.testing.assert_allclose(model.transform(swapped), model.embedding_[[7, 3]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(["y"], graph=swapped), model.predict_proba([3]), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(cge.CgeError, match="new nodes need 6 features, as in training, found 0"):
        model.transform(two_groups(features=False))
    transductive = small("uniform", max_epochs=1).fit(graph, partial_labels())
    for call in (transductive.transform, lambda other: transductive.predict(["y"], other)):
        with pytest.raises(cge.CgeError, match="use CGE or setting='inductive' for new ones"):
            call(swapped)


def test_a_window_fits_into_a_walk() -> None:
    message = "window must be at most walk_length, because no path is longer than its walk, found 4 and 3"
    with pytest.raises(cge.CgeError, match=message):
        small(walk_length=3).fit(two_groups(), partial_labels())


# ---------------------------------------------------------------------- weightings that fail


def test_a_warning_of_constant_weights() -> None:
    with pytest.warns(cge.CgeWarning, match=r"path weights are nearly constant \(0.5 ± 0\); weighting='uniform'"):
        small(ConstantWeighting, max_epochs=2).fit(two_groups(), partial_labels())


def test_a_warning_of_collapsed_weights() -> None:
    settings = {"outer": "paper", "weighting_lr": 0.5, "outer_steps": 20, "max_epochs": 6, "patience": 99}
    for validation in (VALIDATION, None):
        with pytest.warns(cge.CgeWarning, match=r"path weights collapsed to a mean of .*; use outer='unrolled'"):
            small(**settings).fit(two_groups(), partial_labels(), validation)


class WideWeighting(ConstantWeighting):
    def score(self, projected: Any, length: Any) -> Any:
        return projected[:, 0, :2]


class NanWeighting(ConstantWeighting):
    def score(self, projected: Any, length: Any) -> Any:
        return projected[:, 0, 0] * float("nan") * self.unused.sum()


class FixedWeighting(cge.PathWeighting):
    def __init__(self, dim: int) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("weighting", "message"),
    [
        (WideWeighting, r"WideWeighting.score must return one number for each of \d+ paths, shape \(\d+,\), found"),
        (NanWeighting, "NanWeighting returned weights that are not finite; try a tenth of weighting_lr"),
        (FixedWeighting, "FixedWeighting has no trainable parameters"),
        (ConstantWeighting(16), "weighting must be the class ConstantWeighting, not an instance"),
        (lambda dim: dim, "cge.PathWeighting"),
    ],
)
def test_faulty_weightings_are_named(weighting: Any, message: str) -> None:
    with pytest.raises(cge.CgeError, match=message):
        small(weighting).fit(two_groups(), partial_labels())


def test_the_printed_rule_collapses_on_cora_and_the_unrolled_does_not() -> None:
    data = cge.load_dataset("cora")
    y, v = np.full(len(data.labels), -1), np.full(len(data.labels), -1)
    y[data.split.train], v[data.split.validation] = data.labels[data.split.train], data.labels[data.split.validation]
    settings: dict[str, Any] = {"weighting": "average", "dim": 32, "walks_per_node": 1, "patience": 99}
    settings |= {"outer_steps": 40, "outer_paths": 256, "weighting_lr": 0.05}
    with pytest.warns(cge.CgeWarning, match="path weights collapsed"):
        paper = paper_cge(outer="paper", **settings).fit(data.graph, y, v)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unrolled = paper_cge(outer="unrolled", **settings).fit(data.graph, y, v)
    assert paper.history_[-1].weight_mean < 0.02
    assert unrolled.history_[-1].weight_mean > 0.2
    test = data.graph.node_ids[data.split.test]
    true = data.labels[data.split.test]
    assert unrolled.score(test, true) > paper.score(test, true) + 0.1


# ---------------------------------------------------------------------- save and load


def test_a_saved_model_comes_back_whole(tmp_path: Path, fitted: cge.PaperCGE) -> None:
    fitted.save(tmp_path / "model")
    again = cge.load(tmp_path / "model")
    assert isinstance(again, cge.PaperCGE)
    assert flat_params(again) == flat_params(fitted)
    assert np.array_equal(again.embedding_, fitted.embedding_)
    assert np.array_equal(again.predict_proba(), fitted.predict_proba())
    assert np.array_equal(again.path_weights([[0, 1, 2]]), fitted.path_weights([[0, 1, 2]]))
    assert list(again.history_) == list(fitted.history_)
    assert again.labels_seen_ == fitted.labels_seen_
    assert again.fit_call_ == fitted.fit_call_
    assert again.classes_.tolist() == [0, 1]
    assert np.array_equal(again.fitted_.validation.probabilities, fitted.fitted_.validation.probabilities)
    assert sorted(path.suffix for path in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]


def test_text_multilabel_classes_and_walk_vectors_come_back(tmp_path: Path) -> None:
    graph = cge.Graph.from_edges([("ä", "b"), ("b", "c"), ("c", "ä"), ("d", "e"), ("e", "f"), ("f", "d")])
    model = paper_cge(weighting="uniform", dim=8).fit(graph, {"ä": ["x"], "d": ["x", "y"], "e": ["y"]})
    model.save(tmp_path / "multilabel")
    again = cge.load(tmp_path / "multilabel")
    assert again.classes_.tolist() == ["x", "y"]
    assert np.array_equal(again.predict(["ä", "f"]), model.predict(["ä", "f"]))
    for kind in (cge.DeepWalk, cge.Node2Vec):
        walks = kind(dim=8, walks_per_node=2, walk_length=5, window=2).fit(graph)
        walks.save(tmp_path / kind.__name__)
        loaded = cge.load(tmp_path / kind.__name__)
        assert isinstance(loaded, kind)
        assert np.array_equal(loaded.transform(["ä"]), walks.transform(["ä"]))


def test_a_custom_weighting_is_passed_again(tmp_path: Path) -> None:
    with pytest.warns(cge.CgeWarning, match="nearly constant"):
        model = small(ConstantWeighting).fit(two_groups(), partial_labels(), VALIDATION)
    model.save(tmp_path)
    assert model.weighting_ == "custom"
    with pytest.raises(cge.CgeError, match=r"'ConstantWeighting', which is not part of the folder; pass it as load"):
        cge.load(tmp_path)
    with pytest.raises(cge.CgeError, match="'ConstantWeighting', but weighting is 'WideWeighting'; pass the one it"):
        cge.load(tmp_path, weighting=WideWeighting)
    assert cge.load(tmp_path, weighting=ConstantWeighting).path_weights([[0, 1]]).tolist() == [0.5]


def test_damaged_models_are_refused(tmp_path: Path, fitted: cge.PaperCGE) -> None:
    fitted.save(tmp_path)
    with pytest.raises(cge.CgeError, match="was not trained with a weighting of your own; leave weighting out"):
        cge.load(tmp_path, weighting=ConstantWeighting)
    manifest = tmp_path / "model.json"
    text = manifest.read_text()
    for old, new in (('"dim": 16', '"dim": 17'), ('"dim": 16', '"dim": "x"'), ('"temperature":', '"warmth":')):
        assert old in text
        manifest.write_text(json.dumps(with_hash(json.loads(text.replace(old, new)))))
        with pytest.raises(cge.CgeError, match="does not hold a complete PaperCGE model"):
            cge.load(tmp_path)
    manifest.write_text(text)
    tensors = next(tmp_path.glob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(cge.CgeError, match="safetensors"):
        cge.load(tmp_path)


# ---------------------------------------------------------------------- checkpoints


def test_a_checkpoint_belongs_to_one_fit(tmp_path: Path) -> None:
    graph = two_groups()
    model = small("uniform").fit(graph, partial_labels(), resume=tmp_path)
    again = small("uniform", n_jobs=1)
    epochs: list[PaperEpoch] = []
    again.fit(graph, partial_labels(), resume=tmp_path, callback=epochs.append)
    assert not epochs  # all of them were in the checkpoints
    assert np.array_equal(again.embedding_, model.embedding_)
    for other, *labels in (
        (small("uniform", random_state=1), partial_labels()),
        (small("uniform", max_epochs=3), partial_labels()),
        (again, partial_labels(TRUE_LABELS, 2)),
        (again, partial_labels(), VALIDATION),  # which does not reach the stage of that checkpoint
    ):
        with pytest.raises(cge.CgeError, match="holds a checkpoint of another fit"):
            clone(other).fit(graph, *labels, resume=tmp_path)
    file = next(tmp_path.glob("*.json"))
    content = json.loads(file.read_text())
    content["metadata"]["best_epoch"] = 1000
    file.write_text(json.dumps(content))
    with pytest.raises(cge.CgeError, match="was changed since it was saved"):
        clone(again).fit(graph, partial_labels(), resume=tmp_path)


class StopError(Exception):
    pass


def test_a_stopped_fit_continues_to_the_same_bytes(tmp_path: Path) -> None:
    """Stop in both stages, the selection of the best epoch and the second training; then run to the end."""
    quick = partial(small, "lstm", walks_per_node=1, outer_paths=16)
    whole = quick().fit(two_groups(), partial_labels())
    for stage in ("select", "refit"):

        def stop(epoch: PaperEpoch, stage: str = stage) -> None:
            if (epoch.stage == "refit") == (stage == "refit") and epoch.epoch == 2:
                raise StopError

        with pytest.raises(StopError):
            quick().fit(two_groups(), partial_labels(), resume=tmp_path, callback=stop)
        assert (tmp_path / f"{stage}.json").exists()
    epochs: list[PaperEpoch] = []
    continued = quick().fit(two_groups(), partial_labels(), resume=tmp_path, callback=epochs.append)
    assert [epoch.epoch for epoch in epochs] == list(range(3, whole.best_epoch_ + 1))
    assert continued.embedding_.tobytes() == whole.embedding_.tobytes()
    assert continued.predict_proba().tobytes() == whole.predict_proba().tobytes()
    assert continued.history_.column("path_loss") == whole.history_.column("path_loss")
