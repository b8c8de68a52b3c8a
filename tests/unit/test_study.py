"""The study of weights: its cells, its random edges, its tables."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.errors import FileFormatError, InputError, MissingDataError
from studies import cells as running
from studies import weights
from studies.cells import Cell, read_cells, run_cells
from studies.weights import GRAPHS, METHODS, with_random_edges
from studies.weights_report import tables_of, write_report


def double(cell: Cell) -> dict[str, Any]:
    if cell.graph == "gone":
        raise MissingDataError("gone is not on this machine")
    if cell.method == "fails":
        raise ValueError(f"{cell} must not run")
    return {"twice": 2 * cell.seed}


def kept(cell: Cell, **facts: Any) -> str:
    return json.dumps({"graph": cell.graph, "method": cell.method, "seed": cell.seed} | facts) + "\n"


# ---------------------------------------------------------------------- running cells


def test_cells_run_in_processes_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cells"
    wanted = [Cell("a", "x", 1), Cell("b", "x", 2)]
    run_cells(wanted, asdict, folder, jobs=1)
    assert (folder / "a.jsonl").read_text() == kept(wanted[0])
    assert (folder / "b.jsonl").read_text() == kept(wanted[1])


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run cells in threads: what is tested is not where."""
    monkeypatch.setattr(running, "ProcessPoolExecutor", lambda jobs, *_: ThreadPoolExecutor(jobs))


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("jobs", [1, 3])
def test_cells_that_are_done_do_not_run_again(tmp_path: Path, jobs: int) -> None:
    done = Cell("b", "fails", 0)
    (tmp_path / "b.jsonl").write_text(kept(done, twice="by hand"))
    wanted = [Cell("a", "x", 1), done, Cell("b", "x", 2), Cell("a", "x", 1)]
    seen = []
    run_cells(
        wanted, double, tmp_path, jobs, on_done=lambda cell, row, number: seen.append((cell, row["twice"], number))
    )
    assert sorted(one[:2] for one in seen) == [(Cell("a", "x", 1), 2), (Cell("b", "x", 2), 4)]
    assert [one[2] for one in seen] == [2, 3]  # of three, one of which was there
    assert (tmp_path / "a.jsonl").read_text() == kept(wanted[0], twice=2)
    assert (tmp_path / "b.jsonl").read_text() == kept(done, twice="by hand") + kept(wanted[2], twice=4)
    run_cells([*wanted, Cell("a", "x", 5)], double, tmp_path, jobs)
    assert (tmp_path / "a.jsonl").read_text() == kept(wanted[0], twice=2) + kept(Cell("a", "x", 5), twice=10)


@pytest.mark.usefixtures("at_hand")
def test_missing_data_are_passed_over(tmp_path: Path) -> None:
    wanted = [Cell("gone", "x", 0), Cell("a", "x", 1), Cell("gone", "y", 0)]
    assert run_cells(wanted, double, tmp_path, jobs=1) == {"gone": "gone is not on this machine"}
    assert list(read_cells(tmp_path)) == [wanted[1]]
    assert run_cells(wanted[1:2], double, tmp_path, jobs=1) == {}


@pytest.mark.usefixtures("at_hand")
def test_nothing_left_is_nothing_run(tmp_path: Path) -> None:
    done = Cell("b", "fails", 0)
    (tmp_path / "b.jsonl").write_text(kept(done))
    run_cells([done], double, tmp_path, jobs=4)
    run_cells([], double, tmp_path / "none", jobs=4)
    assert (tmp_path / "b.jsonl").read_text() == kept(done)
    assert read_cells(tmp_path / "none") == {}


@pytest.mark.usefixtures("at_hand")
def test_an_error_is_raised_and_what_was_done_stays(tmp_path: Path) -> None:
    good, bad = Cell("a", "x", 1), Cell("a", "fails", 2)
    run_cells([good], double, tmp_path, jobs=1)
    with pytest.raises(ValueError, match="a/fails/2 must not run"):
        run_cells([good, bad], double, tmp_path, jobs=1)
    assert (tmp_path / "a.jsonl").read_text() == kept(good, twice=2)


