"""Several tasks on one graph, and the studies of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cge
from cge.arrays import Array
from cge.estimators.baselines import classify_vectors
from cge.estimators.classifier import task_labels
from studies import task_vectors, vectors, vectors_report
from studies.cells import Cell
from studies.import_graph import imported_names, package_modules
from tests.fixtures import TRAIN_NODES, TRUE_LABELS, VALIDATION_NODES, quick_cge, two_groups


def two_tasks() -> tuple[cge.Graph, dict[str, Array]]:
    """Return two groups, and two tasks: the group, and whether the number of a node is in the first half of a group."""
    graph = two_groups(features=False)
    half = (np.arange(40) % 20 < 10).astype(int)
    return graph, {"group": TRUE_LABELS, "half": half}


def labels_of(labels: dict[str, Array], nodes: Array) -> dict[str, dict[int, int]]:
    return {name: {int(node): int(values[node]) for node in nodes} for name, values in labels.items()}


def test_each_task_has_a_model_and_scores_of_all_vectors() -> None:
    graph, labels = two_tasks()
    train, validation = labels_of(labels, TRAIN_NODES), labels_of(labels, VALIDATION_NODES)
    tasks = cge.multi_task(graph, train, validation, estimator=quick_cge("degree", classifier="mlp"))
    alone = quick_cge("degree", classifier="mlp").fit(graph, train["half"], validation["half"])
    assert np.array_equal(tasks.models["half"].embedding_, alone.embedding_)
    test = labels_of(labels, np.arange(40))  # training and validation nodes are left out
    scores = tasks.score_vectors(test)
    assert set(scores) == {"group", "half"} == set(scores["group"])
    assert scores["group"]["group"] >= 0.9
    assert tasks.score_vectors({"half": test["half"]})["group"] == {"half": scores["group"]["half"]}


def test_what_is_refused() -> None:
    graph, labels = two_tasks()
    train = labels_of(labels, TRAIN_NODES)
    with pytest.raises(cge.CgeError, match="there must be at least one task"):
        cge.multi_task(graph, {})
    with pytest.raises(cge.CgeError, match="there is no task 'other'; the tasks are 'group', 'half'"):
        cge.multi_task(graph, train, {"other": {}})
    tasks = cge.multi_task(graph, {"group": train["group"]}, estimator=quick_cge("degree", classifier="mlp"))
    with pytest.raises(cge.CgeError, match="all test labels of the task 'group' were used for training"):
        tasks.score_vectors({"group": train["group"]})


def test_the_nearest_neighbor_is_another_labeled_node() -> None:
    positions = np.array([[1.0, 0.0], [0.9, 0.1], [0.95, 0.05], [0.0, 1.0], [0.1, 0.9]])
    labels = np.array([0, 1, -1, 2, 2])  # the node in between has no label
    nodes = np.array([0, 1, 3, 4])
    assert vectors.neighbor_agreement(positions, labels, nodes, seed=0) == 0.5
    several = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]])
    assert vectors.neighbor_agreement(positions, several, nodes, seed=0) == 0.5


def test_the_table_of_vectors_says_what_was_measured() -> None:
    ours = {
        "test": 0.8,
        "test, prior corrected": 0.82,
        "model": 0.81,
        "neighbors": 0.7,
        "dim": 39,
        "seconds": 1.0,
        "n_test": 1000,
        "labels": {"train": 140},
        "label_propagation": True,
        "prior_correction": False,
    }
    deepwalk = {name: ours[name] for name in ("neighbors", "dim", "seconds", "n_test", "labels")}
    deepwalk |= {"test": 0.7, "test, prior corrected": 0.72}
    results = {Cell("cora", "cge", seed): ours for seed in range(2)} | {Cell("cora", "deepwalk", 0): deepwalk}
    table = vectors_report.tables_of(results)
    assert table["graphs"]["cora"]["cge"]["test"]["runs"] == 2
    entries = vectors_report._entries("cora", table["graphs"]["cora"])
    assert entries[:7] == ["cora", "140", "81.0 ± 0.0 (2)", "80.0 ± 0.0 (2)", "70.0 (1)", "", ""]
    assert entries[-1] == "2 of 2"
    table["graphs"]["cora"]["cge"]["prior_correction"] = 2
    assert vectors_report._entries("cora", table["graphs"]["cora"])[5:7] == ["82.0 ± 0.0 (2)", "72.0 (1)"]


def test_regressions_on_vectors_are_corrected_to_the_validation_frequencies() -> None:
    """Two classes of overlapping vectors, as many training labels of each, nine of ten nodes of the first."""
    random = np.random.default_rng(0)
    true = (random.random(2000) < 0.1).astype(np.int64)
    positions = np.stack([np.ones(2000), random.normal(1.2 * true, 1.0)], axis=1)
    y, validation = np.full((2, 2000), -1)
    train = np.concatenate([np.flatnonzero(true == each)[:40] for each in (0, 1)])
    y[train], validation[1000:1500] = true[train], true[1000:1500]
    labels = task_labels(cge.Graph.from_edges([(0, 1)], num_nodes=2000), y, validation)
    (plain, _), (corrected, strength) = (
        regression(positions, labels) for regression in (classify_vectors, vectors.corrected_regression)
    )
    accuracy = [(each[1500:].argmax(axis=1) == true[1500:]).mean() for each in (plain, corrected)]
    assert accuracy[1] > max(accuracy[0] + 0.1, 0.88)
    assert strength > 0


def test_cells_of_the_studies() -> None:
    assert list(vectors.cells("cora/cge", 2)) == [Cell("cora", "cge", 0), Cell("cora", "cge", 1)]
    assert len(list(vectors.cells(None, 1))) == 2 * len(vectors.GRAPHS)
    for only, message in (("nowhere", "no graph 'nowhere'"), ("cora/gcn", "no method 'gcn'")):
        with pytest.raises(cge.CgeError, match=message):
            list(vectors.cells(only, 1))
    assert list(task_vectors.cells(None, 1)) == [Cell("vispub", "cge", 0)]
    with pytest.raises(cge.CgeError, match="only the graph vispub"):
        list(task_vectors.cells("cora", 1))


def test_a_cell_of_the_study_of_vectors() -> None:
    row = vectors.run(Cell("cora", "deepwalk", 0))
    assert row["labels"] == {"train": 140, "outer": 0, "validation": 500}
    assert row["dim"] == 128
    assert 0.6 < row["test"] < 0.8
    assert 0.6 < row["neighbors"] < 0.9


def test_imports_of_a_module(tmp_path: Path) -> None:
    source = "import a.b\nfrom . import c\nfrom ..d import e\n"
    assert list(imported_names(source, "p.q.r", is_package=False)) == ["a.b", "p.q", "p.q.c", "p.d", "p.d.e"]
    assert list(imported_names("from . import c", "p.q", is_package=True)) == ["p.q", "p.q.c"]
    modules = package_modules("rich")
    assert modules["rich"].name == "__init__.py"
    assert modules["rich.table"].name == "table.py"
    with pytest.raises(cge.CgeError, match="needs the package no_such_package"):
        package_modules("no_such_package")
