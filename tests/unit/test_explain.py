"""Explanations: contributions of paths add up to the scores, and the strongest paths come first."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import cge
from cge.explain.explanation import Explanation
from cge.explain.path_sources import AllPaths, SampledPaths
from cge.metrics import scale_probabilities
from cge.training.classifier_registry import CLASSIFIERS
from tests.fixtures import (
    GROUP_SIZE,
    TRUE_LABELS,
    ConstantWeighting,
    paper_cge,
    partial_labels,
    quick_cge,
    two_groups,
    with_sparse_features,
)

Array = npt.NDArray[Any]

NAMES = np.array(["left", "right"])
MULTILABEL = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(2 * GROUP_SIZE) % 2]).astype(int)
KINDS = np.array(["near", "far"])


def typed(features: bool = True) -> cge.Graph:
    """Return the two groups with two types of edges, and names for nodes."""
    plain = two_groups()
    source, target = plain.to_scipy().nonzero()
    once = source < target
    source, target = source[once], target[once]
    ids = [f"n{node}" for node in range(2 * GROUP_SIZE)]
    edges = [(ids[u], ids[v]) for u, v in zip(source.tolist(), target.tolist(), strict=True)]
    graph = cge.Graph.from_edges(edges, node_ids=ids, edge_types=KINDS[(np.abs(source - target) > 2).astype(int)])
    return with_sparse_features(graph) if features else graph


@pytest.fixture(scope="module", autouse=True)
def few_label_hops() -> Iterator[None]:
    """Propagate labels along few edges, so that all paths can be listed."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("training.named_weighting", "estimators.encoder_explainer"):
            patch.setattr(f"cge.{module}.LABEL_HOP_WEIGHTS", [1.0] * 3)
        yield


def assert_adds_up(explanation: Explanation) -> None:
    """Check that the parts of an explanation add up to its scores, and every table to the parts it divides."""
    parts = explanation.constant + explanation.label_propagation + explanation.by_hop.sum(0) + explanation.remainder
    np.testing.assert_allclose(parts, explanation.scores, atol=1e-12)
    if explanation.by_edge_type:
        by_type = sum(explanation.by_edge_type.values())
        np.testing.assert_allclose(by_type, explanation.by_hop.sum(0), atol=1e-10)
    inputs, labels = explanation.by_hop.sum(0), explanation.label_propagation
    index, tables = explanation.target_index, explanation
    for table, part in (
        (tables.by_endpoint, inputs + labels),
        (tables.by_labeled_node, labels),
        (tables.by_label, labels),
        (tables.by_feature, inputs),
    ):
        if table.size or table is tables.by_endpoint:
            assert table.total == pytest.approx(part[index], abs=1e-10)
            assert table.rest + sum(row.contribution for row in table) == pytest.approx(table.total)
            assert table.coverage <= 1
            assert (table.coverage == pytest.approx(1)) == (len(table) == table.size)
    for row in tables.by_endpoint:
        assert row.contribution == pytest.approx(row.from_inputs + row.from_label)
    for path in explanation:
        assert path.contribution == path.contributions[explanation.target_index]
    sizes = [abs(path.contribution) for path in explanation]
    np.testing.assert_allclose(sizes, sorted(sizes, reverse=True), rtol=1e-4)


def scores_of(model: cge.CGE, node: int, classifier_index: int = 0) -> tuple[Array, Array, Array]:
    """Return scores, constant and propagated labels of a node as the model itself computes them."""
    fitted: Any = model.fitted_
    name, classifier, weighting, _ = fitted.ensemble[classifier_index]
    train = fitted.train
    label_scores = np.zeros(len(model.classes_))
    inputs = classifier.project(fitted.data.inputs(CLASSIFIERS[name].row_norm))
    vector = weighting.propagation(fitted.data)(inputs)[[node]] + classifier.offset
    if fitted.label_propagation:
        propagated = weighting.propagate_labels(fitted.data, train.nodes, train.matrix, fitted.target)
        label_scores = float(classifier.label_weight) * propagated[node]
    constant = classifier.offset
    if name not in ("sparse", "sparse-light"):
        constant = classifier.output_weight @ ((vector[0] > 0) * classifier.offset) + classifier.output_bias
    return classifier.scores(vector)[0] + label_scores, constant, label_scores


