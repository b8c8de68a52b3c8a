"""Walk vectors as node inputs: where they are the default, and those of new nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.data.graph_update import GraphUpdate, extend_graph
from cge.estimators.encoder_options import resolve_inputs
from cge.estimators.predictions import EVIDENCE, predict_nodes
from cge.training import candidates, walk_inputs, weighting_search
from cge.training.encoder_data import EncoderData
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups
from tests.unit.test_explain import assert_adds_up

UPDATE = GraphUpdate([(100, 0), (100, 1), (100, 21), (101, 100), (102, 102)], self_loops=True, feature_ids=[103])
ISOLATED = 40  # the last node of the graph


def graph_with_isolated_node(directed: bool = False, weighted: bool = False) -> cge.Graph:
    edges = np.transpose(two_groups(features=False).to_scipy().nonzero())
    edges = edges[edges[:, 0] < edges[:, 1]]
    weights = np.random.default_rng(0).random(len(edges)) + 0.5 if weighted else None
    return cge.Graph.from_edges(edges, num_nodes=ISOLATED + 1, weights=weights, directed=directed)


@pytest.fixture
def own_inputs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without validation labels, "auto" is `0 hops`, which cannot be named."""
    for module in (candidates, weighting_search):
        monkeypatch.setattr(module, "reference_name", _reference)


def _reference(settings: Any, *_: Any) -> str:
    return "0 hops" if settings.weighting == "auto" else str(settings.weighting)


def trained(graph: cge.Graph, **settings: Any) -> cge.CGE:
    labels = {node: int(TRUE_LABELS[node]) for node in range(0, ISOLATED, 3)}
    return quick_cge(**({"validation_fraction": 0.0, "label_propagation": False} | settings)).fit(graph, labels)


def test_graphs_without_features_have_walk_vectors_by_default() -> None:
    without, features = two_groups(features=False), two_groups()
    assert resolve_inputs("auto", without) == "walks"
    assert resolve_inputs("auto", features) == "features"
    assert resolve_inputs("learned", without) == "learned"


