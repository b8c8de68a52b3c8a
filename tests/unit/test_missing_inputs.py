"""New nodes that lack features or edges: how sure the model is of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.data.graph_update import GraphUpdate
from cge.estimators.predictions import EVIDENCE, predict_nodes
from cge.metrics import fit_temperature, scale_probabilities
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

KNOWN, CHOOSING = partial_labels(TRUE_LABELS, 4), partial_labels(TRUE_LABELS, 1)
CHOSEN = np.setdiff1d(np.flatnonzero(CHOOSING >= 0), np.flatnonzero(KNOWN >= 0))


def the_graph(kind: str) -> cge.Graph:
    sparse = with_sparse_features(two_groups())
    if kind == "table":
        return two_groups(features=False)
    return sparse if kind == "sparse" else sparse.with_features(sparse.features.toarray() * 3 + 1)


def robbed(graph: cge.Graph, part: str) -> cge.Graph:
    """Return the graph whose selection nodes lack a part, written out once more."""
    if part == "edges":
        keep = np.isin(np.arange(len(graph)), CHOSEN, invert=True)
        matrix = sp.csr_array(graph.to_scipy().multiply(np.outer(keep, keep)))
        matrix.eliminate_zeros()
        return cge.Graph.from_scipy(matrix, node_ids=graph.node_ids, weighted=False).with_features(graph.features)
    dense = graph.features.toarray() if sp.issparse(graph.features) else np.array(graph.features)
    dense[CHOSEN] = 0 if sp.issparse(graph.features) else dense.astype(np.float64).mean(axis=0)
    return graph.with_features(sp.csr_array(dense) if sp.issparse(graph.features) else dense)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("part", ["features", "edges"])
@pytest.mark.parametrize("votes", ["yes", "no"])
def test_heats_are_those_of_selection_labels_robbed_of_a_part(kind: str, part: str, votes: str) -> None:
    graph = the_graph(kind)
    model = quick_cge("degree", classifier="mlp", label_propagation=votes).fit(graph, KNOWN, CHOOSING)
    fitted: Any = model._fitted
    told = model.predict_proba(graph.node_ids[CHOSEN], robbed(graph, part)).astype(np.float64)
    found = fitted.temperatures["edges only" if part == "features" else "features only"]
    assert found == pytest.approx(
        fit_temperature(scale_probabilities(told, 1 / fitted.temperature), TRUE_LABELS[CHOSEN]), rel=1e-3
    )
    assert found != fitted.temperature


def test_nodes_that_carry_themselves_are_nothing_without_edges() -> None:
    graph = the_graph("table")
    model = quick_cge("degree", classifier="mlp", label_propagation="no").fit(graph, KNOWN, CHOOSING)
    fitted: Any = model._fitted
    ids = graph.node_ids.copy()
    ids[CHOSEN] += 1000
    told = model.predict_proba(ids[CHOSEN], replace(graph, node_ids=ids)).astype(np.float64)
    assert list(fitted.temperatures) == ["edges only"]
    assert fitted.temperatures["edges only"] == pytest.approx(
        fit_temperature(scale_probabilities(told, 1 / fitted.temperature), TRUE_LABELS[CHOSEN]), rel=1e-3
    )


def test_new_nodes_are_told_at_the_heat_of_their_way(tmp_path: Path) -> None:
    graph = the_graph("sparse")
    model = quick_cge("degree", classifier="mlp", label_propagation="no").fit(graph, KNOWN, CHOOSING)
    model.save(tmp_path / "model")
    again = cge.load(tmp_path / "model")
    fitted: Any = again._fitted
    assert fitted.temperatures == model._fitted.temperatures  # type: ignore[union-attr]
    rows = np.array([[1.0] * 12, [1.0] * 12], np.float32)
    new = GraphUpdate([(100, 0), (100, 1), (101, 0)], feature_ids=[101, 102], features=rows)
    found, _ = predict_nodes(again, None, new)
    assert [EVIDENCE[way] for way in found.ways] == ["new: edges only", "new: features and edges", "new: features only"]
    plain = fitted.temperature
    own = fitted.probabilities(None, np.arange(40))
    for node, temperature in zip(
        range(3), (fitted.temperatures["edges only"], plain, fitted.temperatures["features only"]), strict=True
    ):
        fitted.temperatures = dict.fromkeys(fitted.temperatures, plain)
        usual = predict_nodes(again, None, new)[0].probabilities[[node]].astype(np.float64)
        np.testing.assert_allclose(
            found.probabilities[[node]], scale_probabilities(usual, temperature / plain), rtol=1e-5
        )
        assert found.probabilities[node].argmax() == usual.argmax()
    assert np.array_equal(predict_nodes(again, [0, 5], new)[0].ways, [0, 0])
    assert np.array_equal(again.predict_proba(), own)
    assert fitted._last is None  # a graph that nobody asks for again is not kept


def test_labels_that_are_held_out_and_trained_later_are_asked_before() -> None:
    graph = the_graph("sparse")
    refitted = quick_cge("degree", classifier="mlp", label_propagation="no", validation_fraction=0.5).fit(
        graph, partial_labels(TRUE_LABELS, 2)
    )
    assert refitted.labels_seen_["selection"] >= 5
    assert set(refitted._fitted.temperatures) == {"edges only", "features only"}  # type: ignore[union-attr]
    few = quick_cge("degree", classifier="mlp", label_propagation="no", validation_fraction=0.0).fit(graph, KNOWN)
    assert few._fitted.temperatures == {}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "temperatures", [{"edges": 0.0}, {"edges": -1.0}, {"edges": float("nan")}, {"features": float("inf")}]
)
def test_heats_that_are_none_are_refused(temperatures: dict[str, float]) -> None:
    graph = the_graph("sparse")
    model = quick_cge("degree", classifier="mlp", label_propagation="no").fit(graph, KNOWN, CHOOSING)
    fitted: Any = model._fitted
    fitted.temperatures = temperatures
    with pytest.raises(cge.CgeError, match="the heats of chances must be positive and finite"):
        type(fitted).restored(model, graph, model.classes_, fitted.facts(), fitted.arrays())


def test_nodes_that_carry_nothing_are_told_so() -> None:
    """Dense features at the mean, and those of a column that is the same everywhere, say nothing."""
    random = np.random.default_rng(0)
    rows = np.concatenate([TRUE_LABELS[:, None] + random.normal(0, 0.3, (40, 2)), np.full((40, 1), 7.0)], axis=1)
    graph = two_groups().with_features(rows.astype(np.float32))
    model = quick_cge("degree", classifier="mlp", label_propagation="no").fit(graph, KNOWN, CHOOSING)
    mean = rows.mean(axis=0)
    told = np.array([mean, [*mean[:2], 9.0], [1.0, 1.0, 7.0]], np.float32)
    found, _ = predict_nodes(model, None, GraphUpdate([(103, 100)], feature_ids=[100, 101, 102], features=told))
    ways = dict(zip(found.nodes.tolist(), (EVIDENCE[way] for way in found.ways), strict=True))
    nothing = "nothing known"
    assert ways == {100: nothing, 101: nothing, 102: "new: features only", 103: nothing}


def test_heats_are_applied_once_and_exactly() -> None:
    bare = np.array([[0.99, 0.01], [0.9, 0.1]])
    found = scale_probabilities(bare, np.array([1.0, 0.5]))
    np.testing.assert_allclose(found, [[0.99, 0.01], [0.81 / 0.82, 0.01 / 0.82]], rtol=1e-12)
    several = scale_probabilities(bare, np.array([2.0, 1.0]), multilabel=True)
    np.testing.assert_allclose(several[0], 1 / (1 + np.sqrt(1 / bare[0] - 1)), rtol=1e-12)
    np.testing.assert_allclose(several[1], bare[1], rtol=1e-12)