@pytest.mark.parametrize(
    ("weighting", "classifier", "label_propagation", "multilabel"),
    [
        ("uniform", "mlp", True, False),
        ("degree", "consistency", False, True),
        ("degree", "sparse", True, True),
        ("cosine", "sparse-light", True, False),
        ("edges+hops", "consistency", True, False),
        ("average", "sparse", True, True),
        ("cnn", "mlp", False, False),
        ("lstm", "consistency", True, False),
        ("degree", "distilled", True, False),
        (ConstantWeighting, "sparse-light", False, False),
    ],
)
def test_paths_labels_and_a_constant_add_up_to_the_scores(
    weighting: Any, classifier: str, label_propagation: bool, multilabel: bool
) -> None:
    labels = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], MULTILABEL, 0) if multilabel else partial_labels()
    settings = {"classifier": classifier, "hops": 2, "label_propagation": label_propagation, "max_epochs": 8}
    model = quick_cge(weighting, **settings, validation_fraction=0.0)
    model.fit(with_sparse_features(two_groups()), labels)
    assert len(model.classifiers_) == 1
    for node in (0, 33):
        explanation = model.explain(node, top=100_000)
        assert_adds_up(explanation)
        scores, constant, label_scores = scores_of(model, node)
        np.testing.assert_allclose(explanation.scores, scores, atol=2e-5)
        np.testing.assert_allclose(explanation.constant, constant, atol=2e-5)
        np.testing.assert_allclose(explanation.label_propagation, label_scores, atol=1e-6)
        assert explanation.label_propagation.any() == label_propagation
        assert not explanation.remainder.any()
        # Every path is listed, so those of each length add up to its sum.
        for hop, contributions in enumerate(explanation.by_hop):
            each = [path.contributions for path in explanation if path.hops == hop and path.ends_at == "features"]
            np.testing.assert_allclose(np.sum(each, axis=0), contributions, atol=1e-10)
        label_paths = [path for path in explanation if path.ends_at == "label"]
        labels_of_paths = sum([path.contributions for path in label_paths], np.zeros(len(model.classes_)))
        np.testing.assert_allclose(labels_of_paths, explanation.label_propagation, atol=1e-10)
        assert len(explanation) == explanation.num_paths
        assert explanation.coverage == pytest.approx(1)
        assert all(path.training_labels[-1] is not None and path.path[-1] != node for path in label_paths)
        # The probabilities are the calibrated softmax or sigmoid of the scores.
        logits = torch.tensor(explanation.scores[None])
        probabilities = (torch.sigmoid(logits) if multilabel else torch.softmax(logits, 1)).numpy()
        calibrated = scale_probabilities(probabilities, model.fitted_.temperature, multilabel)[0]
        np.testing.assert_allclose(calibrated, model.predict_proba([node])[0], atol=1e-5)
        np.testing.assert_allclose(explanation.probabilities, model.predict_proba([node])[0], atol=1e-7)
        assert explanation.predicted == model.classes_[explanation.probabilities.argmax()]
        assert explanation.exact
        for path in [path for path in explanation if path.ends_at == "features"][:3]:
            assert path.relative_weight == pytest.approx(float(model.path_weights([path.path])[0]), rel=1e-5)


@pytest.fixture(scope="module")
def fitted() -> cge.CGE:
    graph = typed()
    labels = {f"n{node}": str(NAMES[TRUE_LABELS[node]]) for node in range(0, 2 * GROUP_SIZE, 3)}
    return quick_cge("edges+hops", classifier="mlp", hops=3, label_propagation=True, validation_fraction=0.0).fit(
        graph, labels
    )


@pytest.fixture(scope="module")
def sampled() -> cge.CGE:
    labels = {f"n{node}": str(NAMES[TRUE_LABELS[node]]) for node in range(0, 2 * GROUP_SIZE, 3)}
    return quick_cge("lstm", classifier="mlp", hops=3, label_propagation=False, validation_fraction=0.0).fit(
        typed(), labels
    )


