"""`cge reproduce` as a person uses it, and the stored results that it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cge.cli import checkout
from cge.cli.main import run
from cge.engine import LocalEngine
from studies import registry
from studies.cells import Cell, read_cells
from studies.weights import METHODS
from studies.weights import run as run_cell
from tests.integration.commands import json_of

RESULTS = Path(__file__).parents[2] / "results"
ROW = {
    "validation": 0.8,
    "n_test": 1000,
    "labels": {"train": 140, "outer": 0, "validation": 500},
    "classifiers": ["consistency"],
    "label_propagation": False,
    "seconds": 3.0,
    "search_results": [],
    "weight_parameters": {},
}


def rounded(value: Any) -> Any:
    """Return a JSON value with nine digits of every number: the last ones depend on the processor."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize("name", registry.NAMES)
def test_stored_reports_are_those_of_the_stored_cells(name: str, tmp_path: Path) -> None:
    for folder in (name, "table2") if name == "paper" else (name,):
        (tmp_path / folder).mkdir()
        for file in (RESULTS / folder).glob("*.jsonl"):
            (tmp_path / folder / file.name).symlink_to(file)
    registry.study(name, tmp_path).write_report(tmp_path)
    files = [file for file in tmp_path.rglob("*") if file.suffix in (".json", ".md", ".svg")]
    expected = {"table2": 3, "table3": 3, "figures": 7, "labels": 3, "tasks": 3}
    assert len(files) == expected.get(name, 2)
    for file in files:
        stored, hint = RESULTS / file.relative_to(tmp_path), f"stale: run 'cge reproduce {name} --show'"
        if file.suffix == ".json":
            assert rounded(json.loads(file.read_text())) == rounded(json.loads(stored.read_text())), hint
        else:
            assert file.read_text() == stored.read_text(), hint


def test_tables_of_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights").mkdir()
    rows = [
        ROW | {"graph": "cora", "method": method, "seed": seed, "test": test, "weighting": method}
        for method, tests in {"uniform": (0.80, 0.81, 0.82), "edges+hops": (0.83, 0.85, 0.84)}.items()
        for seed, test in enumerate(tests)
    ]
    (tmp_path / "weights" / "cora.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["reproduce", "weights", "--show", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("6 cells in ")
    page = (tmp_path / "weights.md").read_text()
    assert "| uniform | 81.0 ± 1.0 (3) |" in page
    assert "| edges+hops | 84.0 ± 1.0 (3) | +3.0 (p = 0.035) |" in page
    assert page.count("| 3 |") == 2  # CPU seconds
    tables = json_of(capsys, "reproduce", "weights", "--show", "--out", str(tmp_path))
    assert tables["graphs"]["cora"]["edges+hops"]["against uniform"]["gain"] == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        ({"test": 0.8123, "weighting": "degree", "seconds": 3.2}, "  test 0.8123  degree  3 s"),
        ({"test": [0.8, 0.7], "seconds": [1.0, 2.0]}, ""),  # of all candidates of a search
    ],
)
def test_a_finished_cell_is_printed_with_its_single_values(row: dict[str, Any], summary: str) -> None:
    assert checkout._cell_summary(row) == summary


def test_no_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "weights", "--show", "--out", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("0 cells in ")
    assert read_cells(tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["tables"],
            "there is no study 'tables'; there are table2, table3, figures, labels, paper, selection, tasks, typed,",
        ),
        (["weights", "--only", "moon"], "the study has no graph 'moon'; it has cora, citeseer"),
        (["table2", "--show", "--only", "cora"], "--show writes the tables of all stored results; leave out --only"),
        (
            ["weights", "--only", "cora/magic"],
            "the study has no method 'magic'; it has 'auto', 'uniform'",
        ),
    ],
)
def test_errors(arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"cge: {sentence}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["reproduce", "table2"], ["bench", "walks"]])
def test_outside_of_a_checkout(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    assert run(command) == 2
    assert capsys.readouterr().err == (
        f"cge: 'cge {command[0]}' needs a checkout of the project: clone its repository and call './run {command[0]}' "
        "there\n"
    )


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        (["reproduce", "table2", "--show"], "matplotlib", "studies"),
        (["tune", "cora", "--trials", "1"], "optuna", "tune"),
    ],
)
def test_without_an_extra(
    command: list[str],
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(checkout, "find_spec", lambda name: None)
    assert run(command) == 2
    assert capsys.readouterr().err == (
        f"cge: 'cge {command[0]}' needs the package {package}: pip install 'cge[{extra}]'\n"
    )


def test_a_cell_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"max_epochs": 30, "classifier": "mlp", "label_propagation": False}
    monkeypatch.setitem(METHODS, "cosine", METHODS["cosine"] | quick)
    row = run_cell(Cell("cora+100%", "cosine", 0))
    assert 0.5 < row["test"] < 0.9
    assert row["noise_auc"] > 0.6  # paths of true edges connect similar papers
    assert (row["weighting"], row["classifiers"], row["n_test"]) == ("cosine", ["mlp"], 1000)
    assert row["weight_parameters"]["coefficients"]["cosine"] == 1.0
    assert set(row) - {"prior_correction", "noise_auc"} == set(ROW) | {"test", "weighting"}
    json.dumps(row)


def test_a_line_for_each_finished_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cge.engine.make_engine", lambda *_, **__: LocalEngine(1))  # in this process
    monkeypatch.setitem(METHODS, "features only", METHODS["features only"] | {"max_epochs": 5})
    arguments = ["--only", "cora/features only", "--seeds", "1", "--out", str(tmp_path)]
    assert run(["reproduce", "weights", *arguments]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^1/1  cora/features only/0  test 0\.\d{4}  uniform  \d+ s$", printed, re.MULTILINE), printed
    assert "| features only |" in (tmp_path / "weights.md").read_text()
