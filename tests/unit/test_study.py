"""Running cells, and the study of weightings: its cells, its random edges, its tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.engine import LocalEngine
from cge.errors import FileFormatError, InputError, MissingDataError
from studies import cells as running
from studies import weights
from studies.cells import Cell, read_cells, run_cells
from studies.random_edges import with_random_edges
from studies.weights import GRAPHS, METHODS
from studies.weights_report import tables_of, write_report


def double(cell: Cell) -> dict[str, Any]:
    if cell.graph == "gone":
        raise MissingDataError("gone is not on this machine")
    if cell.method == "fails":
        raise ValueError(f"{cell} must not run")
    return {"twice": 2 * cell.seed}


def stored(cell: Cell, **row: Any) -> str:
    """Return the line of a result of this version."""
    key = {"graph": cell.graph, "method": cell.method, "seed": cell.seed}
    return json.dumps(key | row | {"version": running.code_version()}) + "\n"


# ---------------------------------------------------------------------- running cells


def test_cells_run_in_worker_processes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cells"
    wanted = [Cell("a", "x", 1), Cell("b", "x", 2)]
    run_cells(wanted, asdict, folder, LocalEngine(1, processes=True))
    assert (folder / "a.jsonl").read_text() == stored(wanted[0])
    assert (folder / "b.jsonl").read_text() == stored(wanted[1])


@pytest.mark.parametrize("jobs", [1, 3])
def test_finished_cells_do_not_run_again(tmp_path: Path, jobs: int) -> None:
    done = Cell("b", "fails", 0)
    (tmp_path / "b.jsonl").write_text(stored(done, twice="by hand"))
    wanted = [Cell("a", "x", 1), done, Cell("b", "x", 2), Cell("a", "x", 1)]
    seen = []
    run_cells(
        wanted,
        double,
        tmp_path,
        LocalEngine(jobs),
        on_done=lambda cell, row, number: seen.append((cell, row["twice"], number)),
    )
    assert sorted(call[:2] for call in seen) == [(Cell("a", "x", 1), 2), (Cell("b", "x", 2), 4)]
    assert [call[2] for call in seen] == [2, 3]  # of three, one of which was stored
    assert (tmp_path / "a.jsonl").read_text() == stored(wanted[0], twice=2)
    assert (tmp_path / "b.jsonl").read_text() == stored(done, twice="by hand") + stored(wanted[2], twice=4)
    run_cells([*wanted, Cell("a", "x", 5)], double, tmp_path, LocalEngine(jobs))
    assert (tmp_path / "a.jsonl").read_text() == stored(wanted[0], twice=2) + stored(Cell("a", "x", 5), twice=10)


def test_cells_with_missing_data_are_skipped(tmp_path: Path) -> None:
    wanted = [Cell("gone", "x", 0), Cell("a", "x", 1), Cell("gone", "y", 0)]
    assert run_cells(wanted, double, tmp_path, LocalEngine(1)) == {"gone": "gone is not on this machine"}
    assert list(read_cells(tmp_path)) == [wanted[1]]
    assert run_cells(wanted[1:2], double, tmp_path, LocalEngine(1)) == {}


def test_nothing_remains_to_be_run(tmp_path: Path) -> None:
    done = Cell("b", "fails", 0)
    (tmp_path / "b.jsonl").write_text(stored(done))
    run_cells([done], double, tmp_path, LocalEngine(4))
    run_cells([], double, tmp_path / "empty", LocalEngine(4))
    assert (tmp_path / "b.jsonl").read_text() == stored(done)
    assert read_cells(tmp_path / "empty") == {}


def test_an_error_is_raised_and_results_are_kept(tmp_path: Path) -> None:
    good, bad = Cell("a", "x", 1), Cell("a", "fails", 2)
    run_cells([good], double, tmp_path, LocalEngine(1))
    with pytest.raises(ValueError, match="a/fails/2 must not run"):
        run_cells([good, bad], double, tmp_path, LocalEngine(1))
    assert (tmp_path / "a.jsonl").read_text() == stored(good, twice=2)


@pytest.mark.parametrize("line", ['{"graph": "a", "meth', "[1, 2]", '{"graph": "a", "seed": 1}', "", '"text"', "3"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(stored(Cell("a", "x", 1)) + line + "\n")
    with pytest.raises(FileFormatError, match="no result; remove the line") as raised:
        run_cells([Cell("a", "fails", 0)], double, tmp_path, LocalEngine(1))
    assert (raised.value.path, raised.value.line) == (file, 2)


def test_a_half_written_line_is_run_again(tmp_path: Path) -> None:
    first, second = Cell("a", "x", 1), Cell("a", "x", 2)
    run_cells([first, second], double, tmp_path, LocalEngine(1))
    file = tmp_path / "a.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    assert read_cells(tmp_path).keys() == {first}
    run_cells([first, second], double, tmp_path, LocalEngine(1))
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
    file.write_bytes(b"\xff\n")
    with pytest.raises(FileFormatError, match=r"line 1: this is no result; remove the line"):
        read_cells(tmp_path)


def test_the_last_line_of_a_cell_counts(tmp_path: Path) -> None:
    first, other = Cell("a", "x", 1), Cell("b+50%", "x, y", 0)
    (tmp_path / "a.jsonl").write_text(stored(first, test=0.1) + stored(first, test=0.2))
    (tmp_path / "b+50%.jsonl").write_text(stored(other, test=0.3))
    (tmp_path / "notes.txt").write_text("no result")
    assert {cell: row["test"] for cell, row in read_cells(tmp_path).items()} == {first: 0.2, other: 0.3}
    assert str(other) == "b+50%/x, y/0"
    assert sorted([Cell("b", "a", 0), Cell("a", "b", 1), Cell("a", "b", 0)])[0] == Cell("a", "b", 0)


# ---------------------------------------------------------------------- cells of the study


@pytest.fixture
def bare_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Avoid reading data sets; all graphs but one have features."""

    def dataset(graph: str) -> Any:
        return SimpleNamespace(graph=SimpleNamespace(features=None if graph == "vispub" else np.eye(2)))

    monkeypatch.setattr(weights, "_dataset", dataset)


