"""The study of the paper's algorithm: its cells, the oracle, its tables; the version of stored cells."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.models.path_networks import PathTree
from studies import cells as running
from studies import paper
from studies.cells import Cell, code_version
from studies.paper import OraclePaperCGE
from studies.paper_report import baseline_of, write_report
from studies.tables import read_table
from tests.fixtures import SMALL_PAPER, TRUE_LABELS, partial_labels, two_groups


def test_cells_and_settings() -> None:
    every = list(paper.cells(None, 2))
    assert len(every) == len(set(every)) == 2 * sum(len(paper.methods_of(graph)) for graph in paper.GRAPHS)
    assert Cell("cora+100%", "planetoid-t, strength 1", 1) in every
    assert Cell("cora", "planetoid-t, strength 1", 1) not in every  # it is in table 2
    assert list(paper.cells("cora/cge-t-lstm, oracle", 1)) == [Cell("cora", "cge-t-lstm, oracle", 0)]
    base = read_table("table2").settings_of("cora", "cge-t-lstm")
    assert paper.settings_of(Cell("cora", "cge-t-lstm, 8 outer steps", 0)) == base | {"outer_steps": 8}
    assert paper.settings_of(Cell("cora", "planetoid-t, strength 0", 0)) == base | {"supervised_strength": 0.0}
    sgd = paper.settings_of(Cell("cora", "planetoid-t, sgd", 0))
    assert sgd == {"dim": 135, "label_pairs": 0.01, "optimizer": "sgd"}  # with its own learning rates
    with pytest.raises(InputError, match="the study has no graph 'moon'"):
        list(paper.cells("moon", 1))
    with pytest.raises(InputError, match="the study has no method 'magic'"):
        list(paper.cells("cora/magic", 1))


def test_random_edges_of_a_cell() -> None:
    cell = Cell("cora+100%", "cge-t-lstm, strength 1, 32 outer steps", 1)
    assert paper.settings_of(cell) == read_table("table2").settings_of("cora", "cge-t-lstm")
    edges = [paper.data_of(Cell(graph, cell.method, 1)).graph.num_edges for graph in ("cora", "cora+100%")]
    assert 1.9 * edges[0] < edges[1] < 2 * edges[0]  # a few are drawn twice


def test_paths_between_nodes_of_a_class() -> None:
    network = paper.SameClassPaths(np.array([0, 0, 1, -1]), 2)
    nodes, length = np.array([[0, 2, 1], [0, 2, -1], [2, 1, 2], [3, 3, -1]]), np.array([3, 2, 3, 2])
    weights = network.weigh(torch.zeros(4, 2), PathTree.grow(nodes, length, np.full(4, -1)))
    assert weights.tolist() == pytest.approx([0.9, 0.09, 0.9, 0.09])
    assert network(torch.ones(4, 2), torch.tensor(nodes), torch.tensor(length)).tolist() == [0.5] * 4


def test_the_auc_of_path_weights() -> None:
    """1 for weights that are larger where both ends have the same class, 0.5 for equal weights."""
    graph, window = two_groups(), 4

    def model(weigh: Any) -> Any:
        return SimpleNamespace(graph_=graph, window=window, path_weights=lambda paths: [weigh(p) for p in paths])

    same = model(lambda path: float(TRUE_LABELS[path[0]] == TRUE_LABELS[path[-1]]))
    assert paper.same_class_auc(same, TRUE_LABELS) == 1.0
    assert paper.same_class_auc(model(lambda _: 0.5), TRUE_LABELS) == 0.5
    partly = np.where(np.arange(40) < 30, TRUE_LABELS, -1)
    assert paper.same_class_auc(same, partly) == 1.0


@pytest.mark.parametrize(
    ("method", "baseline"),
    [
        ("planetoid-i, sgd", None),
        ("cge-i-lstm, sgd", "planetoid-i, sgd"),
        ("cge-t-lstm, strength 0", "planetoid-t, strength 0"),
        ("cge-t-lstm, 8 outer steps", "planetoid-t, strength 1"),
        ("cge-t, same-class paths", "planetoid-t, strength 1"),
    ],
)
def test_the_baseline_of_a_method(method: str, baseline: str | None) -> None:
    assert baseline_of(method) == baseline


@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_the_oracle_learns_weights_from_all_other_labels() -> None:
    model = make_estimator(OraclePaperCGE, {**SMALL_PAPER, "weighting": "average", "max_epochs": 2, "outer_steps": 3})
    model.outer_codes = TRUE_LABELS
    y, validation = partial_labels(TRUE_LABELS, 3), partial_labels(TRUE_LABELS, 4)
    validation[y >= 0] = -1
    model.fit(two_groups(), y, validation)
    count = int((y >= 0).sum())
    assert model.labels_seen_ == {"train": count, "outer": 40 - count, "validation": int((validation >= 0).sum())}
    assert all(epoch.outer_loss is not None for epoch in model.history_)


def test_a_cell_runs_and_its_result_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []

    def once(model: Any, *_: Any) -> dict[str, Any]:
        rows.append(model)
        return {"metrics": {"accuracy": 0.25}}

    epoch = SimpleNamespace(validation_accuracy=0.75, weight_mean=0.5, weight_std=0.1)
    monkeypatch.setattr(paper, "run_once", once)
    monkeypatch.setattr(paper, "same_class_auc", lambda *_: 0.625)
    monkeypatch.setattr(OraclePaperCGE, "history_", [epoch], raising=False)
    cell = Cell("cora", "cge-i-lstm, oracle", 3)
    row = paper.run(cell)
    (model,) = rows
    assert isinstance(model, OraclePaperCGE)
    assert row["auc"] == 0.625
    assert np.array_equal(model.outer_codes, cge.load_dataset("cora").labels)
    assert (model.setting, model.weighting, model.random_state, model.n_jobs) == ("inductive", "lstm", 3, 1)
    assert (row["test"], row["validation"], row["weight_mean"]) == (0.25, 0.75, 0.5)
    assert paper.current(cell, row)
    assert not paper.current(cell, row | {"revision": 0})
    assert not paper.current(cell, row | {"settings": {}})
    assert not paper.current(Cell("cora", "retired", 0), row)


def test_the_report(tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    folder.mkdir()
    values = {"planetoid-t, strength 0": (0.70, 0.72), "cge-t-lstm, oracle": (0.75, 0.79)}
    values["cge-t-lstm, 8 outer steps"] = (0.72, 0.73)
    (tmp_path / "table2").mkdir()
    table2 = {
        "settings": read_table("table2").settings_of("cora", "planetoid-t"),
        "revision": 1,
        "version": "0.1.0 abc",
    }
    with (tmp_path / "table2" / "cora.jsonl").open("w") as file:
        for seed, test in enumerate((0.70, 0.72)):
            cell = {"graph": "cora", "method": "planetoid-t", "seed": seed}
            file.write(json.dumps(cell | table2 | {"test": test}) + "\n")
    with (folder / "cora.jsonl").open("w") as file:
        for method, tests in values.items():
            for seed, test in enumerate(tests):
                cell = Cell("cora", method, seed)
                learned = None if "planetoid" in method else 0.4 + 0.1 * seed
                row = {"test": test, "validation": test - 0.1, "weight_mean": learned, "weight_std": learned}
                row |= {"settings": paper.settings_of(cell), "revision": paper.REVISION, "version": "0.1.0 abc"}
                file.write(json.dumps({"graph": "cora", "method": method, "seed": seed} | row) + "\n")
    tables = write_report(tmp_path)
    assert tables["graphs"]["cora"]["cge-t-lstm, oracle"]["against"]["gain"] == pytest.approx(0.06)
    lines = (tmp_path / "paper.md").read_text().splitlines()
    assert "| planetoid-t, strength 1 |  | 71.0 ± 1.4 (2) |  |  |  |  |  |  | 0.1.0 abc |" in lines
    assert "| planetoid-t, strength 0 | 61.0 ± 1.4 (2) | 71.0 ± 1.4 (2) |  |  |  |  |  |  | 0.1.0 abc |" in lines
    weights, gain = "0.40 to 0.50 | 0.40 to 0.50 | ", "+6.0 | 0.105 |  | 0.1.0 abc"
    assert f"| cge-t-lstm, oracle | 67.0 ± 2.8 (2) | 77.0 ± 2.8 (2) | {weights} | {gain} |" in lines
    gain = "+1.5 | 0.205 | 0.205 | 0.1.0 abc"  # the bounds are not among the corrected tests
    assert f"| cge-t-lstm, 8 outer steps | 62.5 ± 0.7 (2) | 72.5 ± 0.7 (2) | {weights} | {gain} |" in lines
    with pytest.raises(InputError, match="has no cell of the study with its present settings"):
        write_report(tmp_path / "new")


def test_the_version_names_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = {"rev-parse": "abc1234\n", "status": ""}

    def run(call: list[str], **_: Any) -> Any:
        return subprocess.CompletedProcess(call, 0, outputs[call[3]])

    monkeypatch.setattr(running.subprocess, "run", run)
    assert code_version() == f"{cge.__version__} abc1234"
    outputs["status"] = " M src/cge/graph.py\n"
    assert code_version() == f"{cge.__version__} abc1234+"

    def fails(call: list[str], **_: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(running.subprocess, "run", fails)
    assert code_version() == cge.__version__
