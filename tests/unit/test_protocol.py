"""The protocol of results: splits, what an estimator is given, summaries of runs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import cge
from cge.data import Dataset, Split
from cge.errors import InputError
from cge.estimators.baselines import LabelPropagation
from cge.estimators.graph_networks import GCN
from cge.evaluation.protocol import draw_split, pack_flags, run_once, split_of, summarize, unpack_flags, versions
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features

SPLIT = Split([0, 5, 22, 31], [2, 9, 27, 33], [1, 11, 14, 21, 29, 38])


def groups(
    split: Split | None = SPLIT, labels: Any = TRUE_LABELS, names: tuple[str, ...] = ("left", "right")
) -> Dataset:
    return Dataset("groups", groups_with_sparse_features(), labels, names, split)


def multilabel(split: Split | None = SPLIT) -> Dataset:
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 3 == 0], axis=1).astype(int)
    return Dataset("tags", groups_with_sparse_features(), matrix, ("left", "right", "third"), split)


# ---------------------------------------------------------------------- splits that are drawn


def sizes_of(labels: Any, nodes: Any) -> dict[int, int]:
    classes, counts = np.unique(labels[nodes], return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def test_so_many_labels_of_each_class_train_and_rare_classes_are_left_out() -> None:
    old = np.repeat([0, 1, 2, 4, -1], [30, 11, 12, 40, 7])  # class 3 has no node, class 1 too few
    old = np.random.default_rng(0).permutation(old)
    labels, split = draw_split(old, 6, seed=3)
    assert np.array_equal(labels, np.select([old == 0, old == 2, old == 4], [0, 1, 2], -1))
    assert sizes_of(labels, split.train) == {0: 6, 1: 6, 2: 6}
    assert split.sizes == (18, (30 + 12 + 40 - 18) // 2, (30 + 12 + 40 - 18) // 2)
    together = np.concatenate([split.train, split.validation, split.test])
    assert np.array_equal(np.sort(together), np.flatnonzero(labels >= 0))
    assert draw_split(old, 6, seed=3)[1] == split != draw_split(old, 6, seed=4)[1]


def test_at_most_five_hundred_validation_labels() -> None:
    _, split = draw_split(np.arange(2000) % 4, 20, seed=0)
    assert split.sizes == (80, 500, 1420)


@pytest.mark.parametrize("labels", [np.full(9, -1), np.zeros(50, int), np.repeat([0, 1], [50, 9])])
def test_two_classes_are_needed_to_draw(labels: Any) -> None:
    with pytest.raises(InputError) as caught:
        draw_split(labels, 5, seed=0)
    assert str(caught.value) == "fewer than two classes have 10 labels; use fewer with per_class"


def test_published_splits_are_taken_in_turn() -> None:
    other = Split([1], [2], [3])
    data = Dataset("two", groups_with_sparse_features(), TRUE_LABELS, ("a", "b"), splits=(SPLIT, other))
    for seed in range(5):
        covered, split = split_of(data, seed, per_class=2)
        assert covered is data
        assert split == (SPLIT, other)[seed % 2]


def test_a_split_is_drawn_where_there_is_none() -> None:
    old = np.r_[np.arange(36) % 3, [4] * 4]
    data = Dataset(
        "none", groups_with_sparse_features(), np.where(old == 4, 1, 2 * old), ("a", "rare", "b", "never", "c")
    )
    covered, split = split_of(data, 7, per_class=5)
    labels, expected = draw_split(data.labels, 5, 7)
    assert split == expected == covered.split
    assert np.array_equal(covered.labels, labels)
    assert (covered.name, covered.graph, covered.class_names) == ("none", data.graph, ("a", "b", "c"))
    for node in np.concatenate([split.train, split.validation, split.test]):
        assert covered.class_names[covered.labels[node]] == data.class_names[data.labels[node]]


@pytest.mark.parametrize(("share", "train", "validation"), [(0.5, 18, 2), (0.25, 8, 2), (0.15, 4, 2), (0.9, 32, 4)])
@pytest.mark.parametrize("make", [groups, multilabel])
def test_a_share_of_the_labels_is_drawn_though_there_is_a_split(
    make: Any, share: float, train: int, validation: int
) -> None:
    data = make()
    covered, split = split_of(data, 1, train_share=share)
    assert covered is data
    assert split.sizes == (train, validation, 40 - train - validation)
    counts = [sizes_of(TRUE_LABELS, split.train).get(code, 0) for code in (0, 1)]
    assert min(counts) >= 1
    if make is groups:
        assert abs(counts[0] - counts[1]) <= 1
    assert split_of(data, 1, train_share=share)[1] == split != split_of(data, 2, train_share=share)[1]


def test_a_share_has_at_least_one_validation_label() -> None:
    data = Dataset("many", cge.Graph.from_edges([], num_nodes=1000), np.arange(1000) % 2, ("a", "b"))
    for share, expected in ((0.004, (2, 2, 996)), (0.011, (10, 1, 989)), (0.1, (90, 10, 900))):
        assert split_of(data, 0, train_share=share)[1].sizes == expected


def test_a_share_that_is_too_small() -> None:
    with pytest.raises(InputError, match="train=0 selects 0 labeled nodes of 40, too few for one of each class"):
        split_of(groups(), 0, train_share=0.02)
    with pytest.raises(InputError, match=r"^train_share must be above 0, found 0.0$"):
        split_of(groups(), 0, train_share=0.0)


def test_multilabel_data_without_a_split_needs_a_share() -> None:
    with pytest.raises(InputError) as caught:
        split_of(multilabel(None), 0)
    assert str(caught.value) == "tags has several labels per node and no split; choose train_share"
    assert split_of(multilabel(None), 0, train_share=0.5)[1].sizes == (18, 2, 20)


# ---------------------------------------------------------------------- one run


class Spy:
    """Records its arguments, and predicts by the parity of node ids."""

    inductive = True

    def __init__(self, classes: Any = (0, 1)) -> None:
        self.classes_ = np.array(classes)
        self.labels_seen_ = {"train": 3, "outer": 2, "validation": 1}
        self.predict_arguments: dict[str, Any] = {}

    def fit(self, graph: cge.Graph, y: Any, validation: Any = None) -> None:
        self.graph, self.y, self.validation = graph, y, validation

    def predict_proba(self, nodes: Any, **more: Any) -> Any:
        self.predict_arguments = {"nodes": list(nodes), **more}
        return np.eye(len(self.classes_), dtype=np.float32)[np.array([node % len(self.classes_) for node in nodes])]


def test_training_labels_train_validation_labels_select_test_labels_score() -> None:
    spy, data = Spy(), groups()
    row = run_once(spy, data, SPLIT)
    assert spy.graph is data.graph
    assert {node: spy.y[node] for node in np.flatnonzero(spy.y >= 0)} == {0: 0, 5: 0, 22: 1, 31: 1}
    assert {node: spy.validation[node] for node in np.flatnonzero(spy.validation >= 0)} == {2: 0, 9: 0, 27: 1, 33: 1}
    assert spy.predict_arguments == {"nodes": [1, 11, 14, 21, 29, 38]}
    correct = [False, False, True, True, True, False]  # classes 0 0 0 1 1 1, predicted 1 1 0 1 1 0
    assert row["metrics"] == {"accuracy": 0.5}
    assert unpack_flags(row["correct"], 6).tolist() == correct
    assert row["n_test"] == 6
    assert row["labels"] == {"train": 3, "outer": 2, "validation": 1}
    assert row["labels"] is not spy.labels_seen_
    assert 0 <= row["seconds"] < 5
    assert row["peak_mb"] > 20
    json.dumps(row)


def test_a_split_without_validation_gives_none() -> None:
    spy = Spy()
    run_once(spy, groups(), Split([0, 22], [], [1]))
    assert spy.validation is None
    run_once(spy, groups(), Split([0, 22], [], [1]), strict=True)
    assert spy.validation is None


def test_a_class_without_a_training_label_is_never_predicted() -> None:
    labels = np.where(np.arange(40) % 4 == 1, 1, 2 * TRUE_LABELS)
    data = Dataset("three", groups_with_sparse_features(), labels, ("a", "b", "c"))
    row = run_once(Spy(classes=(0, 2)), data, Split([0, 22], [], [1, 2, 3, 21, 23, 24]))
    predicted, true = [2, 0, 2, 2, 2, 0], [1, 0, 0, 1, 2, 2]
    assert unpack_flags(row["correct"], 6).tolist() == np.equal(predicted, true).tolist()
    assert row["metrics"]["accuracy"] == pytest.approx(2 / 6)


def test_multilabel_runs_have_f1_and_no_correct_nodes() -> None:
    row = run_once(Spy(classes=(0, 1, 2)), multilabel(), SPLIT)
    assert list(row["metrics"]) == ["micro_f1", "macro_f1", "micro_f1_above_half", "macro_f1_above_half"]
    assert "correct" not in row


def test_without_test_nodes_nothing_can_be_scored() -> None:
    spy = Spy()
    with pytest.raises(InputError) as caught:
        run_once(spy, groups(), Split([0, 22], [1], []))
    assert str(caught.value) == "groups has no test nodes in its split, so nothing can be scored"
    assert not hasattr(spy, "graph")  # nothing was trained


def test_a_class_that_only_validation_has_is_named() -> None:
    labels = np.where(np.arange(40) % 4 == 1, 1, 2 * TRUE_LABELS)
    data = Dataset("three", groups_with_sparse_features(), labels, ("a", "b", "c"))
    with pytest.raises(InputError, match="three has validation nodes of the class 'b', but no training node of it"):
        run_once(Spy(classes=(0, 2)), data, Split([0, 22], [1, 2], [3]))


def test_strict_training_sees_no_test_node() -> None:
    spy, data = Spy(), groups()
    row = run_once(spy, data, SPLIT, strict=True)
    rest = np.setdiff1d(np.arange(40), SPLIT.test)
    assert spy.graph.node_ids.tolist() == rest.tolist()
    dense = data.graph.to_scipy().toarray()
    assert np.array_equal(spy.graph.to_scipy().toarray(), dense[np.ix_(rest, rest)])
    assert (spy.graph.features != data.graph.features[rest]).nnz == 0  # type: ignore[index, union-attr]
    train = {int(rest[place]): spy.y[place] for place in np.flatnonzero(spy.y >= 0)}
    assert train == {0: 0, 5: 0, 22: 1, 31: 1}
    validation = {int(rest[place]): spy.validation[place] for place in np.flatnonzero(spy.validation >= 0)}
    assert validation == {2: 0, 9: 0, 27: 1, 33: 1}
    assert spy.predict_arguments == {"nodes": SPLIT.test.tolist(), "graph": data.graph}
    assert row["metrics"] == {"accuracy": 0.5}


@pytest.mark.parametrize(
    "estimator",
    [
        cge.CGE("uniform", 4, classifier="mlp", label_propagation=False, training={"max_epochs": 1}),
        cge.PaperCGE("inductive", "uniform", 4, walks_per_node=1, training={"max_epochs": 1, "pretrain": 1}),
    ],
    ids=["CGE", "PaperCGE"],
)
def test_nothing_about_test_nodes_reaches_a_strict_training(estimator: Any) -> None:
    """Other labels, edges and features of test nodes leave every trained number as it is."""
    data = groups()
    x = data.graph.features.toarray()  # type: ignore[union-attr]
    x[SPLIT.test] = 1 - x[SPLIT.test]
    edges = [*np.argwhere(data.graph.to_scipy().toarray()).tolist(), [1, 38], [11, 0], [14, 22]]
    graph = cge.Graph.from_edges(edges, features=sp.csr_array(x), num_nodes=40)
    labels = TRUE_LABELS.copy()
    labels[SPLIT.test] = 1 - labels[SPLIT.test]
    changed = Dataset("changed", graph, labels, data.class_names, SPLIT)
    models = []
    for each in (data, changed):
        model = clone(estimator).set_params(random_state=1, n_jobs=1)
        row = run_once(model, each, SPLIT, strict=True)
        assert 0 <= row["metrics"]["accuracy"] <= 1
        models.append(model)
    assert len(models[0].embedding_) == 34
    assert models[0].embedding_.tobytes() == models[1].embedding_.tobytes()
    assert models[0].predict_proba().tobytes() == models[1].predict_proba().tobytes()


@pytest.mark.parametrize(
    "estimator", [GCN(), LabelPropagation(), cge.PaperCGE("transductive")], ids=lambda each: type(each).__name__
)
def test_strict_runs_need_an_inductive_estimator(estimator: Any) -> None:
    with pytest.raises(InputError) as caught:
        run_once(estimator, groups(), SPLIT, strict=True)
    name = type(estimator).__name__
    assert str(caught.value) == f"this {name} cannot predict nodes that are not in the training graph; leave out strict"
    assert not hasattr(estimator, "classes_")  # refused before training


# ---------------------------------------------------------------------- flags as text


@given(st.lists(st.booleans(), max_size=40))
def test_flags_survive_packing(flags: list[bool]) -> None:
    text = pack_flags(np.array(flags, bool))
    assert len(text) == 2 * math.ceil(len(flags) / 8)
    assert unpack_flags(text, len(flags)).tolist() == flags
    assert unpack_flags(text, len(flags)).dtype == bool


# ---------------------------------------------------------------------- summaries of runs


def rows(*accuracies: float) -> list[dict[str, Any]]:
    return [
        {
            "metrics": {"accuracy": accuracy},
            "correct": "ff",
            "n_test": 8,
            "labels": {"train": 4, "outer": 0, "validation": 2},
            "seconds": 1.0 + place,
            "peak_mb": 300 - 10 * place,
        }
        for place, accuracy in enumerate(accuracies)
    ]


def test_the_summary_has_exactly_this_shape() -> None:
    report = summarize("cora", "gcn", {"hidden": 16}, rows(0.8, 0.82, 0.84))
    half = 4.302653 * 0.02 / np.sqrt(3)
    assert report == {
        "dataset": "cora",
        "method": "gcn",
        "settings": {"hidden": 16},
        "accuracy": {
            "per_seed": [0.8, 0.82, 0.84],
            "mean": pytest.approx(0.82),
            "std": pytest.approx(0.02),
            "ci95": [pytest.approx(0.82 - half), pytest.approx(0.82 + half)],
        },
        "n_test": 8,
        "labels": {"train": 4, "outer": 0, "validation": 2},
        "seconds": 2.0,
        "peak_mb": 300,
        "versions": versions(),
    }
    assert json.loads(json.dumps(report)) == report
    assert set(versions()) == {"python", "cge", "numba", "numpy", "scikit-learn", "scipy", "torch"}
    assert versions()["cge"] == cge.__version__
    assert versions()["numpy"] == np.__version__


def test_a_single_run_has_no_interval() -> None:
    report = summarize("cora", "gcn", {}, rows(0.8))
    assert report["accuracy"] == {"per_seed": [0.8], "mean": 0.8, "std": None, "ci95": [None, None]}


def test_multilabel_runs_are_summarized_by_f1() -> None:
    runs = [row | {"metrics": {"micro_f1": place / 10, "macro_f1": 0.3}} for place, row in enumerate(rows(0, 0, 0))]
    report = summarize("blog", "cge", {}, runs)
    assert "accuracy" not in report
    assert report["micro_f1"]["per_seed"] == [0.0, 0.1, 0.2]
    assert report["macro_f1"]["mean"] == pytest.approx(0.3)
