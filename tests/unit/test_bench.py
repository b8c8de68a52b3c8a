"""Benchmarks: children that fail in every way, ratios, tables, saved files, the journal. No peer is installed."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

import measure  # noqa: E402

from benchmarks import environments, graphs, harness, load, report, session, skipgram, walks  # noqa: E402
from benchmarks.harness import Journal, Row, run_child  # noqa: E402
from cge.cli.checkout import BENCHMARKS, STUDIES  # noqa: E402
from cge.errors import InputError  # noqa: E402
from studies import registry  # noqa: E402

ROWS = [
    Row("cora uniform", "cge", 1, 90e6, "steps/s", 200.4, 100e6),
    Row("cora uniform", "quick", 1, 30e6, "steps/s", 1234.0, 31e6),
    Row("cora uniform", "slow", 1, 0.5e6, "steps/s", 50.0, note="a|b"),
    Row("cora uniform", "broken", 1, None, "steps/s", note="crashed with SIGILL"),
    Row("cora uniform", "cge", 2, 150e6, "steps/s", 210.0),
    Row("cora uniform", "slow", 2, 0.9e6, "steps/s", 50.0),
    Row("npm uniform", "cge", 1, 60e6, "steps/s", 300.0),
]


@pytest.fixture
def child(tmp_path):
    def run(body, limit=20.0, n_jobs=None, **job):
        script = tmp_path / "child.py"
        script.write_text("import json, os, signal, sys, time\njob = json.loads(sys.argv[1])\n" + body)
        return run_child(sys.executable, script, job, limit, n_jobs)

    return run


def test_the_report_is_the_last_printed_line(child):
    outcome = child("print('hello')\nprint(json.dumps({'work': job['n'] * 2}))", n=21)
    assert outcome.report == {"work": 42}
    assert outcome.problem == ""


def test_a_child_is_restricted_to_its_cores(child):
    outcome = child("print(json.dumps([len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']]))", n_jobs=1)
    assert outcome.problem == "ended without a report"  # a list is no report
    outcome = child("print(json.dumps({'cores': len(os.sched_getaffinity(0))}))", n_jobs=1)
    assert outcome.report == {"cores": 1}


def test_a_crash_is_reported_with_its_signal(child):
    assert child("os.kill(os.getpid(), signal.SIGILL)").problem == "crashed with SIGILL"


def test_an_error_is_reported_by_its_last_line_without_paths(child):
    outcome = child("open('/no/such/folder/file.npz')")
    assert outcome.problem.startswith("failed: FileNotFoundError")
    assert "…/file.npz" in outcome.problem
    assert "such" not in outcome.problem.split("directory: ")[1]


def test_a_child_without_output_has_no_report(child):
    assert child("pass").problem == "ended without a report"
    assert child("print('done')").problem == "ended without a report"


def test_the_time_limit_ends_a_child(child):
    outcome = child("time.sleep(60)", limit=0.3)
    assert outcome.report is None
    assert outcome.problem == "stopped at the time limit of 0.3 s"


def test_processes_of_a_child_end_with_it(child):
    body = "import subprocess\nprint(json.dumps({'pid': subprocess.Popen(['sleep', '60']).pid}))"
    outcome = child(body)  # ends by itself, but its own child does not
    assert outcome.report is not None
    status = Path(f"/proc/{outcome.report['pid']}/stat")
    deadline = time.monotonic() + 10
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the grandchild still runs"
        time.sleep(0.01)


def test_rates_come_from_wall_and_cpu_seconds():
    result = {"work": 100, "seconds": 2.0, "cpu_seconds": 4.0, "peak_mb": 7.0, "walks": 3, "note": "b"}
    row = harness.finished("c", "t", 2, "x/s", result, "a")
    assert (row.value, row.per_cpu_second, row.peak_mb, row.note) == (50.0, 25.0, 7.0, "a; b")
    assert row.details == {"walks": 3}


def test_the_best_peer_used_at_most_as_many_threads():
    assert [harness.ratio(ROWS, row) for row in ROWS] == [3.0, 1.0, 1 / 60, None, 5.0, 0.03, None]
    best = harness.best_peer(ROWS, "cora uniform", 2)
    assert best is not None
    assert best.tool == "quick"


def test_json_has_the_agreed_keys_in_every_row():
    result = json.loads(json.dumps(harness.to_json("walks", ROWS)))
    assert result["bench"] == "walks"
    assert len(result["rows"]) == len(ROWS)
    for row in result["rows"]:
        assert {"case", "tool", "n_jobs", "value", "unit", "peak_mb"} <= set(row)
    assert result["rows"][3]["value"] is None
    assert result["rows"][3]["note"] == "crashed with SIGILL"
    assert result["rows"][0]["ratio_to_best_peer"] == 3.0


def test_the_table_shows_millions_ratios_and_notes(capsys):
    report.show("walks", ROWS)
    lines = capsys.readouterr().out.splitlines()
    ours = next(line for line in lines if "cge" in line and "90" in line)
    assert [cell.strip() for cell in ours.split("│")[1:-1]] == ["cora uniform", "cge", "1", "90", "100", "200", "3", ""]
    assert any("crashed with SIGILL" in line for line in lines)


def test_a_partial_run_prints_which_tools_were_not_run(capsys):
    report.show("walks", ROWS, ["numpy", "dgl"])
    assert "not run, so not among the peers: numpy, dgl" in capsys.readouterr().out
    report.show("walks", ROWS)
    assert "not run" not in capsys.readouterr().out


def test_the_load_of_other_processes_is_measured(child, monkeypatch):
    """Other processes use 3 CPU seconds while the child, which uses none, runs for 2 seconds."""
    busy, clock = iter([10.0, 13.0]), iter([100.0, 102.0])
    monkeypatch.setattr(harness, "_busy_seconds", lambda: next(busy))
    monkeypatch.setattr(harness, "_children_seconds", lambda: 5.0)
    monkeypatch.setattr(harness.time, "perf_counter", lambda: next(clock))
    outcome = child("print(json.dumps({'work': 1}))")
    assert outcome.others == 1.5


def test_the_load_of_a_child_is_its_own(child, monkeypatch):
    busy, used = iter([10.0, 13.0]), iter([5.0, 8.0])
    monkeypatch.setattr(harness, "_busy_seconds", lambda: next(busy))
    monkeypatch.setattr(harness, "_children_seconds", lambda: next(used))
    assert child("print(json.dumps({'work': 1}))").others == 0.0
    monkeypatch.setattr(harness, "_busy_seconds", lambda: None)  # a system that does not count them
    monkeypatch.setattr(harness, "_children_seconds", lambda: 0.0)
    assert child("print(json.dumps({'work': 1}))").others is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc/stat")
def test_busy_seconds_grow_with_work():
    before = harness._busy_seconds()
    start = time.process_time()
    while time.process_time() - start < 0.1:
        pass
    assert harness._busy_seconds() - before >= 0.05


def test_saved_files_describe_the_machine(tmp_path):
    data, page = report.save("walks", ROWS, ["cge", "networkx"], tmp_path, ["numpy"])
    assert (data.name, page.name) == ("bench-walks.json", "bench-walks.md")
    result = json.loads(data.read_text())
    assert result["machine"]["cores"] >= 1
    assert result["tools_not_run"] == ["numpy"]
    assert result["machine"]["versions"]["networkx"].startswith("networkx ")
    text = page.read_text()
    assert "| **cora uniform** | **cge** | **1** | **90** |" in text
    assert "a\\|b" in text


def test_saving_a_case_keeps_the_other_rows(tmp_path, monkeypatch, capsys):
    report.save("walks", ROWS, ["cge"], tmp_path, ["numpy"])
    later = [Row("npm uniform", "cge", 1, 70e6, "steps/s", 310.0), Row("npm uniform", "numpy", 1, 7e6, "steps/s")]
    monkeypatch.setattr(report, "datetime", SimpleNamespace(now=lambda _: datetime(2030, 1, 2, tzinfo=UTC)))
    data, page = report.save("walks", later, ["cge", "numpy"], tmp_path, ["dgl"])
    content = json.loads(data.read_text())
    assert [row["case"] for row in content["rows"]] == [*(row.case for row in ROWS), "npm uniform"]
    assert [row["value"] for row in content["rows"]] == [*(row.value for row in ROWS[:-1]), 70e6, 7e6]
    assert [row["date"] == "2030-01-02" for row in content["rows"]] == [False] * 6 + [True] * 2
    assert content["rows"][6]["ratio_to_best_peer"] == 10.0
    assert content["tools_not_run"] == ["dgl"]
    assert page.read_text().count("and 2030-01-02: ") == 1
    assert page.read_text().count("| **npm uniform** |") == 1
    content["machine"]["cores"] += 1
    data.write_text(json.dumps(content))
    with pytest.raises(InputError, match="has rows of another machine; move it away first"):
        report.save("walks", later, ["cge"], tmp_path)
    assert walks.main(["--save", "--results", str(tmp_path)]) == 2  # before anything is measured
    assert "bench-walks.json has rows of another machine; move it away first\n" in capsys.readouterr().err
    assert json.loads(data.read_text()) == content


@pytest.mark.parametrize("file", sorted((ROOT / "results").glob("bench-*.json")), ids=lambda file: file.stem)
def test_stored_pages_are_those_of_the_stored_rows(file):
    content = json.loads(file.read_text())
    rows, name = report.stored_rows(content), file.stem.removeprefix("bench-")
    assert harness.to_json(name, rows)["rows"] == content["rows"]
    page = report.markdown(name, rows, content["machine"], content["tools_not_run"])
    assert page == file.with_suffix(".md").read_text()


def test_a_journal_resumes_and_skips_a_broken_line(tmp_path, capsys):
    path = tmp_path / "deep" / "journal.jsonl"
    first = Journal(path, resume=False)
    for row in ROWS[:2]:
        first.add(row)
    with path.open("a") as file:
        file.write('{"case": "cora un')
    again = Journal(path, resume=True)
    assert again.get(*ROWS[0].key) == ROWS[0]
    assert again.get(*ROWS[2].key) is None
    assert "broken line" in capsys.readouterr().err
    again.add(ROWS[2])
    assert len(path.read_text().splitlines()) == 3
    assert Journal(path, resume=False).get(*ROWS[0].key) is None


def test_an_interrupted_run_continues(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    args = session.options("walks", "", ["cora"], ["cge", "numpy"], 10).parse_args(["--json", "--jobs", "1"])
    measured = []

    def measure_one(_bench, task, _limit):
        measured.append(task.tool)
        if task.tool == "numpy" and len(measured) == 2:
            raise KeyboardInterrupt
        return Row(task.case, task.tool, task.n_jobs, 1e6, task.unit)

    monkeypatch.setattr(session, "_measure", measure_one)
    tasks = [session.Task("cora uniform", tool, 1, "steps/s", dict) for tool in args.tools]
    with pytest.raises(KeyboardInterrupt):
        session.run("walks", tasks, args)
    args.resume = True
    assert session.run("walks", tasks, args) == 0
    assert measured == ["cge", "numpy", "numpy"]
    assert [row["tool"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["cge", "numpy"]


@pytest.mark.parametrize("main", [walks.main, load.main, skipgram.main])
def test_a_data_set_or_peer_that_is_missing_is_a_row(main, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))

    def no_data(_name):
        raise graphs.MissingDataError("npm is not on this machine")

    def no_peer(_python, _arguments):
        raise environments.NotInstalledError("did not install: no such version")

    monkeypatch.setattr(graphs, "_catalog_graph", no_data)
    monkeypatch.setattr(environments, "_pip", no_peer)
    monkeypatch.setattr(environments.venv, "create", lambda *_args, **_kwargs: None)
    assert main(["--json", "--jobs", "1", "--cases", "npm", "--tools", "cge,ensmallen"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["note"] for row in rows} == {"npm is not on this machine", "did not install: no such version"}
    assert all(row["value"] is None for row in rows)


def test_unknown_options(capsys):
    with pytest.raises(SystemExit):
        walks.main(["--tools", "cge,magic"])
    assert "magic is not among cge, numpy" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        walks.main(["--jobs", "0"])


def test_every_tool_has_a_script_and_peers_have_pins():
    scripts = {path.stem for path in (ROOT / "benchmarks" / "peers").glob("*.py")} - {"measure"}
    named = {f"load_{tool}" for tool in load._TOOLS}
    named |= {f"walks_{tool}" for tools in walks._TOOLS.values() for tool in tools}
    named |= {f"skipgram_{tool}" for tools in skipgram._TOOLS.values() for tool in tools}
    assert {script for script in scripts if script.split("_")[0] in ("load", "walks", "skipgram")} == named
    for tool in environments.TOOLS.values():
        assert all("==" in pin for pin in tool.requirements)


def test_commands_list_every_benchmark_and_every_study():
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main(" in path.read_text()}
    assert set(BENCHMARKS) == scripts
    assert len(BENCHMARKS) == len(scripts)
    assert STUDIES == registry.NAMES


def test_the_generated_graph_is_simple_and_skewed():
    source, target = graphs.power_law_edges(2000, 20_000, 0)
    low, high = np.minimum(source, target), np.maximum(source, target)
    assert len(np.unique(low * 2000 + high)) == 20_000
    assert np.all(source != target)
    degrees = np.bincount(np.concatenate([source, target]), minlength=2000)
    assert degrees.min() >= 1
    assert degrees.max() > 10 * np.median(degrees)
    again = graphs.power_law_edges(2000, 20_000, 0)
    assert np.array_equal(source, again[0])
    assert np.array_equal(target, again[1])


def test_files_of_a_graph_agree(tmp_path, monkeypatch):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(graphs, "_NODES", 300)
    monkeypatch.setattr(graphs, "_EDGES", 1000)
    files = graphs.graph_files("powerlaw")
    assert (files.nodes, files.edges) == (300, 1000)
    lines = files.integers.read_text().splitlines()
    named = files.strings.read_text().replace("node-", "").splitlines()
    assert lines == named
    indptr, indices = measure.arrays(str(files.arrays))
    pairs = {tuple(map(int, line.split("\t"))) for line in lines}
    rows = np.repeat(np.arange(300), np.diff(indptr))
    assert {(int(u), int(v)) for u, v in zip(rows, indices, strict=True)} == pairs | {(v, u) for u, v in pairs}
    assert graphs.graph_files("powerlaw", 0.1).edges == 100


def test_steps_that_are_not_edges_are_counted():
    indptr, indices = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32)  # the path 0 - 1 - 2
    steps = np.array([[0, 1, 2, 1], [2, 0, 1, -1]])
    assert measure.wrong_steps(indptr, indices, steps) == (1, 5)
    assert measure.return_rate(np.array([[0, 1, 0, 1], [0, 1, 2, -1]])) == pytest.approx(2 / 3)


def test_a_tool_is_measured_from_start_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(graphs, "_NODES", 300)
    monkeypatch.setattr(graphs, "_EDGES", 1000)
    quick = ["--json", "--jobs", "1", "--cases", "powerlaw", "--kinds", "uniform", "--seconds", "0.01"]
    assert walks.main([*quick, "--tools", "numpy"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["value"] > 0
    assert row["peak_mb"] > 10
    assert row["details"]["checked_walks"] > 0


def test_pairs_of_a_walk():
    def pairs(length, reach):
        return sum(0 < abs(i - j) <= reach for i in range(length) for j in range(length))

    assert measure.pairs_of_walk(20, 5, shrink=False) == pairs(20, 5)
    assert measure.pairs_of_walk(20, 5, shrink=True) == sum(pairs(20, reach) for reach in range(1, 6)) / 5
    assert measure.pairs_of_walk(3, 5, shrink=False) == pairs(3, 5)


def test_uniform_walks_follow_edges():
    indptr, indices = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32)  # the path 0 - 1 - 2
    sampled = measure.uniform_walks(indptr, indices, np.array([0, 1, 2] * 50), 9, seed=0)
    assert measure.wrong_steps(indptr, indices, sampled) == (0, 150 * 8)
    assert set(sampled[:, 2].tolist()) == {0, 1, 2}


def _small_skipgram(monkeypatch, tmp_path, capsys, *arguments):
    """Run on a small graph that stands for npm; return the row."""
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(graphs, "_NODES", 100)
    monkeypatch.setattr(graphs, "_EDGES", 300)
    monkeypatch.setattr(skipgram, "_CASES", ("powerlaw",))
    monkeypatch.setitem(skipgram._WALKS, "powerlaw", (2, 10, 3))
    assert skipgram.main(["--json", "--jobs", "1", "--tools", "cge", "--repeats", "1", *arguments]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["value"] > 0, row
    return row


def test_training_is_measured_from_start_to_report(tmp_path, monkeypatch, capsys):
    row = _small_skipgram(monkeypatch, tmp_path, capsys, "--kinds", "pairs")
    assert row["case"] == "powerlaw pairs"
    assert row["value"] * row["seconds"] == pytest.approx(100 * measure.pairs_of_walk(10, 3, shrink=False))


def test_deepwalk_is_measured_as_processes_of_its_own(tmp_path, monkeypatch, capsys):
    row = _small_skipgram(monkeypatch, tmp_path, capsys, "--kinds", "deepwalk")
    assert row["details"]["runs"] == 1
    assert row["details"]["memory_ratio"] > 1
    assert " CPU s; peak " in row["note"]


def test_scores_of_vectors_are_means_over_seeds(tmp_path):
    scorer = tmp_path / "scorer.py"
    scorer.write_text("import json, sys\nprint(json.dumps([[0.5 + i, 0.25] for i in range(len(sys.argv) - 2)]))")
    task = {"scorer": [sys.executable, str(scorer), "cora"]}
    scores = measure.scored(task, [np.zeros((3, 2), np.float32)] * 2)
    assert (scores["validation"], scores["test"]) == (1.0, 0.25)
    assert scores["note"] == "accuracy 1.000 validation, 0.250 test, 2 seeds"
    assert measure.scored({"scorer": None}, [np.zeros((3, 2), np.float32)]) == {}
