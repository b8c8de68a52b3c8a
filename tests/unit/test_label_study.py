"""The label-budget study: its cells and splits, the tuning of baselines, and what its report says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.errors import InputError
from cge.estimators.classifier import task_labels
from studies import label_baselines, labels
from studies.cells import Cell
from studies.label_baselines import BASELINES, Baseline, SharedInputs, predict
from studies.labels_report import tables_of, write_report


@pytest.fixture(scope="module")
def grouped_data() -> Dataset:
    """A graph of two groups of 40 nodes, most edges within a group, and features that tell the groups apart."""
    random = np.random.default_rng(0)
    groups = np.repeat([0, 1], 40)
    source = np.tile(np.arange(80), 6)
    same = random.random(len(source)) < 0.9
    target = random.integers(0, 40, len(source)) + 40 * np.where(same, groups[source], 1 - groups[source])
    features = random.random((80, 4)) + np.eye(4)[groups]
    graph = cge.Graph.from_edges((source, target), features.astype(np.float32), num_nodes=80)
    return Dataset("groups", graph, groups.astype(np.int64), ("left", "right"))


def test_cells() -> None:
    every = list(labels.cells(None, 1))
    assert len(set(every)) == len(every)
    assert [cell.graph for cell in every[:2]] == ["cora", "cora"]
    assert {labels.parse(cell)[0] for cell in every if cell.graph == "blogcatalog"} == {"10%", "50%"}
    assert {labels.parse(cell)[2] for cell in every if cell.graph == "vispub"} == set(labels.METHODS) - {
        "features",
        "sgc",
    }
    assert list(labels.cells("cora/20+500/gcn", 2)) == [Cell("cora", "20+500/gcn", seed) for seed in (0, 1)]
    assert {cell.method for cell in labels.cells("cora/20", 1)} == {f"20/{name}" for name in labels.METHODS}
    assert {cell.graph for cell in labels.cells("*/50/default", 1)} == set(labels.GRAPHS) - {
        "aifb",
        "nell",
        "blogcatalog",
    }
    for pattern, message in (("moon", "no graph 'moon'"), ("cora/3", "no budget '3'"), ("a/b/c/d", "GRAPH/BUDGET")):
        with pytest.raises(InputError, match=message):
            list(labels.cells(pattern, 1))


@pytest.mark.parametrize("budget", ["2", "10%"])
def test_cells_with_and_without_validation_share_their_split(grouped_data: Dataset, budget: str) -> None:
    data, split = labels.split_of(grouped_data, budget, seed=3)
    assert split == labels.split_of(grouped_data, budget, seed=3)[1]
    assert split != labels.split_of(grouped_data, budget, seed=4)[1]
    assert len(split.train) == {"2": 4, "10%": 8}[budget]
    assert np.bincount(data.labels[split.train]).tolist() == [len(split.train) // 2] * 2
    assert len(split.validation) == (80 - len(split.train)) // 2
    assert sum(split.sizes) == 80


@pytest.mark.parametrize("budget", ["5+500", "5"])
@pytest.mark.parametrize("method", ["default", *BASELINES])
def test_a_cell(grouped_data: Dataset, method: str, budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_dataset", lambda graph: grouped_data)
    row = labels.run(Cell("groups", f"{budget}/{method}", 0))
    assert row["test"] > 0.7
    assert row["labels"] == {"train": 10, "validation": 35 * (budget == "5+500")}
    assert row["n_test"] == 35
    json.dumps(row)


def test_one_label_per_class_takes_the_middle_setting(grouped_data: Dataset) -> None:
    data, split = labels.split_of(grouped_data, "1", seed=0)
    task = task_labels(data.graph, data.labels_of(split.train))
    for name in ("features", "label propagation", "sgc"):
        assert predict(name, SharedInputs(grouped_data), task, 0)[2] == BASELINES[name].middle


def test_settings_are_selected_by_the_held_out_labels_of_all_folds(
    grouped_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting is right about one class only, another about both: all folds together select the other."""
    calls: list[tuple[Any, int, int]] = []
    truth = np.eye(2)[grouped_data.labels]

    def outputs(shared: SharedInputs, task: Any, seed: int) -> Iterator[tuple[Any, np.ndarray]]:
        calls.append((task.choice, len(task.train), len(task.validation)))
        assert not np.intersect1d(task.train, task.validation).size
        for setting in ("left", "both") if task.choice is None else (task.choice,):
            yield setting, 0.8 * (np.eye(2)[[0] * 80] if setting == "left" else truth) + 0.1

    monkeypatch.setitem(label_baselines.BASELINES, "fake", Baseline(outputs, "left"))
    data, split = labels.split_of(grouped_data, "5", seed=0)
    task = task_labels(data.graph, data.labels_of(split.train))
    shared = SharedInputs(grouped_data)
    assert predict("fake", shared, task, 0)[2] == "both"
    assert [each[0] for each in calls] == [None, None, None, "both"]
    assert sum(each[2] for each in calls) == 10  # each label held out once
    assert calls[-1][1:] == (10, 0)  # trained again on all
    validated = task_labels(data.graph, data.labels_of(split.train), data.labels_of(split.validation))
    assert predict("fake", shared, validated, 0)[2] == "both"


