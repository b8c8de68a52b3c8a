"""`cge reproduce` as a person meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cge.cli.main import run
from studies.cells import Cell, read_cells
from studies.weights import METHODS
from studies.weights import run as run_cell

ROW = {
    "validation": 0.8,
    "n_test": 1000,
    "labels": {"train": 140, "outer": 0, "selection": 500},
    "classifiers": ["consistency"],
    "votes": False,
    "cpu_seconds": 3.0,
    "compared": [],
    "parameters": {},
}


def test_tables_of_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights").mkdir()
    rows = [
        ROW | {"graph": "cora", "method": method, "seed": seed, "test": test, "weights": method}
        for method, tests in {"none": (0.80, 0.81, 0.82), "steps": (0.83, 0.85, 0.84)}.items()
        for seed, test in enumerate(tests)
    ]
    (tmp_path / "weights" / "cora.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["reproduce", "weights", "--show", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("6 cells in ")
    page = (tmp_path / "weights.md").read_text()
    assert "| A ≡ 1 (none) | 81.0 ± 1.0 (3) |" in page
    assert "| steps | 84.0 ± 1.0 (3) | +3.0 (p = 0.035) |" in page
    assert page.count("| 3 |") == 2  # seconds of the processor
    assert run(["reproduce", "weights", "--show", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["graphs"]["cora"]["steps"]["against none"]["gain"] == pytest.approx(0.03)


def test_nothing_is_there_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "weights", "--show", "--out", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("0 cells in ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tables"], "there is no study 'tables'; there are table2, table3, figures, weights"),
        (["weights", "--only", "moon"], "the study has no graph 'moon'; it has cora, citeseer"),
        (["table2", "--show", "--only", "cora"], "--show tells everything that is there; leave out --only"),
        (["weights", "--only", "cora/magic"], "the study has no method 'magic'; it has 'auto', 'auto with shares'"),
    ],
)
def test_what_is_not_there(words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *words, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"cge: {sentence}")
    assert not list(tmp_path.iterdir())


def test_a_cell_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        METHODS, "cosine", METHODS["cosine"] | {"max_epochs": 30, "classifier": "mlp", "label_propagation": "no"}
    )
    row = run_cell(Cell("cora+100%", "cosine", 0))
    assert 0.5 < row["test"] < 0.9
    assert row["noise_auc"] > 0.6  # paths of true edges join papers that are alike
    assert (row["weights"], row["classifiers"], row["n_test"]) == ("cosine", ["mlp"], 1000)
    assert row["parameters"]["coefficients"]["cosine"] == 1.0
    json.dumps(row)


@pytest.mark.slow
def test_cells_are_told_as_they_come(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "weights", "--only", "cora/features only", "--seeds", "1", "--out", str(tmp_path)]
    assert run(words) == 0
    format_value = capfd.readouterr().out
    assert re.search(r"^1/1  cora/features only/0  test 0\.\d{4}  none  \d+ s$", format_value, re.MULTILINE), (
        format_value
    )
    assert "| features only |" in (tmp_path / "weights.md").read_text()


def test_results_are_read_back(tmp_path: Path) -> None:
    assert read_cells(tmp_path) == {}