MAIN = ("auto", "uniform", "degree", "cosine", "edges", "edges+hops", "lstm", "features only")


@pytest.mark.usefixtures("bare_graphs")
def test_the_whole_study() -> None:
    study = list(weights.cells(None, 2))
    without = ("cosine", "features only")
    expected = {
        Cell(graph, method, seed)
        for graph in GRAPHS
        for method in MAIN
        for seed in (0, 1)
        if not (graph == "vispub" and method in without)
    }
    assert set(study) == expected
    assert len(study) == len(expected)
    assert [cell.seed for cell in study] == sorted(cell.seed for cell in study)
    assert list(weights.cells("*", 2)) == study


@pytest.mark.usefixtures("bare_graphs")
def test_parts_of_the_study() -> None:
    assert list(weights.cells("cora/degree", 3)) == [Cell("cora", "degree", seed) for seed in range(3)]
    assert list(weights.cells("cora+50%", 1)) == [Cell("cora+50%", method, 0) for method in MAIN]
    assert list(weights.cells("*/auto", 1)) == [Cell(graph, "auto", 0) for graph in GRAPHS]
    assert list(weights.cells("vispub/cosine", 5)) == []
    ablation = [cell.method for cell in weights.cells("cora/ablation", 1)]
    attempts = [cell.method for cell in weights.cells("cora/attempts", 1)]
    rest = set(METHODS) - set(MAIN) - {"average", "cnn"}
    assert sorted(ablation + attempts) == sorted(rest)
    assert all(name.startswith("edges+hops, ") for name in attempts if name != "closed forms")
    assert "sampled, constant" in ablation
    assert list(weights.cells("cora", 0)) == []


