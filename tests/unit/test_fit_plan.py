"""The plan of a fit, which `cge fit --dry-run` prints: its candidates are those that the model search runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cge
from cge.data import catalog
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.estimators.fit_plan import FitPlan, plan_fit
from cge.training.candidates import paper_memory

# Peak memory in bytes of `CGE().fit` with two threads, as results/bench-fit_methods.md has it.
MEASURED = {"cora": 0.58e9, "pubmed": 0.74e9, "nell-0.01": 1.32e9}
PRESENT = {entry.name for entry in catalog() if entry.location != "not downloaded"}
GRAPH = cge.Graph.from_edges([(node, (node + step) % 40) for node in range(40) for step in (1, 2)])
LABELS = {node: "ab"[node % 2] for node in range(30)}
VALIDATION = {node: "ab"[node % 2] for node in range(30, 39)}


def with_features() -> cge.Graph:
    features = np.eye(40, 5, dtype=np.float32)
    return cge.Graph.from_edges([(node, (node + 1) % 40) for node in range(40)], features=features)


def candidates_of(plan: FitPlan, stage: str, column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in plan.rows() if row["stage"] == stage))


@pytest.mark.parametrize(
    "name", [name if name in PRESENT else pytest.param(name, marks=pytest.mark.skip) for name in MEASURED]
)
def test_memory_is_within_a_factor_of_one_and_a_half(name: str) -> None:
    data = cge.load_dataset(name)
    assert data.split is not None
    y, validation = data.labels_of(data.split.train), data.labels_of(data.split.validation)
    peak = plan_fit(cge.CGE(), data.graph, y, validation).peak_bytes
    assert MEASURED[name] / 1.5 < peak < 1.5 * MEASURED[name]


def test_memory_grows_with_the_problem() -> None:
    plan = plan_fit(cge.CGE(), with_features(), LABELS, VALIDATION)
    bytes_of = {}
    for model in (cge.CGE(), cge.CGE(dim=256), cge.CGE("lstm"), cge.CGE("degree", classifier="mlp")):
        bytes_of[model.weighting, model.dim] = plan_fit(model, with_features(), LABELS, VALIDATION).peak_bytes
    assert bytes_of["auto", None] == plan.peak_bytes
    assert bytes_of["auto", 256] > plan.peak_bytes > bytes_of["degree", None]
    assert bytes_of["lstm", None] > bytes_of["degree", None]
    sizes = {"dim": 128, "walks_per_node": 5, "walk_length": 10, "window": 6}
    uniform, lstm = (paper_memory(weighting, 1000, 0, **sizes) for weighting in ("uniform", "lstm"))
    assert lstm - uniform == pytest.approx(1.1 * 120 * 1000 * 5 * (9 + 8 + 7 + 6 + 5))
    assert uniform < lstm < paper_memory("lstm", 2000, 0, **sizes)


@pytest.mark.parametrize(
    ("settings", "validated"),
    [
        ({"max_epochs": 2, "refit": False}, False),
        ({"max_epochs": 2, "refit": False}, True),
        ({"max_epochs": 2, "weighting": "degree", "refit": False}, True),
        ({"max_epochs": 2, "weighting": "edges", "classifier": "mlp"}, True),
        ({"max_epochs": 2, "weighting": "degree", "classifier": "mlp", "label_propagation": False}, False),
        ({"max_epochs": 2, "inputs": "walks"}, True),
    ],
)
@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_a_fit_does_what_its_plan_lists(settings: dict[str, Any], validated: bool) -> None:
    validation = VALIDATION if validated else None
    plan = plan_fit(make_estimator(cge.CGE, settings), GRAPH, LABELS, validation)
    model = make_estimator(cge.CGE, settings).fit(GRAPH, LABELS, validation)
    assert plan.labels == model.labels_seen_
    assert plan.refit == (model.selection_history_ is not None)
    assert plan.sizes["dim"] == 32
    rows = plan.rows()
    names = {name: {row[name] for row in rows} for name in ("weighting", "classifier")}
    compared = {name: {row[name] for row in model.search_results_} for name in names}
    assert compared["weighting"] | {model.weighting_} <= names["weighting"] | {"degree", "0 hops"}
    assert compared["classifier"] | set(model.classifiers_) <= names["classifier"] | {"mlp"}
    unconditional = {row["weighting"] for row in rows if row["stage"] == "weighting" and not row["condition"]}
    assert unconditional <= compared["weighting"]


@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_a_paper_fit_does_what_its_plan_says() -> None:
    settings: dict[str, Any] = {"max_epochs": 1, "pretrain": 1, "dim": 4, "outer_labels": "validation"}
    plan = plan_fit(make_estimator(cge.PaperCGE, settings), GRAPH, LABELS, VALIDATION)
    model = make_estimator(cge.PaperCGE, settings).fit(GRAPH, LABELS, VALIDATION)
    assert plan.labels == model.labels_seen_
    assert not plan.candidates
    assert (plan.sizes["dim"], plan.sizes["loss"]) == (4, "softmax")
    assert plan.sizes["max_epochs"] == model.history_[0].max_epochs


def test_candidates_follow_from_graph_and_labels() -> None:
    plan = plan_fit(cge.CGE(), with_features(), LABELS, VALIDATION)
    assert plan.inputs == "features"
    weightings = candidates_of(plan, "weighting", "weighting")
    assert weightings[:2] == ["uniform", "cosine"]
    assert weightings[-2:] == ["edges", "edges+hops"]
    first = ["mlp", "consistency", "sparse", "logistic", "logistic-unit", "distilled"]
    assert candidates_of(plan, "classifier", "classifier") == [*first, "sparse-light"]
    assert candidates_of(plan, "label propagation", "label_propagation") == ["yes", "no"]
    without = plan_fit(cge.CGE(), GRAPH, LABELS)
    assert without.inputs == "walks"
    assert "cosine" not in candidates_of(without, "weighting", "weighting")
    assert "cosine" not in candidates_of(without, "weight initialization", "weighting")


def test_settings_reduce_the_candidates() -> None:
    graph = with_features()
    assert plan_fit(cge.CGE(inputs="learned"), graph, LABELS).inputs == "learned"
    walks = plan_fit(cge.CGE(inputs="walks"), graph, LABELS)
    assert candidates_of(walks, "classifier", "weighting") == ["0 hops"]
    assert candidates_of(walks, "weighting", "weighting")[:3] == ["uniform", "degree", "cosine"]
    no_labels = plan_fit(cge.CGE(label_propagation=False), graph, LABELS)
    assert {row["label_propagation"] for row in no_labels.rows()} == {"no"}
    assert "distilled" not in candidates_of(no_labels, "classifier", "classifier")
    consistency = plan_fit(cge.CGE(classifier="consistency"), graph, LABELS)
    assert "0 hops" not in candidates_of(consistency, "weighting", "weighting")  # only where mlp is selected
    assert not candidates_of(consistency, "classifier", "classifier")
    distilled = plan_fit(cge.CGE("lstm", classifier="distilled"), graph, LABELS)
    assert candidates_of(distilled, "weight initialization", "weighting") == ["degree", "uniform", "cosine"]
    assert {row["label_propagation"] for row in distilled.rows()} == {"yes"}
    short = plan_fit(cge.CGE(hops=1), graph, LABELS)
    assert "2 hops (b=0)" not in candidates_of(short, "weighting", "weighting")


def test_with_few_labels_nothing_is_compared() -> None:
    plan = plan_fit(cge.CGE(), GRAPH, {0: "a", 1: "b", 2: "a"})
    assert [row["stage"] for row in plan.rows()] == ["final training"]
    row = plan.rows()[0]
    assert (row["weighting"], row["classifier"], row["label_propagation"]) == ("degree", "mlp", "no")


@pytest.mark.parametrize(
    ("estimator", "settings", "sentence"),
    [
        (cge.CGE, {"dim": 0}, "dim must be an integer"),
        (cge.CGE, {"weighting": "cosine"}, "weighting='cosine' needs node features"),
        (cge.CGE, {"classifier": "distilled", "label_propagation": False}, "classifier='distilled' is trained on the"),
        (cge.PaperCGE, {"window": 20}, "window must be at most walk_length"),
        (cge.PaperCGE, {"outer_labels": "validation"}, "outer_labels='validation' needs validation labels"),
    ],
)
def test_what_no_fit_can_start_with_is_refused(estimator: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan_fit(make_estimator(estimator, settings), GRAPH, LABELS)
    with pytest.raises(InputError, match=sentence):
        make_estimator(estimator, settings).fit(GRAPH, LABELS)