def test_an_explanation_is_a_sequence_of_paths_by_name(fitted: cge.CGE) -> None:
    explanation = fitted.explain("n7", top=6)
    assert len(explanation) == len(list(explanation)) == len(explanation.paths) == 6
    assert explanation[0] is explanation.paths[0]
    assert explanation[-2:] == explanation.paths[-2:]
    assert repr(explanation) == "Explanation(node 'n7', 6 paths)"
    lines = str(explanation).splitlines()
    assert [*explanation.table()] == [
        "path",
        "ends at",
        "training labels",
        "edge types",
        "hops",
        "relative weight",
        f"contribution to {explanation.predicted}",
    ]
    assert lines[0].split() == " ".join(explanation.table()).split()
    assert lines[-2:] == list(explanation.table_footer())
    assert lines[1].startswith(" → ".join(explanation[0].path))
    graph = fitted.graph_
    for path in explanation:
        assert path.path[0] == "n7"
        assert path.hops + 1 == len(path.path)
        assert path.distinct_nodes == len(set(path.path))
        for node, following, kind in zip(path.path, path.path[1:], path.edge_types, strict=False):
            far = abs(int(node[1:]) - int(following[1:])) > 2
            assert kind == ("(self-loop)" if node == following else KINDS[int(far)])
            assert node == following or following in graph.neighbors(node)
        expected = [str(NAMES[TRUE_LABELS[int(node[1:])]]) if int(node[1:]) % 3 == 0 else None for node in path.path]
        assert list(path.training_labels) == expected
    assert any(path.hops + 1 > path.distinct_nodes for path in fitted.explain("n7", top=50))
    values = json.loads(json.dumps(explanation.to_dict()))
    assert values["node"] == "n7"
    assert values["classes"] == ["left", "right"]
    assert list(values["by_edge_type"]) == ["near", "far", "(self-loop)", "(no edge)"]
    assert [path["path"] for path in values["paths"]] == [list(path.path) for path in explanation]
    assert values["paths"][0]["contributions"]["left"] == explanation[0].contributions[0]


def test_labels_of_a_multilabel_task_are_tuples() -> None:
    lists = {node: ["a", "b"] if node % 2 else ["a"] for node in range(0, 2 * GROUP_SIZE, 3)} | {1: ["b"]}
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, max_epochs=3).fit(
        with_sparse_features(two_groups()), lists
    )
    assert model.explain(3, top=1, hop=0)[0].training_labels == (("a", "b"),)
    assert model.explain(4, top=1, hop=0)[0].training_labels == (None,)


def test_the_score_of_any_class_can_be_explained(fitted: cge.CGE) -> None:
    whole = fitted.explain("n7", top=100_000)
    other = next(name for name in ("left", "right") if name != whole.predicted)
    explanation = fitted.explain("n7", top=100_000, target_class=other)
    assert_adds_up(explanation)
    assert (explanation.predicted, explanation.predicted_all, explanation.target_class) == (
        whole.predicted,
        (whole.predicted,),
        other,
    )
    assert {path.path: path.contributions.tolist() for path in explanation} == {
        path.path: path.contributions.tolist() for path in whole
    }
    sizes = [abs(path.contributions[explanation.target_index]) for path in explanation]
    assert [abs(path.contribution) for path in explanation] == sizes
    np.testing.assert_allclose(sizes, sorted(sizes, reverse=True), rtol=1e-4)
    assert fitted.explain_pair("n7", "n8", target_class=np.str_(other)).target_class == other
    assert fitted.explain_class(other).target_class == other


@pytest.mark.parametrize("which", ["fitted", "sampled"])
def test_contributions_are_divided_among_edge_types(which: str, request: pytest.FixtureRequest) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    explanation = model.explain("n5", top=100_000)
    assert_adds_up(explanation)
    expected = {name: np.zeros(2) for name in ("near", "far", "(self-loop)", "(no edge)")}
    for path in explanation:
        for kind in (path.edge_types or ("(no edge)",)) if path.ends_at != "label" else ():
            expected[kind] += path.contributions / max(len(path.edge_types), 1)
    for name, contributions in explanation.by_edge_type.items():
        np.testing.assert_allclose(contributions, expected[name], atol=1e-10)
    assert isinstance(model.explainer(0).paths, AllPaths if which == "fitted" else SampledPaths)


@pytest.mark.parametrize("which", ["fitted", "sampled"])
def test_paths_to_each_node_make_up_all_paths(which: str, request: pytest.FixtureRequest) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    whole, total, count = model.explain("n5", top=100_000), 0.0, 0
    types = dict.fromkeys(whole.by_edge_type, 0.0)
    for end in model.node_ids_.tolist():
        explanation = model.explain_pair("n5", end, top=100_000)
        assert_adds_up(explanation)
        assert (explanation.node, explanation.endpoint, explanation.predicted) == ("n5", end, whole.predicted)
        assert {path.path[-1] for path in explanation} <= {end}
        parts = explanation.by_hop.sum(0) + explanation.label_propagation
        listed = sum([path.contributions for path in explanation], np.zeros(2))
        np.testing.assert_allclose(listed, parts, atol=1e-10)
        assert explanation.num_paths == len(explanation)
        np.testing.assert_array_equal(explanation.scores, whole.scores)
        total, count = total + explanation.by_hop, count + len(explanation)
        types = {name: types[name] + explanation.by_edge_type[name] for name in types}
    np.testing.assert_allclose(total, whole.by_hop, atol=1e-10)
    for name, value in types.items():
        np.testing.assert_allclose(value, whole.by_edge_type[name], atol=1e-10)
    assert count == len(whole)
    far = model.explain_pair("n9", "n31")
    assert repr(far).startswith("Explanation(node 'n9' and node 'n31'")


