"""The study of selection: its rules, nested validation, and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cge.data.splits import Split
from studies import selection
from studies.cells import Cell
from studies.selection_report import tables_of, write_report
from studies.selection_rules import RULES, Halves, Outputs, by_margin, greedy, level, weights_of
from tests.fixtures import TRAIN_NODES, TRUE_LABELS, VALIDATION_NODES, two_groups, with_sparse_features

NAMES = ["degree, mlp", "uniform, mlp", "degree, sparse"]


def outputs(correct: list[int], confidence: float = 0.8, count: int = 100) -> Outputs:
    """Return candidates for two classes of which so many of 100 predictions are right, the first nodes."""
    labels = np.arange(count) % 2
    right = np.arange(count)[None] < np.array(correct)[:, None]
    of_label = np.where(right, confidence, 1 - confidence)
    probabilities = np.where(np.arange(2) == labels[None, :, None], of_label[..., None], 1 - of_label[..., None])
    return Outputs(NAMES[: len(correct)], probabilities, labels)


def names_of(rule: Any, seen: Outputs) -> list[str]:
    weights = weights_of({"rule": rule}, seen)["rule"]
    return [name for name, weight in zip(seen.names, weights, strict=True) if weight]


def test_rules_select_or_average() -> None:
    seen = outputs([80, 83, 82])
    assert names_of(RULES["most accurate"], seen) == ["uniform, mlp"]
    assert names_of(by_margin(2.0), seen) == ["degree, mlp"]  # 3 more of 100 are 1.7 standard errors
    assert names_of(by_margin(1.0), seen) == ["uniform, mlp"]
    assert names_of(level(2.0, 5), seen) == NAMES
    assert names_of(level(2.0, 2), seen) == ["uniform, mlp", "degree, sparse"]
    assert names_of(level(2.0, 5, same_classifier=True), seen) == ["degree, mlp", "uniform, mlp"]
    assert names_of(level(0.5, 5), seen) == ["uniform, mlp"]


def test_ensemble_selection_combines_candidates_that_err_on_different_nodes() -> None:
    seen = outputs([60, 60, 50])
    seen.probabilities[1] = seen.probabilities[0][:, ::-1][np.r_[50:100, 0:50]]  # right on other nodes
    weights = weights_of({"greedy": greedy(4, 2)}, seen)["greedy"]
    assert weights.sum() == 4
    assert np.count_nonzero(weights) <= 2


def test_nested_accuracy_is_that_of_the_other_half() -> None:
    labels = np.zeros(4, int)
    right, wrong = [0.9, 0.1], [0.1, 0.9]
    first, second = [right, right, wrong, wrong], [wrong, wrong, right, right]
    halves = np.array([[0, 1], [2, 3]])
    probabilities = np.array([[first, first], [second, second]])  # (candidates, halves, nodes, classes)
    study = Halves(NAMES[:2], probabilities, probabilities[::-1], halves, labels)
    rules = {"rule": RULES["most accurate"]}
    assert study.nested_accuracy(rules) == {"rule": 0.0}  # what is right on one half is wrong on the other
    assert study.nested_accuracy(rules, final=True) == {"rule": 1.0}  # and the other way round when training has ended


def test_a_cell_and_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = np.arange(2, 40, 4)
    task = with_sparse_features(two_groups()), TRUE_LABELS, Split(TRAIN_NODES, VALIDATION_NODES, test), set()
    monkeypatch.setattr(selection, "task_of", lambda _: task)
    monkeypatch.setattr(selection, "_CLASSIFIERS", ("mlp", "logistic"))
    monkeypatch.setattr(selection, "_NEAR", -1.0)  # no hop profiles and no label propagation
    cell = Cell("cora", "candidates", 0)
    row = selection.run(cell, tmp_path / "vectors")
    assert row["candidates"][:2] == ["degree, mlp", "degree, logistic"]
    assert "edges, mlp" in row["candidates"]
    assert set(row["rules"]) == set(RULES)
    assert selection.current(cell, row)
    assert row == selection.run(cell, tmp_path / "vectors")  # from the stored probabilities
    default = {"test": 0.75, "ensemble": [], "label_propagation": False, "seconds": 1.0}
    tables = tables_of({cell: row, Cell("cora", "default", 0): default})
    assert tables["graphs"]["cora"]["test"]["regret"] == pytest.approx(max(row["final test"]) - 0.75)
    (tmp_path / "selection").mkdir()
    write_report(tmp_path)
    assert (tmp_path / "selection.md").read_text().startswith("# Selection of candidates\n")


def test_cells_can_be_selected() -> None:
    assert [str(cell) for cell in selection.cells("cora/default", 2)] == ["cora/default/0", "cora/default/1"]
    assert len(list(selection.cells(None, 1))) == 2 * len(selection.GRAPHS)
