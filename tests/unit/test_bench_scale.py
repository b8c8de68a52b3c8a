"""`cge bench scale`: planted graphs, slopes, tasks, and one run from files to report."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import cge

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

import scale_cge  # noqa: E402

from benchmarks import graphs, planted, scale, session  # noqa: E402
from benchmarks.harness import Journal, Row, cache_folder  # noqa: E402
from tests.unit.bench_children import run_in_process  # noqa: E402

TINY = {"1k": 200, "10k": 200, "100k": 300, "1M": 500}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Make all graphs tiny, npm a circle of 100 nodes, and use an empty cache folder."""
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(planted, "SIZES", TINY)
    circle = np.arange(100)
    monkeypatch.setattr(graphs, "_catalog_graph", lambda _: cge.Graph.from_edges((circle, (circle + 1) % 100)))
    return tmp_path


@pytest.fixture
def measured(tiny, monkeypatch):
    """Replace the measurement; return the list of measured tasks and jobs."""
    calls = []

    def measure_one(_bench, task, _limit):
        calls.append((task, task.job()))
        nodes = TINY.get(task.case, 100)
        details = {"nodes": nodes, "slope_seconds": 0.1 * nodes * task.n_jobs, "above_baseline_mb": nodes**0.5}
        return Row(task.case, task.tool, task.n_jobs, 1e3, task.unit, 100.0, details=details)

    monkeypatch.setattr(session, "_measure", measure_one)
    return calls


# ---------------------------------------------------------------------- planted graphs


def test_planted_edges_are_simple_and_mostly_within_a_class():
    classes = np.random.default_rng(1).integers(0, planted.CLASSES, 5000)
    source, target = planted.planted_edges(classes, 50_000, 0)
    assert np.all(source != target)
    low, high = np.minimum(source, target), np.maximum(source, target)
    assert len(np.unique(low * 5000 + high)) == 50_000
    # 70 % are rewired to their class, and a tenth of the others are there by chance; some of the former coincide.
    assert np.mean(classes[source] == classes[target]) == pytest.approx(0.73, abs=0.03)
    degrees = np.bincount(np.concatenate([source, target]), minlength=5000)
    assert degrees.max() > 10 * np.median(degrees)
    again = planted.planted_edges(classes, 50_000, 0)
    other = planted.planted_edges(classes, 50_000, 1)
    assert np.array_equal([source, target], again)
    assert not np.array_equal([source, target], other)