def test_validation_labels_may_shift_the_baseline_to_their_class_frequencies(grouped_data: Dataset) -> None:
    """Outputs that know the class only in part gain from the frequencies 9 to 1 of the validation labels."""
    random = np.random.default_rng(1)
    classes = np.concatenate([np.repeat([0, 1], 10), (random.random(600) < 0.1).astype(np.int64)])
    graph = cge.Graph.from_edges([(0, 1)], num_nodes=620)
    data = Dataset("skewed", graph, classes, ("common", "rare"), Split(range(20), range(20, 420), range(420, 620)))
    evidence = random.standard_normal(620) + 1.5 * (2 * classes - 1)
    probability = 1 / (1 + np.exp(-3.0 * evidence))
    given = np.stack([1 - probability, probability], axis=1)
    task = task_labels(graph, data.labels_of(data.split.train), data.labels_of(data.split.validation))  # type: ignore[union-attr]
    fake = Baseline(lambda shared, task, seed: iter([("only", given)]), "only")
    corrected, plain, _ = label_baselines._tuned_on_validation(fake, SharedInputs(data), task, 0)
    test = data.split.test  # type: ignore[union-attr]
    assert np.array_equal(plain, given)
    assert (corrected[test].argmax(1) == classes[test]).mean() > (plain[test].argmax(1) == classes[test]).mean()


def test_networks_train_for_the_median_number_of_epochs() -> None:
    assert label_baselines._common_setting([(2, 30), (2, 90), (2, 50)]) == (2, 50)
    assert label_baselines._common_setting([(0.9, True)] * 3) == (0.9, True)


def _row(graph: str, method: str, seed: int, test: float, train: int = 140) -> dict[str, Any]:
    counts = {"n_test": 100, "n_classes": 7, "labels": {"train": train, "validation": 500 * ("+" in method)}}
    return {"graph": graph, "method": method, "seed": seed, "test": test, "seconds": 1.0} | counts


def test_report(tmp_path: Path) -> None:
    rows = [_row("cora", "20+500/default", seed, test) for seed, test in enumerate((0.80, 0.82, 0.84))]
    rows += [_row("cora", "20+500/gcn", seed, test) for seed, test in enumerate((0.81, 0.82, 0.84))]
    rows += [_row("cora", "20+500/sgc", seed, 0.5) for seed in range(3)]
    rows += [_row("cora", "5/default", 0, 0.60, 35), _row("cora", "5/gcn", 0, 0.70, 35)]
    rows += [_row("imdb", "5/default", 0, 0.60, 35), _row("imdb", "5/gcn", 0, 0.63, 35)]
    rows += [_row("yelp", "5/gcn", 0, 0.63, 35)]
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = write_report(tmp_path)
    by_cell = {(row["graph"], row["budget"]): row for row in tables["rows"]}
    assert by_cell["cora", "20"]["near"]  # behind by 0.33 ± 0.33 points
    assert by_cell["cora", "20"]["gain"] == pytest.approx(-0.01 / 3)
    assert not by_cell["cora", "5"]["near"]  # 10 points with a standard error of 4.6
    assert by_cell["imdb", "5"]["near"]  # 3 points with one of 4.8
    assert "near" not in by_cell["yelp", "5"]
    summary = tables["summary"]
    assert (summary["with"]["cells"], summary["with"]["first or within one standard error"]) == (1, 1)
    assert (summary["without"]["cells"], summary["without"]["first or within one standard error"]) == (2, 1)
    assert summary["all"]["within 0.5 points"] == 1
    page = (tmp_path / "labels.md").read_text()
    assert "| all | 3 | 0 (0 %) | 2 (67 %) | 1 (33 %) |" in page
    assert "| 20 per class (140) | 3 | **82.0** ± 2.0 | 50.0 ± 0.0 | 82.3 ± 1.5 | -0.3 (gcn) |" in page
    assert "| 5 per class (35) | 1 | 60.0 | 70.0 | -10.0 (gcn) |" in page
    assert "cora, no validation labels" in (tmp_path / "labels.svg").read_text()
    assert tables == tables_of({Cell(row["graph"], row["method"], row["seed"]): row for row in rows})
    (tmp_path / "none").mkdir()
    assert write_report(tmp_path / "none")["cells"] == 0


def test_only_seeds_that_all_methods_have_are_compared() -> None:
    rows = [_row("cora", "5/default", seed, 0.7) for seed in range(3)] + [_row("cora", "5/gcn", 1, 0.71)]
    (row,) = tables_of({Cell(row["graph"], row["method"], row["seed"]): row for row in rows})["rows"]
    assert row["gain"] == pytest.approx(-0.01)
    assert row["error"] == pytest.approx((0.71 * 0.29 / 100) ** 0.5)


def test_wide_features_of_large_graphs_are_reduced(grouped_data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_WIDE": 3, "_LARGE": 50, "_COMPONENTS": 2}.items():
        monkeypatch.setattr(label_baselines, name, value)
    assert SharedInputs(replace(grouped_data)).propagated(1).shape == (80, 2)
