"""Learned weights of metapaths: propagation, path weights and explanations against products of dense matrices."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.encoder_explainer import _paths
from cge.estimators.encoder_fit import encoder_settings
from cge.estimators.stored_selection import restore_selection, selection_arrays, selection_metadata
from cge.models.edge_weighting import make_edge_inputs
from cge.models.metapath_weighting import MetapathWeighting, list_metapaths
from cge.models.propagation import TransitionMatrix
from cge.models.weightings import closed_form
from cge.report.contents import report_contents
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import Selection
from cge.training.stored_state import TrainerState
from tests.unit.test_relation_weights import random_graph

AUTHOR, BACK = "relation paper writes author", "relation author writes paper"
VENUE, CITES = "relation paper in venue", "relation paper cites paper"
METAPATHS = [(), (AUTHOR,), (AUTHOR, BACK), (VENUE,), (CITES, AUTHOR, BACK)]
WEIGHTS = [0.5, -1.0, 2.0, 0.25, 1.0]


def dense_matrices(graph: cge.Graph, b: float) -> dict[str, np.ndarray]:
    """Return M_r of each relation, in float64."""
    rows, matrices = np.repeat(np.arange(len(graph)), graph.degrees), {}
    for code, name in enumerate(graph.relations.names):
        entries = graph.relations.codes == code
        matrix = np.zeros((len(graph),) * 2)
        matrix[rows[entries], graph.indices[entries]] = graph.weights[entries]  # type: ignore[index]
        out, into = (np.where(sums > 0, sums, 1.0) for sums in (matrix.sum(1), matrix.sum(0)))
        matrices["relation " + " ".join(name)] = matrix * out[:, None] ** (b - 1) * into**-b
    return matrices


def expected(graph: cge.Graph, b: float, x: np.ndarray) -> np.ndarray:
    matrices, total = dense_matrices(graph, b), np.zeros_like(x)
    for metapath, weight in zip(METAPATHS, WEIGHTS, strict=True):
        product = x
        for name in reversed(metapath):
            product = matrices[name] @ product
        total += weight / np.abs(WEIGHTS).sum() * product
    return total


@pytest.mark.parametrize("b", [0.0, 0.5])
def test_propagation_is_the_sum_over_metapaths(b: float) -> None:
    graph, x = random_graph(), np.random.default_rng(0).normal(size=(21, 3))
    inputs, _ = make_edge_inputs(graph, TransitionMatrix(graph))
    propagation = MetapathWeighting(METAPATHS, WEIGHTS, b).propagation(inputs)
    assert propagation(x.astype(np.float32)) == pytest.approx(expected(graph, b, x), abs=1e-5)
    tensor = torch.from_numpy(x.astype(np.float32))
    assert propagation(tensor).numpy() == pytest.approx(expected(graph, b, x), abs=1e-5)


def test_metapaths_are_listed_by_the_walks_that_follow_them() -> None:
    graph = random_graph()
    inputs, _ = make_edge_inputs(graph, TransitionMatrix(graph))
    listed = list_metapaths(inputs, np.arange(12), 2)
    assert listed[0] == ()
    assert {(AUTHOR,), (VENUE,), (CITES,), (AUTHOR, BACK)} <= set(listed)
    assert all(metapath[0].split()[1] == "paper" for metapath in listed[1:])
    for metapath in listed:
        for first, second in pairwise(metapath):
            assert first.split()[-1] == second.split()[1]
    few = list_metapaths(inputs, np.arange(12), 2, limit=3)
    assert len(few) == 3
    assert few[0] == ()


@pytest.fixture(scope="module")
def model() -> cge.CGE:
    labels = {f"p{k}": f"v{k % 3}" for k in range(12)}
    settings: Any = {"classifier": "mlp", "hops": 2, "validation_fraction": 0, "label_propagation": False}
    return cge.CGE("metapaths", dim=4, training={"max_epochs": 20}, **settings).fit(random_graph(), labels)


def test_models_with_metapath_weights_are_saved_and_loaded(model: cge.CGE, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = cge.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(), model.predict_proba())
    paths = [["p0", "v0"], ["p0", "v0", "p3"], ["p0"], ["p0", "p0"], ["p0", "v1"]]
    weights = model.path_weights(paths)
    assert np.array_equal(loaded.path_weights(paths), weights)
    assert weights[3] == weights[4] == 0


def test_explanations_of_metapath_weights_are_exact(model: cge.CGE) -> None:
    explanation = model.explain("p0", top=1000)
    target = explanation.target_index
    assert explanation.constant + explanation.by_hop.sum(0) == pytest.approx(explanation.scores, abs=1e-4)
    assert explanation.by_metapath.total == pytest.approx(explanation.by_hop.sum(0)[target], abs=1e-6)
    assert sum(explanation.by_edge_type.values())[target] == pytest.approx(explanation.by_metapath.total, abs=1e-6)
    assert sum(path.contribution for path in explanation.paths) == pytest.approx(
        explanation.by_metapath.total, abs=1e-4
    )
    assert sum(row.contribution for row in explanation.by_endpoint) == pytest.approx(
        explanation.by_metapath.total, abs=1e-4
    )
    listed = [path for path in explanation.paths if path.hops == 2][:5]
    assert [path.relative_weight for path in listed] == pytest.approx(
        model.path_weights([path.path for path in listed]), rel=1e-4
    )
    rows = model.metapaths(top=100)
    assert sum(row.weight for row in rows) == pytest.approx(1)
    by_class = model.explain_class("v0", top=50)
    assert by_class.by_metapath.total == pytest.approx(by_class.by_hop.sum(0)[by_class.target_index], abs=1e-6)


def test_reports_of_models_with_metapath_weights(model: cge.CGE) -> None:
    assert report_contents(model)["metapaths"] == [row.to_dict() for row in model.metapaths(8)]
    data: Any = model.fitted_.data
    degree = NamedWeighting("degree", closed_form("degree", data.edge_scale.names, 2))
    for weights in (WEIGHTS, np.abs(WEIGHTS)):
        source: Any = _paths(
            data, NamedWeighting("metapaths", MetapathWeighting(METAPATHS, weights, 0.5), (0, 0), degree)
        )
        ones = np.ones((1, 1))
        signed, absolute = (source.to_endpoints(np.array([0]), ones, transform) for transform in (np.positive, np.abs))
        assert source.nonnegative == np.allclose(signed, absolute) == (min(weights) >= 0)


def test_relative_weights_compare_with_uniform_weights_of_all_hops(model: cge.CGE) -> None:
    data: Any = model.fitted_.data
    degree = NamedWeighting("degree", closed_form("degree", data.edge_scale.names, 4))
    module = MetapathWeighting([(), (VENUE,)], [1.0, 3.0], 0.0)
    weighting, paper = NamedWeighting("metapaths", module, initial_weighting=degree), 0
    venues = np.flatnonzero(dense_matrices(data.graph, 0.0)[VENUE][paper])
    edges = np.array([[paper, venue] for venue in venues])
    uniform = data.transitions.matrix(data.uniform_weights()).toarray()[paper, venues]
    ratios = 0.75 * dense_matrices(data.graph, 0.0)[VENUE][paper, venues] / uniform
    expected = [5 * 0.25, *(5 * ratios)]  # with uniform weights, paths of 0 to 4 hops have hop weights 1/5
    assert weighting.path_weights(data, [np.array([paper]), *edges]) == pytest.approx(expected, rel=1e-5)
    source = _paths(data, weighting)
    listed = source.top_by_weight(paper, 100)
    by_endpoint = dict(zip(listed.endpoints(source.indices).tolist(), source.weights(listed).tolist(), strict=True))
    assert source.hops == 1
    assert source.nonnegative
    negative = MetapathWeighting([(), (VENUE,)], [1.0, -3.0], 0.0)
    assert not _paths(data, NamedWeighting("metapaths", negative, initial_weighting=degree)).nonnegative
    assert [by_endpoint[node] for node in [paper, *venues.tolist()]] == pytest.approx(expected, rel=1e-5)


def test_averaged_metapath_weights_are_restored(model: cge.CGE) -> None:
    fitted: Any = model.fitted_
    degree = NamedWeighting("degree", closed_form("degree", fitted.data.edge_scale.names, 2))
    module = MetapathWeighting(METAPATHS, WEIGHTS, 0.5)
    averaged = ((NamedWeighting("metapaths", module, initial_weighting=degree), "mlp"), (degree, "mlp"))
    selection = Selection(degree, "mlp", False, averaged=averaged)
    metadata = json.loads(json.dumps({"selection": selection_metadata(selection)}))
    state = TrainerState(metadata, selection_arrays(selection))
    (first, _), (second, _) = restore_selection(fitted.data, encoder_settings(model, 3), state).averaged
    assert first.module.metapaths == module.metapaths
    assert np.array_equal(first.module.weights, module.weights)
    assert (first.initial_weighting.name, second.name) == ("degree", "degree")
