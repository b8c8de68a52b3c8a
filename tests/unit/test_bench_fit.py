"""`cge bench fit`: which runs it asks for, what they are compared with, and one of them from start to report."""

import json
import sys
from pathlib import Path

import pytest

import cge
from cge.estimators.graph_networks import GCN

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import fit, session  # noqa: E402
from benchmarks.harness import Row  # noqa: E402

METHODS = ["gcn", "paths auto", "paths degree", "grand"]


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Replace the measurement; return what is asked for: benchmark, task and job. GCN takes 2 s and 100 MB."""
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    asked = []

    def measure_one(bench, task, _limit):
        asked.append((bench, task, task.job()))
        return Row(task.case, task.tool, task.n_jobs, 1e3, task.unit, 100.0, seconds=2.0)

    monkeypatch.setattr(session, "_measure", measure_one)
    return asked


def test_both_kinds_are_one_json_object_and_nell_with_few_labels_is_left_out(measured, capsys):
    assert fit.main(["--json", "--jobs", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    cases = {unit: [row["case"] for row in told["rows"] if row["unit"] == unit] for unit in ("pairs/s", "nodes/s")}
    weightings = [f"{encoder} {one}" for encoder in ("table", "features") for one in ("average", "cnn", "lstm")]
    assert told["bench"] == "fit"
    assert cases["pairs/s"] == [
        f"{case} {one}" for case in ("cora", "citeseer", "pubmed", "nell") for one in weightings
    ]
    assert cases["nodes/s"] == [f"{case} {one}" for case in ("cora", "pubmed") for one in METHODS]
    assert [bench for bench, _, _ in measured] == ["fit"] * 24 + ["fit_methods"] * 8
    nell = measured[23][2]
    assert nell == {"data": "nell-0.1", "encoder": "features", "weighting": "lstm", "seed": 0}


def test_a_kind_without_the_case_measures_nothing(measured, tmp_path, capsys):
    saving = ["--save", "--results", str(tmp_path / "results")]
    assert fit.main(["--jobs", "1", "--cases", "nell-0.01", *saving]) == 0
    assert [(bench, task.case) for bench, task, _ in measured] == [
        ("fit_methods", f"nell-0.01 {one}") for one in METHODS
    ]
    assert {job["data"] for _, _, job in measured} == {"nell-0.01"}
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "bench-fit_methods.json",
        "bench-fit_methods.md",
    ]
    assert "M nodes/s" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        fit.main(["--kinds", "methods", "--cases", "citeseer"])
    assert "--kinds methods has none of the cases citeseer" in capsys.readouterr().err


def test_methods_are_told_what_gcn_took_on_as_many_threads(measured, monkeypatch):
    whole = session._measure

    def measure_one(bench, task, limit):
        row = whole(bench, task, limit)
        return Row(**vars(row) | {"seconds": 2.0 * task.n_jobs, "peak_mb": 100.0 + task.n_jobs})

    monkeypatch.setattr(session, "_measure", measure_one)
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora,pubmed", "--jobs", "1,2"]) == 0
    gcn = {(task.case, task.n_jobs): job["gcn"] for _, task, job in measured}
    for n_jobs in (1, 2):
        for case in ("cora", "pubmed"):
            found = [gcn[f"{case} {method}", n_jobs] for method in METHODS]
            assert found == [None, *[{"seconds": 2.0 * n_jobs, "peak_mb": 100.0 + n_jobs}] * 3]


def test_without_a_number_of_gcn_there_is_no_ratio(measured, monkeypatch):
    def measure_one(bench, task, _limit):
        measured.append((bench, task, task.job()))
        return Row(task.case, task.tool, task.n_jobs, None, task.unit, note="crashed with SIGKILL")

    monkeypatch.setattr(session, "_measure", measure_one)
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1"]) == 0
    assert [job["gcn"] for _, _, job in measured] == [None] * 4


def test_a_resumed_run_compares_with_the_gcn_it_has(measured, monkeypatch):
    quick = ["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1"]
    whole = session._measure

    def cut_off(bench, task, limit):
        if task.case == "cora paths degree":
            raise KeyboardInterrupt
        return whole(bench, task, limit)

    monkeypatch.setattr(session, "_measure", cut_off)
    with pytest.raises(KeyboardInterrupt):
        fit.main(quick)
    monkeypatch.setattr(session, "_measure", whole)
    assert fit.main([*quick, "--resume"]) == 0
    assert [task.case for _, task, _ in measured] == [f"cora {one}" for one in METHODS]
    assert measured[-1][2]["gcn"] == {"seconds": 2.0, "peak_mb": 100.0}


def test_methods_are_equally_wide():
    made = {name: {"CGE": cge.CGE, "GCN": GCN}[kind](**settings) for name, (kind, settings) in fit._METHODS.items()}
    assert list(made) == METHODS
    assert made["gcn"].hidden == 32
    assert made["grand"].dim == 32
    assert made["paths auto"].get_params() == cge.CGE().get_params()


def test_a_trial_says_so(measured):
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1", "--max-epochs", "2"]) == 0
    assert {task.note for _, task, _ in measured} == {"a trial of 2 epochs at most"}
    assert {job["max_epochs"] for _, _, job in measured} == {2}


@pytest.mark.slow
def test_methods_are_measured_from_start_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fit, "_METHODS", {name: fit._METHODS[name] for name in ("gcn", "grand")})
    quick = ["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1", "--max-epochs", "2", "--repeats", "2"]
    assert fit.main(quick) == 0
    gcn, grand = json.loads(capsys.readouterr().out)["rows"]
    for row in (gcn, grand):
        assert row["value"] * row["seconds"] == pytest.approx(2708), row
        assert row["peak_mb"] > 10
        assert row["facts"]["repeats"] == 2
        assert 0 < row["facts"]["validation"] < 1
        assert 0 < row["facts"]["test"] < 1
        assert "a trial of 2 epochs at most" in row["note"]
    assert "times_gcn" not in gcn["facts"]
    assert grand["facts"]["times_gcn"] == pytest.approx(grand["seconds"] / gcn["seconds"])
    assert grand["facts"]["memory_times_gcn"] == pytest.approx(grand["peak_mb"] / gcn["peak_mb"])
    assert (grand["facts"]["weights"], grand["facts"]["epochs"], grand["facts"]["compared"]) == ("none", 2, 0)
