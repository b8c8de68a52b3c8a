"""Whole fits of `CGE`: the model search, saving and resuming, new nodes, features, label propagation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge import metrics
from cge.data.graph_update import GraphUpdate
from cge.estimators.calibration import uncalibrated_probabilities
from cge.estimators.encoder_fit import _rate_limited
from cge.estimators.encoder_options import encoder_settings
from cge.estimators.predictions import predict_nodes
from cge.estimators.stored_encoder import restore_encoder
from cge.graph import Graph
from cge.models.edge_weighting import make_edge_inputs
from cge.training import candidate_evaluation
from cge.training.encoder_data import EncoderData
from cge.training.history import Epoch
from cge.training.learned_weighting import OuterResult
from tests.fixtures import (
    GROUP_SIZE,
    TRUE_LABELS,
    ConstantWeighting,
    partial_labels,
    quick_cge,
    two_groups,
    used_vectors,
    with_sparse_features,
)
from tests.stored_files import with_hash

NODES = 2 * GROUP_SIZE
TRAIN, VALIDATION = partial_labels(), partial_labels(TRUE_LABELS, 4)
MOST = np.where(np.arange(NODES) % 4 > 0, TRUE_LABELS, -1)  # enough to hold some out
NO_SEARCH: dict[str, Any] = {"classifier": "mlp", "label_propagation": False}
FEW_STEPS: dict[str, Any] = {"outer_steps": 40, "warmup_steps": 10}


def sparse_graph() -> Graph:
    return with_sparse_features(two_groups())


def edges_of(graph: Graph) -> list[list[int]]:
    """Return each edge once, or twice where that does not matter."""
    edges: list[list[int]] = np.stack(graph.to_scipy().nonzero(), axis=1).tolist()
    return edges


# ---------------------------------------------------------------------- the model search


@pytest.mark.parametrize("features", [True, False])
def test_the_defaults(features: bool) -> None:
    epochs: list[Any] = []
    model, graph = cge.CGE(training={"max_epochs": 60}), two_groups(features=False)
    if features:
        model, graph = quick_cge(max_epochs=50, dim=None), with_sparse_features(graph)
    model.fit(graph, MOST, callback=epochs.append)
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    widths = [len(each.classifier.offset) for each in model.fitted_.ensemble]
    assert used_vectors(model).shape == (NODES, sum(widths) + 2 * model.label_propagation_)
    assert np.isfinite(model.embedding_).all()
    assert model.weighting_ in {row["weighting"] for row in model.search_results_}
    assert set(model.classifiers_) <= {
        "mlp",
        "consistency",
        "sparse",
        "sparse-light",
        "logistic",
        "logistic-unit",
        "distilled",
    }
    assert all(isinstance(epoch, Epoch) for epoch in epochs)
    assert {epoch.stage for epoch in epochs} - {"select"} == {"compare", "refit"}  # the comparison may train to the end
    assert model.labels_seen_["train"] == 30
    assert model.labels_seen_["validation"] == 30  # cross-fitted
    assert model.selection_history_ is not None
    np.testing.assert_allclose(model.predict_proba().sum(1), 1, rtol=1e-5)


def test_validation_labels_select_and_nothing_is_trained_again() -> None:
    model = quick_cge(label_propagation=False, **FEW_STEPS).fit(sparse_graph(), TRAIN, VALIDATION)
    assert model.selection_history_ is None
    assert model.labels_seen_["validation"] == 6  # of ten, four are in y as well
    compared = {(row["weighting"], row["classifier"]) for row in model.search_results_}
    assert {("degree", "mlp"), ("degree", "consistency"), ("degree", "sparse")} <= compared
    assert {weighting for weighting, _ in compared} >= {"uniform", "cosine", "edges"}
    for row in model.search_results_:
        assert 0 <= row["accuracy"] <= 1
        assert (row["accuracy_gain"] is None) == (row["accuracy_gain_se"] is None) == (row["compared_with"] is None)


def test_without_validation_labels_nothing_is_compared() -> None:
    model = quick_cge(validation_fraction=0.0).fit(sparse_graph(), TRAIN)
    assert (model.search_results_, model.weighting_, model.classifiers_) == ([], "degree", ["mlp"])
    assert model.best_epoch_ == 25
    assert model.labels_seen_ == {"train": 14, "outer": 0, "validation": 0}
    few = cge.CGE().fit(two_groups(features=False), {0: "left", 5: "left", 25: "right"})
    assert few.score(few.node_ids_, np.where(TRUE_LABELS == 0, "left", "right")) > 0.8  # not all of one class


def test_a_weighting_that_learns_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = OuterResult(0.7, 0.7, better_than_prior=False)
    monkeypatch.setattr("cge.training.weighting_learning.OuterProblem.run", lambda *_: result)
    with pytest.warns(cge.CgeWarning, match=r"weights of weighting='edges\+hops' do not predict") as caught:
        quick_cge("edges+hops", **NO_SEARCH).fit(sparse_graph(), TRAIN, VALIDATION)
    assert [warning.filename for warning in caught] == [__file__]  # the line that calls fit
    quick_cge(**NO_SEARCH).fit(
        sparse_graph(), TRAIN, VALIDATION
    )  # "auto" falls back to a closed form without a warning


def test_many_classes_get_longer_vectors(tmp_path: Path) -> None:
    assert [encoder_settings(cge.CGE(), classes).dim for classes in (2, 32, 33, 500)] == [32, 32, 64, 64]
    assert encoder_settings(quick_cge(dim=8), 500).dim == 8
    model = quick_cge("degree", **NO_SEARCH).fit(sparse_graph(), TRAIN)
    model.set_params(dim=None).save(tmp_path / "m")  # as if the default had been another one then
    assert np.array_equal(cge.load(tmp_path / "m").predict_proba(), model.predict_proba())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"weighting": "cosine"},
            "weighting='cosine' needs node features, and the graph has none; use weighting='auto'",
        ),
        ({"inputs": "features"}, "inputs='features' needs node features, and the graph has none; use inputs='auto'"),
        (
            {"classifier": "distilled", "label_propagation": False},
            "classifier='distilled' is trained on the result of label propagation, and label_propagation=False forbids",
        ),
    ],
)
def test_settings_that_exclude_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(cge.CgeError, match=message):
        cge.CGE(**settings).fit(two_groups(features=False), TRAIN)


def test_learned_weightings_need_four_training_labels() -> None:
    labels, validation = {0: "a", 5: "a", 25: "b"}, {1: "a", 26: "b"}
    with pytest.raises(cge.CgeError, match="learned weightings need at least four training labels, found 3; use weigh"):
        quick_cge("edges").fit(two_groups(), labels, validation)


def test_an_ensemble_averages_probabilities() -> None:
    graph, settings = sparse_graph(), {"classifier": "consistency", "label_propagation": False}
    three = quick_cge("degree", n_estimators=3, **settings).fit(graph, TRAIN, VALIDATION)
    single = quick_cge("degree", **settings).fit(graph, TRAIN, VALIDATION)
    fitted: Any = three.fitted_
    assert len(fitted.ensemble) == 3
    part, alone = three.embedding_[:, :8], used_vectors(single)  # the part of the first classifier, scaled
    np.testing.assert_allclose(part * np.linalg.norm(alone) / np.linalg.norm(part), alone, rtol=1e-4, atol=1e-6)
    assert used_vectors(three).shape == (NODES, 24)
    each = [
        uncalibrated_probabilities(fitted.data, fitted.selection, [trained], None, fitted.target, np.arange(NODES))
        for trained in fitted.ensemble
    ]
    assert not np.allclose(each[0], each[2])
    mean = metrics.scale_probabilities(np.mean(each, axis=0), fitted.temperature)
    np.testing.assert_allclose(three.predict_proba(), mean, rtol=1e-5)


def test_balanced_class_weights_raise_the_probability_of_the_rare_class() -> None:
    y = np.full(NODES, -1)
    y[:18], y[[20, 27]] = 0, 1
    probabilities = []
    for class_weight in (None, "balanced"):
        model = quick_cge("degree", **NO_SEARCH, validation_fraction=0.0, class_weight=class_weight, max_epochs=15)
        probabilities.append(model.fit(sparse_graph(), y).predict_proba()[20:, 1].mean())
    assert probabilities[1] > probabilities[0] + 0.05


def test_overflow_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    infinite = torch.tensor(np.inf, requires_grad=True)
    monkeypatch.setattr("cge.losses.supervised_loss", lambda *_: infinite)
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of learning_rate \(now 0.01\)"):
        quick_cge("degree").fit(sparse_graph(), TRAIN)


def test_torch_keeps_its_random_numbers_and_threads() -> None:
    torch.manual_seed(3)
    expected, threads = torch.rand(2), torch.get_num_threads()
    torch.manual_seed(3)
    quick_cge("edges", **NO_SEARCH, **FEW_STEPS).fit(sparse_graph(), TRAIN)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads


def test_the_same_bytes_on_any_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.models.sparse_products._WORK", 50)  # so that even a small graph is worth two threads
    monkeypatch.setattr("cge.models.sparse_products._SMALL_WORK", 0)
    monkeypatch.setattr("cge.models.sparse_products._BLOCK", 7)
    monkeypatch.setattr("cge.models.edge_features._BLOCK", 7)
    settings = FEW_STEPS | {"classifier": "consistency", "label_propagation": True}
    models = [
        quick_cge("edges+hops", n_jobs=n_jobs, **settings).fit(sparse_graph(), TRAIN, VALIDATION) for n_jobs in (1, 2)
    ]
    assert models[0].embedding_.tobytes() == models[1].embedding_.tobytes()
    assert models[0].predict_proba().tobytes() == models[1].predict_proba().tobytes()


# ---------------------------------------------------------------------- save and resume


@pytest.mark.parametrize(
    "weighting",
    ["uniform", "degree", "cosine", "edges", "edges+hops", "average", "cnn", "lstm", ConstantWeighting, "auto"],
)
def test_every_weighting_is_stored_and_comes_back(weighting: Any, tmp_path: Path) -> None:
    graph = sparse_graph()
    model = quick_cge(weighting, **FEW_STEPS).fit(graph, TRAIN, VALIDATION)
    model.save(tmp_path / "m")
    again = cge.load(tmp_path / "m", weighting=weighting if callable(weighting) else None)
    assert np.array_equal(again.predict_proba(), model.predict_proba())
    assert np.array_equal(again.embedding_, model.embedding_)
    node = int(graph.indices[0])
    paths = [[0], [0, node], [0, node, 0]]
    assert np.array_equal(again.path_weights(paths), model.path_weights(paths))
    for name in ("weighting_", "classifiers_", "search_results_", "weight_parameters_", "labels_seen_"):
        assert getattr(again, name) == getattr(model, name)
    assert again.history_.rows() == model.history_.rows()
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.8


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    quick_cge("edges+hops", **NO_SEARCH, **FEW_STEPS).fit(sparse_graph(), TRAIN, VALIDATION).save(tmp_path)
    text = (tmp_path / "model.json").read_text()
    for old, new in (
        ('"ensemble"', '"members"'),
        ('"hop_weights": 5', '"hop_weights": 6'),
        ('"selection"', '"selected"'),
    ):
        assert old in text
        (tmp_path / "model.json").write_text(json.dumps(with_hash(json.loads(text.replace(old, new, 1)))))
        with pytest.raises(cge.CgeError, match="does not hold a complete CGE model"):
            cge.load(tmp_path)


class StopError(Exception):
    pass


@cache
def uninterrupted(validation: bool) -> tuple[cge.CGE, int]:
    """Return a model that was trained without a stop, and its number of epochs."""
    epochs: list[Any] = []
    labels = (TRAIN, VALIDATION) if validation else (MOST,)
    model = quick_cge(label_propagation=False, n_jobs=1, **FEW_STEPS).fit(
        sparse_graph(), *labels, callback=epochs.append
    )
    return model, len(epochs)


@pytest.mark.parametrize(("share", "validation"), [(0.02, True), (0.5, True), (0.98, False)])
def test_a_stopped_fit_continues_to_the_same_bytes(
    share: float, validation: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, labels = sparse_graph(), (TRAIN, VALIDATION) if validation else (MOST, None)
    expected, epochs = uninterrupted(validation)
    last, count = int(share * epochs), 0

    def stop(_: Any) -> None:
        nonlocal count
        count += 1
        if count == last:
            raise StopError

    def shortly_before_the_stop(write: Any) -> Any:
        return lambda state: write(state) if last - 2 <= count < last else None

    monkeypatch.setattr("cge.estimators.encoder_fit._rate_limited", shortly_before_the_stop)
    with pytest.raises(StopError):
        quick_cge(label_propagation=False, n_jobs=1, **FEW_STEPS).fit(graph, *labels, resume=tmp_path, callback=stop)
    more: list[Any] = []
    again = quick_cge(label_propagation=False, n_jobs=1, **FEW_STEPS).fit(
        graph, *labels, resume=tmp_path, callback=more.append
    )
    assert epochs - last <= len(more) <= epochs - last + 2
    assert again.embedding_.tobytes() == expected.embedding_.tobytes()
    assert again.predict_proba().tobytes() == expected.predict_proba().tobytes()
    assert again.search_results_ == expected.search_results_
    with pytest.raises(cge.CgeError, match="holds a checkpoint of another fit"):
        quick_cge(label_propagation=False, random_state=5, **FEW_STEPS).fit(graph, *labels, resume=tmp_path)


def test_checkpoints_are_written_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 4.9, 5.1, 5.1, 10.0, 10.2, 10.2])
    monkeypatch.setattr("cge.estimators.encoder_fit.time", SimpleNamespace(monotonic=lambda: next(times)))
    written: list[Any] = []
    write = _rate_limited(written.append)
    for number in range(5):
        write(number)  # type: ignore[arg-type]
    assert written == [2, 4]


def test_edge_inputs_are_computed_only_for_weightings_that_use_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = sparse_graph()
    weighted = Graph.from_scipy(graph.to_scipy() * 2.5, weighted=True).with_features(graph.features)
    models = {name: quick_cge(name, **NO_SEARCH).fit(weighted, TRAIN, VALIDATION) for name in ("degree", "cosine")}
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return make_edge_inputs(*args)

    monkeypatch.setattr("cge.training.encoder_data.make_edge_inputs", counted)
    for name, model in models.items():
        model.save(tmp_path / name)
        assert np.array_equal(cge.load(tmp_path / name).predict_proba(), model.predict_proba())
        assert len(calls) == (name == "cosine")


# ---------------------------------------------------------------------- path weights


def test_weights_of_paths() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4))
    y = {0: "a", 1: "a", 2: "b", 3: "b"}
    uniform = quick_cge("uniform", validation_fraction=0.0).fit(graph, y)
    paths = [[0], [0, 1], [0, 1, 2, 3], [0, 0, 1], [0, 2], [0, 1, 0, 1, 0, 1]]
    assert uniform.path_weights(paths).tolist() == [1, 1, 1, 1, 0, 0]  # [0, 2] is no edge, the last has five edges
    degree = quick_cge("degree", validation_fraction=0.0).fit(graph, y)
    # Degrees with self-loops: 2, 3, 3, 2.
    np.testing.assert_allclose(degree.path_weights([[0, 1, 2], [1, 0]]), [(2 / 3) ** 0.5, (3 / 2) ** 0.5], rtol=1e-5)


def test_a_network_multiplies_its_base_weighting() -> None:
    graph = sparse_graph()
    model = quick_cge("lstm", **FEW_STEPS).fit(graph, TRAIN, VALIDATION)
    fitted: Any = model.fitted_
    weighting, data = fitted.selection.weighting, fitted.data
    node, transitions = int(graph.indices[graph.indptr[0]]), data.transitions
    edge = int(np.flatnonzero((transitions.rows == 0) & (transitions.indices == node))[0])
    tokens, length = torch.tensor([[len(transitions), edge]]), torch.tensor([2])
    with torch.no_grad():
        factor = float(weighting.module(data.step_vectors(weighting.sampled[1]), tokens, length))
    expected = factor * float(weighting.initial_weighting.path_weights(data, [np.array([0, node])])[0])
    assert float(model.path_weights([[0, node]])[0]) == pytest.approx(expected, rel=1e-5)
    assert weighting.initial_weighting.name in ("degree", "cosine")


# ---------------------------------------------------------------------- new nodes


def test_new_nodes_with_features_and_edges() -> None:
    graph = sparse_graph()
    model = quick_cge("degree").fit(graph, TRAIN, VALIDATION)
    edges = edges_of(graph)
    same = cge.Graph.from_edges(edges, features=graph.features, num_nodes=NODES)
    np.testing.assert_allclose(model.predict_proba(graph=same), model.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(model.transform(same), model.embedding_, atol=1e-5)
    rows = sp.vstack([sp.csr_array(graph.features), sp.csr_array(np.tile([[0, 1]], 6))]).tocsr()
    grown = cge.Graph.from_edges([*edges, [40, 20], [40, 25], [40, 30]], features=rows, num_nodes=41)
    assert model.predict([40], graph=grown).tolist() == [1]
    with pytest.raises(cge.CgeError, match="new nodes need 12 features, as in training, found 0"):
        model.transform(cge.Graph.from_edges([(0, 1)]))


def test_new_nodes_with_edges_only() -> None:
    graph = two_groups(features=False)
    model = quick_cge("degree").fit(graph, TRAIN, VALIDATION)
    grown = cge.Graph.from_edges([*edges_of(graph), [40, 20], [40, 25], [41, 3], [41, 4]], num_nodes=42)
    assert model.predict([40, 41], graph=grown).tolist() == [1, 0]


def test_heavy_edges_elsewhere_do_not_change_predictions() -> None:
    graph = sparse_graph()
    edges = [edge for edge in edges_of(graph) if edge[0] < edge[1]]
    weights = np.random.default_rng(1).random(len(edges)) + 0.1
    weighted = cge.Graph.from_edges(edges, num_nodes=NODES, weights=weights, features=graph.features)
    grown = cge.Graph.from_edges(
        [*edges, (NODES, NODES + 1)],
        num_nodes=NODES + 2,
        weights=[*weights, 1e4],
        features=sp.vstack([graph.features, graph.features[:2]]).tocsr(),
    )
    for weighting in ("degree", "cosine"):
        model = quick_cge(weighting, **NO_SEARCH).fit(weighted, TRAIN, VALIDATION)
        np.testing.assert_allclose(model.predict_proba(range(NODES), graph=grown), model.predict_proba(), atol=1e-6)


# ---------------------------------------------------------------------- odd graphs and features


def test_directed_weighted_and_typed_graphs() -> None:
    edges = [(i, (i + 1) % 10) for i in range(10)] + [(10 + i, 10 + (i + 1) % 10) for i in range(10)] + [(0, 10)]
    graph = cge.Graph.from_edges(edges, directed=True, weights=np.arange(1, 22), edge_types=["good"] * 20 + ["bad"])
    model = quick_cge("edges+hops").fit(graph, {0: "a", 4: "a", 7: "a", 10: "b", 15: "b", 18: "b"}, {1: "a", 12: "b"})
    assert model.predict([2, 13]).tolist() == ["a", "b"]
    assert {"type good", "type bad"} <= set(model.weight_parameters_["coefficients"])
    plain = cge.Graph.from_edges(edges, directed=True)  # neither weights nor types
    assert model.predict([2, 13], graph=plain).tolist() == ["a", "b"]


def test_isolated_nodes_and_nodes_without_features() -> None:
    """Node 40 has neither edges nor features, 41 only features of the second group, 42 only edges to it."""
    graph = two_groups(features=False)
    alone, featured, connected = range(40, 43)
    extra = np.zeros((3, 12), np.float32)
    extra[1, 1::2] = 1
    features = sp.vstack([with_sparse_features(graph).features, sp.csr_array(extra)]).tocsr()
    edges = [*edges_of(graph), *([connected, node] for node in (20, 25, 30))]
    graph = cge.Graph.from_edges(edges, features=features, num_nodes=43)
    model = quick_cge("cosine", **NO_SEARCH, max_epochs=100).fit(graph, dict(enumerate(TRUE_LABELS[::2].repeat(2))))
    assert model.score(range(NODES), TRUE_LABELS) > 0.9
    probabilities = model.predict_proba()
    assert (probabilities[[featured, connected], 1] > 0.7).all()
    assert not model.fitted_.data.has_inputs[[alone, connected]].any()  # type: ignore[attr-defined]
    # Nothing distinguishes node 40 from any other node that has nothing: its scores are those of no inputs.
    empty = cge.Graph.from_edges([("x", "y")], node_ids=["x", "y"], features=sp.csr_array((2, 12)))
    np.testing.assert_allclose(model.predict_proba(["x", "y"], empty), probabilities[[alone, alone]], rtol=1e-5)
    assert 0.2 < probabilities[alone, 0] < 0.8


def test_dense_features_of_any_scale() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(NODES, 4)) * [1e4, 1, 1e-3, 1] + [1e5, 0, 0, 7]
    features[:, 1] += 3 * TRUE_LABELS
    model = quick_cge().fit(two_groups(features=False).with_features(features), TRAIN, VALIDATION)
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    pair = cge.Graph.from_edges([(0, 1)], features=features[:2])
    assert np.isfinite(model.predict_proba(graph=pair)).all()


def test_units_of_dense_features_do_not_matter() -> None:
    features = np.random.default_rng(0).normal(size=(NODES, 4)).astype(np.float32)
    constant = np.full((NODES, 2), 0.1)
    other = np.concatenate([features * [8, 1, 0.25, 1] + [64, 0, 0, -8], constant], axis=1)
    graph = two_groups(features=False)
    for inputs in ("features", "learned"):
        first, second = (EncoderData(graph.with_features(x), inputs).edge_inputs.values for x in (features, other))
        np.testing.assert_allclose(first[:, 0], second[:, 0], atol=1e-4)
        assert first[:, 0].std() > 0.5
    rows: Any = EncoderData(graph.with_features(other)).inputs("l2")
    assert not rows[:, 4:].any()  # without rounding errors, which would have a scale too


@pytest.mark.parametrize("scale", [1e25, 1e-25])
@pytest.mark.parametrize("dense", [True, False])
def test_features_whose_squares_overflow(dense: bool, scale: float) -> None:
    """Their squares are too large or too small for float32; every other node has features of a usual size."""
    graph = sparse_graph()
    usual = graph.features.toarray() if dense else graph.features
    sizes = np.ones(NODES) if dense else np.where(np.arange(NODES) % 2, 1.0, scale)  # dense columns have one size
    odd = (usual * sizes[:, None] * (scale if dense else 1)).astype(np.float32)
    probabilities = []
    for features in (usual, odd if dense else sp.csr_array(odd)):
        model = quick_cge("cosine", **NO_SEARCH, max_epochs=20)
        probabilities.append(model.fit(graph.with_features(features), TRAIN, VALIDATION).predict_proba())
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=0.02)
    assert np.ptp(probabilities[0]) > 0.1


# ---------------------------------------------------------------------- label propagation


@pytest.mark.parametrize("label_propagation", [True, False])
def test_propagated_labels_are_stored_and_used_in_other_graphs(label_propagation: bool, tmp_path: Path) -> None:
    graph = two_groups(features=False)
    model = quick_cge("degree", label_propagation=label_propagation).fit(graph, TRAIN, VALIDATION)
    assert model.label_propagation_ == label_propagation
    assert model.score(model.node_ids_, TRUE_LABELS) > 0.9
    model.save(tmp_path)
    assert np.array_equal(cge.load(tmp_path).predict_proba(), model.predict_proba())
    same = cge.Graph.from_edges(edges_of(graph), num_nodes=NODES)
    np.testing.assert_allclose(model.predict_proba(graph=same), model.predict_proba(), atol=1e-6)


def test_multilabel_tasks(tmp_path: Path) -> None:
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.ones(NODES)], axis=1).astype(int)
    y = np.where((np.arange(NODES) % 3 == 0)[:, None], matrix, 0)
    model = quick_cge(label_propagation=True).fit(sparse_graph(), y)
    assert model.predict().shape == (NODES, 3)
    assert model.score(model.node_ids_, matrix) > 0.85
    model.save(tmp_path)
    assert np.array_equal(cge.load(tmp_path).predict_proba(), model.predict_proba())


def test_no_label_reaches_its_own_node() -> None:
    """Another label of node 0 changes the scores of propagated labels elsewhere, but not those of node 0."""
    graph, flipped = two_groups(features=False), TRAIN.copy()
    flipped[0] = 1
    scores = []
    for y in (TRAIN, flipped):
        model = quick_cge("degree", label_propagation=True, validation_fraction=0.0).fit(graph, y)
        fitted: Any = model.fitted_
        labels = fitted.train.nodes, fitted.train.matrix
        scores.append(fitted.selection.weighting.propagate_labels(fitted.data, *labels, fitted.target))
    assert np.allclose(scores[0][0], scores[1][0], atol=1e-5)
    assert not np.allclose(scores[0][3], scores[1][3], atol=1e-5)


@pytest.mark.parametrize("classifier", ["mlp", "distilled"])
def test_classifiers_are_trained_on_labels_of_other_nodes(classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers: list[Any] = []
    original = candidate_evaluation.ClassifierTrainer

    def recorded(*args: Any, **options: Any) -> Any:
        trainers.append(original(*args, **options))
        return trainers[-1]

    monkeypatch.setattr(candidate_evaluation, "ClassifierTrainer", recorded)
    model = quick_cge("degree", classifier=classifier, label_propagation=True).fit(sparse_graph(), MOST)
    fitted: Any = model.fitted_
    sizes = {len(trainer.task.train) for trainer in trainers}
    assert max(sizes) == 30 > min(sizes)  # with labels held out, and again with all
    for trainer in trainers:
        train = trainer.task.train.numpy()
        for node in train[:3]:
            others = train[train != node]
            matrix = np.eye(2)[trainer.task.labels.numpy()[others]]
            expected = fitted.selection.weighting.propagate_labels(fitted.data, others, matrix, fitted.target)[node]
            assert trainer.label_scores[node].numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("refit", [True, False])
def test_closed_walks_are_computed_once_and_stored(
    refit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_groups(features=False)
    labels: tuple[Any, ...] = (partial_labels(TRUE_LABELS, 2),) if refit else (TRAIN, VALIDATION)
    model = quick_cge("degree", label_propagation=True).fit(graph, *labels)
    model.save(tmp_path / "model")
    expected, fitted = model.predict_proba(), model.fitted_
    fitted.data.closed_walks.clear()  # type: ignore[attr-defined]
    assert np.array_equal(model.predict_proba(), expected)

    def never(*_: Any) -> None:
        raise AssertionError("they are stored")

    again = cge.load(tmp_path / "model")
    monkeypatch.setattr("cge.training.named_weighting.closed_walk_weights", never)
    monkeypatch.setattr("cge.models.propagation.closed_walk_weights", never)
    assert np.array_equal(again.predict_proba(), expected)
    metadata, arrays = again.fitted_.metadata(), again.fitted_.arrays()
    with pytest.raises(cge.CgeError, match="the training labels and the weights of their closed walks do not agree"):
        restore_encoder(again, graph, again.classes_, metadata, arrays | {"train.closed_walks": np.zeros(3)})


def test_the_distilled_classifier_uses_label_propagation(tmp_path: Path) -> None:
    model = quick_cge("degree", classifier="distilled").fit(sparse_graph(), TRAIN, VALIDATION)
    assert model.label_propagation_
    assert model.classifiers_ == ["distilled"]
    model.save(tmp_path / "model")
    assert np.array_equal(cge.load(tmp_path / "model").predict_proba(), model.predict_proba())


# ---------------------------------------------------------------------- inputs from random walks


def test_inputs_are_vectors_of_walks(tmp_path: Path) -> None:
    """By default in multilabel tasks without features; new nodes get their neighbors' vectors."""
    graph = two_groups(features=False)
    quick = NO_SEARCH | {"n_jobs": 1}
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1], axis=1).astype(int)
    y = np.where((np.arange(NODES) % 3 == 0)[:, None], matrix, 0)
    model = quick_cge("degree", **quick).fit(graph, y)
    fitted: Any = model.fitted_
    inputs = fitted.data.inputs("l2")
    assert inputs.shape == (NODES, 128)
    np.testing.assert_allclose(np.linalg.norm(inputs, axis=1), 1, rtol=1e-5)
    ((_, classifier, _, _),) = fitted.ensemble
    adjacency = graph.to_scipy().toarray() + np.eye(NODES)
    scale = adjacency.sum(1) ** -0.5
    transition = scale[:, None] * adjacency * scale
    hops = sum(np.linalg.matrix_power(transition, hop) for hop in range(5)) / 5
    expected = hops @ inputs @ classifier.projection + classifier.offset
    np.testing.assert_allclose(used_vectors(model), fitted.vector_scales[0] * expected, atol=1e-4)
    by_name = quick_cge("degree", inputs="walks", **quick).fit(graph, y)
    assert np.array_equal(by_name.embedding_, model.embedding_)
    model.save(tmp_path)
    edges = [*np.argwhere(np.triu(graph.to_scipy().toarray())).tolist(), [0, 40], [1, 40], [2, 40], [41, 42]]
    grown = cge.Graph.from_edges(edges)
    for each in (model, cge.load(tmp_path)):
        assert np.array_equal(each.predict_proba(), model.predict_proba())
        probabilities = each.predict_proba([40, 41, 42], graph=grown)
        assert probabilities[0].argmax() == 0
        assert np.array_equal(probabilities[1], probabilities[2])


def test_the_search_with_vectors_of_walks_begins_with_paths_of_no_edge() -> None:
    graph = two_groups(features=False)
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1], axis=1).astype(int)
    y, validation = (np.where((np.arange(NODES) % 3 == part)[:, None], matrix, 0) for part in (0, 1))
    model = quick_cge("auto", **NO_SEARCH).fit(graph, y, validation)
    assert model.search_results_[0]["weighting"] == "0 hops"
    assert {"uniform", "degree"} <= {row["weighting"] for row in model.search_results_}
    predictions, _ = predict_nodes(model, update=GraphUpdate([(0, 40), (1, 40), (2, 40)]))
    assert (predictions.predicted, predictions.counts()) == ([[0]], {"edges": 1})
    learned = quick_cge("degree", inputs="learned", **NO_SEARCH).fit(graph, MOST)
    assert learned.fitted_.data.walk_vectors is None  # type: ignore[attr-defined]
    single = quick_cge("degree", **NO_SEARCH).fit(graph, MOST)
    assert single.fitted_.data.walk_vectors is not None  # type: ignore[attr-defined]
    assert single.score(single.node_ids_, TRUE_LABELS) > 0.9
