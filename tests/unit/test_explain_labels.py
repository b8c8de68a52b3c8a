"""Explanations of label propagation: paths to labeled nodes, tables by endpoint, class and feature, new nodes."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import cge
from cge.data.graph_update import GraphUpdate
from cge.estimators.predictions import predict_nodes
from cge.explain.contribution_tables import n_to_list
from cge.explain.explanation import Explanation
from tests.fixtures import GROUP_SIZE, TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features
from tests.unit.test_explain import MULTILABEL, assert_adds_up, scores_of

Array = npt.NDArray[Any]
QUICK: dict[str, Any] = {"classifier": "mlp", "hops": 2, "validation_fraction": 0.0, "max_epochs": 6}
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (2, 2)]  # 6 is isolated
CLASSES = {0: "a", 1: "b", 3: "b", 5: "a"}


def small_graph(directed: bool = False, features: bool = True) -> cge.Graph:
    x = np.random.default_rng(0).random((7, 3)) if features else None
    return cge.Graph.from_edges(EDGES, x, num_nodes=7, directed=directed, self_loops=True)


def label_coefficients(model: cge.CGE, node: int) -> Array:
    """Return the weight of all paths from a node to each other node, `(n,)`: matrix powers of dense float64."""
    fitted: Any = model.fitted_
    values, _ = fitted.selection.weighting.label_weights(fitted.data)
    matrix = fitted.data.transitions.matrix(values.astype(np.float64)).toarray()
    total = sum(np.linalg.matrix_power(matrix, hop) for hop in range(11))
    total[node, node] = 0
    return np.asarray(total[node])


@pytest.mark.filterwarnings("ignore:the learned weights of")
@pytest.mark.parametrize(
    ("kind", "directed", "features", "weighting"),
    [
        ("single", False, True, "degree"),
        ("single", True, True, "uniform"),
        ("single", False, False, "edges+hops"),
        ("multilabel", False, False, "degree"),
        ("multilabel", True, True, "average"),
        ("regression", False, True, "uniform"),
        ("regression", True, False, "degree"),
    ],
)
def test_labels_contribute_their_share_of_the_path_weights(
    kind: str, directed: bool, features: bool, weighting: str
) -> None:
    labels: Any = {
        "single": CLASSES,
        "multilabel": {0: ["a", "b"], 1: ["b"], 3: ["b"], 5: ["a", "c"]},
        "regression": {0: 1.0, 1: 2.5, 3: -1.0, 5: 4.0},
    }[kind]
    task = "regression" if kind == "regression" else "classification"
    model = quick_cge(weighting, label_propagation=True, task=task, inputs="auto" if features else "learned", **QUICK)
    model.fit(small_graph(directed, features), labels)
    fitted: Any = model.fitted_
    matrix, target = fitted.train.matrix, fitted.target
    for node, column in product(range(7), range(len(model.classes_))):
        explanation = model.explainer(0).explain_node(node, 100, class_index=column)
        assert_adds_up(explanation)
        scores, _, label_scores = scores_of(model, node)
        np.testing.assert_allclose(explanation.scores, scores, atol=2e-5)
        np.testing.assert_allclose(explanation.label_propagation, label_scores, atol=2e-6)
        weights = label_coefficients(model, node)[fitted.train.nodes]
        own = {row.name: row.contribution for row in explanation.by_labeled_node}
        if weights.sum() <= 0:
            assert not own
            continue
        # The contribution of a label is proportional to its share and to its value; the sum is the label score.
        parts = weights / weights.sum() * target.label_values(matrix)[:, column]
        factor = label_scores[column] / parts.sum()
        expected = dict(zip(fitted.train.nodes.tolist(), factor * parts, strict=True))
        assert {name: value for name, value in expected.items() if value} == pytest.approx(own, abs=1e-5)
        by_class = {row.name: row.contribution for row in explanation.by_label}
        if kind == "single":
            sums = {name: sum(expected[node] for node in labels if labels[node] == name) for name in ("a", "b")}
            assert {name: value for name, value in sums.items() if value} == pytest.approx(by_class, abs=1e-5)
            is_own = model.classes_[column]
            assert all((value > 0) == (name == is_own) for name, value in by_class.items())


@pytest.fixture(scope="module")
def model() -> cge.CGE:
    return quick_cge("degree", label_propagation=True, **QUICK).fit(
        with_sparse_features(two_groups()), partial_labels()
    )


def test_features_and_endpoints_have_their_part_of_the_input_contributions(model: cge.CGE) -> None:
    explainer: Any = model.explainer(0)
    explanation = model.explain(4, top=1000)
    column, (name, classifier, *_) = explanation.target_index, model.fitted_.ensemble[0]  # type: ignore[attr-defined]
    assert name == "mlp"
    rows = model.fitted_.data.inputs("l2").csr.toarray().astype(np.float64)  # type: ignore[attr-defined]
    weight = classifier.projection.astype(np.float64)
    gradient = explainer._linearize(np.array([4])).gradients[0, column]
    propagation = explainer.paths.by_hop(np.array([4]), np.eye(2 * GROUP_SIZE)).sum(0)[0]  # (n,)
    expected = (propagation @ rows) * (weight @ gradient)
    assert {row.name: row.contribution for row in explanation.by_feature} == pytest.approx(
        {feature: value for feature, value in enumerate(expected) if value}
    )
    by_node = propagation[:, None] * rows * (weight @ gradient)  # (n, f)
    for row in explanation.by_endpoint:
        assert row.from_inputs == pytest.approx(by_node[row.name].sum(), abs=1e-12)
        strongest = sorted(np.abs(by_node[row.name]), reverse=True)[:3]
        assert [abs(value) for _, value in row.features] == pytest.approx([value for value in strongest if value])
    named = model.graph_.with_features(model.graph_.features)
    assert named.feature_names == ()


def test_the_class_tables_are_means_over_its_nodes(model: cge.CGE) -> None:
    explanation = model.explain_class(1, top=1000)
    nodes = np.flatnonzero(model.predict() == 1).tolist()
    each = [model.explain(node, top=1000, target_class=1) for node in nodes]
    assert_adds_up(explanation)
    assert (explanation.coverage, explanation.num_paths) == (None, None)
    for name in ("by_endpoint", "by_labeled_node", "by_label", "by_feature"):
        mean: dict[Any, float] = {}
        for row in (row for explanation_of_node in each for row in getattr(explanation_of_node, name)):
            mean[row.name] = mean.get(row.name, 0) + row.contribution / len(nodes)
        table = {row.name: row.contribution for row in getattr(explanation, name)}
        assert table == pytest.approx(mean, abs=1e-8)


def test_as_many_entries_as_cover_enough(model: cge.CGE) -> None:
    sizes = np.array([4.0, 3.0, 2.0, 1.0])
    assert [n_to_list(sizes, total, None) for total in (10.0, 8.0, 1e9, np.inf)] == [3, 2, 4, 4]
    assert [n_to_list(sizes, 10.0, top) for top in (1, 3, 9)] == [1, 3, 4]
    assert n_to_list(np.ones(50), 50.0, None) == 10
    explanation = model.explain(4)
    for table in (explanation.by_endpoint, explanation.by_labeled_node, explanation.by_feature):
        assert len(table) == 10 or table.coverage >= 0.8
        assert table.coverage - abs(table[-1].contribution) / sum(abs(row.contribution) for row in table) < 0.8
    # The paths cover their part of all contributions: those of all paths, one by one.
    short = quick_cge("degree", label_propagation=False, **QUICK).fit(model.graph_, partial_labels())
    every = [abs(path.contribution) for path in short.explain(4, top=100_000)]
    explanation = short.explain(4)
    assert explanation.coverage == pytest.approx(sum(every[: len(explanation)]) / sum(every))
    assert explanation.num_paths == len(every)
    sentence = explanation.describe_coverage()
    assert sentence == (
        f"These {len(explanation)} paths cover {explanation.coverage:.0%} of the absolute contributions; the rest is "
        f"spread over {len(every) - len(explanation)} others."
    )
    assert "million others" in model.explain(4, top=3).describe_coverage()


def test_a_classifier_has_a_name(model: cge.CGE) -> None:
    several, sparse = (
        quick_cge("degree", label_propagation=False, **QUICK | {"classifier": name}).fit(model.graph_, partial_labels())
        for name in ("mlp", "sparse")
    )
    several.fitted_.ensemble += sparse.fitted_.ensemble  # type: ignore[attr-defined]
    first, second = several.explain(3, classifier="mlp"), several.explain(3, classifier="sparse")
    assert (first.classifier.index, second.classifier.index) == (0, 1)
    assert_adds_up(second)
    with pytest.raises(cge.CgeError, match="classifier must be an index below 2 or a name: mlp, sparse, found 'deep'"):
        several.explain(3, classifier="deep")


# ---------------------------------------------------------------------- new nodes


def same(first: Explanation, second: Explanation) -> bool:
    return json.dumps(first.to_dict()) == json.dumps(second.to_dict())


@pytest.mark.parametrize("weighting", ["degree", "edges+hops", "average"])
def test_new_nodes_are_explained_as_they_are_predicted(weighting: str) -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge(weighting, label_propagation=True, **QUICK).fit(graph, partial_labels())
    features = sp.csr_array(np.eye(12, dtype=np.float32)[:2])
    update = GraphUpdate([(100, 3), (100, 6), (101, 25), (102, 7)], feature_ids=[100, 103], features=features)
    for node, evidence in ((100, 1), (101, 3), (102, 3), (103, 2), (4, 0)):
        explanation = model.explain(node, graph=update)
        assert_adds_up(explanation)
        predictions, _ = predict_nodes(model, [node], update)
        assert predictions.evidence.tolist() == [evidence]
        np.testing.assert_allclose(explanation.probabilities, predictions.probabilities[0])
        assert all(path.path[0] == node for path in explanation)
    labeled = model.explain(100, graph=update, top=1).by_labeled_node[0]
    assert labeled.name in (3, 6)
    assert labeled.label == TRUE_LABELS[labeled.name]
    pair = model.explain_pair(100, 6, graph=update)
    assert_adds_up(pair)
    assert {path.path[-1] for path in pair} == {6}
    with pytest.raises(cge.CgeError, match="node 'zoe' is not in the graph"):
        model.explain("zoe", graph=update)


def test_a_graph_that_replaces_the_training_graph(model: cge.CGE) -> None:
    ids = np.arange(2 * GROUP_SIZE)
    assert same(model.explain(4, graph=model.graph_), model.explain(4))
    copy = cge.Graph.from_scipy(model.graph_.to_scipy(), features=model.graph_.features, node_ids=ids)
    again = model.explain(4, graph=copy)
    np.testing.assert_allclose(again.scores, model.explain(4).scores, atol=1e-6)
    assert [row.name for row in again.by_endpoint] == [row.name for row in model.explain(4).by_endpoint]


# ---------------------------------------------------------------------- no information


@pytest.mark.parametrize("inputs", ["features", "learned", "walks"])
@pytest.mark.parametrize("label_propagation", [True, False])
def test_nodes_without_information(inputs: str, label_propagation: bool) -> None:
    x = np.array(sp.csr_array(with_sparse_features(two_groups()).features).toarray())
    source, target = two_groups().to_scipy().nonzero()
    isolated = 2 * GROUP_SIZE
    features = sp.csr_array(np.vstack([x, np.zeros((1, 12), np.float32)]))
    graph = cge.Graph.from_edges(np.column_stack([source, target]), features, num_nodes=isolated + 1)
    model = quick_cge("degree", label_propagation=label_propagation, inputs=inputs, **QUICK)
    model.fit(graph, np.append(partial_labels(), -1))
    explanation, fitted = model.explain(isolated), model.fitted_
    assert_adds_up(explanation)
    assert not explanation.informed
    np.testing.assert_allclose(explanation.probabilities, fitted.train.matrix.mean(0))
    known = fitted.inputs(None, np.arange(len(graph))).has_information  # type: ignore[attr-defined]
    assert [model.explain(node, top=1).informed for node in range(len(graph))] == known.tolist()
    assert "no information" in str(explanation)
    assert explanation.to_dict()["informed"] is False
    assert "no information" not in str(model.explain(4))


@pytest.mark.parametrize("inputs", ["features", "learned", "walks"])
def test_its_own_input_informs_about_a_node_unless_it_is_learned(inputs: str) -> None:
    model = quick_cge("degree", label_propagation=False, inputs=inputs, **QUICK | {"hops": 0})
    model.fit(with_sparse_features(two_groups()), partial_labels())
    explanation, (predictions, _) = model.explain(4), predict_nodes(model, [4])
    assert explanation.informed == (inputs != "learned")
    assert predictions.evidence_names() == ["training graph" if explanation.informed else "no information"]
    if not explanation.informed:
        np.testing.assert_allclose(explanation.probabilities, model.fitted_.train.matrix.mean(0))


def test_a_self_loop_is_no_information_about_a_learned_input() -> None:
    graph = cge.Graph.from_edges([*EDGES, (6, 6)], num_nodes=7, self_loops=True)
    model = quick_cge("degree", label_propagation=False, inputs="learned", **QUICK).fit(graph, CLASSES)
    assert [model.explain(node).informed for node in (2, 6)] == [True, False]
    assert predict_nodes(model, [2, 6])[0].evidence_names() == ["training graph", "no information"]


def test_multilabel_classes_share_a_label() -> None:
    labels = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], MULTILABEL, 0)
    model = quick_cge("degree", label_propagation=True, **QUICK).fit(with_sparse_features(two_groups()), labels)
    explanation = model.explain(4, top=1000)
    expected = np.zeros(3)
    for row in explanation.by_labeled_node:
        for name in row.label:
            expected[name] += row.from_label / len(row.label)
    assert {row.name: row.contribution for row in explanation.by_label} == pytest.approx(
        dict(enumerate(expected.tolist()))
    )
