"""The protocol of results: splits, what an estimator gets to see, metrics; tests, calibration and subgraphs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import cge
from cge.data import Dataset, Split
from cge.errors import InputError
from cge.estimators.baselines import LabelPropagation
from cge.estimators.graph_networks import GCN
from cge.evaluation.protocol import drawn, packed, run_once, split_of, summary, unpacked, versions
from cge.evaluation.significance import McNemar, mcnemar, share_interval, stars
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features

SPLIT = Split([0, 5, 22, 31], [2, 9, 27, 33], [1, 11, 14, 21, 29, 38])


def groups(
    split: Split | None = SPLIT, labels: Any = TRUE_LABELS, names: tuple[str, ...] = ("left", "right")
) -> Dataset:
    return Dataset("groups", groups_with_sparse_features(), labels, names, split)


def several(split: Split | None = SPLIT) -> Dataset:
    matrix = np.stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 3 == 0], axis=1).astype(int)
    return Dataset("several", groups_with_sparse_features(), matrix, ("left", "right", "third"), split)


# ---------------------------------------------------------------------- splits that are drawn


def sizes_of(labels: Any, nodes: Any) -> dict[int, int]:
    classes, counts = np.unique(labels[nodes], return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def test_so_many_labels_of_each_class_train_and_rare_classes_are_left_out() -> None:
    old = np.repeat([0, 1, 2, 4, -1], [30, 11, 12, 40, 7])  # class 3 has no node, class 1 too few
    old = np.random.default_rng(0).permutation(old)
    labels, split = drawn(old, 6, seed=3)
    assert np.array_equal(labels, np.select([old == 0, old == 2, old == 4], [0, 1, 2], -1))
    assert sizes_of(labels, split.train) == {0: 6, 1: 6, 2: 6}
    assert split.sizes == (18, (30 + 12 + 40 - 18) // 2, (30 + 12 + 40 - 18) // 2)
    together = np.concatenate([split.train, split.validation, split.test])
    assert np.array_equal(np.sort(together), np.flatnonzero(labels >= 0))
    assert drawn(old, 6, seed=3)[1] == split != drawn(old, 6, seed=4)[1]


def test_five_hundred_labels_choose_at_most() -> None:
    _, split = drawn(np.arange(2000) % 4, 20, seed=0)
    assert split.sizes == (80, 500, 1420)


@pytest.mark.parametrize("labels", [np.full(9, -1), np.zeros(50, int), np.repeat([0, 1], [50, 9])])
def test_two_classes_are_needed_to_draw(labels: Any) -> None:
    with pytest.raises(InputError) as caught:
        drawn(labels, 5, seed=0)
    assert str(caught.value) == "fewer than two classes have 10 labels; ask for fewer with --per-class"


def test_published_splits_are_taken_in_turn() -> None:
    other = Split([1], [2], [3])
    data = Dataset("two", groups_with_sparse_features(), TRUE_LABELS, ("a", "b"), splits=(SPLIT, other))
    for seed in range(5):
        chosen, split = split_of(data, seed, each=2)
        assert chosen is data
        assert split == (SPLIT, other)[seed % 2]


def test_a_split_is_drawn_where_there_is_none() -> None:
    old = np.r_[np.arange(36) % 3, [4] * 4]
    data = Dataset(
        "none", groups_with_sparse_features(), np.where(old == 4, 1, 2 * old), ("a", "rare", "b", "never", "c")
    )
    chosen, split = split_of(data, 7, each=5)
    labels, expected = drawn(data.labels, 5, 7)
    assert split == expected == chosen.split
    assert np.array_equal(chosen.labels, labels)
    assert (chosen.name, chosen.graph, chosen.class_names) == ("none", data.graph, ("a", "b", "c"))
    for node in np.concatenate([split.train, split.validation, split.test]):
        assert chosen.class_names[chosen.labels[node]] == data.class_names[data.labels[node]]


@pytest.mark.parametrize(("share", "trains", "chooses"), [(0.5, 18, 2), (0.25, 8, 2), (0.15, 4, 2), (0.9, 32, 4)])
@pytest.mark.parametrize("make", [groups, several])
def test_a_share_of_the_labels_is_drawn_though_there_is_a_split(
    make: Any, share: float, trains: int, chooses: int
) -> None:
    data = make()
    chosen, split = split_of(data, 1, share=share)
    assert chosen is data
    assert split.sizes == (trains, chooses, 40 - trains - chooses)
    counts = [sizes_of(TRUE_LABELS, split.train).get(one, 0) for one in (0, 1)]
    assert min(counts) >= 1
    if make is groups:
        assert abs(counts[0] - counts[1]) <= 1
    assert split_of(data, 1, share=share)[1] == split != split_of(data, 2, share=share)[1]


def test_a_share_has_at_least_one_label_that_chooses() -> None:
    data = Dataset("many", cge.Graph.from_edges([], num_nodes=1000), np.arange(1000) % 2, ("a", "b"))
    for share, expected in ((0.004, (2, 2, 996)), (0.011, (10, 1, 989)), (0.1, (90, 10, 900))):
        assert split_of(data, 0, share=share)[1].sizes == expected


def test_a_share_that_is_too_small() -> None:
    with pytest.raises(InputError, match="train=0 keeps 0 labeled nodes of 40, too few for one of each class"):
        split_of(groups(), 0, share=0.02)
    with pytest.raises(InputError, match=r"trains \(--train-share\) must be above 0, found 0"):
        split_of(groups(), 0, share=0.0)


def test_several_labels_and_no_split_need_a_share() -> None:
    with pytest.raises(InputError) as caught:
        split_of(several(None), 0)
    assert str(caught.value) == "several has several labels per node and no split; choose --train-share"
    assert split_of(several(None), 0, share=0.5)[1].sizes == (18, 2, 20)


# ---------------------------------------------------------------------- one run


class Spy:
    """Keeps what it is given, and predicts by the parity of node ids."""

    encoder = "features"

    def __init__(self, classes: Any = (0, 1)) -> None:
        self.classes_ = np.array(classes)
        self.labels_seen_ = {"train": 3, "outer": 2, "selection": 1}
        self.asked: dict[str, Any] = {}

    def fit(self, graph: cge.Graph, y: Any, validation: Any = None) -> None:
        self.graph, self.y, self.validation = graph, y, validation

    def predict_proba(self, nodes: Any, **more: Any) -> Any:
        self.asked = {"nodes": list(nodes), **more}
        return np.eye(len(self.classes_), dtype=np.float32)[np.array([node % len(self.classes_) for node in nodes])]


def test_training_labels_train_validation_labels_choose_test_labels_score() -> None:
    spy, data = Spy(), groups()
    row = run_once(spy, data, SPLIT)
    assert spy.graph is data.graph
    assert {node: spy.y[node] for node in np.flatnonzero(spy.y >= 0)} == {0: 0, 5: 0, 22: 1, 31: 1}
    assert {node: spy.validation[node] for node in np.flatnonzero(spy.validation >= 0)} == {2: 0, 9: 0, 27: 1, 33: 1}
    assert spy.asked == {"nodes": [1, 11, 14, 21, 29, 38]}
    right = [False, False, True, True, True, False]  # classes 0 0 0 1 1 1, told 1 1 0 1 1 0
    assert row["metrics"] == {"accuracy": 0.5}
    assert unpacked(row["right"], 6).tolist() == right
    assert row["n_test"] == 6
    assert row["labels"] == {"train": 3, "outer": 2, "selection": 1}
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


def test_a_class_without_a_training_label_is_never_told() -> None:
    labels = np.where(np.arange(40) % 4 == 1, 1, 2 * TRUE_LABELS)
    data = Dataset("three", groups_with_sparse_features(), labels, ("a", "b", "c"))
    row = run_once(Spy(classes=(0, 2)), data, Split([0, 22], [], [1, 2, 3, 21, 23, 24]))
    told, true = [2, 0, 2, 2, 2, 0], [1, 0, 0, 1, 2, 2]
    assert unpacked(row["right"], 6).tolist() == [one == other for one, other in zip(told, true, strict=True)]
    assert row["metrics"]["accuracy"] == pytest.approx(2 / 6)


def test_several_labels_have_f1_and_no_single_right() -> None:
    row = run_once(Spy(classes=(0, 1, 2)), several(), SPLIT)
    assert list(row["metrics"]) == ["micro_f1", "macro_f1", "micro_f1_above_half", "macro_f1_above_half"]
    assert "right" not in row


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
    kept = np.setdiff1d(np.arange(40), SPLIT.test)
    assert spy.graph.node_ids.tolist() == kept.tolist()
    dense = data.graph.to_scipy().toarray()
    assert np.array_equal(spy.graph.to_scipy().toarray(), dense[np.ix_(kept, kept)])
    assert (spy.graph.features != data.graph.features[kept]).nnz == 0  # type: ignore[index, union-attr]
    found = {int(kept[place]): spy.y[place] for place in np.flatnonzero(spy.y >= 0)}
    assert found == {0: 0, 5: 0, 22: 1, 31: 1}
    chosen = {int(kept[place]): spy.validation[place] for place in np.flatnonzero(spy.validation >= 0)}
    assert chosen == {2: 0, 9: 0, 27: 1, 33: 1}
    assert spy.asked == {"nodes": SPLIT.test.tolist(), "graph": data.graph}
    assert row["metrics"] == {"accuracy": 0.5}


@pytest.mark.parametrize("encoder", ["features", "paths"])
def test_nothing_about_test_nodes_reaches_a_strict_training(encoder: str) -> None:
    """Other labels, edges and features of test nodes leave every trained number as it is."""
    quick: dict[str, Any] = {"weighting": "none", "max_epochs": 1, "dim": 4}
    if encoder == "features":
        quick |= {"walks_per_node": 1, "pretrain": 1}
    else:
        quick |= {"classifier": "mlp", "label_propagation": "no"}
    data = groups()
    x = data.graph.features.toarray()  # type: ignore[union-attr]
    x[SPLIT.test] = 1 - x[SPLIT.test]
    edges = [*np.argwhere(data.graph.to_scipy().toarray()).tolist(), [1, 38], [11, 0], [14, 22]]
    graph = cge.Graph.from_edges(edges, features=sp.csr_array(x), num_nodes=40)
    labels = TRUE_LABELS.copy()
    labels[SPLIT.test] = 1 - labels[SPLIT.test]
    changed = Dataset("changed", graph, labels, data.class_names, SPLIT)
    found = []
    for one in (data, changed):
        model = cge.CGE(encoder, random_state=1, n_jobs=1, **quick)
        row = run_once(model, one, SPLIT, strict=True)
        assert 0 <= row["metrics"]["accuracy"] <= 1
        found.append(model)
    assert found[0].embedding_.shape == (34, 4)
    assert found[0].embedding_.tobytes() == found[1].embedding_.tobytes()
    assert found[0].predict_proba().tobytes() == found[1].predict_proba().tobytes()


@pytest.mark.parametrize(
    ("made", "who"),
    [
        (GCN(), "GCN"),
        (LabelPropagation(), "LabelPropagation"),
        (cge.CGE("table"), "CGE with encoder='table'"),
    ],
)
def test_who_knows_only_the_nodes_of_training_is_told_before_it(made: Any, who: str) -> None:
    with pytest.raises(InputError) as caught:
        run_once(made, groups(), SPLIT, strict=True)
    assert str(caught.value) == f"{who} cannot predict nodes that it has not seen; leave out --strict"
    assert not hasattr(made, "classes_")


# ---------------------------------------------------------------------- metrics


@given(st.lists(st.booleans(), max_size=40))
def test_flags_are_packed_and_come_back(flags: list[bool]) -> None:
    text = packed(np.array(flags, bool))
    assert len(text) == 2 * math.ceil(len(flags) / 8)
    assert unpacked(text, len(flags)).tolist() == flags
    assert unpacked(text, len(flags)).dtype == bool


# ---------------------------------------------------------------------- what runs come to


def rows(*accuracies: float) -> list[dict[str, Any]]:
    return [
        {
            "metrics": {"accuracy": one},
            "right": "ff",
            "n_test": 8,
            "labels": {"train": 4, "outer": 0, "selection": 2},
            "seconds": 1.0 + place,
            "peak_mb": 300 - 10 * place,
        }
        for place, one in enumerate(accuracies)
    ]


def test_the_summary_has_exactly_this_shape() -> None:
    found = summary("cora", "gcn", {"hidden": 16}, rows(0.8, 0.82, 0.84))
    half = 4.302653 * 0.02 / np.sqrt(3)
    assert found == {
        "dataset": "cora",
        "method": "gcn",
        "settings": {"hidden": 16},
        "accuracy": {
            "per_seed": [0.8, 0.82, 0.84],
            "mean": pytest.approx(0.82),
            "sd": pytest.approx(0.02),
            "ci95": [pytest.approx(0.82 - half), pytest.approx(0.82 + half)],
        },
        "n_test": 8,
        "labels": {"train": 4, "outer": 0, "selection": 2},
        "seconds": 2.0,
        "peak_mb": 300,
        "versions": versions(),
    }
    assert json.loads(json.dumps(found)) == found
    assert set(versions()) == {"python", "cge", "numba", "numpy", "scikit-learn", "scipy", "torch"}
    assert versions()["cge"] == cge.__version__
    assert versions()["numpy"] == np.__version__


def test_a_single_run_has_no_interval() -> None:
    found = summary("cora", "gcn", {}, rows(0.8))
    assert found["accuracy"] == {"per_seed": [0.8], "mean": 0.8, "sd": None, "ci95": [None, None]}


def test_several_labels_are_summed_up_by_f1() -> None:
    told = [one | {"metrics": {"micro_f1": place / 10, "macro_f1": 0.3}} for place, one in enumerate(rows(0, 0, 0))]
    found = summary("blog", "cge", {}, told)
    assert "accuracy" not in found
    assert found["micro_f1"]["per_seed"] == [0.0, 0.1, 0.2]
    assert found["macro_f1"]["mean"] == pytest.approx(0.3)


# ---------------------------------------------------------------------- tests of differences


@pytest.mark.parametrize(("first", "second"), [(0, 0), (9, 1), (1, 9), (5, 5), (12, 3), (0, 6), (40, 20), (1, 0)])
def test_mcnemar_by_the_binomial_formula(first: int, second: int) -> None:
    one = [True] * first + [False] * second + [True] * 5 + [False] * 4
    other = [False] * first + [True] * second + [True] * 5 + [False] * 4
    total = first + second
    tail = sum(math.comb(total, k) for k in range(min(first, second) + 1)) / 2**total
    found = mcnemar(one, other)
    assert (found.only_one, found.only_other) == (first, second)
    assert found.p == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(other, one) == McNemar(second, first, found.p)


def test_mcnemar_needs_the_same_nodes() -> None:
    with pytest.raises(InputError) as caught:
        mcnemar([True, False], [True])
    assert str(caught.value) == "both methods need the same nodes, found 2 and 1"
    assert mcnemar([], []) == McNemar(0, 0, 1.0)


@pytest.mark.parametrize(
    ("p", "mark"), [(None, ""), (1.0, ""), (0.05, ""), (0.0499, "*"), (0.01, "*"), (0.00999, "**"), (0.0, "**")]
)
def test_stars(p: float | None, mark: str) -> None:
    assert stars(p) == mark


@pytest.mark.parametrize(("right", "of"), [(850, 1000), (3, 7), (0, 12), (9, 9)])
def test_wilsons_interval_holds_the_shares_that_are_not_refused(right: int, of: int) -> None:
    """Its bounds are the shares p from which the observed one lies 1.96 of their own standard errors away."""
    low, high = share_interval(right, of)
    share = right / of

    def away(p: float) -> float:
        return (share - p) ** 2 - 1.959963985**2 * p * (1 - p) / of

    assert low == pytest.approx(brentq(away, 1e-12, share - 1e-9) if right else 0, abs=1e-7)
    assert high == pytest.approx(brentq(away, share + 1e-9, 1 - 1e-12) if right < of else 1, abs=1e-7)
    with pytest.raises(InputError, match="a share needs 0 to n right of n ≥ 1, found 3 of 2"):
        share_interval(3, 2)


# ---------------------------------------------------------------------- subgraphs


def any_graph(directed: bool, weighted: bool, typed: bool, features: str) -> cge.Graph:
    random = np.random.default_rng(5)
    edges = random.integers(0, 9, (30, 2))
    x = random.random((9, 3)).round(1)
    return cge.Graph.from_edges(
        edges,
        features={"none": None, "dense": x, "sparse": sp.csr_array(x * (x > 0.5))}[features],
        node_ids=None if features != "none" else [*range(9)],
        weights=random.random(30) if weighted else None,
        edge_types=["ab"[one] for one in random.integers(0, 2, 30)] if typed else None,
        directed=directed,
        self_loops=True,
    )


def by_type(graph: cge.Graph) -> Any:
    """Return a dense matrix for each type of edges, `(types, n, n)`."""
    found = np.zeros((max(len(graph.edge_type_names), 1), len(graph), len(graph)))
    source = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    types = np.zeros(len(source), int) if graph.edge_types is None else graph.edge_types
    np.add.at(found, (types, source, graph.indices), 1 if graph.weights is None else graph.weights)
    return found


@pytest.mark.parametrize("features", ["none", "dense", "sparse"])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_a_subgraph_is_rows_and_columns_of_the_matrix(
    directed: bool, weighted: bool, typed: bool, features: str
) -> None:
    graph = any_graph(directed, weighted, typed, features)
    for kept in ([0, 2, 3, 7, 8], [4], list(range(9)), []):
        part = graph.subgraph(np.array(kept[::-1] + kept[:1]))  # any order, and one twice
        assert part.node_ids.tolist() == kept
        assert np.array_equal(by_type(part), by_type(graph)[:, kept][:, :, kept])
        assert (part.directed, part.edge_type_names) == (directed, graph.edge_type_names)
        assert (part.weights is None, part.edge_types is None) == (not weighted, not typed)
        for name in ("indptr", "indices", "weights", "edge_types"):
            mine, whole = getattr(part, name), getattr(graph, name)
            assert mine is whole or mine.dtype == whole.dtype  # both may be None
        for row in range(len(part)):
            assert np.all(np.diff(part.indices[part.indptr[row] : part.indptr[row + 1]]) >= 0)
        if features == "none":
            assert part.features is None
        else:
            mine, whole = (
                np.asarray(one.todense() if sp.issparse(one) else one) for one in (part.features, graph.features)
            )
            assert np.array_equal(mine, whole[kept])
            assert sp.issparse(part.features) == (features == "sparse")


def test_a_subgraph_keeps_the_ids_of_its_user() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")], node_ids=["d", "c", "b", "a"])
    part = graph.subgraph([3, 1, 0])
    assert part.node_ids.tolist() == ["d", "c", "a"]
    assert part.neighbors("c") == ["d", "a"]
    assert part.num_edges == 2
    assert "b" not in part
    assert graph.num_edges == 4  # the whole stays what it was


@pytest.mark.parametrize(
    ("nodes", "found"), [([-1, 2], "-1"), ([0, 3], "3"), ([True, False, True], "False"), ([0.5], "0.5"), (["a"], "'a'")]
)
def test_a_subgraph_takes_numbers_of_nodes(nodes: Any, found: str) -> None:
    with pytest.raises(InputError) as caught:
        cge.Graph.from_edges([("a", "b"), ("b", "c")]).subgraph(nodes)
    assert str(caught.value) == f"a subgraph takes node numbers from 0 to 2, found {found}"
