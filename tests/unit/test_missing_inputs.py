"""New nodes without features or without edges: their temperatures, and the evidence there is for them."""

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
from cge.estimators.stored_encoder import restore_encoder
from cge.metrics import fit_temperature, scale_probabilities
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

TRAIN, VALIDATION = partial_labels(TRUE_LABELS, 4), partial_labels(TRUE_LABELS, 1)
VALIDATION_NODES = np.setdiff1d(np.flatnonzero(VALIDATION >= 0), np.flatnonzero(TRAIN >= 0))


def make_graph(inputs: str) -> cge.Graph:
    sparse = with_sparse_features(two_groups())
    if inputs == "learned":
        return two_groups(features=False)
    return sparse if inputs == "sparse" else sparse.with_features(sparse.features.toarray() * 3 + 1)


def fit_quickly(graph: cge.Graph, label_propagation: bool = False) -> tuple[cge.CGE, Any]:
    model = quick_cge("degree", classifier="mlp", label_propagation=label_propagation).fit(graph, TRAIN, VALIDATION)
    return model, model.fitted_


def without(graph: cge.Graph, part: str) -> cge.Graph:
    """Return the graph in which validation nodes have no features, or no edges."""
    if part == "edges":
        keep = np.isin(np.arange(len(graph)), VALIDATION_NODES, invert=True)
        matrix = sp.csr_array(graph.to_scipy().multiply(np.outer(keep, keep)))
        matrix.eliminate_zeros()
        return cge.Graph.from_scipy(matrix, node_ids=graph.node_ids, weighted=False).with_features(graph.features)
    dense = graph.features.toarray() if sp.issparse(graph.features) else np.array(graph.features)
    dense[VALIDATION_NODES] = 0 if sp.issparse(graph.features) else dense.astype(np.float64).mean(axis=0)
    return graph.with_features(sp.csr_array(dense) if sp.issparse(graph.features) else dense)


def expected_temperature(fitted: Any, probabilities: Any) -> Any:
    uncalibrated = scale_probabilities(probabilities.astype(np.float64), 1 / fitted.calibration.temperature)
    return pytest.approx(fit_temperature(uncalibrated, TRUE_LABELS[VALIDATION_NODES]), rel=1e-3)


@pytest.mark.parametrize("inputs", ["sparse", "dense"])
@pytest.mark.parametrize("part", ["features", "edges"])
@pytest.mark.parametrize("label_propagation", [True, False])
def test_temperatures_are_fitted_on_validation_nodes_with_hidden_inputs(
    inputs: str, part: str, label_propagation: bool
) -> None:
    graph = make_graph(inputs)
    model, fitted = fit_quickly(graph, label_propagation)
    probabilities = model.predict_proba(graph.node_ids[VALIDATION_NODES], without(graph, part))
    temperature = fitted.calibration.by_evidence["edges" if part == "features" else "features"]
    assert temperature == expected_temperature(fitted, probabilities)


def test_nodes_without_features_are_hidden_by_other_ids() -> None:
    graph = make_graph("learned")
    model, fitted = fit_quickly(graph)
    ids = graph.node_ids.copy()
    ids[VALIDATION_NODES] += 1000
    probabilities = model.predict_proba(ids[VALIDATION_NODES], replace(graph, node_ids=ids))
    assert fitted.calibration.by_evidence == {"edges": expected_temperature(fitted, probabilities)}


def test_predictions_of_new_nodes_use_the_temperature_of_their_evidence(tmp_path: Path) -> None:
    model, _ = fit_quickly(make_graph("sparse"))
    model.save(tmp_path / "model")
    loaded = cge.load(tmp_path / "model")
    fitted: Any = loaded.fitted_
    assert fitted.calibration == model.fitted_.calibration  # type: ignore[attr-defined]
    rows = np.array([[1.0] * 12, [1.0] * 12], np.float32)
    update = GraphUpdate([(100, 0), (100, 1), (101, 0)], feature_ids=[101, 102], features=rows)
    predictions, _ = predict_nodes(loaded, None, update)
    assert [EVIDENCE[number] for number in predictions.evidence] == ["edges", "features+edges", "features"]
    calibration, before = fitted.calibration, fitted.probabilities(None, np.arange(40))
    usual = calibration.temperature
    temperatures = (calibration.by_evidence["edges"], usual, calibration.by_evidence["features"])
    fitted.calibration = replace(calibration, by_evidence={})
    plain = predict_nodes(loaded, None, update)[0].probabilities.astype(np.float64)
    for node, temperature in enumerate(temperatures):
        scaled = scale_probabilities(plain[[node]], temperature / usual)
        np.testing.assert_allclose(predictions.probabilities[[node]], scaled, rtol=1e-5)
    assert np.array_equal(predictions.probabilities.argmax(axis=1), plain.argmax(axis=1))
    assert np.array_equal(predict_nodes(loaded, [0, 5], update)[0].evidence, [0, 0])
    assert np.array_equal(loaded.predict_proba(), before)


def test_held_out_labels_are_used_before_the_second_training() -> None:
    graph, options = make_graph("sparse"), {"classifier": "mlp", "label_propagation": False}
    refitted = quick_cge("degree", validation_fraction=0.5, **options).fit(graph, partial_labels(TRUE_LABELS, 3))
    assert refitted.labels_seen_["validation"] >= 5
    assert set(refitted.fitted_.calibration.by_evidence) == {"edges", "features"}  # type: ignore[attr-defined]
    without_validation = quick_cge("degree", validation_fraction=0.0, **options).fit(graph, TRAIN)
    assert without_validation.fitted_.calibration.by_evidence == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "temperatures", [{"edges": 0.0}, {"edges": -1.0}, {"edges": float("nan")}, {"features": float("inf")}]
)
def test_invalid_temperatures_are_refused(temperatures: dict[str, float]) -> None:
    graph = make_graph("sparse")
    model, fitted = fit_quickly(graph)
    fitted.calibration = replace(fitted.calibration, by_evidence=temperatures)
    with pytest.raises(cge.CgeError, match="temperatures must be positive and finite"):
        restore_encoder(model, graph, model.classes_, fitted.metadata(), fitted.arrays())


def test_features_at_the_mean_are_no_evidence() -> None:
    """Nor are those of a column that is constant in the training graph."""
    random = np.random.default_rng(0)
    rows = np.concatenate([TRUE_LABELS[:, None] + random.normal(0, 0.3, (40, 2)), np.full((40, 1), 7.0)], axis=1)
    model, _ = fit_quickly(two_groups().with_features(rows.astype(np.float32)))
    mean = rows.mean(axis=0)
    features = np.array([mean, [*mean[:2], 9.0], [1.0, 1.0, 7.0]], np.float32)
    update = GraphUpdate([(103, 100)], feature_ids=[100, 101, 102], features=features)
    predictions, _ = predict_nodes(model, None, update)
    evidence = (EVIDENCE[number] for number in predictions.evidence)
    expected = dict.fromkeys((100, 101, 103), "no information") | {102: "features"}
    assert dict(zip(predictions.nodes.tolist(), evidence, strict=True)) == expected
