"""Tasks on a Ray cluster of three local nodes: the bytes of one machine, also when nodes and workers are lost."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cge
from cge.data.stored import ingest
from cge.engine import LocalEngine, RayEngine
from cge.engine.ray_cluster import connect
from cge.errors import FileFormatError, InputError
from cge.estimators.evaluation_run import EvaluationRun
from cge.estimators.stored_fit import fit_stored
from cge.estimators.stored_model import StoredModel, write_parts
from cge.training.slab_columns import HopRows
from cge.training.slab_propagation import SlabTasks

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'cge[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def fail_at(place, number):
    if number == place:
        raise FileFormatError("edges.csv", "the first id is empty", 7, hint="write an id")
    return number * number


def end_worker_once(marker, number):
    if number == 2 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow_rows(tasks, kept, nodes, started, number):
    Path(f"{started}-{number}-{os.getpid()}").touch()
    time.sleep(0.5)
    tasks.labeled_rows(kept, nodes, number)


@pytest.fixture(scope="module")
def cluster():
    """A head without cores and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("ray"), np.random.default_rng(0)
    edges = random.integers(0, 2000, (12_000, 2))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in edges))
    np.save(folder / "x.npy", random.standard_normal((2000, 70)).astype(np.float32))
    return ingest(folder / "edges.csv", folder / "graph", features=folder / "x.npy", memory=64 << 20)


def test_results_and_errors(cluster, tmp_path):
    engine = RayEngine()
    assert engine.n_workers == 2
    assert list(engine.map(partial(fail_at, -1), range(12))) == [number * number for number in range(12)]
    with pytest.raises(FileFormatError, match="line 7: the first id is empty; write an id"):
        list(engine.map(partial(fail_at, 3), range(12)))
    assert list(engine.map(partial(end_worker_once, str(tmp_path / "killed")), range(6))) == list(range(6))
    assert (tmp_path / "killed").exists()


def test_other_versions_and_graphs_are_refused(cluster, stored, tmp_path, monkeypatch):
    monkeypatch.setattr("cge.engine.ray_cluster.package_fingerprint", lambda _package: "other")
    with pytest.raises(InputError, match="a worker of the Ray cluster has another version of cge, numba, .*; install"):  # noqa: RUF043
        list(RayEngine().map(partial(fail_at, -1), range(2)))
    monkeypatch.undo()
    folders = str(stored.folder), "another hash", str(tmp_path)
    with pytest.raises(InputError, match=r"a worker sees another stored graph in .*; put it in a folder that all"):
        list(RayEngine().map(SlabTasks(*folders, 1 << 30).measure, range(2)))
    with pytest.raises(InputError, match="a worker does not see the stored graph /nowhere; put it in a folder"):
        list(RayEngine().map(SlabTasks("/nowhere", "", str(tmp_path), 1 << 30).measure, range(2)))


def test_runs_of_an_evaluation_and_trials_of_a_study(cluster, tmp_path):
    data = cge.load_dataset("cora")
    run = EvaluationRun(data, "sgc", n_jobs=1, train_share=0.1)
    local, remote = ([row["metrics"] for row in engine.map(run, [3, 4])] for engine in (LocalEngine(1), RayEngine()))
    assert local == remote
    pytest.importorskip("optuna")
    from cge.estimators.tuning import open_storage, tune

    storage = open_storage(str(tmp_path / "trials.journal"))
    assert tune(data, "sgc", 3, storage, n_jobs=1, engine=RayEngine()).trials == 3


def test_a_fit_and_its_predictions_have_the_bytes_of_one_machine(cluster, stored, tmp_path):
    y = {node: f"c{node % 3}" for node in range(0, 600, 2)}
    results = []
    for name, engine in (("local", LocalEngine(1)), ("ray", RayEngine())):
        estimator, work = cge.CGE(training={"max_epochs": 10}, random_state=0), tmp_path / f"work-{name}"
        fit_stored(estimator, stored, y, work=work, memory=4 << 30, engine=engine).save(tmp_path / name, "", False)
        tensors = json.loads((tmp_path / name / "model.json").read_text())["tensors"]["sha256"]
        out = tmp_path / f"parts-{name}"
        out.mkdir()
        model = StoredModel(str(tmp_path / name))
        write_parts(model, out, out / "work", engine, 4 << 30, lambda *_: None, vectors=False)
        results.append((tensors, (out / "part-00000.parquet").read_bytes()))
    assert results[0] == results[1]


def test_a_node_that_is_removed_loses_nothing(cluster, stored, tmp_path):
    kept, nodes = HopRows(((0.0, 4), (0.5, 4))), np.arange(0, 2000, 7)

    def tasks_in(folder):
        tasks = SlabTasks(str(stored.folder), stored.fingerprint, str(folder), 4 << 30, 1)
        tasks.prepare(LocalEngine(1), lambda *_: None)
        return tasks

    expected = tasks_in(tmp_path / "local")
    for number in range(5):
        expected.labeled_rows(kept, nodes, number)
    tasks = tasks_in(tmp_path / "cluster")
    extra = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    results = RayEngine().map(partial(slow_rows, tasks, kept, nodes, str(tmp_path / "started")), range(5))
    next(results)
    cluster.remove_node(extra, allow_graceful=False)
    list(results)
    for number in range(5):
        name = f"rows-{number:04d}.npy"
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_no_cluster():
    with pytest.raises(InputError, match="no connection to the Ray cluster '127.0.0.1:1' .*; start it with 'ray start"):  # noqa: RUF043
        connect("127.0.0.1:1")
