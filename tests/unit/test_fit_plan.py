"""The plan of a fit, which `cge fit --dry-run` prints: its candidates are those that the model search runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.data import catalog
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.estimators.fit_plan import FitPlan, plan_fit
from cge.models.weightings import is_learned
from cge.training.candidates import paper_memory
from cge.training.cross_fitting import CrossFitEvaluator
from cge.training.encoder_data import EncoderData
from cge.training.model_search import ModelSearch

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


# ---------------------------------------------------------------------- the search of the fit and that of its plan


class StopError(Exception):
    pass


def search_of(model: cge.CGE, graph: cge.Graph, y: Any, validation: Any, monkeypatch: Any) -> ModelSearch:
    """Return the model search of a fit before its first training."""
    searches: list[ModelSearch] = []

    def record(search: ModelSearch) -> None:
        searches.append(search)
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(ModelSearch, "run", record)
        with pytest.raises(StopError):
            model.fit(graph, y, validation)
    return searches[0]


def graph_with(features: Any, self_loops: bool = False, **types: Any) -> cge.Graph:
    """Return a ring of 40 nodes, some with self-loops."""
    edges = [(node, (node + 1) % 40) for node in range(40)] + [(node, node) for node in range(7) if self_loops]
    return cge.Graph.from_edges(edges, num_nodes=40, features=features, self_loops=self_loops, **types)


def random_features(columns: int) -> Any:
    return np.random.default_rng(0).normal(size=(40, columns)).astype(np.float32)


SPARSE = sp.csr_array(np.eye(40, 12, dtype=np.float32))
TYPES = ["author" if node < 39 else "paper" for node in range(40)]  # the paper has no sparse features
FEW = {node: "ab"[node % 2] for node in range(3)}
GRAPHS: dict[str, cge.Graph] = {
    "dense": graph_with(random_features(5)),
    "self-loops": graph_with(random_features(5), self_loops=True),
    "wide dense": graph_with(random_features(9000)),
    "sparse": graph_with(SPARSE),
    "without features": GRAPH,
    "typed": graph_with(SPARSE, node_types=TYPES),
    "typed without features": graph_with(None, node_types=TYPES),
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"inputs": "learned"},
    {"refit": False},
    {"weighting": "edges"},
    {"weighting": "lstm", "classifier": "mlp", "label_propagation": False},
    {"validation_fraction": 0.01},
]


@pytest.mark.parametrize("labels", ["validation", "cross-validation", "few"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [*GRAPHS, "labeled rows", "wide labeled rows"])
def test_the_search_of_a_plan_is_that_of_the_fit(
    kind: str, settings: dict[str, Any], labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind.endswith("labeled rows"):
        monkeypatch.setattr("cge.estimators.labeled_fit._CELLS", 0)
    kind = {"labeled rows": "dense", "wide labeled rows": "wide dense"}.get(kind, kind)
    graph, model = GRAPHS[kind], make_estimator(cge.CGE, settings)
    y, validation = (FEW, None) if labels == "few" else (LABELS, VALIDATION if labels == "validation" else None)
    if labels == "few" and is_learned(model.weighting):
        for start in (plan_fit, cge.CGE.fit):
            with pytest.raises(InputError, match="at least four training labels"):
                start(model, graph, y)
        return
    with monkeypatch.context() as patch:
        patch.setattr("torch.linalg.eigh", lambda *_: pytest.fail("a plan computes no principal components"))
        plan = plan_fit(model, graph, y, validation)
    search = search_of(model, graph, y, validation, monkeypatch)
    assert plan.problem == search.problem
    assert plan.problem is not None
    assert plan.problem.size == search.evaluator.work.size
    assert plan.rows() == [candidate.row() for candidate in search.candidates]
    assert plan.cross_validated == isinstance(search.evaluator, CrossFitEvaluator)
    assert plan.cross_validated == (labels == "cross-validation" and model.refit)
    assert plan.labels["validation"] == len(search.task.validation)
    assert plan.refit or plan.labels["train"] == len(search.task.train)
    size, inputs = search.data.size, search.data.inputs("l2")
    dense = isinstance(inputs, np.ndarray)
    entries = inputs.size if dense else inputs.csr.nnz  # type: ignore[union-attr]
    assert (size.transitions, size.dense, size.columns) == (len(search.data.transitions), dense, inputs.shape[1])
    assert (size.entries, size.inputs) == (entries, plan.inputs)


def test_the_number_of_principal_components_is_bounded_without_computing_them() -> None:
    features = np.repeat(random_features(9000)[:20], 2, axis=0)  # of rank 20
    data = EncoderData(graph_with(features))
    assert data.size.columns == 39
    assert data.input_dim == 19


def test_learned_inputs_of_a_large_typed_graph_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """55,000 nodes of a type without features: logistic regression on all their inputs is too expensive."""
    nodes = np.arange(60_000)
    features = sp.csr_array((np.ones(5000, np.float32), (nodes[:5000], nodes[:5000] % 300)), shape=(60_000, 300))
    types = np.where(nodes < 5000, "paper", "author")
    edges = np.stack([nodes, (7 * nodes + 1) % 60_000], axis=1)
    graph = cge.Graph.from_edges(edges, features=features, node_types=types)
    y, validation = ({node: "ab"[node // 2 % 2] for node in range(first, 2000, 2)} for first in (0, 1))
    plan, search = plan_fit(cge.CGE(), graph, y, validation), search_of(cge.CGE(), graph, y, validation, monkeypatch)
    assert plan.problem == search.problem
    assert plan.problem is not None
    assert plan.problem.size.input_dim == 55_300
    assert plan.rows() == [candidate.row() for candidate in search.candidates]
    assert not {"logistic", "logistic-unit"} & set(candidates_of(plan, "classifier", "classifier"))


@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_cross_validation_of_a_small_fraction_is_followed_by_a_training_on_all_labels() -> None:
    """A fraction of 0.01 of 30 labels holds out none in one split, but cross-validation holds out each once."""
    model = make_estimator(cge.CGE, {"max_epochs": 2, "validation_fraction": 0.01, "weighting": "degree"})
    plan = plan_fit(model, GRAPH, LABELS)
    model.fit(GRAPH, LABELS)
    assert plan.refit
    assert plan.labels == model.labels_seen_
    assert model.history_[-1].stage == "refit"


@pytest.mark.parametrize(
    ("settings", "validation", "outer"),
    [
        ({"outer_labels": "validation"}, VALIDATION, 5),
        ({"outer_labels": "validation"}, {36: "a", 37: "b"}, 1),
        ({"outer_labels": "validation", "outer": "paper"}, VALIDATION, 0),
        ({}, None, 30),
        ({"refit": False}, None, 24),
        ({"weighting": "uniform", "loss": "negative"}, None, 0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_a_paper_fit_does_what_its_plan_says(settings: dict[str, Any], validation: Any, outer: int) -> None:
    settings = {"max_epochs": 1, "pretrain": 1, "dim": 4} | settings
    plan = plan_fit(make_estimator(cge.PaperCGE, settings), GRAPH, LABELS, validation)
    model = make_estimator(cge.PaperCGE, settings).fit(GRAPH, LABELS, validation)
    assert plan.labels == model.labels_seen_
    assert plan.labels["outer"] == outer
    assert plan.refit == (model.selection_history_ is not None)
    assert not plan.candidates
    assert (plan.sizes["dim"], plan.sizes["loss"]) == (4, settings.get("loss", "softmax"))
    assert plan.sizes["max_epochs"] == model.history_[0].max_epochs


def test_the_loss_of_a_paper_plan_depends_on_the_size_of_the_graph() -> None:
    graphs = [cge.Graph.from_edges([(0, 1), (1, 2)], num_nodes=size) for size in (500, 501)]
    losses = [plan_fit(cge.PaperCGE(), graph, {0: "a", 1: "b", 2: "a", 3: "b"}).sizes["loss"] for graph in graphs]
    assert losses == ["softmax", "negative"]


def test_a_paper_plan_refuses_one_validation_label_as_the_fit_does() -> None:
    for start in (plan_fit, cge.PaperCGE.fit):
        with pytest.raises(InputError, match="outer_labels='validation' needs at least two validation labels"):
            start(cge.PaperCGE(outer_labels="validation"), GRAPH, LABELS, {36: "a"})


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