@pytest.mark.parametrize(
    ("only", "message"),
    [("core", "no graph 'core'; it has cora"), ("cora/stops", "no method 'stops'"), ("/auto", "''")],
)
def test_graphs_and_methods_that_the_study_does_not_have(only: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(weights.cells(only, 1))


# ---------------------------------------------------------------------- random edges


def ring(size: int = 60) -> cge.Graph:
    edges = [(node, (node + step) % size) for node in range(size) for step in (1, 2)]
    return cge.Graph.from_edges(edges, num_nodes=size + 1, features=sp.csr_array(np.eye(size + 1)))


def pairs_of(graph: cge.Graph) -> set[tuple[int, int]]:
    return {(u, v) for u, v in np.argwhere(graph.to_scipy().toarray()).tolist() if u <= v}


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_random_edges_are_added(share: float) -> None:
    graph = ring()
    noisy, added = with_random_edges(graph, share, seed=1)
    assert all(0 <= u < v <= 60 for u, v in added)
    assert not added & pairs_of(graph)
    assert pairs_of(noisy) == pairs_of(graph) | added
    assert 0.6 * share * 120 < len(added) <= share * 120
    assert noisy.num_nodes == graph.num_nodes
    assert not noisy.directed
    assert (noisy.features != graph.features).nnz == 0  # type: ignore[union-attr]


def test_random_edges_depend_on_the_seed() -> None:
    first, again, other = (with_random_edges(ring(), 1.0, seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert len(first & other) < 0.5 * len(first)


def test_random_edges_are_uniform() -> None:
    endpoints = np.array(sorted(with_random_edges(ring(), 10.0, seed=0)[1])).ravel()
    count = np.bincount(endpoints, minlength=61)
    assert count.min() > 0.4 * count.mean()
    assert count.max() < 2 * count.mean()


def test_no_random_edges() -> None:
    noisy, added = with_random_edges(ring(), 0.0, seed=0)
    assert added == set()
    assert pairs_of(noisy) == pairs_of(ring())


# ---------------------------------------------------------------------- tables


def row(test: float, **changed: Any) -> dict[str, Any]:
    return {
        "test": test,
        "validation": test + 0.05,
        "n_test": 1000,
        "labels": {"train": 140, "outer": 0, "validation": 500},
        "weighting": "degree",
        "classifiers": ["consistency"],
        "label_propagation": False,
        "seconds": 2.0,
    } | changed


HEAD = (
    "| method | test accuracy | against uniform | against degree | selected weighting | classifiers | prior corrected "
    "| CPU seconds | version |"
)


def results() -> dict[Cell, dict[str, Any]]:
    rows = {Cell("cora", "uniform", seed): row(test) for seed, test in enumerate((0.80, 0.81, 0.79))}
    rows |= {Cell("cora", "degree", seed): row(test) for seed, test in ((2, 0.82), (0, 0.81))}
    autos = [
        row(0.84, weighting="edges+hops", classifiers=["consistency", "sparse"], label_propagation=True, seconds=5.0),
        row(0.83, weighting="edges+hops", seconds=8.0),
        row(0.82, weighting="degree", seconds=5.0, prior_correction=True),
    ]
    rows |= {Cell("cora", "auto", seed): result for seed, result in enumerate(autos)}
    rows |= {Cell("cora+50%", "auto", seed): row(0.5, noise_auc=auc) for seed, auc in enumerate((0.7, 0.8))}
    rows |= {Cell("cora+50%", "auto", 2): row(0.5), Cell("unheard of", "auto", 0): row(0.1)}
    version = {"version": running.code_version()}
    return {cell: result if cell.method == "degree" else result | version for cell, result in rows.items()}


def test_means_by_hand() -> None:
    tables = tables_of(results())
    assert tables["cells"] == 12
    assert list(tables["graphs"]) == ["cora", "cora+50%"]
    assert list(tables["graphs"]["cora"]) == ["auto", "uniform", "degree"]
    auto = tables["graphs"]["cora"]["auto"]
    half = 4.302653 * 0.01 / np.sqrt(3)
    assert auto["test"] == pytest.approx({"mean": 0.83, "sd": 0.01, "low": 0.83 - half, "high": 0.83 + half, "runs": 3})
    assert auto["validation"] == pytest.approx(0.88)
    assert auto["seconds"] == pytest.approx(6.0)
    assert auto["weighting"] == {"edges+hops": 2, "degree": 1}
    assert auto["classifiers"] == {"consistency + sparse": 1, "consistency": 2}
    assert auto["label_propagation"] == 1
    assert (auto["prior_corrected"], auto["versions"]) == (1, [running.code_version()])
    assert tables["graphs"]["cora"]["degree"]["versions"] == ["older"]
    assert auto["n_test"] == 1000
    assert auto["labels"]["validation"] == 500
    assert "noise_auc" not in auto
    assert tables["graphs"]["cora+50%"]["auto"]["noise_auc"] == pytest.approx(0.75)


def test_differences_are_paired_by_seed() -> None:
    graphs = tables_of(results())["graphs"]
    against = graphs["cora"]["auto"]["against uniform"]  # 0.04, 0.02, 0.03: t = 3 √3 with two degrees of freedom
    assert against["gain"] == pytest.approx(0.03)
    assert against["p"] == pytest.approx(1 - np.sqrt(27 / (27 + 2)), rel=1e-6)
    assert against["runs"] == 3
    degree = graphs["cora"]["auto"]["against degree"]  # seeds 0 and 2 only: 0.03 and 0, t = 1 with one
    assert degree["gain"] == pytest.approx(0.015)
    assert degree["p"] == pytest.approx(0.5)
    assert degree["runs"] == 2
    assert graphs["cora"]["uniform"]["against uniform"] == {"gain": 0.0, "p": None, "runs": 3}
    assert "against uniform" not in graphs["cora+50%"]["auto"]


def test_the_report_contains_the_tables(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    for cell, result in results().items():
        with (tmp_path / "weights" / f"{cell.graph}.jsonl").open("a") as file:
            key = {"graph": cell.graph, "method": cell.method, "seed": cell.seed}
            file.write(json.dumps(key | result) + "\n")
    tables = write_report(tmp_path)
    assert json.loads((tmp_path / "weights.json").read_text()) == tables == tables_of(results())
    version = running.code_version()
    lines = (tmp_path / "weights.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## All graphs", "## cora", "## cora+50%"]
    # The smaller gain: 3 points over uniform with three seeds, 1.5 over degree with the two that both have.
    assert "| cora |  | 80.0 | 81.5 |  |  |  |  | 83.0 | +1.5 |" in lines
    assert "| cora+50% |  |  |  |  |  |  |  | 50.0 |  |" in lines
    assert "1,000 test nodes, 140 training labels, 500 validation labels." in lines
    assert HEAD in lines  # no empty column
    assert f"| uniform | 80.0 ± 1.0 (3) |  | -2.0 (p = 0.295) |  | consistency 3 |  | 2 | {version} |" in lines
    assert any(line.startswith("| degree |") and line.endswith("| older |") for line in lines)
    assert (
        "| auto | 83.0 ± 1.0 (3) | +3.0 (p = 0.035) | +1.5 (p = 0.500) | edges+hops 2, degree 1 "
        f"| consistency + sparse 1, consistency 2; label propagation 1 | 1 | 6 | {version} |"
    ) in lines
    assert f"| auto | 50.0 ± 0.0 (3) | degree 3 | consistency 3 | 0.75 | 2 | {version} |" in lines
    assert sorted(file.name for file in tmp_path.iterdir()) == ["weights", "weights.json", "weights.md"]


def test_a_single_seed_and_a_small_p(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    rows = {Cell("pubmed", "uniform", seed): row(0.5 + 0.001 * seed) for seed in range(4)}
    rows |= {Cell("pubmed", "degree", seed): row(0.7 + 0.0011 * seed) for seed in range(4)}
    rows |= {Cell("actor", "uniform", 0): row(0.3), Cell("actor", "degree", 0): row(0.4)}
    for cell, result in rows.items():
        with (tmp_path / "weights" / f"{cell.graph}.jsonl").open("a") as file:
            file.write(stored(cell, **result))
    write_report(tmp_path)
    text = (tmp_path / "weights.md").read_text()
    assert "| degree | 40.0 (1) | consistency 1 |" in text
    assert "+20.0 (p < 0.001)" in text
