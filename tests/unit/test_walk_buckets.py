"""DeepWalk by buckets: the vectors of the usual training on the same partition, for any engine, also when it stops."""

import ast
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

import cge
from cge.cli.main import run
from cge.data.files.edges import EdgeOptions
from cge.data.stored import ingest, open_graph
from cge.data.stored.ingest import IngestOptions
from cge.engine import LocalEngine
from cge.errors import InputError
from cge.estimators.stored_walks import write_walk_vectors
from cge.randomness import generator
from cge.sampling import NegativeSampler
from cge.sampling.walk_kernels import alias_tables
from cge.training.skipgram import train_walks
from cge.training.walk_buckets import BucketTasks, WalkSettings
from cge.training.walk_partitions import NodePartition

SETTINGS = WalkSettings(8, 12, 2, 3, 5, 2, 0.05, 4)


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def stored(tmp_path, request):
    """Two dense halves, and some nodes without edges."""
    random = np.random.default_rng(0)
    edges = random.integers(0, 60, (500, 2)) + 60 * random.integers(0, 2, (500, 1))
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in edges))
    (tmp_path / "nodes.csv").write_text("node\n" + "".join(f"{node}\n" for node in range(125)))
    options = IngestOptions(EdgeOptions(), directed=request.param)
    return ingest(
        tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", memory=64 << 20, options=options
    )


def run_tasks_in(stored, folder, engine=None):
    tasks = BucketTasks.of(stored, folder, SETTINGS)
    tasks.run(LocalEngine(1) if engine is None else engine, lambda *_: None)
    return tasks.vectors(0, stored.num_nodes)


def reference(stored, tasks):
    """Train whole tables by `train_walks`, with nodes divided by their number modulo the number of parts."""
    graph, count = stored.walk_graph(), tasks.parts
    probability = NegativeSampler(graph).probability
    part_of = (np.arange(len(graph)) % count).astype(np.int8)
    nodes = np.flatnonzero(probability > 0)
    nodes = nodes[np.argsort(part_of[nodes], kind="stable")]
    indptr = np.searchsorted(part_of[nodes], np.arange(count + 1))
    partition = NodePartition(count, part_of, indptr, nodes, *alias_tables(indptr, nodes, probability[nodes]))
    sources, targets = np.empty((len(graph), 8), np.float32), np.zeros((len(graph), 8), np.float32)
    for part in range(count):
        random = generator(4, "vectors", part).random((len(sources[part::count]), 8), np.float32)
        sources[part::count] = (random - np.float32(0.5)) / np.float32(8)
    rates = [0.05 * max(1 - turn / SETTINGS.passes, 1e-4) for turn in range(SETTINGS.passes + 1)]
    for turn, learning_rates in enumerate(pairwise(rates)):
        epoch, in_epoch = divmod(turn, SETTINGS.walks_per_node)
        first = in_epoch * len(graph)
        walks = tasks.walker.sample(first, len(graph), epoch=epoch)
        how = {"back": 3, "ahead": 3, "seed": 4, "stream": epoch, "chunk": len(walks)}
        train_walks(walks, first, sources, targets, partition, learning_rates=learning_rates, **how)
    return sources


def test_vectors_are_those_of_whole_tables(stored, tmp_path):
    vectors = run_tasks_in(stored, tmp_path / "work")
    assert vectors.tobytes() == reference(stored, BucketTasks.of(stored, tmp_path / "work", SETTINGS)).tobytes()
    first_half = np.arange(60)
    unit = vectors[:120] / np.linalg.norm(vectors[:120], axis=1, keepdims=True)
    similar = unit @ unit.T
    second_half = first_half + 60
    assert similar[np.ix_(first_half, first_half)].mean() > similar[np.ix_(first_half, second_half)].mean() + 0.2


def test_blocks_of_walks_cover_all_and_engines_agree(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("cge.training.walk_buckets._WALK_BLOCK", 40)
    vectors = run_tasks_in(stored, tmp_path / "one")
    assert run_tasks_in(stored, tmp_path / "three", LocalEngine(3)).tobytes() == vectors.tobytes()
    tasks = BucketTasks.of(stored, tmp_path / "one", SETTINGS)
    numbers = np.concatenate([tasks.walk_numbers(1, block) for block in range(tasks.walk_blocks)])
    assert tasks.walk_blocks == 4
    assert sorted(numbers) == list(range(125, 250))
    assert tasks.vectors(3, 50).tobytes() == vectors[3:50].tobytes()


def test_tasks_in_threads_do_not_parse_python(stored, tmp_path, monkeypatch):
    """Before Python 3.11.8, `ast` fails at random where two threads use it; `np.load` parses headers by it."""
    expected = run_tasks_in(stored, tmp_path / "one")
    monkeypatch.setattr(ast, "literal_eval", lambda _: pytest.fail("threads must not parse Python"))
    assert run_tasks_in(stored, tmp_path / "two", LocalEngine(2)).tobytes() == expected.tobytes()


def test_an_interrupted_training_continues(stored, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(stage, done, total):
        if stage == "step 11 of 32" and done == 3:
            raise StoppedError

    tasks = BucketTasks.of(stored, tmp_path / "work", SETTINGS)
    with pytest.raises(StoppedError):
        tasks.run(LocalEngine(1), stop)
    assert len(list((tmp_path / "work").glob("source-*-000011.npy"))) == 3
    assert run_tasks_in(stored, tmp_path / "work").tobytes() == run_tasks_in(stored, tmp_path / "new").tobytes()
    assert len(list((tmp_path / "work").glob("*-*.npy"))) == 2 * tasks.parts + 1  # tables and in-degrees


def test_command(stored, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--dim", "8", "--seed", "4", "--set", "walk_length=12", "--set", "walks_per_node=2", "--set", "window=3"]
    assert run(["embed", "graph", "--out", "parts", *flags, "--set", "epochs=2", "--quiet"]) == 0
    table = pq.read_table("parts")
    assert table["node"].to_pylist() == list(range(125))
    assert (
        np.stack(table["vector"].to_pylist()).astype(np.float32).tobytes()
        == run_tasks_in(stored, tmp_path / "work").tobytes()
    )
    assert run(["embed", "graph", "--out", "other", "--method", "node2vec"]) == 2
    assert "a folder of parts has vectors of deepwalk, found --method node2vec; give --out" in capsys.readouterr().err


def test_what_is_refused(stored, tmp_path):
    model, where = cge.DeepWalk(metapath=("a", "b", "a")), {"work": tmp_path / "w", "engine": LocalEngine(1)}
    with pytest.raises(InputError, match="is for graphs in memory; leave it out"):
        write_walk_vectors(model, open_graph(stored.folder), tmp_path, progress=lambda *_: None, **where)
    model = cge.DeepWalk(8, walk_length=40, walks_per_node=2, window=10, learning_rate=10)
    with pytest.raises(InputError, match="training overflowed with learning_rate=10"):
        write_walk_vectors(model, open_graph(stored.folder), tmp_path / "o", progress=lambda *_: None, **where)
