"""`CGE` with the path encoder, as users meet it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge import metrics
from cge.data.graph_update import GraphUpdate
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.estimators.encoder_fit import _Fitting, _Member
from cge.estimators.encoder_model import encoder_settings, uncalibrated_probabilities
from cge.estimators.predictions import predict_nodes
from cge.graph import Graph
from cge.models.edge_weighting import make_edge_inputs
from cge.training import candidates
from cge.training.encoder_data import EncoderData
from cge.training.history import Epoch
from cge.training.learned_weighting import OuterResult
from cge.training.task import Task
from tests.fixtures import (
    GROUP_SIZE,
    TRUE_LABELS,
    ConstantWeighting,
    partial_labels,
    quick_cge,
    two_groups,
    with_sparse_features,
)
from tests.stored_files import with_hash

MOST = np.where(np.arange(2 * GROUP_SIZE) % 4 > 0, TRUE_LABELS, -1)  # enough to hold some out


@pytest.mark.parametrize("features", [True, False])
def test_no_argument_is_needed(features: bool) -> None:
    graph = with_sparse_features(two_groups()) if features else two_groups(features=False)
    told: list[Any] = []
    model = cge.CGE().fit(graph, MOST, callback=told.append)
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    assert model.embedding_.shape == (40, 32)
    assert np.isfinite(model.embedding_).all()
    assert model.weighting_ in {row["weighting"] for row in model.search_results_}
    assert set(model.classifiers_) <= {"mlp", "consistency", "sparse", "sparse-light", "distilled"}
    assert all(isinstance(one, Epoch) for one in told)
    assert {one.stage for one in told} - {"select"} == {"compare", "refit"}  # all may be done in the comparison
    assert model.labels_seen_["train"] == 30
    assert 5 <= model.labels_seen_["selection"] < 10
    assert model.selection_history_ is not None
    np.testing.assert_allclose(model.predict_proba().sum(1), 1, rtol=1e-5)


def test_validation_labels_choose_and_nothing_is_trained_again() -> None:
    model = quick_cge(label_propagation="no").fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert model.selection_history_ is None
    assert model.labels_seen_["selection"] == 6  # of ten, four are in y as well
    compared = {(row["weighting"], row["classifier"]) for row in model.search_results_}
    assert {("degree", "mlp"), ("degree", "consistency"), ("degree", "sparse")} <= compared
    assert {weights for weights, _ in compared} >= {"none", "cosine", "edges"}
    for row in model.search_results_:
        assert 0 <= row["accuracy"] <= 1
        assert (row["accuracy_gain"] is None) == (row["accuracy_gain_error"] is None)


def test_without_selection_labels_nothing_is_compared() -> None:
    model = quick_cge(validation_fraction=0.0).fit(with_sparse_features(two_groups()), partial_labels())
    assert (model.search_results_, model.weighting_, model.classifiers_) == ([], "degree", ["mlp"])
    assert model.best_epoch_ == 25
    few = cge.CGE().fit(two_groups(features=False), {0: "left", 5: "left", 25: "right"})
    assert (
        few.score(few.node_ids_, np.where(TRUE_LABELS == 0, "left", "right")) > 0.8
    )  # they do not all agree on one class
    assert model.labels_seen_ == {"train": 14, "outer": 0, "selection": 0}


@pytest.mark.parametrize(
    "weighting", ["none", "degree", "cosine", "edges", "steps", "average", "cnn", "lstm", ConstantWeighting]
)
def test_every_weighting_is_stored_and_comes_back(weighting: Any, tmp_path: Path) -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge(weighting).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    model.save(tmp_path / "m")
    again = cge.load(tmp_path / "m", weighting=weighting if callable(weighting) else None)
    assert np.array_equal(again.predict_proba(), model.predict_proba())
    assert np.array_equal(again.embedding_, model.embedding_)
    some_paths = [[0], [0, int(graph.indices[0])], [0, int(graph.indices[0]), 0]]
    assert np.array_equal(again.path_weights(some_paths), model.path_weights(some_paths))
    assert (again.weighting_, again.classifiers_, again.search_results_) == (
        model.weighting_,
        model.classifiers_,
        model.search_results_,
    )
    assert again.history_.rows() == model.history_.rows()
    assert again.weight_parameters_ == model.weight_parameters_
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.8


def test_the_same_bytes_on_any_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.models.sparse_products._WORK", 50)  # so that even a small graph is worth two threads
    monkeypatch.setattr("cge.models.propagation._BLOCK", 7)
    monkeypatch.setattr("cge.models.edge_features._BLOCK", 7)
    graph = with_sparse_features(two_groups())
    told: dict[str, Any] = {"classifier": "consistency", "label_propagation": "yes"}
    found = [
        quick_cge("steps", n_jobs=n_jobs, **told).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
        for n_jobs in (1, 2)
    ]
    assert found[0].embedding_.tobytes() == found[1].embedding_.tobytes()
    assert found[0].predict_proba().tobytes() == found[1].predict_proba().tobytes()


class StopError(Exception):
    pass


@cache
def never_stopped(validation: bool) -> cge.CGE:
    graph = with_sparse_features(two_groups())
    return quick_cge(label_propagation="no").fit(
        graph, *((partial_labels(), partial_labels(TRUE_LABELS, 4)) if validation else (MOST,))
    )


@pytest.mark.parametrize(("after", "validation"), [(3, True), (60, True), (90, True), (160, False)])
def test_a_stopped_fit_goes_on_to_the_same_bytes(
    after: int, validation: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cge.estimators.encoder_fit._SAVED_EVERY", 0.0)
    graph, more = with_sparse_features(two_groups()), partial_labels(TRUE_LABELS, 4) if validation else None
    y = partial_labels() if validation else MOST
    whole = never_stopped(validation)
    count = 0

    def stop(_: Any) -> None:
        nonlocal count
        count += 1
        if count == after:
            raise StopError

    with pytest.raises(StopError):
        quick_cge(label_propagation="no").fit(graph, y, more, resume=tmp_path, callback=stop)
    again = quick_cge(label_propagation="no").fit(graph, y, more, resume=tmp_path)
    assert again.embedding_.tobytes() == whole.embedding_.tobytes()
    assert again.predict_proba().tobytes() == whole.predict_proba().tobytes()
    assert again.search_results_ == whole.search_results_
    with pytest.raises(cge.CgeError, match="holds a checkpoint of another fit"):
        quick_cge(label_propagation="no", random_state=5).fit(graph, y, more, resume=tmp_path)


def test_new_nodes_with_features_and_edges() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    same = cge.Graph.from_edges(edges, features=graph.features, num_nodes=40)
    np.testing.assert_allclose(model.predict_proba(graph=same), model.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(model.transform(same), model.embedding_, atol=1e-5)
    rows = sp.vstack([sp.csr_array(graph.features), sp.csr_array(np.tile([[0, 1]], 6))]).tocsr()
    joined = [*edges.tolist(), [40, 20], [40, 25], [40, 30]]
    grown = cge.Graph.from_edges(joined, features=rows, num_nodes=41)
    assert model.predict([40], graph=grown).tolist() == [1]
    with pytest.raises(cge.CgeError, match="new nodes need 12 features, as in training, found 0"):
        model.transform(cge.Graph.from_edges([(0, 1)]))


def test_new_nodes_with_edges_only() -> None:
    graph = two_groups(features=False)
    model = quick_cge("degree").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    grown = cge.Graph.from_edges([*edges.tolist(), [40, 20], [40, 25], [41, 3], [41, 4]], num_nodes=42)
    assert model.predict([40, 41], graph=grown).tolist() == [1, 0]


@pytest.mark.parametrize("votes", ["yes", "no"])
def test_known_labels_at_the_ends_of_paths_vote(votes: str, tmp_path: Path) -> None:
    graph = two_groups(features=False)
    model = quick_cge("degree", label_propagation=votes).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.label_propagation_ == (votes == "yes")
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    model.save(tmp_path)
    assert np.array_equal(cge.load(tmp_path).predict_proba(), model.predict_proba())
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    same = cge.Graph.from_edges(edges, num_nodes=40)
    np.testing.assert_allclose(model.predict_proba(graph=same), model.predict_proba(), atol=1e-6)


def test_several_labels_per_node(tmp_path: Path) -> None:
    graph = with_sparse_features(two_groups())
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.ones(40)], axis=1).astype(int)
    known = np.where((np.arange(40) % 3 == 0)[:, None], matrix, 0)
    model = quick_cge(label_propagation="yes").fit(graph, known)
    assert model.predict().shape == (40, 3)
    assert model.score(model.node_ids_, matrix) > 0.85
    model.save(tmp_path)
    assert np.array_equal(cge.load(tmp_path).predict_proba(), model.predict_proba())


def test_nodes_carry_vectors_of_walks(tmp_path: Path) -> None:
    """By default with several labels and no features; new nodes are reached through known ones."""
    graph = two_groups(features=False)
    quick: dict[str, Any] = {"classifier": "mlp", "label_propagation": "no", "n_jobs": 1}
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1], axis=1).astype(int)
    known = np.where((np.arange(40) % 3 == 0)[:, None], matrix, 0)
    model = quick_cge("degree", **quick).fit(graph, known)
    carried: Any = model._fitted.data.inputs("l2")
    assert carried.shape == (40, 128)
    np.testing.assert_allclose(np.linalg.norm(carried.numpy(), axis=1), 1, rtol=1e-5)
    vectors = carried.numpy() @ model._fitted.classifier[1].weight.detach().numpy()
    near = graph.to_scipy().toarray() + np.eye(40)
    scale = near.sum(1) ** -0.5
    step = scale[:, None] * near * scale
    propagated = sum(np.linalg.matrix_power(step, hop) for hop in range(5)) / 5 @ vectors
    np.testing.assert_allclose(
        model.embedding_ - model._fitted.classifier[1].bias.detach().numpy(), propagated, atol=1e-4
    )
    asked = quick_cge("degree", inputs="walks", **quick).fit(graph, known)
    assert np.array_equal(asked.embedding_, model.embedding_)
    model.save(tmp_path)
    again = cge.load(tmp_path)
    edges = [*np.argwhere(np.triu(graph.to_scipy().toarray())).tolist(), [0, 40], [1, 40], [2, 40], [41, 42]]
    grown = cge.Graph.from_edges(edges)
    for one in (model, again):
        assert np.array_equal(one.predict_proba(), model.predict_proba())
        probabilities = one.predict_proba([40, 41, 42], graph=grown)
        assert probabilities[0].argmax() == 0
        assert np.array_equal(probabilities[1], probabilities[2])
    choosing = np.where((np.arange(40) % 3 == 1)[:, None], matrix, 0)
    own = quick_cge("auto", **quick).fit(graph, known, choosing)
    assert own.search_results_[0]["weights"] == "own"  # which hold what paths bring, and others have to beat
    assert {"none", "degree"} <= {row["weighting"] for row in own.search_results_}
    told, _ = predict_nodes(own, new=GraphUpdate([(0, 40), (1, 40), (2, 40)]))
    assert (told.predicted, told.counts()) == ([[0]], {"new: edges only": 1})
    single = quick_cge("degree", **quick).fit(graph, MOST)
    assert single._fitted.data.walk_vectors is None  # with one label per node they carry themselves
    asked = quick_cge("degree", inputs="walks", **quick).fit(graph, MOST)
    assert asked.score(asked.node_ids_, TRUE_LABELS) > 0.9


def test_balanced_classes_find_the_rare_one() -> None:
    graph = with_sparse_features(two_groups())
    y = np.full(40, -1)
    y[:18], y[[20, 27]] = 0, 1
    recalls = []
    for weight in ("none", "balanced"):
        model = quick_cge("degree", classifier="mlp", validation_fraction=0.0, class_weight=weight, max_epochs=15).fit(
            graph, y
        )
        recalls.append(float((model.predict_proba()[20:, 1]).mean()))
    assert recalls[1] > recalls[0]


def test_directed_weighted_and_typed_graphs() -> None:
    edges = [(i, (i + 1) % 10) for i in range(10)] + [(10 + i, 10 + (i + 1) % 10) for i in range(10)] + [(0, 10)]
    kinds = ["good"] * 20 + ["bad"]
    graph = cge.Graph.from_edges(edges, directed=True, weights=np.arange(1, 22), edge_types=kinds)
    model = quick_cge("steps").fit(graph, {0: "a", 4: "a", 7: "a", 10: "b", 15: "b", 18: "b"}, {1: "a", 12: "b"})
    assert model.predict([2, 13]).tolist() == ["a", "b"]
    assert {"type good", "type bad"} <= set(model.weight_parameters_["coefficients"])
    without = cge.Graph.from_edges(edges, directed=True)
    assert np.isfinite(model.predict_proba(graph=without)).all()


def test_isolated_nodes_and_nodes_without_features() -> None:
    graph = two_groups(features=False)
    edges = np.stack(graph.to_scipy().nonzero(), axis=1)
    x = sp.csr_array(with_sparse_features(graph).features)
    x = sp.vstack([x, sp.csr_array((1, 12))]).tocsr()
    model = quick_cge("cosine").fit(
        cge.Graph.from_edges(edges, features=x, num_nodes=41), dict(enumerate(TRUE_LABELS[:35:2]))
    )
    assert np.isfinite(model.predict_proba()).all()


def test_dense_features_of_any_scale() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(40, 4)) * [1e4, 1, 1e-3, 1] + [1e5, 0, 0, 7]
    features[:, 1] += 3 * TRUE_LABELS
    graph = two_groups(features=False).with_features(features)
    model = quick_cge().fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    one = cge.Graph.from_edges([(0, 1)], features=features[:2])
    assert np.isfinite(model.predict_proba(graph=one)).all()


def test_units_of_dense_features_do_not_matter() -> None:
    random = np.random.default_rng(0)
    plain = random.normal(size=(40, 4)).astype(np.float32)
    other = np.concatenate([plain * [8, 1, 0.25, 1] + [64, 0, 0, -8], np.full((40, 2), 0.1)], axis=1)
    for inputs in ("features", "table"):
        one, two = (EncoderData(two_groups(features=False).with_features(x), inputs) for x in (plain, other))
        np.testing.assert_allclose(one.edge_inputs.values[:, 0], two.edge_inputs.values[:, 0], atol=1e-4)
        assert one.edge_inputs.values[:, 0].std() > 0.5
    inputs = EncoderData(two_groups(features=False).with_features(other)).inputs("l2")
    assert not inputs.numpy()[:, 4:].any()  # the same everywhere: nothing but rounding


def test_what_no_weight_looks_at_is_not_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = with_sparse_features(two_groups())
    weighted = Graph.from_scipy(graph.to_scipy() * 2.5, weighted=True).with_features(graph.features)
    made = {"degree": quick_cge("degree"), "cosine": quick_cge("cosine")}
    for name, model in made.items():
        model.fit(weighted, partial_labels(), partial_labels(TRUE_LABELS, 4)).save(tmp_path / name)
    expected = {name: model.predict_proba() for name, model in made.items()}
    asked = []
    monkeypatch.setattr(
        "cge.training.encoder_data.step_inputs", lambda *given: asked.append(given) or make_edge_inputs(*given)
    )
    assert np.array_equal(cge.load(tmp_path / "degree").predict_proba(), expected["degree"])
    assert not asked
    assert np.array_equal(cge.load(tmp_path / "cosine").predict_proba(), expected["cosine"])
    assert asked


def test_weights_of_paths() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4))
    y = {0: "a", 1: "a", 2: "b", 3: "b"}
    alike = quick_cge("none", validation_fraction=0.0).fit(graph, y)
    routes = [[0], [0, 1], [0, 1, 2, 3], [0, 0, 1], [0, 2], [0, 1, 0, 1, 0, 1]]
    assert alike.path_weights(routes).tolist() == [1, 1, 1, 1, 0, 0]  # no edge, and more than four steps
    degree = quick_cge("degree", validation_fraction=0.0).fit(graph, y)
    # Degrees and a step to itself: 2, 3, 3, 2.
    np.testing.assert_allclose(degree.path_weights([[0, 1, 2], [1, 0]]), [(2 / 3) ** 0.5, (3 / 2) ** 0.5], rtol=1e-5)
    with pytest.raises(cge.CgeError, match="a path needs at least one node"):
        alike.path_weights([[]])


def test_heavy_edges_elsewhere_leave_what_is_known_of_old_nodes() -> None:
    graph, weights = with_sparse_features(two_groups()), np.random.default_rng(1).random
    source = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    once = source < graph.indices
    edges = np.stack([source[once], graph.indices[once]], axis=1)
    own = weights(len(edges)) + 0.1
    weighted = cge.Graph.from_edges(edges, num_nodes=len(graph), weights=own, features=graph.features)
    more = cge.Graph.from_edges(
        [*edges.tolist(), (len(graph), len(graph) + 1)],
        num_nodes=len(graph) + 2,
        weights=[*own, 1e4],
        features=sp.vstack([graph.features, graph.features[:2]]).tocsr(),
    )
    for weighting in ("degree", "cosine"):
        model = quick_cge(weighting, classifier="mlp", label_propagation="no").fit(
            weighted, partial_labels(), partial_labels(TRUE_LABELS, 4)
        )
        np.testing.assert_allclose(model.predict_proba(range(len(graph)), graph=more), model.predict_proba(), atol=1e-6)


def test_more_models_are_averaged() -> None:
    graph = with_sparse_features(two_groups())
    settings = {"classifier": "consistency", "label_propagation": "no"}
    three = quick_cge("degree", n_estimators=3, **settings).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    one = quick_cge("degree", **settings).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert len(three._fitted.ensemble) == 3  # type: ignore[union-attr]
    assert np.array_equal(three.embedding_, one.embedding_)  # of the first
    fitted: Any = three._fitted
    alone = [
        uncalibrated_probabilities(fitted.data, fitted.plan, [leader], None, False, np.arange(2 * GROUP_SIZE))
        for leader in fitted.ensemble
    ]
    assert not np.allclose(alone[0], alone[2])
    mean = metrics.scale_probabilities((alone[0] + alone[1] + alone[2]) / 3, fitted.temperature)
    np.testing.assert_allclose(three.predict_proba(), mean, rtol=1e-5)


def test_chances_are_calibrated_on_the_selection_labels() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="consistency").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    fitted: Any = model._fitted
    nodes = np.setdiff1d(np.arange(0, 40, 4), np.arange(0, 40, 3))
    scale_probabilities = model.predict_proba()[nodes].astype(float)
    raw = metrics.scale_probabilities(scale_probabilities, 1 / fitted.temperature)
    assert metrics.log_loss(scale_probabilities, TRUE_LABELS[nodes]) <= metrics.log_loss(raw, TRUE_LABELS[nodes]) + 1e-6
    assert np.array_equal(scale_probabilities.argmax(1), raw.argmax(1))


@pytest.mark.slow
def test_chances_of_nodes_that_calibrated_nothing_mean_more_than_before() -> None:
    data = cge.load_dataset("cora")
    assert data.split is not None
    model = quick_cge("degree", classifier="mlp", label_propagation="no", max_epochs=100, dim=32)
    model.fit(data.graph, data.labels_of(data.split.train), data.labels_of(data.split.validation))
    fitted, labels = model._fitted, data.labels[data.split.test]
    told = model.predict_proba()[data.split.test].astype(float)
    error, before = (
        metrics.reliability(one, labels).error
        for one in (told, metrics.scale_probabilities(told, 1 / fitted.temperature))
    )
    assert fitted.temperature < 0.9  # 100 epochs with decay and dropping leave a reader too modest
    assert error < 0.06 < before - 0.05


def overlapping(common: int, rare: int, seed: int) -> tuple[Graph, np.ndarray]:
    """Return nodes of two classes whose features overlap; there is next to nothing to walk on."""
    labels = np.repeat([0, 1], [common, rare])
    features = np.random.default_rng(seed).normal(labels[:, None] * 1.0, 1.0, (len(labels), 2))
    return Graph.from_edges([(0, 1)], num_nodes=len(labels), features=features.astype(np.float32)), labels


def test_classes_are_expected_as_often_as_among_given_selection_labels(tmp_path: Path) -> None:
    graph, labels = overlapping(900, 300, 0)
    random = np.random.default_rng(1)
    y, validation = np.full(1200, -1), np.full(1200, -1)
    for one in (0, 1):  # as many of each class train
        y[random.choice(np.flatnonzero(labels == one), 50, replace=False)] = one
    rest = np.flatnonzero(y < 0)
    choosing = random.choice(rest, 500, replace=False)
    validation[choosing] = labels[choosing]
    others = np.setdiff1d(rest, choosing)
    settings: dict[str, Any] = {"classifier": "mlp", "label_propagation": "no"}
    model = quick_cge("none", **settings).fit(graph, y, validation)
    fixed = quick_cge("none", prior_correction="no", **settings).fit(graph, y, validation)
    assert (model.prior_correction_, fixed.prior_correction_) == (True, False)
    assert model.score(others, labels[others]) > fixed.score(others, labels[others]) + 0.02
    # For one reader it is Bayes' rule: chances times how much commoner a class is; only the heat is found again.
    counts = np.bincount(labels[choosing])
    ratio = (counts + 1) / (502 * 51 / 102)
    by_rule = fixed.predict_proba().astype(np.float64) * ratio
    by_rule = metrics.scale_probabilities(
        by_rule / by_rule.sum(1, keepdims=True), model._fitted.temperature / fixed._fitted.temperature
    )
    np.testing.assert_allclose(model.predict_proba(), by_rule, atol=2e-4)
    off = [metrics.log_loss(one.predict_proba(others), labels[others]) for one in (model, fixed)]
    assert off[0] < off[1] - 0.02
    told = model.explain(int(others[0]))
    assert told.scores.argmax() == model.predict_proba([others[0]]).argmax()
    model.save(tmp_path / "m")
    again = cge.load(tmp_path / "m")
    assert again.prior_correction_
    assert np.array_equal(again.predict_proba(), model.predict_proba())


class Told:
    """Stands for a trainer that gave these scores."""

    def __init__(self, task: Task, scores: Any) -> None:
        self.task, self._scores = task, torch.from_numpy(scores)

    def best_scores(self, nodes: Any) -> Any:
        return self._scores[nodes]


def calibrated(
    scores: list[Any], labels: np.ndarray, train: np.ndarray, held: np.ndarray, given: bool = True
) -> tuple[np.ndarray, float, np.ndarray | None]:
    """Return what `_calibrated` makes of scores that are made up."""
    numbers = [torch.from_numpy(one) for one in (train, held)]
    task = Task(two_groups(), None, torch.from_numpy(labels), 2, *numbers, [])
    fitting = _Fitting.__new__(_Fitting)
    fitting.codes, fitting.model = labels, cge.CGE()
    return fitting._calibrated([_Member("mlp", 0, Told(task, one)) for one in scores], given)


def skewed(seed: int, rare: float, count: int = 400) -> tuple[Any, ...]:
    """Return scores that expect both classes as often, labels of which a share is rare, and who trains and chooses."""
    random = np.random.default_rng(seed)
    labels = (random.random(count + 40) < rare).astype(np.int64)
    labels[:40] = np.arange(40) % 2
    scores = np.stack([np.zeros(len(labels)), 2 * random.normal(labels - 0.5, 1.0)], axis=1)
    return scores, labels, np.arange(40), np.arange(40, count + 40)


def test_each_selection_label_is_judged_by_the_shares_of_the_others() -> None:
    scores, labels, train, held = skewed(0, 0.1)
    again = scores + np.random.default_rng(1).normal(0, 0.5, scores.shape)
    probabilities, temperature, shift = calibrated([scores, again], labels, train, held)
    assert shift is not None
    _, first, none = calibrated([scores, again], labels, train, held, given=False)
    assert none is None  # held out of `y` in equal shares, they say nothing of shares
    counts = np.bincount(labels[held])
    for place in (0, 1, 17, 399):
        node, others = held[place], counts - np.eye(2, dtype=int)[labels[held[place]]]
        moved = first * np.log((others + 1) / (others.sum() + 2) / (21 / 42))
        mean = np.mean([np.exp(one[node] + moved) / np.exp(one[node] + moved).sum() for one in (scores, again)], axis=0)
        raised = mean ** (1 / temperature)
        np.testing.assert_allclose(probabilities[place], raised / raised.sum(), rtol=1e-6)
    np.testing.assert_allclose(shift, first * np.log((counts + 1) / 402 / 0.5), rtol=1e-6)


def test_shares_that_chance_explains_are_not_believed() -> None:
    assert calibrated([skewed(3, 0.1, 40)[0]], *skewed(3, 0.1, 40)[1:])[2] is None  # 40 labels
    only_rare = skewed(4, 1.0, 45)
    assert calibrated([only_rare[0]], *only_rare[1:])[2] is None  # all of one class, and so all helped alike
    believed = [calibrated([one[0]], *one[1:])[2] is not None for one in (skewed(seed, 0.42) for seed in range(10))]
    assert sum(believed) <= 1  # a little more of one class saves a little surprise, mostly by less than three errors


def test_classes_stay_as_common_as_among_training_labels_where_nothing_speaks_against_it() -> None:
    graph, labels = overlapping(600, 200, 2)
    random = np.random.default_rng(3).permutation(800)
    y, validation = (np.where(np.isin(np.arange(800), some), labels, -1) for some in (random[:200], random[200:500]))
    assert (
        not quick_cge("none", classifier="mlp", label_propagation="no").fit(graph, y, validation).prior_correction_
    )  # as common
    balanced, few = np.full(800, -1), np.full(800, -1)
    balanced[[*range(40), *range(600, 640)]] = labels[[*range(40), *range(600, 640)]]
    few[100:104] = 0  # four selection labels prove nothing
    for told in (balanced, few):
        assert (
            not quick_cge("none", classifier="mlp")
            .fit(graph, balanced, None if told is balanced else few)
            .prior_correction_
        )
    asked = quick_cge("none", classifier="mlp", label_propagation="no", class_weight="balanced")
    assert not asked.fit(graph, balanced, validation).prior_correction_  # every class was to count alike


def test_no_label_reaches_itself() -> None:
    """A training label that is turned over changes what others say of the node by nothing but what it taught them."""
    graph = two_groups(features=False)
    y = partial_labels()
    turned = y.copy()
    turned[0] = 1
    votes = []
    for labels in (y, turned):
        model = quick_cge("degree", label_propagation="yes", validation_fraction=0.0).fit(graph, labels)
        fitted: Any = model._fitted
        votes.append(fitted.plan.weighting.propagate_labels(fitted.data, fitted.known, fitted.matrix, multilabel=False))
    assert np.allclose(votes[0][0], votes[1][0], atol=1e-5)
    assert not np.allclose(votes[0][3], votes[1][3], atol=1e-5)


@pytest.mark.parametrize("refit", [True, False])
def test_paths_that_return_are_found_once_and_kept_with_the_model(
    refit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_groups(features=False)
    labels: tuple[Any, ...] = (
        (partial_labels(TRUE_LABELS, 2),) if refit else (partial_labels(), partial_labels(TRUE_LABELS, 4))
    )
    model = quick_cge("degree", label_propagation="yes").fit(graph, *labels)
    expected = model.predict_proba()
    model._fitted.data.closed_walks.clear()  # type: ignore[union-attr]
    assert np.array_equal(model.predict_proba(), expected)
    model = quick_cge("degree", label_propagation="yes").fit(graph, *labels)
    model.save(tmp_path / "model")

    def never(*_: Any) -> None:
        raise AssertionError("they are known")

    again = cge.load(tmp_path / "model")
    monkeypatch.setattr("cge.training.encoder_data.returning", never)
    monkeypatch.setattr("cge.models.label_propagation.returning", never)
    assert np.array_equal(again.predict_proba(), expected)
    arrays = again._fitted.arrays() | {"known.returns": np.zeros(3)}
    with pytest.raises(cge.CgeError, match="the known labels and the paths that return to them do not agree"):
        type(again._fitted).restored(again, graph, again.classes_, again._fitted.facts(), arrays)


@pytest.mark.parametrize("classifier", ["mlp", "distilled"])
def test_every_training_hears_of_a_node_what_the_others_say(classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Any] = []
    real = candidates.ClassifierTrainer

    def spy(*given: Any, **named: Any) -> Any:
        trained.append(real(*given, **named))
        return trained[-1]

    monkeypatch.setattr(candidates, "ConsistencyTrainer", spy)
    model = quick_cge("degree", classifier=classifier, label_propagation="yes").fit(
        with_sparse_features(two_groups()), MOST
    )
    fitted: Any = model._fitted
    sizes = {len(one.task.train) for one in trained}
    assert max(sizes) == 30 > min(sizes)  # with labels held out, and again with all
    for one in trained:
        train = one.task.train.numpy()
        for node in train[:3]:
            others = train[train != node]
            members = np.eye(2)[one.task.labels.numpy()[others]]
            expected = fitted.plan.weighting.propagate_labels(fitted.data, others, members, multilabel=False)[node]
            assert one.votes[node].numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"weighting": "cosine"}, "weighting='cosine' needs node features"),
        ({"inputs": "features"}, "payload='features' needs node features"),
        ({"outer": "paper"}, "outer='paper' is a rule for pairs"),
        ({"outer_labels": "validation"}, "outer_labels='validation' needs"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cge.CgeError, match=sentence):
        make_estimator(cge.CGE, {**settings}).fit(two_groups(features=False), partial_labels())


@pytest.mark.parametrize("weighting", ["degree", "cosine", "edges", "steps"])
def test_pairs_know_no_weights_of_steps(weighting: str) -> None:
    with pytest.raises(cge.CgeError, match="needs encoder='paths'"):
        cge.PaperCGE("transductive", weighting).fit(two_groups(), partial_labels())


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    quick_cge("steps").fit(with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)).save(
        tmp_path
    )
    text = (tmp_path / "model.json").read_text()
    for old, new in (('"leaders"', '"ladders"'), ('"hops": 5', '"hops": 6'), ('"plan"', '"plane"')):
        assert old in text
        (tmp_path / "model.json").write_text(json.dumps(with_hash(json.loads(text.replace(old, new, 1)))))
        with pytest.raises(cge.CgeError):
            cge.load(tmp_path)


def test_overflow_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cge.training.classifier_training.supervised_loss", lambda *_: torch.tensor(np.inf, requires_grad=True)
    )
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of learning_rate \(now 0.01\)"):
        quick_cge("degree").fit(with_sparse_features(two_groups()), partial_labels())


def test_torch_keeps_its_random_numbers_and_threads() -> None:
    torch.manual_seed(3)
    expected, n_jobs = torch.rand(2), torch.get_num_threads()
    torch.manual_seed(3)
    quick_cge().fit(with_sparse_features(two_groups()), partial_labels())
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == n_jobs


def test_a_network_multiplies_its_prior() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("lstm").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    fitted: Any = model._fitted
    weights, data = fitted.plan.weighting, fitted.data
    node = int(graph.indices[graph.indptr[0]])
    steps = data.transitions
    first = int(np.flatnonzero((steps.rows == 0) & (steps.indices == node))[0])
    items, length = torch.tensor([[len(steps), first]]), torch.tensor([2])
    with torch.no_grad():
        told = float(weights.module(data.token_vectors(weights.sampled[1]), items, length))
    expected = told * float(weights.prior.of(data, [np.array([0, node])])[0])
    assert float(model.path_weights([[0, node]])[0]) == pytest.approx(expected, rel=1e-5)
    assert weights.prior.name in ("degree", "cosine")


@pytest.mark.parametrize(("weighting", "told"), [("steps", True), ("auto", False)])
def test_labels_that_teach_weights_nothing_are_told(
    weighting: str, told: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(
        "cge.training.model_search.learn_weighting", lambda *_, **__: OuterResult(0.7, 0.7, learned=False)
    )
    quick_cge(weighting).fit(with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4))
    said = [(str(one.message), one.filename) for one in recwarn if one.category is cge.CgeWarning]
    assert len(said) == told
    for message, place in said:
        assert "taught weighting='steps' nothing" in message
        assert place == __file__  # the line that asked for it


def test_a_pupil_has_to_have_teachers(tmp_path: Path) -> None:
    graph = with_sparse_features(two_groups())
    with pytest.raises(InputError, match="taught by votes of known labels"):
        quick_cge("degree", classifier="distilled", label_propagation="no").fit(graph, partial_labels())
    model = quick_cge("degree", classifier="distilled").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.label_propagation_
    assert model.classifiers_ == ["distilled"]
    model.save(tmp_path / "model")
    assert np.array_equal(cge.load(tmp_path / "model").predict_proba(), model.predict_proba())


def test_many_classes_get_longer_vectors(tmp_path: Path) -> None:
    model = cge.CGE()
    assert [encoder_settings(model, classes).dim for classes in (2, 32, 33, 500)] == [32, 32, 64, 64]
    assert encoder_settings(quick_cge(), 500).dim == 8  # what is told counts
    told = quick_cge("degree", classifier="mlp", label_propagation="no").fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    told.set_params(dim=None).save(tmp_path / "m")  # as if the default had been another one then
    assert np.array_equal(cge.load(tmp_path / "m").predict_proba(), told.predict_proba())


@pytest.mark.parametrize("scale", [1e25, 1e-25])
@pytest.mark.parametrize("dense", [True, False])
def test_features_of_any_size_are_read(dense: bool, scale: float) -> None:
    """Their squares are too large or too small for float32; one node in two has features of a usual size."""
    graph = with_sparse_features(two_groups())
    usual = graph.features.toarray() if dense else graph.features
    sizes = np.ones(40) if dense else np.where(np.arange(40) % 2, 1.0, scale)  # dense columns have one size
    odd = (usual * sizes[:, None] * (scale if dense else 1)).astype(np.float32)
    probabilities = []
    for features in (usual, odd if dense else sp.csr_array(odd)):
        model = quick_cge("cosine", classifier="mlp", label_propagation="no", max_epochs=20)
        probabilities.append(
            model.fit(graph.with_features(features), partial_labels(), partial_labels(TRUE_LABELS, 4)).predict_proba()
        )
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=0.02)
    assert np.ptp(probabilities[0]) > 0.1
