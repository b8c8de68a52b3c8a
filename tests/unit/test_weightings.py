"""Closed-form weightings against their formulas, and the registry of weightings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import cge
from cge.cli.main import main
from cge.estimators.fit_plan import plan_fit
from cge.models.edge_weighting import EdgePropagation, make_edge_inputs
from cge.models.propagation import TransitionMatrix
from cge.models.weightings import WEIGHTINGS, closed_form, is_learned
from tests.fixtures import (
    TRUE_LABELS,
    ConstantWeighting,
    partial_labels,
    quick_cge,
    two_groups,
    with_sparse_features,
)


def test_closed_forms_are_the_random_walk_the_convolution_and_similar_edges() -> None:
    random = np.random.default_rng(0)
    edges, weights = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)], [1.0, 2.0, 0.5, 4.0, 3.0]
    graph = cge.Graph.from_edges(edges, num_nodes=6, features=random.random((6, 4)), weights=weights)
    transitions = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, transitions)
    adjacency = graph.to_scipy().toarray() + np.diag(np.full(6, np.mean(weights)))

    def matrix(name: str) -> np.ndarray:
        weighting = closed_form(name, scale.names, 3)
        np.testing.assert_allclose(weighting.normalized_hop_weights(), 0.25)
        values = EdgePropagation(transitions, edge_inputs, weighting).normalized_weights().numpy()
        return np.asarray(transitions.matrix(values).toarray())

    z = adjacency.sum(1)
    np.testing.assert_allclose(matrix("uniform"), adjacency / z[:, None], rtol=1e-5)
    np.testing.assert_allclose(matrix("degree"), adjacency / np.sqrt(np.outer(z, z)), rtol=1e-5)
    cosine = edge_inputs.values.astype(np.float64)[:, scale.names.index("cosine")]
    raw = np.zeros((6, 6))
    raw[transitions.rows, transitions.indices] = np.exp(np.where(transitions.rows == transitions.indices, 1.0, cosine))
    raw *= adjacency
    z = raw.sum(1)
    np.testing.assert_allclose(matrix("cosine"), raw / np.sqrt(np.outer(z, z)), rtol=1e-5)


SHAPES = {"0 hops": [1, 0, 0], "1 hop": [0, 1, 0], "2 hops": [0, 0, 1], "0+2 hops": [1, 0, 1]}


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 5])
def test_hop_profiles_use_some_hops(hops: int) -> None:
    expected = {"0 hops": ("0 hops", 0.5)}
    for name in ("1 hop", "2 hops", "0+2 hops"):
        expected |= {f"{name} (b={b:g})": (name, b) for b in (0.0, 0.5, 1.0)}
    specs = [spec for spec in WEIGHTINGS.values() if spec.search is not None and spec.search.group == "hop profile"]
    assert {spec.name for spec in specs} == set(expected)
    for spec in specs:
        shape, b = SHAPES[expected[spec.name][0]], expected[spec.name][1]
        assert spec.applies(hops, features=False) == (not any(shape[hops + 1 :]))
        if spec.applies(hops, features=False):
            weighting = closed_form(spec.name, ("degrees", "jaccard"), hops)
            assert weighting.hop_weights.tolist() == [*shape, 0, 0, 0, 0][: hops + 1]
            assert (weighting.normalization.item(), weighting.self_loop.item()) == (b, 0.0)
            assert weighting.coefficients.tolist() == [0.0, 0.0]


# ---------------------------------------------------------------------- the registry


def two_edges(edge_inputs: Sequence[str], hops: int) -> cge.EdgeWeighting:
    return cge.EdgeWeighting([0.0] * len(edge_inputs), 0.0, 0.5, [0.0, 0.0, 1.0] + [0.0] * (hops - 2))


@pytest.fixture
def registered() -> Iterator[str]:
    """A weighting that is registered as a user would do it."""
    text = "only walks of exactly two hops"
    spec = cge.WeightingSpec("mine", text, closed_form=two_edges, min_hops=2, search=cge.SearchRole())
    cge.register_weighting(spec)
    yield "mine"
    del WEIGHTINGS["mine"]


def test_a_registered_weighting_is_used_and_stored(registered: str, tmp_path: Path) -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge(registered).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    assert model.weighting_ == registered
    assert model.weight_parameters_["hop_weights"] == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert model.labels_seen_["outer"] == 0  # nothing is learned
    model.save(tmp_path / "model")
    loaded = cge.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(), model.predict_proba())
    with pytest.raises(cge.CgeError, match=r"weighting='mine' needs paths of 2 hops"):
        quick_cge(registered, hops=1).fit(graph, partial_labels())


def test_the_model_search_compares_a_registered_weighting(registered: str) -> None:
    graph, validation = with_sparse_features(two_groups()), partial_labels(TRUE_LABELS, 4)
    plan = plan_fit(quick_cge(), graph, partial_labels(), validation)
    assert registered in {row["weighting"] for row in plan.rows()}
    model = quick_cge(label_propagation=False).fit(graph, partial_labels(), validation)
    compared = [row["weighting"] for row in model.search_results_]
    assert compared.index("cosine") < compared.index(registered)
    assert all(compared.index(registered) < compared.index(name) for name in ("0 hops", "edges") if name in compared)


def test_the_help_describes_a_registered_weighting(registered: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "--help-all"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"'{registered}': only walks of exactly two hops" in text
    with pytest.raises(cge.CgeError, match=r"weighting must be one of 'auto', 'uniform', .* 'mine' or a callable"):
        cge.CGE("other").fit(two_groups(), partial_labels())


def test_a_registered_network_has_a_name() -> None:
    spec = cge.WeightingSpec("constant", "gives all paths the same weight", network=ConstantWeighting)
    cge.register_weighting(spec)
    try:
        model = quick_cge("constant").fit(with_sparse_features(two_groups()), partial_labels())
        assert model.weighting_ == "constant"
        assert model.labels_seen_["outer"] > 0
        paper = cge.PaperCGE(weighting="constant", dim=4, walks_per_node=1, training={"max_epochs": 1, "pretrain": 1})
        with pytest.warns(cge.CgeWarning, match="path weights are nearly constant"):
            assert paper.fit(two_groups(), partial_labels()).weighting_ == "constant"
    finally:
        del WEIGHTINGS["constant"]


def test_names_are_unique_and_kinds_exclude_each_other() -> None:
    for name in ("degree", "auto"):
        with pytest.raises(cge.CgeError, match=f"there is a weighting '{name}' already"):
            cge.register_weighting(cge.WeightingSpec(name, "is new", closed_form=two_edges))
    both = cge.WeightingSpec("both", "is both", closed_form=two_edges, network=ConstantWeighting)
    with pytest.raises(cge.CgeError, match="has either a closed form or a network"):
        cge.register_weighting(both)
    with pytest.raises(cge.CgeError, match="'gone' is not a registered closed-form weighting"):
        closed_form("gone", (), 2)


def test_kinds() -> None:
    kinds = {name: spec.kind for name, spec in WEIGHTINGS.items() if spec.selectable}
    assert kinds == {
        "uniform": "closed form",
        "degree": "closed form",
        "cosine": "closed form",
        "relation-uniform": "closed form",
        "relation-degree": "closed form",
        "metapaths": "metapaths",
        "relations": "learned edges",
        "edges": "learned edges",
        "edges+hops": "learned edges",
        "average": "network",
        "cnn": "network",
        "lstm": "network",
    }
    assert [is_learned(name) for name in ("auto", "degree", "0 hops", "edges", "lstm")] == [False] * 3 + [True] * 2
    assert is_learned(ConstantWeighting)
