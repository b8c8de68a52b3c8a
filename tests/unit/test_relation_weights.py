"""Weights normalized by relation, in closed form and learned, against dense float64 formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.errors import InputError
from cge.estimators.encoder_fit import encoder_settings
from cge.models.edge_weighting import EdgeWeighting, make_edge_inputs
from cge.models.propagation import TransitionMatrix
from cge.models.weightings import closed_form
from cge.targets import SingleLabel
from cge.training.candidates import SearchProblem, list_candidates
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import ProblemSize
from cge.training.named_weighting import NamedWeighting


def random_graph(directed: bool = False, **options: Any) -> cge.Graph:
    """Twelve papers, six authors and three venues with weighted edges of three types."""
    random = np.random.default_rng(1)
    nodes = [*(f"p{k}" for k in range(12)), *(f"a{k}" for k in range(6)), *(f"v{k}" for k in range(3))]
    edges = [(f"p{p}", f"a{a}", "writes") for p in range(12) for a in random.choice(6, 2, replace=False)]
    edges += [(f"p{p}", f"v{p % 3}", "in") for p in range(12)]
    edges += [(f"p{p}", f"p{(p + 3) % 12}", "cites") for p in range(0, 12, 2)]
    options = {"features": np.eye(21, dtype=np.float32), "weights": random.uniform(0.5, 2, len(edges))} | options
    types = [{"p": "paper", "a": "author", "v": "venue"}[node[0]] for node in nodes]
    kinds = {"edge_types": [kind for *_, kind in edges], "node_types": types}
    return cge.Graph.from_edges([(u, v) for u, v, _ in edges], node_ids=nodes, directed=directed, **kinds, **options)


def expected_weights(graph: cge.Graph, transitions: TransitionMatrix, rho: dict[Any, float], b: float) -> np.ndarray:
    """Return s of each transition by the formula, one relation at a time, in float64; `rho` defaults to 1."""
    rows, columns, entry = transitions.rows, transitions.indices, transitions.graph_entry
    relation = np.array([graph.relations.names[graph.relations.codes[e]] if e >= 0 else "self" for e in entry], object)
    g = np.array([1.0 if e < 0 else float(graph.weights[e]) for e in entry])  # type: ignore[index]
    s = np.empty(len(entry))
    for k in range(len(entry)):
        same = np.array([other == relation[k] for other in relation])
        out, into = g[same & (rows == rows[k])].sum(), g[same & (columns == columns[k])].sum()
        present = {relation[e] for e in np.flatnonzero(rows == rows[k])}
        share = rho.get(relation[k], 1.0) / sum(rho.get(each, 1.0) for each in present)
        s[k] = share * g[k] / (out ** (1 - b) * into**b)
    return s


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("b", [0.0, 0.5, 0.3])
def test_weights_by_relation_follow_the_formula(directed: bool, b: float) -> None:
    graph = random_graph(directed)
    transitions = TransitionMatrix(graph)
    inputs, scale = make_edge_inputs(graph, transitions, self_loop_weight=1.0)
    rho = {("paper", "writes", "author"): 3.0, ("paper", "cites", "paper"): 0.25, "self": 2.0}
    coefficients = np.zeros(len(scale.names))
    for name, weight in rho.items():
        if name != "self":
            coefficients[scale.names.index("relation " + " ".join(name))] = np.log(weight)
    weighting = EdgeWeighting(coefficients.tolist(), np.log(2.0), b, [1.0] * 3, by_relation=True)
    weights = weighting.normalized_weights(transitions, inputs)
    assert weights == pytest.approx(expected_weights(graph, transitions, rho, b), rel=1e-5)
    sums = np.bincount(transitions.rows, weighting.edge_strengths(inputs))
    assert sums == pytest.approx(np.ones(len(graph)), rel=1e-5)


def test_closed_forms_need_no_edge_inputs() -> None:
    data = EncoderData(random_graph())
    for name, b in (("relation-uniform", 0.0), ("relation-degree", 0.5)):
        module = closed_form(name, data.edge_scale.names, 2)
        fresh = EncoderData(random_graph())
        basic = fresh.edge_inputs_of(module)
        assert not basic.values.shape[1]
        basic_weights = module.normalized_weights(fresh.transitions, basic)
        assert np.array_equal(basic_weights, module.normalized_weights(data.transitions, data.edge_inputs))
        expected = expected_weights(data.graph, data.transitions, {}, b)
        mean = float(data.graph.weights.mean())  # type: ignore[union-attr]
        assert mean != 1  # self-loops are a relation of their own, so that their weight does not matter
        assert basic_weights == pytest.approx(expected, rel=1e-5)


def test_gradients_of_relation_weights() -> None:
    graph = random_graph()
    transitions = TransitionMatrix(graph)
    inputs, scale = make_edge_inputs(graph, transitions)
    probe = torch.from_numpy(np.random.default_rng(0).normal(size=len(transitions)).astype(np.float32))
    weighting = EdgeWeighting([0.1] * len(scale.names), 0.2, 0.5, [1.0] * 3, by_relation=True)
    expected, inputs = weighting.normalized_weights(transitions, inputs), inputs.tensors()
    weighting = weighting.trainable()
    np.testing.assert_allclose(weighting.normalized_weights(transitions, inputs).detach(), expected, rtol=2e-6)

    def value() -> torch.Tensor:
        total: torch.Tensor = (weighting.normalized_weights(transitions, inputs) * probe).sum()
        return total

    value().backward()  # type: ignore[no-untyped-call]
    gradient = weighting.coefficients.grad
    assert gradient is not None
    for place in range(len(scale.names)):
        with torch.no_grad():
            weighting.coefficients[place] += 1e-2
            above = value().item()
            weighting.coefficients[place] -= 2e-2
            below = value().item()
            weighting.coefficients[place] += 1e-2
        assert gradient[place].item() == pytest.approx((above - below) / 2e-2, abs=2e-3)


def test_label_propagation_leaves_own_labels_out_with_directed_relation_weights() -> None:
    data = EncoderData(random_graph())
    module = EdgeWeighting(
        [0.3 if name == "relation paper writes author" else 0.0 for name in data.edge_scale.names],
        *(0.0, 0.5, [1.0] * 3),
        by_relation=True,
    )
    weighting = NamedWeighting("relations", module)
    weights, symmetric = weighting.label_weights(data)
    assert symmetric is None
    nodes, labels = np.arange(4), np.eye(2)[[0, 1, 0, 1]]
    sums, total, _ = weighting.label_sums(data, nodes, labels, SingleLabel(np.arange(2)))
    matrix = data.transitions.matrix(weights.astype(np.float64)).toarray()
    power, walks = np.eye(21), np.eye(21)
    for _ in range(10):
        power = power @ matrix
        walks = walks + power
    reached = walks[:, nodes] * (np.arange(21)[:, None] != nodes)
    assert sums == pytest.approx(reached @ labels, rel=1e-5)
    assert total[:, 0] == pytest.approx(reached.sum(1), rel=1e-5)


def test_relations_are_learned_saved_and_loaded(tmp_path: Path) -> None:
    graph = random_graph()
    labels = {f"p{k}": f"v{k % 3}" for k in range(12)}  # its venue
    settings: Any = {"classifier": "mlp", "hops": 2, "label_propagation": True, "validation_fraction": 0}
    model = cge.CGE("relations", training={"max_epochs": 20}, **settings).fit(graph, labels)
    learned = model.weight_parameters_["coefficients"]
    assert any(abs(learned[name]) > 1e-3 for name in learned if name.startswith("relation "))
    model.save(tmp_path / "model")
    loaded = cge.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(), model.predict_proba())
    paths = [["p0", "a1", "p2"], ["p0", "v0", "p3"], ["p0", "p3"]]
    assert np.array_equal(loaded.path_weights(paths), model.path_weights(paths))
    explanation = loaded.explain("p0")
    score = explanation.constant + explanation.label_propagation + explanation.by_hop.sum(0)
    assert score == pytest.approx(explanation.scores, abs=1e-4)


def test_relation_weights_need_a_graph_with_types() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2)])
    with pytest.raises(InputError) as error:
        cge.CGE("relations").fit(graph, {0: "a", 2: "b"})
    assert str(error.value) == (
        "weighting='relations' needs several node or edge types, and the graph has none; use weighting='auto'"
    )


def test_types_without_features_have_learned_inputs(tmp_path: Path) -> None:
    features = sp.csr_array(np.vstack([np.eye(12), np.zeros((9, 12))]).astype(np.float32))
    graph = random_graph(features=features)
    data = EncoderData(graph)
    inputs: Any = data.inputs("l2")
    assert data.learned_nodes.tolist() == list(range(12, 21))
    assert np.array_equal(inputs.csr.toarray(), np.eye(21))
    assert data.input_names == (*range(12), *graph.node_ids[12:])
    assert not len(EncoderData(graph, "features").learned_nodes)
    part = graph.subgraph([0, 1, 14, 20])
    other: Any = EncoderData(part, training_data=data).inputs("l2")
    assert np.array_equal(other.csr.toarray(), np.eye(21)[[0, 1, 14, 20]])
    labels = {f"p{k}": f"v{k % 3}" for k in range(12)}
    for kind in ("auto", "features"):
        settings: Any = {"classifier": "mlp", "validation_fraction": 0, "training": {"max_epochs": 3}}
        model = cge.CGE("degree", inputs=kind, **settings).fit(graph, labels)
        model.save(tmp_path / kind)
        assert np.array_equal(cge.load(tmp_path / kind).predict_proba(), model.predict_proba())


def test_homogeneous_graphs_have_the_same_candidates_and_inputs_as_before() -> None:
    size, settings = ProblemSize(10, 10, 0, 10, 2), encoder_settings(cge.CGE(), 2)
    untyped, with_types = (
        {
            candidate.weighting
            for candidate in list_candidates(SearchProblem(size, 20, 20, 5, True, "features", typed), settings)
        }
        for typed in (False, True)
    )
    new = {"relation-uniform", "relation-degree", "relations", "metapaths"}
    new |= {
        f"equal weights of metapaths{length} (b={b})"
        for length in ("", " of 1 relation", " of up to 2 relations")
        for b in ("0", "0.5")
    }
    assert not untyped & new
    assert with_types == untyped | new
    data = EncoderData(cge.Graph.from_edges([(0, 1), (1, 2)], np.eye(3)))
    assert data.edge_inputs.relations is None
    assert data.edge_scale.names == ("cosine", "common neighbors", "jaccard", "degrees", "degree difference")
    assert not len(data.learned_nodes)
