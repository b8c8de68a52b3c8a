"""The paths behind a prediction: they add up to its score, and the strongest come first."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import cge
from cge.explain.all_paths import AllPaths
from cge.explain.explanation import Explanation
from cge.explain.sampled_paths import SampledPaths
from cge.metrics import scale_probabilities
from cge.training.classifier_recipes import CLASSIFIERS
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
SEVERAL = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(2 * GROUP_SIZE) % 2]).astype(int)
KINDS = np.array(["near", "far"])


def typed(features: bool = True) -> cge.Graph:
    """Return the two groups with two types of edges, and names for nodes."""
    plain = two_groups()
    left, right = plain.to_scipy().nonzero()
    once = left < right
    left, right = left[once], right[once]
    ids = [f"n{node}" for node in range(2 * GROUP_SIZE)]
    edges = [(ids[u], ids[v]) for u, v in zip(left.tolist(), right.tolist(), strict=True)]
    graph = cge.Graph.from_edges(edges, node_ids=ids, edge_types=KINDS[(np.abs(left - right) > 2).astype(int)])
    return with_sparse_features(graph) if features else graph


def adds_up(found: Explanation) -> None:
    """Check that the parts of an explanation are its scores, and that types share out what paths bring."""
    parts = found.constant + found.votes + found.hops.sum(0) + found.remainder
    np.testing.assert_allclose(parts, found.scores, atol=1e-12)
    if found.edge_types:
        np.testing.assert_allclose(sum(found.edge_types.values()), found.hops.sum(0), atol=1e-10)
    for share in found:
        assert share.contribution == share.contributions[found.place]
    order = [abs(share.contribution) for share in found]
    assert order == sorted(order, reverse=True)


def scores_of(model: cge.CGE, node: int, place: int = 0) -> tuple[Array, Array, Array]:
    """Return scores, constant and votes of a node as the model itself computes them."""
    fitted: Any = model._fitted
    name, classifier = fitted.ensemble[place]
    votes = np.zeros(len(model.classes_))
    with torch.no_grad():
        carried = classifier.project(fitted.data.inputs(CLASSIFIERS[name].rows))
        vector = fitted.plan.weighting.propagation(fitted.data)(carried)[[node]] + classifier.offset()
        if fitted.plan.label_propagation:
            cast = fitted.plan.weighting.propagate_labels(fitted.data, fitted.known, fitted.matrix, fitted.several)
            votes = float(classifier.label_weight) * cast[node]
        if name in ("sparse", "sparse-light"):
            constant = classifier.offset()
        else:
            on = (vector[0] > 0).float()
            constant = classifier.score.weight @ (on * classifier.offset()) + classifier.score.bias
        return classifier.scores(vector)[0].numpy() + votes, constant.numpy(), votes


@pytest.mark.parametrize(
    ("weighting", "classifier", "votes", "several"),
    [
        ("none", "mlp", "yes", False),
        ("degree", "consistency", "no", True),
        ("degree", "sparse", "yes", True),
        ("cosine", "sparse-light", "yes", False),
        ("steps", "consistency", "yes", False),
        ("average", "sparse", "yes", True),
        ("cnn", "mlp", "no", False),
        ("lstm", "consistency", "yes", False),
        ("degree", "distilled", "yes", False),
        (ConstantWeighting, "sparse-light", "no", False),
    ],
)
def test_paths_votes_and_a_constant_add_up_to_the_scores(
    weighting: Any, classifier: str, votes: str, several: bool
) -> None:
    labels = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], SEVERAL, 0) if several else partial_labels()
    model = quick_cge(
        weighting, classifier=classifier, hops=2, label_propagation=votes, max_epochs=8, validation_fraction=0.0
    )
    model.fit(with_sparse_features(two_groups()), labels)
    assert len(model._fitted.ensemble) == 1  # type: ignore[union-attr]
    for node in (0, 33):
        found = model.explain(node, top=100_000)
        adds_up(found)
        scores, constant, cast = scores_of(model, node)
        np.testing.assert_allclose(found.scores, scores, atol=2e-5)
        np.testing.assert_allclose(found.constant, constant, atol=2e-5)
        np.testing.assert_allclose(found.votes, cast, atol=1e-6)
        assert found.votes.any() == (votes == "yes")
        assert not found.remainder.any()
        # Every path is listed, so that those of each length add up to its sum.
        for hop, brought in enumerate(found.hops):
            each = [share.contributions for share in found if share.length == hop + 1]
            np.testing.assert_allclose(np.sum(each, axis=0), brought, atol=1e-10)
        # The scores are those of which the chances are made.
        raised = torch.tensor(found.scores[None])
        probabilities = (torch.sigmoid(raised) if several else torch.softmax(raised, 1)).numpy()
        temperature = model._fitted.temperature  # type: ignore[union-attr]
        np.testing.assert_allclose(
            scale_probabilities(probabilities, temperature, several)[0], model.predict_proba([node])[0], atol=1e-5
        )
        np.testing.assert_allclose(found.probabilities, model.predict_proba([node])[0], atol=1e-7)
        assert found.predicted == model.classes_[found.probabilities.argmax()]
        assert found.exact
        for share in found[:3]:
            assert share.weight == pytest.approx(float(model.path_weights([share.path])[0]), rel=1e-5)


@pytest.fixture(scope="module")
def fitted() -> cge.CGE:
    graph = typed()
    known = {f"n{node}": str(NAMES[TRUE_LABELS[node]]) for node in range(0, 2 * GROUP_SIZE, 3)}
    return quick_cge("steps", classifier="mlp", hops=3, label_propagation="yes", validation_fraction=0.0).fit(
        graph, known
    )


@pytest.fixture(scope="module")
def format_list() -> cge.CGE:
    known = {f"n{node}": str(NAMES[TRUE_LABELS[node]]) for node in range(0, 2 * GROUP_SIZE, 3)}
    return quick_cge("lstm", classifier="mlp", hops=3, label_propagation="no", validation_fraction=0.0).fit(
        typed(), known
    )


def test_an_explanation_is_a_sequence_of_paths_by_name(fitted: cge.CGE) -> None:
    found = fitted.explain("n7", top=6)
    assert len(found) == len(list(found)) == len(found.paths) == 6
    assert found[0] is found.paths[0]
    assert found[-2:] == found.paths[-2:]
    assert repr(found) == "Explanation(node 'n7', 6 paths)"
    lines = str(found).splitlines()
    assert lines[0].split() == ["path", "length", "diversity", "weight", "brings", str(found.predicted)]
    assert lines[1].startswith(" → ".join(found[0].path))
    graph = fitted.graph_
    for share in found:
        assert share.path[0] == "n7"
        assert share.length == len(share.path)
        assert share.diversity == len(set(share.path))
        for here, there, kind in zip(share.path, share.path[1:], share.types, strict=False):
            far = abs(int(here[1:]) - int(there[1:])) > 2
            assert kind == ("(stays)" if here == there else KINDS[int(far)])
            assert here == there or there in graph.neighbors(here)
        expected = [str(NAMES[TRUE_LABELS[int(one[1:])]]) if int(one[1:]) % 3 == 0 else None for one in share.path]
        assert list(share.labels) == expected
    assert any(share.length > share.diversity for share in fitted.explain("n7", top=50))
    facts = json.loads(json.dumps(found.facts()))
    assert facts["node"] == "n7"
    assert facts["classes"] == ["left", "right"]
    assert list(facts["edge_types"]) == ["near", "far", "(stays)", "(no step)"]
    assert [one["path"] for one in facts["paths"]] == [list(share.path) for share in found]
    assert facts["paths"][0]["contributions"]["left"] == found[0].contributions[0]


def test_several_labels_are_known_together() -> None:
    lists = {node: ["a", "b"] if node % 2 else ["a"] for node in range(0, 2 * GROUP_SIZE, 3)} | {1: ["b"]}
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, max_epochs=3).fit(
        with_sparse_features(two_groups()), lists
    )
    assert model.explain(3, top=1, hop=0)[0].labels == (("a", "b"),)
    assert model.explain(4, top=1, hop=0)[0].labels == (None,)


def test_the_score_of_any_class_can_be_explained(fitted: cge.CGE) -> None:
    whole = fitted.explain("n7", top=100_000)
    other = next(one for one in ("left", "right") if one != whole.predicted)
    found = fitted.explain("n7", top=100_000, name=other)
    adds_up(found)
    assert (found.predicted, found.predicted_all, found.explained) == (whole.predicted, (whole.predicted,), other)
    assert {one.path: one.contributions.tolist() for one in found} == {
        one.path: one.contributions.tolist() for one in whole
    }
    sizes = [abs(one.contributions[found.place]) for one in found]
    assert [abs(one.contribution) for one in found] == sizes == sorted(sizes, reverse=True)
    assert fitted.explain_pair("n7", "n8", name=np.str_(other)).explained == other
    assert fitted.explain_class(other).explained == other


@pytest.mark.parametrize("which", ["fitted", "format_list"])
def test_types_of_edges_share_out_what_paths_bring(which: str, request: pytest.FixtureRequest) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    found = model.explain("n5", top=100_000)
    adds_up(found)
    expected = {name: np.zeros(2) for name in ("near", "far", "(stays)", "(no step)")}
    for share in found:
        for kind in share.types or ("(no step)",):
            expected[kind] += share.contributions / max(len(share.types), 1)
    for name, brought in found.edge_types.items():
        np.testing.assert_allclose(brought, expected[name], atol=1e-10)
    assert isinstance(model._explainer(0).paths, AllPaths if which == "fitted" else SampledPaths)


@pytest.mark.parametrize("which", ["fitted", "format_list"])
def test_paths_to_each_node_make_up_all_paths(which: str, request: pytest.FixtureRequest) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    whole, total, brought = model.explain("n5", top=100_000), 0.0, 0
    types = dict.fromkeys(whole.edge_types, 0.0)
    for end in model.node_ids_.tolist():
        found = model.explain_pair("n5", end, top=100_000)
        adds_up(found)
        assert (found.node, found.end, found.predicted) == ("n5", end, whole.predicted)
        assert {share.path[-1] for share in found} <= {end}
        np.testing.assert_allclose(
            sum([share.contributions for share in found], np.zeros(2)), found.hops.sum(0), atol=1e-10
        )
        np.testing.assert_array_equal(found.scores, whole.scores)
        total, brought = total + found.hops, brought + len(found)
        types = {name: types[name] + found.edge_types[name] for name in types}
    np.testing.assert_allclose(total, whole.hops, atol=1e-10)
    for name, value in types.items():
        np.testing.assert_allclose(value, whole.edge_types[name], atol=1e-10)
    assert brought == len(whole)
    far = model.explain_pair("n9", "n31")
    assert repr(far).startswith("Explanation(node 'n9' and node 'n31'")


def test_nodes_that_no_path_joins_bring_nothing() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (3, 4), (4, 5)])
    model = quick_cge("degree", classifier="mlp", hops=2, validation_fraction=0.0, max_epochs=3).fit(
        graph, {0: 0, 1: 0, 3: 1, 4: 1}
    )
    found = model.explain_pair(0, 5)
    assert len(found) == 0
    assert not found.hops.any()
    adds_up(found)
    assert str(found).splitlines() == ["path  length  diversity  weight  brings 0"]


@pytest.mark.parametrize("which", ["fitted", "format_list"])
@pytest.mark.parametrize("hop", [None, 2])
def test_a_class_is_the_mean_of_its_nodes(
    which: str, hop: int | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: cge.CGE = request.getfixturevalue(which)
    found = model.explain_class("right", top=12, hop=hop)
    nodes = model.node_ids_[model.predict() == "right"].tolist()
    each = [model.explain(node, top=100_000, hop=hop) for node in nodes]
    assert (found.node, found.predicted, found.num_nodes) == (None, "right", len(nodes))
    assert repr(found) == f"Explanation(class 'right', {len(found)} paths)"
    for name in ("chances", "scores", "constant", "votes", "hops", "remainder"):
        np.testing.assert_allclose(
            getattr(found, name), np.mean([getattr(one, name) for one in each], axis=0), atol=1e-6
        )
    for name in found.edge_types:
        np.testing.assert_allclose(
            found.edge_types[name], np.mean([one.edge_types[name] for one in each], 0), atol=1e-6
        )
    adds_up(found)
    every = [share.contribution for one in each for share in one]
    best = sorted((one for one in every if one > 0), reverse=True)[:12]
    np.testing.assert_allclose([share.contribution for share in found], best, atol=1e-6)
    assert {share.path[0] for share in found} <= set(nodes)
    assert hop is None or {share.length for share in found} == {hop + 1}
    # Pieces make no difference.
    kind = AllPaths if which == "fitted" else SampledPaths
    monkeypatch.setattr(kind, "at_once", 3)
    monkeypatch.setattr("cge.explain.explainer._SLOPES", 40)
    again = model.explain_class("right", top=12, hop=hop)
    np.testing.assert_allclose(again.hops, found.hops, atol=1e-6)
    np.testing.assert_allclose([s.contribution for s in again], [s.contribution for s in found], atol=1e-6)
    assert again.num_nodes == found.num_nodes


def test_a_class_that_nobody_is_in_has_no_paths() -> None:
    known = np.zeros((2 * GROUP_SIZE, 3), int)
    known[::3, 0], known[0, 1], known[1, 2] = 1, 1, 1
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, label_propagation="no").fit(
        with_sparse_features(two_groups()), known
    )
    assert not model.predict()[:, 2].any()
    found = model.explain_class(2)
    assert (len(found), found.num_nodes) == (0, 0)
    assert found.hops.shape == (2, 3)
    adds_up(found)
    many = model.explain_class(0, top=3)
    assert many.num_nodes == model.predict()[:, 0].sum()


def test_each_of_several_readers_is_explained() -> None:
    model = quick_cge("degree", classifier="mlp", n_estimators=2, hops=1, validation_fraction=0.0, max_epochs=5).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    found = [model.explain(3, classifier=place) for place in (0, 1)]
    for place, one in enumerate(found):
        np.testing.assert_allclose(one.scores, scores_of(model, 3, place)[0], atol=1e-5)
        adds_up(one)
    assert [str(one.classifier) for one in found] == ["reader 1 of 2 (plain)", "reader 2 of 2 (plain)"]
    assert found[1].facts()["classifier"] == 1
    assert (found[1].facts()["classifiers"], found[1].facts()["reader_name"]) == (2, "mlp")
    assert found[0].classifier_words().startswith("These are the scores of reader 1 of 2 (plain); ")
    every = np.arange(40)
    for place in (0, 1):
        own = [scores_of(model, node, place)[0].argmax() for node in every.tolist()]
        assert model._explainer(place).says(every).tolist() == own
    # One that is of another opinion says so.
    fitted: Any = model._fitted
    with torch.no_grad():
        fitted.ensemble[1][1].score.bias += torch.tensor([-9.0, 9.0])
        fitted.ensemble[0][1].score.bias += torch.tensor([99.0, -99.0])
    model._explainers.clear()
    odd = model.explain(3, classifier=1)
    assert (odd.predicted, odd.classifier_note) == (0, 1)
    assert odd.classifier_words().endswith("By itself it says 1, and together they say 0.")
    assert model.explain(3, classifier=0).classifier_words().endswith("averaged over all of them.")
    assert not np.allclose(found[0].scores, found[1].scores)
    np.testing.assert_array_equal(found[0].probabilities, found[1].probabilities)
    with pytest.raises(cge.CgeError, match="reader must be a whole number below 2, the readers of this model, found 2"):
        model.explain(3, classifier=2)


@pytest.mark.parametrize("weighting", ["steps", "average"])
def test_a_model_that_comes_back_explains_the_same(weighting: str, tmp_path: Path) -> None:
    model = quick_cge(weighting, hops=2, classifier="mlp", label_propagation="yes").fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    first = model.explain(4)
    model.save(tmp_path / "m")
    for again in (cge.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        found = again.explain(4)
        assert json.dumps(found.facts()) == json.dumps(first.facts())


def test_another_fit_is_explained_anew() -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, validation_fraction=0.0, max_epochs=3)
    first = model.fit(with_sparse_features(two_groups()), partial_labels()).explain(4)
    again = model.fit(with_sparse_features(two_groups(), seed=1), partial_labels()).explain(4)
    assert not np.allclose(first.scores, again.scores)


def test_what_is_wrong_is_said_in_a_sentence(fitted: cge.CGE) -> None:
    with pytest.raises(cge.CgeError, match="top must be a whole number of at least 1, found 0"):
        fitted.explain("n7", top=0)
    with pytest.raises(cge.CgeError, match="top must be a whole number of at least 1, found 'all'"):
        fitted.explain_class("left", top="all")  # type: ignore[arg-type]
    with pytest.raises(cge.CgeError, match="1 node is not in the graph: 'n99'"):
        fitted.explain("n99")
    with pytest.raises(cge.CgeError, match="1 node is not in the graph: 'n99'"):
        fitted.explain_pair("n1", "n99")
    with pytest.raises(cge.CgeError, match="there is no class 'up'; the classes are 'left', 'right'"):
        fitted.explain_class("up")
    with pytest.raises(cge.CgeError, match="hop must be at most 3, the steps of the longest path, found 4"):
        fitted.explain("n7", hop=4)
    with pytest.raises(cge.CgeError, match="hop must be a whole number of at least 0, found -1"):
        fitted.explain("n7", hop=-1)
    with pytest.raises(cge.CgeError, match="reader must be a whole number of at least 0, found -1"):
        fitted.explain("n7", classifier=-1)
    with pytest.raises(cge.CgeError, match="shares must be numbers from 0 to 1, found"):
        fitted.faithfulness(["n7"], shares=[0.5, 2])
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


# ---------------------------------------------------------------------- the paper's encoders


@pytest.mark.filterwarnings("ignore:path weights stayed flat")
@pytest.mark.parametrize(
    ("encoder", "weighting", "features", "several"),
    [
        ("table", "none", True, False),
        ("table", "lstm", False, True),
        ("table", ConstantWeighting, True, False),
        ("features", "average", True, False),
        ("features", "none", True, True),
    ],
)
def test_the_papers_encoders_attribute_scores_to_paths(
    encoder: str, weighting: Any, features: bool, several: bool
) -> None:
    labels = np.where((np.arange(2 * GROUP_SIZE) % 3 == 0)[:, None], SEVERAL, 0) if several else partial_labels()
    small: dict[str, Any] = {
        "dim": 8,
        "window": 3,
        "walk_length": 5,
        "max_epochs": 2,
        "walks_per_node": 2,
        "validation_fraction": 0.0,
    }
    model = paper_cge(encoder, weighting, **small).fit(two_groups(features=features), labels)
    found = model.explain(7, top=100_000)
    adds_up(found)
    assert not found.exact
    assert found.remainder.any()
    assert not found.hops[0].any()  # paths of one node train nothing
    assert found.hops.shape == (3, len(model.classes_))
    raised = torch.tensor(found.scores[None])
    probabilities = (torch.sigmoid(raised) if several else torch.softmax(raised, 1)).numpy()
    np.testing.assert_allclose(probabilities[0], model.predict_proba([7])[0], atol=1e-5)
    # What a path brings is its share of the weights times what the head makes of its end.
    weights = model.path_weights([share.path for share in found])
    np.testing.assert_allclose([share.weight for share in found], weights, atol=1e-6)
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    explainer = model._explainer(0)
    local = explainer.reading.at(np.array([7]), np.zeros((1, 8)))
    brought = np.array([share.contributions for share in found])
    sampled = explainer.paths.heaviest(7, 100_000)
    assert sampled.share.sum() == pytest.approx(1)
    total = sum(
        share * local.slopes[0] @ unit[end]
        for share, end in zip(sampled.share, sampled.end(explainer.paths.indices), strict=True)
    )
    np.testing.assert_allclose(brought.sum(0), total, atol=1e-6)
    np.testing.assert_allclose(found.hops.sum(0), total, atol=1e-6)
    assert {share.path[0] for share in found} == {7}
    known = {int(node): labels[node] for node in np.flatnonzero(labels.any(axis=1) if several else labels >= 0)}
    for share in found[:20]:
        for node, label in zip(share.path, share.labels, strict=True):
            assert (label is None) == (node not in known)
            assert label is None or several or label == known[node]
    place = found.place
    mine = model.explain_class(model.classes_[place], top=4)
    within = model.predict_proba()[:, place] > 0.5 if several else model.predict() == model.classes_[place]
    each = [model.explain(node, top=100) for node in np.flatnonzero(within).tolist()]
    np.testing.assert_allclose(mine.hops, np.mean([one.hops for one in each], axis=0), atol=1e-6)
    adds_up(mine)
    near = int(found[0].path[-1])
    adds_up(model.explain_pair(7, near, top=3))
    with pytest.raises(cge.CgeError, match=f"reader must be 0 with encoder='{encoder}', which has one head, found 1"):
        model.explain(7, classifier=1)


@pytest.mark.filterwarnings("ignore:path weights stayed flat")
def test_a_node_without_edges_has_no_paths_but_its_own() -> None:
    plain = two_groups()
    graph = cge.Graph.from_edges(list(zip(*plain.to_scipy().nonzero(), strict=True)), num_nodes=2 * GROUP_SIZE + 1)
    labels = {node: int(TRUE_LABELS[node]) for node in range(0, 2 * GROUP_SIZE, 3)}
    settings: dict[str, Any] = {"max_epochs": 2, "validation_fraction": 0.0}
    model = paper_cge("table", "average", dim=8, window=3, walk_length=5, **settings).fit(graph, labels)
    found = model.explain(2 * GROUP_SIZE)
    assert len(found) == 0
    assert not found.hops.any()
    adds_up(found)
    model = quick_cge("degree", classifier="mlp", hops=2, **settings).fit(graph, labels)
    found = model.explain(2 * GROUP_SIZE)
    assert {share.diversity for share in found} <= {1}
    adds_up(found)