@pytest.mark.parametrize("line", ['{"graph": "a", "meth', "[1, 2]", '{"graph": "a", "seed": 1}', "", '"text"', "3"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(kept(Cell("a", "x", 1)) + line + "\n")
    with pytest.raises(FileFormatError, match="no result; remove the line") as raised:
        run_cells([Cell("a", "fails", 0)], double, tmp_path, jobs=1)
    assert (raised.value.path, raised.value.line) == (file, 2)


def test_a_line_that_was_cut_is_run_again(tmp_path: Path) -> None:
    first, second = Cell("a", "x", 1), Cell("a", "x", 2)
    run_cells([first, second], double, tmp_path, jobs=1)
    file = tmp_path / "a.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    assert read_cells(tmp_path).keys() == {first}
    run_cells([first, second], double, tmp_path, jobs=1)
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
    file.write_bytes(b"\xff\n")
    with pytest.raises(FileFormatError, match=r"line 1: this is no result; remove the line"):
        read_cells(tmp_path)


def test_cells_are_read_from_all_graphs_and_the_last_line_of_a_cell_counts(tmp_path: Path) -> None:
    one, other = Cell("a", "x", 1), Cell("b+50%", "x, y", 0)
    (tmp_path / "a.jsonl").write_text(kept(one, test=0.1) + kept(one, test=0.2))
    (tmp_path / "b+50%.jsonl").write_text(kept(other, test=0.3))
    (tmp_path / "notes.txt").write_text("no result")
    assert {cell: row["test"] for cell, row in read_cells(tmp_path).items()} == {one: 0.2, other: 0.3}
    assert str(other) == "b+50%/x, y/0"
    assert sorted([Cell("b", "a", 0), Cell("a", "b", 1), Cell("a", "b", 0)])[0] == Cell("a", "b", 0)


# ---------------------------------------------------------------------- which cells there are


@pytest.fixture
def bare_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all graphs have features but one."""

    def dataset(graph: str) -> Any:
        return SimpleNamespace(graph=SimpleNamespace(features=None if graph == "vispub" else np.eye(2)))

    monkeypatch.setattr(weights, "_dataset", dataset)


MAIN = ("auto", "none", "degree", "cosine", "edges", "steps", "lstm", "features only")


@pytest.mark.usefixtures("bare_graphs")
def test_the_whole_study() -> None:
    found = list(weights.cells(None, 2))
    without = ("cosine", "features only")
    expected = {
        Cell(graph, method, seed)
        for graph in GRAPHS
        for method in MAIN
        for seed in (0, 1)
        if not (graph == "vispub" and method in without)
    }
    assert set(found) == expected
    assert len(found) == len(expected)
    assert [cell.seed for cell in found] == sorted(cell.seed for cell in found)
    assert list(weights.cells("*", 2)) == found


@pytest.mark.usefixtures("bare_graphs")
def test_parts_of_the_study() -> None:
    assert list(weights.cells("cora/steps", 3)) == [Cell("cora", "steps", seed) for seed in range(3)]
    assert list(weights.cells("cora+50%", 1)) == [Cell("cora+50%", method, 0) for method in MAIN]
    assert list(weights.cells("*/auto", 1)) == [Cell(graph, "auto", 0) for graph in GRAPHS]
    assert list(weights.cells("vispub/cosine", 5)) == []
    ablation = [cell.method for cell in weights.cells("cora/ablation", 1)]
    attempts = [cell.method for cell in weights.cells("cora/attempts", 1)]
    assert sorted(ablation + attempts) == sorted(name for name in METHODS if "," in name or name == "closed forms")
    assert all(name.startswith("steps, ") for name in attempts if name != "closed forms")
    assert "sampled, alike" in ablation
    assert list(weights.cells("cora", 0)) == []


@pytest.mark.parametrize(
    ("only", "says"), [("core", "no graph 'core'; it has cora"), ("cora/stops", "no method 'stops'"), ("/auto", "''")]
)
def test_what_the_study_has_not_is_refused(only: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(weights.cells(only, 1))


# ---------------------------------------------------------------------- random edges


def ring(size: int = 60) -> cge.Graph:
    edges = [(node, (node + step) % size) for node in range(size) for step in (1, 2)]
    return cge.Graph.from_edges(edges, num_nodes=size + 1, features=sp.csr_array(np.eye(size + 1)))


def pairs_of(graph: cge.Graph) -> set[tuple[int, int]]:
    return {(u, v) for u, v in np.argwhere(graph.to_scipy().toarray()).tolist() if u <= v}


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_random_edges_are_new_and_all_others_stay(share: float) -> None:
    graph = ring()
    noisy, fresh = with_random_edges(graph, share, seed=1)
    assert all(0 <= u < v <= 60 for u, v in fresh)
    assert not fresh & pairs_of(graph)
    assert pairs_of(noisy) == pairs_of(graph) | fresh
    assert 0.6 * share * 120 < len(fresh) <= share * 120
    assert noisy.num_nodes == graph.num_nodes
    assert not noisy.directed
    assert (noisy.features != graph.features).nnz == 0  # type: ignore[union-attr]


def test_random_edges_follow_from_the_seed() -> None:
    first, again, other = (with_random_edges(ring(), 1.0, seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert len(first & other) < 0.5 * len(first)


def test_random_edges_join_all_nodes_alike() -> None:
    ends = np.array(sorted(with_random_edges(ring(), 10.0, seed=0)[1])).ravel()
    count = np.bincount(ends, minlength=61)
    assert count.min() > 0.4 * count.mean()
    assert count.max() < 2 * count.mean()


def test_no_random_edges_are_none() -> None:
    noisy, fresh = with_random_edges(ring(), 0.0, seed=0)
    assert fresh == set()
    assert pairs_of(noisy) == pairs_of(ring())


# ---------------------------------------------------------------------- tables


def row(test: float, **changed: Any) -> dict[str, Any]:
    return {
        "test": test,
        "validation": test + 0.05,
        "n_test": 1000,
        "labels": {"train": 140, "outer": 0, "selection": 500},
        "weights": "degree",
        "classifiers": ["consistency"],
        "votes": False,
        "cpu_seconds": 2.0,
    } | changed


def results() -> dict[Cell, dict[str, Any]]:
    found = {Cell("cora", "none", seed): row(test) for seed, test in enumerate((0.80, 0.81, 0.79))}
    found |= {Cell("cora", "degree", seed): row(test) for seed, test in ((2, 0.82), (0, 0.81))}
    autos = [
        row(0.84, weights="steps", classifiers=["consistency", "sparse"], votes=True, cpu_seconds=5.0),
        row(0.83, weights="steps", cpu_seconds=8.0),
        row(0.82, weights="degree", cpu_seconds=5.0),
    ]
    found |= {Cell("cora", "auto", seed): one for seed, one in enumerate(autos)}
    found |= {Cell("cora+50%", "auto", seed): row(0.5, noise_auc=auc) for seed, auc in enumerate((0.7, 0.8))}
    return found | {Cell("cora+50%", "auto", 2): row(0.5), Cell("unheard of", "auto", 0): row(0.1)}


def test_tables_by_hand() -> None:
    tables = tables_of(results())
    assert tables["cells"] == 12
    assert list(tables["graphs"]) == ["cora", "cora+50%"]
    assert list(tables["graphs"]["cora"]) == ["auto", "none", "degree"]
    auto = tables["graphs"]["cora"]["auto"]
    half = 4.302653 * 0.01 / np.sqrt(3)
    assert auto["test"] == pytest.approx({"mean": 0.83, "sd": 0.01, "low": 0.83 - half, "high": 0.83 + half, "runs": 3})
    assert auto["validation"] == pytest.approx(0.88)
    assert auto["cpu_seconds"] == pytest.approx(6.0)
    assert auto["chosen"] == {"steps": 2, "degree": 1}
    assert auto["classifiers"] == {"deep + sparse": 1, "consistency": 2}
    assert auto["votes"] == 1
    assert auto["n_test"] == 1000
    assert auto["labels"]["selection"] == 500
    assert "noise_auc" not in auto
    assert tables["graphs"]["cora+50%"]["auto"]["noise_auc"] == pytest.approx(0.75)


def test_differences_are_paired_by_seed() -> None:
    graphs = tables_of(results())["graphs"]
    against = graphs["cora"]["auto"]["against none"]  # 0.04, 0.02, 0.03: t = 3 √3 with two degrees of freedom
    assert against["gain"] == pytest.approx(0.03)
    assert against["p"] == pytest.approx(1 - np.sqrt(27 / (27 + 2)), rel=1e-6)
    assert against["runs"] == 3
    degree = graphs["cora"]["auto"]["against degree"]  # seeds 0 and 2 only: 0.03 and 0, t = 1 with one
    assert degree["gain"] == pytest.approx(0.015)
    assert degree["p"] == pytest.approx(0.5)
    assert degree["runs"] == 2
    assert graphs["cora"]["none"]["against none"] == {"gain": 0.0, "p": None, "runs": 3}
    assert "against none" not in graphs["cora+50%"]["auto"]


def test_the_report_says_what_the_tables_hold(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    for cell, facts in results().items():
        with (tmp_path / "weights" / f"{cell.graph}.jsonl").open("a") as file:
            file.write(kept(cell, **facts))
    tables = write_report(tmp_path)
    assert json.loads((tmp_path / "weights.json").read_text()) == tables == tables_of(results())
    lines = (tmp_path / "weights.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## All graphs", "## cora", "## cora+50%"]
    # Over the better one: 3 points over A ≡ 1 with three seeds, 1.5 over degree with the two that both have.
    assert "| cora |  | 80.0 | 81.5 |  |  |  |  | 83.0 |  | +1.5 |" in lines
    assert "| cora+50% |  |  |  |  |  |  |  | 50.0 |  |  |" in lines
    assert "1,000 test nodes; 140 labels train, 500 choose." in lines
    assert "| method | test | against A ≡ 1 | against degree | chosen | readers | CPU s |" in lines  # no empty column
    assert "| A ≡ 1 (none) | 80.0 ± 1.0 (3) |  | -2.0 (p = 0.295) |  | deep 3 | 2 |" in lines
    assert (
        "| auto | 83.0 ± 1.0 (3) | +3.0 (p = 0.035) | +1.5 (p = 0.500) | steps 2, degree 1 "
        "| deep + sparse 1, deep 2; labels vote 1 | 6 |"
    ) in lines
    assert "| auto | 50.0 ± 0.0 (3) | degree 3 | deep 3 | 0.75 | 2 |" in lines
    assert sorted(one.name for one in tmp_path.iterdir()) == ["weights", "weights.json", "weights.md"]


def test_a_single_seed_has_no_deviation_and_a_small_p_is_not_spelled_out(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    found = {Cell("pubmed", "none", seed): row(0.5 + 0.001 * seed) for seed in range(4)}
    found |= {Cell("pubmed", "degree", seed): row(0.7 + 0.0011 * seed) for seed in range(4)}
    found |= {Cell("actor", "none", 0): row(0.3), Cell("actor", "degree", 0): row(0.4)}
    for cell, facts in found.items():
        with (tmp_path / "weights" / f"{cell.graph}.jsonl").open("a") as file:
            file.write(kept(cell, **facts))
    write_report(tmp_path)
    text = (tmp_path / "weights.md").read_text()
    assert "| degree | 40.0 (1) | deep 1 |" in text
    assert "+20.0 (p < 0.001)" in text