def test_planted_features_predict_classes_weakly():
    classes = np.random.default_rng(1).integers(0, planted.CLASSES, 20_000)
    features = planted.planted_features(classes, 0)
    assert (features.shape, features.dtype) == ((20_000, 100), np.float32)
    assert np.array_equal(features, planted.planted_features(classes, 0))
    means = np.stack([features[:10_000][classes[:10_000] == label].mean(axis=0) for label in range(planted.CLASSES)])
    nearest = (features[10_000:] @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    assert 0.2 < np.mean(nearest == classes[10_000:]) < 0.5


def test_spread_classes_are_shared_by_neighbors():
    source, target = graphs.power_law_edges(5000, 15_000, 0)
    graph = cge.Graph.from_edges((source, target), num_nodes=5000)
    classes = planted.spread_classes(graph.indptr, graph.indices, 0)
    assert classes.shape == (5000,)
    share = np.bincount(classes, minlength=planted.CLASSES) / 5000
    assert share.min() > 0.02
    assert share.max() < 0.3
    assert np.mean(classes[source] == classes[target]) > 0.3
    assert np.array_equal(classes, planted.spread_classes(graph.indptr, graph.indices, 0))


@pytest.mark.parametrize(("name", "nodes"), [("1M", 500), ("npm", 100)])
def test_files_are_read_as_the_graph_that_was_planted(name, nodes, tiny):
    files = planted.planted_files(name)
    graph = cge.read_graph(files.edges, files.features, nodes=files.nodes)
    labels, names = cge.read_labels(files.labels, graph)
    classes = np.load(files.classes)
    assert graph.node_ids.tolist() == [f"node-{node}" for node in range(nodes)]
    assert graph.features.shape == (nodes, 100)
    assert classes.shape == (nodes,)
    assert set(classes.tolist()) <= set(range(planted.CLASSES))
    labeled = np.flatnonzero(labels >= 0)
    assert len(labeled) == 50
    assert [names[labels[node]] for node in labeled] == [f"class-{classes[node]}" for node in labeled]
    written = files.features.stat().st_mtime_ns
    assert planted.planted_files(name) == files
    assert files.features.stat().st_mtime_ns == written


def test_one_node_in_a_hundred_is_labeled(tiny, monkeypatch):
    monkeypatch.setattr(planted, "SIZES", {"10k": 7000})
    files = planted.planted_files("10k")
    assert len(files.labels.read_text().splitlines()) == 1 + 70
    assert len(files.edges.read_text().splitlines()) == 70_000


# ---------------------------------------------------------------------- slopes


@pytest.mark.parametrize(("time", "memory"), [(1.0, 1.0), (2.0, 0.5), (1.1, 0.0)])
def test_slopes_are_the_exponents_of_growth(time, memory):
    sizes = [
        {"nodes": nodes, "slope_seconds": 3e-4 * nodes**time, "above_baseline_mb": 0.2 * nodes**memory}
        for nodes in (10_000, 100_000, 1_000_000)
    ]
    for smaller, larger in (sizes[:2], sizes[1:], sizes[::2]):
        assert scale_cge.slopes(smaller, larger) == pytest.approx({"time": time, "memory": memory})


def test_memory_that_is_not_above_the_baseline_has_no_slope():
    smaller = {"nodes": 10, "slope_seconds": 1.0, "above_baseline_mb": 0.0}
    larger = {"nodes": 100, "slope_seconds": 10.0, "above_baseline_mb": 5.0}
    assert scale_cge.slopes(smaller, larger) == pytest.approx({"time": 1.0})


# ---------------------------------------------------------------------- runs


def test_each_generated_graph_is_compared_with_the_next_smaller_one_on_as_many_threads(measured, capsys):
    assert scale.main(["--json", "--jobs", "1,2"]) == 0
    assert json.loads(capsys.readouterr().out)["bench"] == "scale"
    assert [(task.case, task.n_jobs) for task, _ in measured] == [
        (case, n_jobs) for n_jobs in (1, 2) for case in ("10k", "100k", "1M", "npm")
    ]
    smaller = {(task.case, task.n_jobs): job["smaller"] for task, job in measured}
    for n_jobs in (1, 2):
        assert smaller["10k", n_jobs] is None
        assert smaller["npm", n_jobs] is None
        for case, before in (("100k", 200), ("1M", 300)):
            size = {"nodes": before, "slope_seconds": 0.1 * before * n_jobs, "above_baseline_mb": before**0.5}
            assert smaller[case, n_jobs] == size
    assert {job["warm_up"]["edges"] for _, job in measured} == {str(planted.planted_files("1k").edges)}
    assert {job["files"]["edges"] for task, job in measured if task.case == "npm"} == {
        str(graphs.graph_files("npm").strings)
    }


def test_without_a_number_of_the_smaller_graph_there_is_no_slope(measured, monkeypatch):
    assert scale.main(["--json", "--cases", "1M"]) == 0
    assert [job["smaller"] for _, job in measured] == [None]

    def crash(_bench, task, _limit):
        measured.append((task, task.job()))
        return Row(task.case, task.tool, task.n_jobs, None, task.unit, note="crashed with SIGKILL")

    monkeypatch.setattr(session, "_measure", crash)
    assert scale.main(["--json", "--cases", "10k,100k"]) == 0
    assert [job["smaller"] for _, job in measured[1:]] == [None, None]


def test_a_resumed_run_compares_with_the_rows_it_has(measured):
    assert scale.main(["--json", "--jobs", "1", "--cases", "10k"]) == 0
    assert scale.main(["--json", "--jobs", "1", "--cases", "10k,100k", "--resume"]) == 0
    assert [task.case for task, _ in measured] == ["10k", "100k"]
    assert measured[-1][1]["smaller"]["nodes"] == 200


def test_a_limit_of_epochs_is_noted(measured):
    assert scale.main(["--json", "--cases", "10k", "--max-epochs", "2"]) == 0
    ((task, job),) = measured
    assert task.note == "at most 2 epochs"
    assert (job["max_epochs"], job["repeats"]) == (2, 1)


def test_a_data_set_that_is_missing_is_a_row(tiny, monkeypatch, capsys):
    def no_data(_name):
        raise graphs.MissingDataError("npm is not on this machine")

    monkeypatch.setattr(graphs, "_catalog_graph", no_data)
    assert scale.main(["--json", "--jobs", "1", "--cases", "npm"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["value"], row["note"]) == (None, "npm is not on this machine")


def test_the_pipeline_is_measured_from_files_to_report(tiny, monkeypatch, capsys):
    monkeypatch.setattr(session, "run_child", run_in_process)
    before = {"nodes": 200, "slope_seconds": 0.5, "above_baseline_mb": 0.1}
    journal = Journal(cache_folder() / "journal-scale.jsonl", resume=False)
    journal.add(Row("10k", "cge", 1, 1e3, "nodes/s", details=before))
    quick = ["--json", "--jobs", "1", "--cases", "10k,100k", "--max-epochs", "2", "--resume"]
    assert scale.main([*quick, "--save", "--results", str(tiny / "results")]) == 0
    _, row = json.loads(capsys.readouterr().out)["rows"]
    details = row["details"]
    assert row["value"] * row["seconds"] == pytest.approx(300)
    assert list(details["steps"]) == ["read", "fit", "embed", "export", "save", "load", "predict", "new"]
    assert row["seconds"] == pytest.approx(sum(step["seconds"] for step in details["steps"].values()))
    assert row["peak_mb"] == pytest.approx(details["baseline_mb"] + details["above_baseline_mb"])
    assert (details["nodes"], details["repeats"]) == (300, 1)
    assert 2000 < details["edges"] <= 3000
    assert 0 < details["accuracy"] < 1
    assert details["candidates"] > 0
    assert "at most 2 epochs" in row["note"]
    assert details["slopes"] == pytest.approx(scale_cge.slopes(before, details))
    for text in (row["note"], (tiny / "results" / "bench-scale.md").read_text()):
        assert f"slope from 200 nodes: time {details['slopes']['time']:.2f}" in text
