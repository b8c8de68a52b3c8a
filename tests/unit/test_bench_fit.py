"""`cge bench fit`: its tasks, what they are compared with, and one of them from start to report."""

import json

import pytest

import cge
from benchmarks import fit, session
from benchmarks.harness import Row
from cge.estimators.configs import make_estimator
from cge.estimators.graph_networks import GCN
from cge.estimators.paper_cge import PaperCGE
from cge.estimators.settings import check_settings
from cge.training.paper_inner import InnerTraining
from cge.training.paper_outer import PathWeightLearner
from cge.training.paper_training import Trainer
from tests.unit.bench_children import run_in_process

METHODS = ["gcn", "pyg gcn", "sgc", "label propagation", "deepwalk", "cge", "cge degree", "grand"]
WITHOUT_FEATURES = ["label propagation", "deepwalk", "cge", "cge degree", "grand"]


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Replace the measurement; return the list of measured benchmarks, tasks and jobs. GCN takes 2 s and 100 MB."""
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    calls = []

    def measure_one(bench, task, _limit):
        calls.append((bench, task, task.job()))
        return Row(task.case, task.tool, task.n_jobs, 1e3, task.unit, 100.0, seconds=2.0)

    monkeypatch.setattr(session, "_measure", measure_one)
    return calls


def test_both_kinds_are_one_json_object(measured, capsys):
    assert fit.main(["--json", "--jobs", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    cases = {unit: [row["case"] for row in result["rows"] if row["unit"] == unit] for unit in ("pairs/s", "nodes/s")}
    weightings = [
        f"{setting} {name}" for setting in ("transductive", "inductive") for name in ("average", "cnn", "lstm")
    ]
    assert result["bench"] == "fit"
    assert cases["pairs/s"] == [
        f"{case} {weighting}" for case in ("cora", "citeseer", "pubmed", "nell") for weighting in weightings
    ]
    with_features = [f"{case} {method}" for case in ("cora", "citeseer", "pubmed") for method in METHODS]
    assert cases["nodes/s"] == [*with_features, *(f"les-miserables {method}" for method in WITHOUT_FEATURES)]
    assert [bench for bench, _, _ in measured] == ["fit"] * 24 + ["fit_methods"] * 29
    nell = measured[23][2]
    assert nell == {"data": "nell-0.1", "setting": "inductive", "weighting": "lstm", "seed": 0}


def test_a_kind_without_the_case_measures_nothing(measured, tmp_path, capsys):
    saving = ["--save", "--results", str(tmp_path / "results")]
    assert fit.main(["--jobs", "1", "--cases", "nell-0.01", *saving]) == 0
    assert [(bench, task.case) for bench, task, _ in measured] == [
        ("fit_methods", f"nell-0.01 {method}") for method in METHODS if method != "pyg gcn"
    ]
    assert {job["data"] for _, _, job in measured} == {"nell-0.01"}
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "bench-fit_methods.json",
        "bench-fit_methods.md",
    ]
    assert "M nodes/s" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        fit.main(["--kinds", "methods", "--cases", "nell"])
    assert "--kinds methods has none of the cases nell" in capsys.readouterr().err


def test_methods_are_compared_with_gcn_on_as_many_threads(measured, monkeypatch):
    measure = session._measure

    def measure_one(bench, task, limit):
        row = measure(bench, task, limit)
        return Row(**vars(row) | {"seconds": 2.0 * task.n_jobs, "peak_mb": 100.0 + task.n_jobs})

    monkeypatch.setattr(session, "_measure", measure_one)
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora,pubmed", "--jobs", "1,2"]) == 0
    gcn = {(task.case, task.n_jobs): job["gcn"] for _, task, job in measured}
    for n_jobs in (1, 2):
        for case in ("cora", "pubmed"):
            compared = [gcn[f"{case} {method}", n_jobs] for method in METHODS]
            assert compared == [None, *[{"seconds": 2.0 * n_jobs, "peak_mb": 100.0 + n_jobs}] * 7]


def test_without_a_number_of_gcn_there_is_no_ratio(measured, monkeypatch):
    def measure_one(bench, task, _limit):
        measured.append((bench, task, task.job()))
        return Row(task.case, task.tool, task.n_jobs, None, task.unit, note="crashed with SIGKILL")

    monkeypatch.setattr(session, "_measure", measure_one)
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1"]) == 0
    assert [job["gcn"] for _, _, job in measured] == [None] * 8


def test_a_resumed_run_compares_with_the_gcn_it_has(measured, monkeypatch):
    quick = ["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1"]
    measure = session._measure

    def interrupted(bench, task, limit):
        if task.case == "cora cge degree":
            raise KeyboardInterrupt
        return measure(bench, task, limit)

    monkeypatch.setattr(session, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit.main(quick)
    monkeypatch.setattr(session, "_measure", measure)
    assert fit.main([*quick, "--resume"]) == 0
    assert [task.case for _, task, _ in measured] == [f"cora {method}" for method in METHODS]
    assert measured[-1][2]["gcn"] == {"seconds": 2.0, "peak_mb": 100.0}


def test_methods_have_as_many_hidden_units():
    kinds = {"CGE": cge.CGE, "GCN": GCN}
    assert list(fit._METHODS) == METHODS
    ours = {name: method for name, method in fit._METHODS.items() if method[0] in kinds}
    estimators = {name: make_estimator(kinds[kind], settings) for name, (kind, settings) in ours.items()}
    assert estimators["gcn"].hidden == 32
    assert estimators["grand"].dim == 32
    assert estimators["cge"].get_params() == cge.CGE().get_params()
    for estimator in estimators.values():
        check_settings(estimator)


def test_a_limit_of_epochs_is_noted(measured):
    assert fit.main(["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1", "--max-epochs", "2"]) == 0
    assert {task.note for _, task, _ in measured} == {"at most 2 epochs"}
    assert {job["max_epochs"] for _, _, job in measured} == {2}


def test_methods_are_measured_from_start_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(session, "run_child", run_in_process)
    monkeypatch.setattr(fit, "_METHODS", {name: fit._METHODS[name] for name in ("gcn", "pyg gcn", "grand")})
    quick = ["--json", "--kinds", "methods", "--cases", "cora", "--jobs", "1", "--max-epochs", "2", "--repeats", "2"]
    assert fit.main(quick) == 0
    gcn, _, grand = json.loads(capsys.readouterr().out)["rows"]
    for row in (gcn, grand):
        assert row["value"] * row["seconds"] == pytest.approx(2708), row
        assert row["peak_mb"] > 10
        assert row["details"]["repeats"] == 2
        assert 0 < row["details"]["validation"] < 1
        assert 0 < row["details"]["test"] < 1
        assert "at most 2 epochs" in row["note"]
    assert "times_gcn" not in gcn["details"]
    assert grand["details"]["times_gcn"] == pytest.approx(grand["seconds"] / gcn["seconds"])
    assert grand["details"]["memory_times_gcn"] == pytest.approx(grand["peak_mb"] / gcn["peak_mb"])
    selected = grand["details"]
    assert (selected["weighting"], selected["epochs"], selected["candidates"]) == ("uniform", 2, 0)


@pytest.mark.filterwarnings("ignore::cge.CgeWarning")
def test_the_paper_is_measured_from_start_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(session, "run_child", run_in_process)
    monkeypatch.setattr(fit, "_SETTINGS", ("transductive",))
    monkeypatch.setattr(fit, "_WEIGHTINGS", ("average",))
    for owner, names in (
        (Trainer, ("__init__", "_validate", "_path_loss")),
        (InnerTraining, ("train_paths", "train_head")),
        (PathWeightLearner, ("update_weights", "batch_weights", "step")),
    ):
        for name in names:  # the script replaces them: restore them afterwards
            monkeypatch.setattr(owner, name, getattr(owner, name))
    small = {"pretrain": 1, "max_epochs": 1}
    monkeypatch.setattr(cge, "PaperCGE", lambda *args, training, **more: PaperCGE(*args, training=small, **more))
    assert fit.main(["--json", "--kinds", "paper", "--cases", "cora", "--jobs", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    details = row["details"]
    assert row["case"] == "cora transductive average"
    assert row["value"] * row["seconds"] > 100_000  # pairs
    assert set(details["profile"]) == {"setup", "paths", "head", "path weights", "outer problem", "validation"}
    assert 0.5 * row["seconds"] < sum(details["profile"].values()) <= row["seconds"] + 0.01
    assert details["epochs"] == 2
    assert f"{details['times_uniform']:.2f} × uniform weights; test accuracy {details['accuracy']:.3f}, " in row["note"]