def test_unconnected_nodes_contribute_nothing() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (3, 4), (4, 5)])
    options: dict[str, Any] = {"hops": 2, "validation_fraction": 0.0, "max_epochs": 3, "inputs": "learned"}
    model = quick_cge("degree", classifier="mlp", **options).fit(graph, {0: 0, 1: 0, 3: 1, 4: 1})
    explanation = model.explain_pair(0, 5)
    assert len(explanation) == 0
    assert not explanation.by_hop.any()
    assert_adds_up(explanation)
    head = "path  ends at  training labels  hops  relative weight  contribution to 0"
    assert str(explanation).splitlines() == [head, *explanation.table_footer()]


@pytest.mark.parametrize("which", ["fitted", "sampled"])
@pytest.mark.parametrize("hop", [None, 2])
def test_a_class_is_the_mean_of_its_nodes(
    which: str, hop: int | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    explanation = model.explain_class("right", top=12, hop=hop)
    nodes = model.node_ids_[model.predict() == "right"].tolist()
    each = [model.explain(node, top=100_000, hop=hop) for node in nodes]
    assert (explanation.node, explanation.predicted, explanation.num_nodes) == (None, "right", len(nodes))
    assert repr(explanation) == f"Explanation(class 'right', {len(explanation)} paths)"
    for name in ("probabilities", "scores", "constant", "label_propagation", "by_hop", "remainder"):
        mean = np.mean([getattr(explanation, name) for explanation in each], axis=0)
        np.testing.assert_allclose(getattr(explanation, name), mean, atol=1e-6)
    for name, contributions in explanation.by_edge_type.items():
        mean = np.mean([explanation.by_edge_type[name] for explanation in each], axis=0)
        np.testing.assert_allclose(contributions, mean, atol=1e-6)
    assert_adds_up(explanation)
    contributions = [path.contribution for explanation in each for path in explanation]
    best = sorted((value for value in contributions if value > 0), reverse=True)[:12]
    np.testing.assert_allclose([path.contribution for path in explanation], best, atol=1e-6)
    assert {path.path[0] for path in explanation} <= set(nodes)
    assert hop is None or {path.hops for path in explanation} == {hop}
    # The size of batches makes no difference.
    kind = AllPaths if which == "fitted" else SampledPaths
    monkeypatch.setattr(kind, "batch_size", 3)
    monkeypatch.setattr("cge.explain.explainer._MAX_GRADIENTS", 40)
    again = model.explain_class("right", top=12, hop=hop)
    np.testing.assert_allclose(again.by_hop, explanation.by_hop, atol=1e-6)
    np.testing.assert_allclose([s.contribution for s in again], [s.contribution for s in explanation], atol=1e-6)
    assert again.num_nodes == explanation.num_nodes


def test_a_class_that_nobody_is_in_has_no_paths() -> None:
    labels = np.zeros((2 * GROUP_SIZE, 3), int)
    labels[::3, 0], labels[0, 1], labels[1, 2] = 1, 1, 1
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, label_propagation=False).fit(
        with_sparse_features(two_groups()), labels
    )
    assert not model.predict()[:, 2].any()
    explanation = model.explain_class(2)
    assert (len(explanation), explanation.num_nodes) == (0, 0)
    assert explanation.by_hop.shape == (2, 3)
    assert_adds_up(explanation)
    many = model.explain_class(0, top=3)
    assert many.num_nodes == model.predict()[:, 0].sum()