@pytest.mark.parametrize("limit", [100, 0])  # factorization of walks, of edges
@pytest.mark.parametrize("directed", [True, False])
def test_vectors_have_unit_length_or_are_zero(limit: int, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_inputs, "MAX_FACTORIZED_NODES", limit)
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (4, 4)]
    graph = cge.Graph.from_edges(edges, num_nodes=6, directed=directed, self_loops=True)
    lengths = np.linalg.norm(walk_inputs.walk_inputs(graph, 0, 1), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0, 0], atol=1e-6)  # 3 has an edge, if only to it


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 2), (2, 0)], [(0, 1)]])
def test_nodes_that_walks_do_not_tell_apart_have_vectors(edges: list[tuple[int, int]]) -> None:
    graph = cge.Graph.from_edges(edges)
    np.testing.assert_allclose(np.linalg.norm(walk_inputs.walk_inputs(graph, 0, 1), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(("directed", "weighted"), [(False, False), (True, False), (True, True), (False, True)])
def test_a_new_node_has_the_mean_direction_of_its_neighbors(directed: bool, weighted: bool) -> None:
    graph = graph_with_isolated_node(directed, weighted)
    vectors = walk_inputs.walk_inputs(graph, 0, 1)
    data = EncoderData(graph, "walks", 1, walk_vectors=vectors)
    assert np.array_equal(data.inputs("l2"), vectors)
    weights = [2.0, 0.5, 1.0, 3.0, 1.0] if weighted else None
    edges = [(100, 0), (1, 100), (100, 25), (ISOLATED, 7), (101, 100)]
    larger = extend_graph(graph, GraphUpdate(edges, weights, feature_ids=[102])).graph
    inputs = EncoderData(larger, n_jobs=1, training_data=data).inputs("l2")
    first, second, third = weights[:3] if weights else (1.0, 1.0, 1.0)
    mean = (first * vectors[0] + second * vectors[1] + third * vectors[25]) / (first + second + third)
    row = dict(zip(larger.node_ids.tolist(), np.asarray(inputs), strict=True))
    np.testing.assert_allclose(row[100], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(row[ISOLATED], vectors[7], atol=1e-6)  # it had no edges in training
    assert not row[101].any()  # its only neighbor has no vector from training
    assert np.array_equal(inputs[:ISOLATED], vectors[:ISOLATED])


@pytest.mark.usefixtures("own_inputs_only")
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighting", ["auto", "degree"])
def test_predictions_vectors_and_explanations_of_new_nodes(weighting: str, directed: bool, tmp_path: Path) -> None:
    model = trained(graph_with_isolated_node(directed), weighting=weighting, hops=2)
    assert model.weighting_ == ("0 hops" if weighting == "auto" else "degree")
    model.save(tmp_path / "model")
    loaded = cge.load(tmp_path / "model")
    predictions, _ = predict_nodes(loaded, [0, ISOLATED, 100, 101, 102], UPDATE)
    evidence = [EVIDENCE[number] for number in predictions.evidence]
    reached = "no information" if weighting == "auto" else "edges"  # 101 has a path to a vector, but none of its own
    assert evidence == ["training graph", "no information", "edges", reached, "no information"]
    assert predictions.probabilities[2].argmax() == 0
    for row in (1, 4):
        np.testing.assert_allclose(predictions.probabilities[row], model.fitted_.class_prior, atol=1e-6)  # type: ignore[attr-defined]
    for node, graph in ((0, None), (100, UPDATE), (101, UPDATE), (102, UPDATE)):
        assert_adds_up(loaded.explain(node, graph=graph, top=1000))
    larger = extend_graph(model.graph_, UPDATE).graph
    updated = cge.load(tmp_path / "model")
    updated.update(UPDATE)
    assert np.array_equal(updated.embedding_, loaded.transform(larger))
    assert updated.embedding_[larger.index_of(100)].any()
    assert np.array_equal(loaded.transform(model.graph_), loaded.embedding_)


@pytest.mark.usefixtures("own_inputs_only")
def test_an_update_keeps_the_walk_vectors_of_training(tmp_path: Path) -> None:
    """With 0 hops other edges change nothing; only nodes without a vector from training read their edges."""
    model = trained(graph_with_isolated_node())
    before = model.predict_proba()
    model.update(GraphUpdate([(0, 30)], remove_edges=[(0, 1)]))
    assert np.array_equal(model.predict_proba(), before)
    model.update(GraphUpdate([(100, 2), (ISOLATED, 2)]))
    model.save(tmp_path / "model")
    first = model.predict_proba()
    assert np.array_equal(first[:ISOLATED], before[:ISOLATED])
    np.testing.assert_allclose(first[ISOLATED], first[2], atol=1e-6)
    again = cge.load(tmp_path / "model")
    for each in (model, again):
        each.update(GraphUpdate([(100, 22)], remove_edges=[(100, 2)]))
        np.testing.assert_allclose(each.predict_proba()[-1], first[22], atol=1e-6)


def test_numeric_targets_have_walk_vectors() -> None:
    graph, values = two_groups(features=False), TRUE_LABELS * 2.0 + 1
    y = {node: float(values[node]) for node in range(0, 40, 2)}
    model = quick_cge("auto", task="regression", classifier="mlp", label_propagation=False, max_epochs=60)
    model.fit(graph, y)
    assert model.fitted_.data.walk_vectors is not None  # type: ignore[attr-defined]
    assert model.score(list(range(1, 40, 2)), values[1::2]) > 0.5


def test_without_comparison_predictions_are_explained_by_paths() -> None:
    model = trained(graph_with_isolated_node())
    assert model.weighting_ == "degree"
    assert len(model.explain(0, hop=1)) > 1


def test_cross_validation_uses_walk_vectors() -> None:
    model = quick_cge("degree", classifier="mlp").fit(two_groups(features=False), partial_labels())
    assert model.fitted_.data.walk_vectors is not None  # type: ignore[attr-defined]
