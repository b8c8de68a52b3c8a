"""What a fit is going to do and cost, beside fits that were measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cge.training.cost import PairSize, PathSize, Training, pair_cost, path_cost

import cge
from cge.data import catalog
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.estimators.fit_plan import plan_fit

# Seconds and bytes of `CGE().fit` with two threads on an idle machine, as results/bench-fit_methods.md has them.
MEASURED = {"cora": (28, 0.58e9), "pubmed": (176, 0.74e9), "nell-0.01": (94, 1.32e9)}
# Where labels vote by far, as on NELL, agreement is not asked, and most of what is foreseen is not done.
SPARED = {"nell-0.01": 10}
PRESENT = {entry.name for entry in catalog() if entry.location != "missing"}
GRAPH = cge.Graph.from_edges([(one, (one + step) % 40) for one in range(40) for step in (1, 2)])
LABELS = {one: "ab"[one % 2] for one in range(30)}


@pytest.mark.parametrize(
    "name", [name if name in PRESENT else pytest.param(name, marks=pytest.mark.skip) for name in MEASURED]
)
def test_estimates_are_within_a_factor_of_three(name: str) -> None:
    data = cge.load_dataset(name)
    assert data.split is not None
    y, validation = data.labels_of(data.split.train), data.labels_of(data.split.validation)
    cost, (seconds, peak) = plan_fit(cge.CGE(), data.graph, y, validation).cost, MEASURED[name]
    assert seconds / 3 < cost.seconds < SPARED.get(name, 3) * seconds
    assert peak / 1.5 < cost.peak_bytes < 1.5 * peak


def test_costs_grow_with_what_there_is_to_do() -> None:
    size = PathSize(nodes=1000, steps=5000, entries=20_000, columns=300, classes=4, train=100, hops=4)
    trainings = [Training(4, 32, 200), Training(1, 32, 100)]

    def cost(**more: Any) -> tuple[float, float]:
        found = path_cost(replace(size, **more), trainings, 1, 3, 1)
        return found.seconds, found.peak_bytes

    first = cost()
    for name in ("steps", "entries"):
        more = cost(**{name: 10 * getattr(size, name)})
        assert more[0] > 1.5 * first[0]
        assert more[1] > first[1]
    assert cost(nodes=10_000)[1] > first[1]
    assert cost(columns=30_000)[1] > first[1]
    assert cost(hops=8)[0] > first[0]
    assert path_cost(size, 2 * trainings, 1, 3, 1).seconds > first[0]
    assert path_cost(size, trainings, 1, 3, 1, sampled=100).peak_bytes > first[1]
    pairs = PairSize(1000, 0, dim=128, walks_per_node=5, walk_length=10, window=6, negatives=5, softmax=False)
    assert pairs.pairs == 1000 * 5 * (9 + 8 + 7 + 6 + 5)
    plain, learned = (pair_cost(pairs, "table", weighting, 6) for weighting in ("none", "lstm"))
    assert plain.seconds < learned.seconds < pair_cost(pairs, "table", "lstm", 12).seconds
    assert plain.peak_bytes < learned.peak_bytes
    assert pair_cost(replace(pairs, softmax=True), "table", "none", 6).seconds > plain.seconds


@pytest.mark.parametrize(
    ("settings", "validated"),
    [
        ({"max_epochs": 2, "refit": False}, False),
        ({"max_epochs": 2, "weighting": "degree", "refit": False}, True),
        ({"max_epochs": 2, "weighting": "degree", "classifier": "mlp", "label_propagation": "no"}, False),
        ({"encoder": "table", "max_epochs": 1, "dim": 4}, False),
        ({"encoder": "table", "max_epochs": 1, "dim": 4, "weighting": "none"}, True),
        ({"encoder": "table", "max_epochs": 1, "dim": 4, "outer_labels": "validation"}, True),
    ],
)
@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_the_plan_comes_true(settings: dict[str, Any], validated: bool) -> None:
    validation = {one: "ab"[one % 2] for one in range(30, 39)} if validated else None
    plan = plan_fit(make_estimator(cge.CGE, {**settings}), GRAPH, LABELS, validation)
    model = make_estimator(cge.CGE, {**settings}).fit(GRAPH, LABELS, validation)
    assert plan.labels == model.labels_seen_
    assert plan.refit == (model.selection_history_ is not None)
    assert plan.sizes["dim"] == model.embedding_.shape[1]
    if model.encoder == "paths":
        assert set(model.classifiers_) <= {*plan.classifiers, "sparse-light"}
        compared = {one["weights"].removesuffix(" + labels") for one in model.search_results_}
        assert {*plan.weightings} == (compared & {"none", "degree", "cosine", "edges"} or {"degree"})
    else:
        assert plan.sizes["max_epochs"] == model.history_[0].max_epochs


def test_candidates_follow_from_graph_and_labels() -> None:
    featured = cge.Graph.from_edges(
        [(one, (one + 1) % 40) for one in range(40)], features=np.eye(40, 5, dtype=np.float32)
    )
    plan = plan_fit(cge.CGE(), featured, LABELS)
    assert (plan.inputs, plan.weightings) == ("features", ("degree", "none", "cosine", "edges"))
    assert plan_fit(cge.CGE(inputs="table"), featured, LABELS).inputs == "table"
    assert plan_fit(cge.CGE(inputs="walks"), featured, LABELS).inputs == "walks"
    few = plan_fit(cge.CGE(), GRAPH, {0: "a", 1: "b", 2: "a"})
    assert (few.inputs, few.weightings, few.classifiers, few.label_propagation) == (
        "table",
        ("degree",),
        ("mlp",),
        "no",
    )
    assert plan_fit(cge.PaperCGE("transductive"), GRAPH, LABELS).sizes["loss"] == "softmax"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dim": 0}, "dim must be a whole number"),
        ({"weighting": "cosine"}, "weighting='cosine' needs node features"),
        ({"encoder": "table", "window": 20}, "window must be at most walk_length"),
        ({"encoder": "table", "outer_labels": "validation"}, "outer_labels='validation' needs validation labels"),
    ],
)
def test_what_no_fit_can_begin_with(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan_fit(make_estimator(cge.CGE, {**settings}), GRAPH, LABELS)
    with pytest.raises(InputError, match=sentence):
        make_estimator(cge.CGE, {**settings}).fit(GRAPH, LABELS)