def test_each_classifier_of_an_ensemble_is_explained() -> None:
    model = quick_cge("degree", classifier="mlp", n_estimators=2, hops=1, validation_fraction=0.0, max_epochs=5).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    explanations = [model.explain(3, classifier=index) for index in (0, 1)]
    for index, explanation in enumerate(explanations):
        np.testing.assert_allclose(explanation.scores, scores_of(model, 3, index)[0], atol=1e-5)
        assert_adds_up(explanation)
    assert [str(explanation.classifier) for explanation in explanations] == [
        "'mlp' (index 0 of 2)",
        "'mlp' (index 1 of 2)",
    ]
    values = explanations[1].to_dict()
    assert (values["classifier_index"], values["num_classifiers"], values["classifier"]) == (1, 2, "mlp")
    sentence = "The model averages 2 classifiers; these are the scores of 'mlp' (index 0 of 2)."
    assert explanations[0].describe_classifier().startswith(sentence)
    nodes = np.arange(40)
    for index in (0, 1):
        own = [scores_of(model, node, index)[0].argmax() for node in nodes.tolist()]
        assert model.explainer(index).predict_alone(nodes).tolist() == own
    # A classifier that differs from the ensemble is reported.
    fitted: Any = model.fitted_
    fitted.ensemble[1][1].output_bias[:] += [-9.0, 9.0]
    fitted.ensemble[0][1].output_bias[:] += [99.0, -99.0]
    model._explainers.clear()
    different = model.explain(3, classifier=1)
    assert (different.predicted, different.classifier_prediction) == (0, 1)
    assert different.describe_classifier().endswith("By itself it predicts 1; the average predicts 0.")
    assert model.explain(3, classifier=0).describe_classifier().endswith("(index 0 of 2).")
    assert not np.allclose(explanations[0].scores, explanations[1].scores)
    np.testing.assert_array_equal(explanations[0].probabilities, explanations[1].probabilities)
    with pytest.raises(
        cge.CgeError,
        match=r"classifier must be an index below 2 or a name: mlp, found 2",
    ):
        model.explain(3, classifier=2)


@pytest.mark.parametrize("weighting", ["edges+hops", "average"])
def test_a_loaded_model_explains_the_same(weighting: str, tmp_path: Path) -> None:
    model = quick_cge(weighting, hops=2, classifier="mlp", label_propagation=True).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    first = model.explain(4)
    model.save(tmp_path / "m")
    for again in (cge.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        explanation = again.explain(4)
        assert json.dumps(explanation.to_dict()) == json.dumps(first.to_dict())


def test_another_fit_is_explained_anew() -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, max_epochs=3)
    first = model.fit(with_sparse_features(two_groups()), partial_labels()).explain(4)
    again = model.fit(with_sparse_features(two_groups(), seed=1), partial_labels()).explain(4)
    assert not np.allclose(first.scores, again.scores)


def test_what_is_wrong_is_said_in_a_sentence(fitted: cge.CGE) -> None:
    with pytest.raises(cge.CgeError, match="top must be an integer of at least 1, found 0"):
        fitted.explain("n7", top=0)
    with pytest.raises(cge.CgeError, match="top must be an integer of at least 1, found 'all'"):
        fitted.explain_class("left", top="all")  # type: ignore[arg-type]
    with pytest.raises(cge.CgeError, match="node 'n99' is not in the graph"):
        fitted.explain("n99")
    with pytest.raises(cge.CgeError, match="node 'n99' is not in the graph"):
        fitted.explain_pair("n1", "n99")
    with pytest.raises(cge.CgeError, match="there is no class 'up'; the classes are 'left', 'right'"):
        fitted.explain_class("up")
    with pytest.raises(cge.CgeError, match="hop must be at most 3, the model's hops, found 4"):
        fitted.explain("n7", hop=4)
    with pytest.raises(cge.CgeError, match="hop must be an integer of at least 0, found -1"):
        fitted.explain("n7", hop=-1)
    with pytest.raises(cge.CgeError, match="classifier must be an integer of at least 0, found -1"):
        fitted.explain("n7", classifier=-1)
    with pytest.raises(cge.CgeError, match="fractions must be numbers from 0 to 1, found"):
        fitted.faithfulness(["n7"], fractions=[0.5, 2])
    for call in (cge.CGE().explain, cge.CGE().explain_class):
        with pytest.raises(ValueError, match="has not been trained yet"):
            call("n7")


def test_many_classes_are_named_in_part() -> None:
    labels = {node: node % 12 for node in range(24)}
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, max_epochs=1).fit(
        with_sparse_features(two_groups()), labels
    )
    with pytest.raises(cge.CgeError, match=r"there is no class 12; the classes are 0, 1, .*, 9 and 2 more"):
        model.explain_class(np.int64(12))
    assert model.explain_class(np.int64(3)).predicted == 3


# ---------------------------------------------------------------------- PaperCGE


