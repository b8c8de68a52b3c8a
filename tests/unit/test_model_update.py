"""Updates of a trained model: the same bytes as a recomputation of all nodes, for every kind of change and graph."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.csr import nodes_within, splice_rows
from cge.data.graph_update import extend_graph
from cge.errors import CgeWarning, InputError
from cge.estimators import model_update
from cge.estimators.encoder_model import EncoderModel
from cge.models import sparse_products
from cge.models.sparse_products import dense_product
from cge.models.updated_rows import with_rows
from cge.training.encoder_data import EncoderData
from tests.fixtures import quick_cge

SIZE = 800
CLASSES = np.arange(SIZE) * 2 // SIZE


def ring(kind: str, names: bool = False, directed: bool = False, weighted: bool = False) -> cge.Graph:
    """A ring in which every node has edges to the next two, and one isolated node; half of it is of each class."""
    random = np.random.default_rng(0)
    edges = np.array([(i, (i + k) % (SIZE - 1)) for i in range(SIZE - 1) for k in (1, 2)])
    features: Any = None
    if kind != "none":
        features = random.random((SIZE, 12)) * (random.random((SIZE, 12)) < 0.4) + 0.3 * np.eye(2, 12)[CLASSES]
        features = sp.csr_array(features) if kind == "sparse" else features
    ids = [f"n{i}" for i in range(SIZE)] if names else list(range(SIZE))
    pairs = [(ids[a], ids[b]) for a, b in edges.tolist()]
    weights = random.random(len(edges)) + 0.5 if weighted else None
    return cge.Graph.from_edges(pairs, features, ids, weights, directed)


def trained(graph: cge.Graph, **settings: Any) -> cge.CGE:
    labels = {graph.node_ids[i]: int(CLASSES[i]) for i in range(0, SIZE, 9)}
    given: dict[str, Any] = {"classifier": "mlp", "validation_fraction": 0, "hops": 2, "label_propagation": False}
    model = quick_cge(**(given | {"weighting": "degree", "max_epochs": 8} | settings)).fit(graph, labels)
    if model.weighting_ == "cosine":  # with b ≠ 0 an edge weight depends on nodes that are three hops away
        module: Any = model.fitted_.selection.weighting.module
        module.normalization = np.array(0.5, np.float32)
    return model


def changes(graph: cge.Graph) -> cge.GraphUpdate:
    """New nodes with and without features, new and removed edges (one of them missing), replaced features."""
    ids = graph.node_ids.tolist()
    first, second = ("x", "y") if isinstance(ids[0], str) else (1000, 1001)
    rows: dict[str, Any] = {}
    if graph.features is not None:
        rows = {"feature_ids": [ids[200], first], "features": np.random.default_rng(1).random((2, 12))}
    edges = [(first, ids[10]), (first, second), (ids[20], ids[23])]
    removed = [(ids[30], ids[31]), (ids[30], ids[32]), (ids[50], ids[90])]
    weights = None if graph.weights is None else [2.0, 0.5, 1.5]
    return cge.GraphUpdate(edges, weights, remove_edges=removed, **rows)


def recomputed(before: cge.CGE, updated: cge.CGE, update: cge.GraphUpdate) -> EncoderModel:
    """The model with the same parameters on the new graph, all of it computed anew."""
    model: Any = before.fitted_
    means = model.data.dense_scale[0] if len(model.data.dense_scale[0]) else None
    graph = extend_graph(model.graph, update, means, replace_features=True).graph
    data = EncoderData(graph, n_jobs=1, training_data=model.data)
    after: Any = updated.fitted_
    return replace(model, data=data, train=after.train, stored_scales=tuple(model.vector_scales))


CASES = [
    ("dense", {}, {}),
    ("sparse", {"names": True}, {}),
    ("sparse", {}, {"weighting": "cosine"}),
    ("dense", {"weighted": True}, {"weighting": "edges+hops", "outer_steps": 20}),
    ("sparse", {"directed": True, "weighted": True}, {"weighting": "uniform", "classifier": "logistic-unit"}),
    ("none", {"names": True}, {"inputs": "learned"}),
    ("none", {}, {"inputs": "walks", "classifier": "logistic"}),
    ("none", {"directed": True, "weighted": True}, {"inputs": "walks"}),
    ("sparse", {}, {"label_propagation": True}),
    ("none", {"directed": True}, {"label_propagation": True, "hops": 3}),
]


@pytest.mark.parametrize(("warm", "kernels"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize(("kind", "graph_options", "settings"), CASES)
def test_an_update_gives_the_bytes_of_a_full_recomputation(
    kind: str,
    graph_options: Any,
    settings: Any,
    warm: bool,
    kernels: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = ring(kind, **graph_options)
    model = trained(graph, **settings)
    model.save(tmp_path / "model")
    if kernels:  # as in large graphs
        monkeypatch.setattr(sparse_products, "_SMALL_WORK", 0)
    before, updated = cge.load(tmp_path / "model"), cge.load(tmp_path / "model")
    if warm:
        assert np.isfinite(updated.embedding_).all()
        assert np.isfinite(updated.predict_proba()).all()
    whole: list[int] = []
    computed = EncoderModel.computed_inputs
    monkeypatch.setattr(EncoderModel, "computed_inputs", lambda *call: whole.append(1) or computed(*call))
    update = changes(graph)
    labels = {graph.node_ids[77]: 1, graph.node_ids[80]: 0} if settings.get("label_propagation") else None
    summary = updated.update(update, labels)
    assert not whole  # only parts of the graph were computed
    assert (summary.nodes, summary.new_nodes) == (SIZE + 2, 2)
    assert 0 < summary.affected_nodes < SIZE / 2
    assert "1 of the edges to remove are not in the graph" in summary.notes
    full, everything = recomputed(before, updated, update), np.arange(SIZE + 2)
    probabilities = full.probabilities(None, everything)
    assert np.array_equal(updated.predict_proba(), probabilities)
    assert np.array_equal(updated.embedding_, full.vectors())
    assert not np.array_equal(updated.predict_proba()[:SIZE], before.predict_proba())
    updated.save(tmp_path / "updated")
    again = cge.load(tmp_path / "updated")
    assert np.array_equal(again.predict_proba(), probabilities)
    assert np.array_equal(again.embedding_, full.vectors())
    reverse = cge.GraphUpdate(remove_edges=[(update.edges[2])], edges=[update.remove_edges[0]])
    for each in (updated, again):  # a second update, also of a model that was stored
        each.update(reverse)
    assert np.array_equal(updated.predict_proba(), again.predict_proba())
    assert np.array_equal(updated.embedding_, again.embedding_)


def test_unaffected_nodes_keep_their_predictions_and_affected_ones_are_within_the_hops() -> None:
    model = trained(ring("sparse"))
    before = model.predict_proba()
    summary = model.update(cge.GraphUpdate([(100, 101), (100, 103)]))  # the first exists already
    assert summary.changed_nodes == 2
    differs = np.flatnonzero((model.predict_proba() != before).any(axis=1))
    assert set(differs) <= set(range(96, 108))
    assert {100, 103} <= set(differs)
    assert summary.affected_nodes == len(range(96, 108))


def test_a_model_that_averages_metapaths_or_a_large_change_is_recomputed_as_a_whole() -> None:
    model, graph = trained(ring("dense")), ring("dense")
    ids = graph.node_ids
    removed = [(int(ids[i]), int(ids[i + 1])) for i in range(0, SIZE - 2, 3)]
    before = trained(ring("dense"))
    with pytest.warns(CgeWarning, match="of the nodes have changed since training: fit again"):
        summary = model.update(cge.GraphUpdate(remove_edges=removed))
    assert summary.affected_nodes > SIZE / 2
    assert summary.changed_since_fit > 0.2
    full = recomputed(before, model, cge.GraphUpdate(remove_edges=removed))
    assert np.array_equal(model.predict_proba(), full.probabilities(None, np.arange(SIZE)))


def test_new_labels_that_contradict_the_model_suggest_a_new_fit() -> None:
    model = trained(ring("sparse"), validation_fraction=0.2, label_propagation=True)
    wrong = {int(node): int(1 - CLASSES[node]) for node in range(100, 140)}
    with pytest.warns(CgeWarning, match=r"the accuracy for new labels is 0\.\d+, for validation labels"):
        summary = model.update(cge.GraphUpdate(), wrong)
    assert summary.label_score < 0.5 < summary.validation_score
    assert summary.changed_nodes == 0 < summary.affected_nodes
    assert model.fitted_.train.nodes[-40:].tolist() == list(range(100, 140))


def test_wrong_updates_are_refused_and_change_nothing() -> None:
    model = trained(ring("sparse"))
    before = model.predict_proba()
    with pytest.raises(InputError, match="the edges to remove"):
        model.update(cge.GraphUpdate(remove_edges=[(1, 9999)]))
    with pytest.raises(InputError, match="integers"):
        model.update(cge.GraphUpdate(remove_edges=[("a", "b")]))
    with pytest.raises(InputError, match="class"):
        model.update(cge.GraphUpdate(), {3: 7})
    assert np.array_equal(model.predict_proba(), before)
    network = trained(ring("sparse"), weighting="average", walks_per_node=2, outer_steps=20)
    with pytest.raises(InputError, match=r"sampled from the graph.*fit again"):
        network.update(cge.GraphUpdate([(0, 5)]))


def test_the_products_of_rows_do_not_depend_on_other_rows() -> None:
    random = np.random.default_rng(0)
    rows, matrix = random.random((700, 150), np.float32), random.random((150, 7), np.float32)
    product = dense_product(rows, matrix)
    np.testing.assert_allclose(product, rows.astype(np.float64) @ matrix, rtol=1e-5)
    for count in (1, 2, 17, 300):
        some = np.sort(random.choice(700, count, replace=False))
        assert np.array_equal(dense_product(rows[some], matrix), product[some])


def test_rows_are_spliced_and_neighborhoods_found() -> None:
    indptr, values = np.array([0, 2, 2, 5]), np.array([10, 11, 20, 21, 22])
    new_indptr = np.array([0, 2, 3, 3, 5])  # row 1 gets an entry, row 2 loses all, row 3 is new
    spliced = splice_rows(indptr, values, np.array([1, 2, 3]), new_indptr, np.array([1, 2, 3]))
    assert spliced.tolist() == [10, 11, 1, 2, 3]
    graph = cge.Graph.from_edges([(i, i + 1) for i in range(9)])
    assert nodes_within(graph.indptr, graph.indices, np.array([0, 9]), 2).tolist() == [0, 1, 2, 7, 8, 9]


def test_rows_that_stay_are_not_copied() -> None:
    model: Any = trained(ring("dense"))
    vectors, inputs = model.embedding_, model.fitted_.own_inputs.projected[0]
    ids, graph = model.node_ids_, model.graph_
    for update in (cge.GraphUpdate([(ids[3], ids[9])]), cge.GraphUpdate([(ids[4], ids[8])])):
        model.update(update)
        assert model.fitted_.own_inputs.projected[0].base is inputs
        assert model.fitted_.vector_rows.base is vectors
        assert np.shares_memory(model.graph_.features, graph.features)
    assert np.array_equal(model.fitted_.vector_rows[np.arange(SIZE)], model.embedding_)
    with pytest.warns(CgeWarning, match="of the nodes have changed since training"):  # most rows are replaced
        model.update(cge.GraphUpdate([(ids[i], ids[i + 5]) for i in range(0, SIZE - 5, 7)]))
    assert isinstance(model.fitted_.own_inputs.projected[0], np.ndarray)
    assert model.graph_.index_of(ids[3]) == graph.index_of(ids[3])


def test_replaced_rows() -> None:
    random, before = np.random.default_rng(0), np.arange(160.0).reshape(80, 2)
    table: Any = before
    expected = np.zeros((84, 2))
    expected[:80] = before
    for size, rows in ((82, [3, 80, 81]), (84, [3, 5, 82, 83]), (84, [0])):
        values = random.random((len(rows), 2))
        table, expected[rows] = with_rows(table, size, np.array(rows), values), values
    assert np.array_equal(table.array(), expected)
    assert np.array_equal(table[np.array([83, 0, 3, 3, 79])], expected[[83, 0, 3, 3, 79]])
    assert len(table) == 84
    assert np.array_equal(before, np.arange(160.0).reshape(80, 2))
    assert isinstance(with_rows(table, 84, np.arange(30), random.random((30, 2))), np.ndarray)


def test_a_summary_is_json() -> None:
    model = trained(ring("none", names=True), inputs="learned")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = model.update(cge.GraphUpdate(remove_edges=[("n1", "n2")]))
    content = summary.as_dict()
    assert (content["changed_nodes"], content["advice"], content["label_score"]) == (2, [], None)
    assert isinstance(content["confidence"], list)
    assert model_update.UpdateSummary(**summary.__dict__) == summary