@pytest.mark.filterwarnings("ignore:path weights are nearly constant")
@pytest.mark.parametrize(
    ("setting", "weighting", "features", "multilabel"),
    [
        ("transductive", "uniform", True, False),
        ("transductive", "lstm", False, True),
        ("transductive", ConstantWeighting, True, False),
        ("inductive", "average", True, False),
        ("inductive", "uniform", True, True),
    ],
)
def test_paper_cge_attributes_scores_to_paths(setting: str, weighting: Any, features: bool, multilabel: bool) -> None:
    labels = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], MULTILABEL, 0) if multilabel else partial_labels()
    small: dict[str, Any] = {
        "dim": 8,
        "window": 3,
        "walk_length": 5,
        "max_epochs": 2,
        "walks_per_node": 2,
        "validation_fraction": 0.0,
    }
    model = paper_cge(setting, weighting, **small).fit(two_groups(features=features), labels)
    explanation = model.explain(7, top=100_000)
    assert_adds_up(explanation)
    assert not explanation.exact
    assert explanation.remainder.any()
    assert not explanation.by_hop[0].any()  # paths of one node are not used in training
    assert explanation.by_hop.shape == (3, len(model.classes_))
    logits = torch.tensor(explanation.scores[None])
    probabilities = (torch.sigmoid(logits) if multilabel else torch.softmax(logits, 1)).numpy()
    np.testing.assert_allclose(probabilities[0], model.predict_proba([7])[0], atol=1e-5)
    # The contribution of a path is its coefficient times the score of its endpoint's vector.
    weights = model.path_weights([path.path for path in explanation])
    np.testing.assert_allclose([path.relative_weight for path in explanation], weights, atol=1e-6)
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    explainer = model.explainer(0)
    linear = explainer.score_function.linearize(np.array([7]), np.zeros((1, 8)))
    contributions = np.array([path.contributions for path in explanation])
    sampled = explainer.paths.top_by_weight(7, 100_000)
    assert sampled.path_weight.sum() == pytest.approx(1)
    total = sum(
        coefficient * linear.gradients[0] @ unit[end]
        for coefficient, end in zip(sampled.path_weight, sampled.endpoints(explainer.paths.indices), strict=True)
    )
    np.testing.assert_allclose(contributions.sum(0), total, atol=1e-6)
    np.testing.assert_allclose(explanation.by_hop.sum(0), total, atol=1e-6)
    assert {path.path[0] for path in explanation} == {7}
    train = {int(node): labels[node] for node in np.flatnonzero(labels.any(axis=1) if multilabel else labels >= 0)}
    for path in explanation[:20]:
        for node, label in zip(path.path, path.training_labels, strict=True):
            assert (label is None) == (node not in train)
            assert label is None or multilabel or label == train[node]
    column = explanation.target_index
    of_class = model.explain_class(model.classes_[column], top=4)
    within = model.predict_proba()[:, column] > 0.5 if multilabel else model.predict() == model.classes_[column]
    each = [model.explain(node, top=100) for node in np.flatnonzero(within).tolist()]
    np.testing.assert_allclose(
        of_class.by_hop, np.mean([explanation.by_hop for explanation in each], axis=0), atol=1e-6
    )
    assert_adds_up(of_class)
    near = int(explanation[0].path[-1])
    assert_adds_up(model.explain_pair(7, near, top=3))
    with pytest.raises(cge.CgeError, match="classifier must be an index below 1 or a name: head, found 1"):
        model.explain(7, classifier=1)


@pytest.mark.filterwarnings("ignore:path weights are nearly constant")
def test_a_node_without_edges_has_no_paths_but_its_own() -> None:
    plain = two_groups()
    graph = cge.Graph.from_edges(list(zip(*plain.to_scipy().nonzero(), strict=True)), num_nodes=2 * GROUP_SIZE + 1)
    labels = {node: int(TRUE_LABELS[node]) for node in range(0, 2 * GROUP_SIZE, 3)}
    settings: dict[str, Any] = {"max_epochs": 2, "validation_fraction": 0.0}
    model = paper_cge("transductive", "average", dim=8, window=3, walk_length=5, **settings).fit(graph, labels)
    explanation = model.explain(2 * GROUP_SIZE)
    assert len(explanation) == 0
    assert not explanation.by_hop.any()
    assert_adds_up(explanation)
    model = quick_cge("degree", classifier="mlp", hops=2, **settings).fit(graph, labels)
    explanation = model.explain(2 * GROUP_SIZE)
    assert {path.distinct_nodes for path in explanation} <= {1}
    assert_adds_up(explanation)
