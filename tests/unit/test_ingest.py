"""Stored graphs: the same rows as `read_graph`, whatever the memory, the chunks and the interruptions."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cge
from cge.data.files.edges import EdgeOptions
from cge.data.stored import id_table, ingest, open_graph
from cge.data.stored.id_runs import merge_runs
from cge.data.stored.ingest import IngestOptions
from cge.errors import FileFormatError, InputError, UnknownNodeError

module = sys.modules["cge.data.stored.ingest"]
ARRAYS = ("indptr", "indices", "weights", "edge_types", "features")


def write_edges(path, edges, *columns, header="source,target"):
    lines = [",".join(map(str, row)) for row in zip(*np.asarray(edges).T, *columns, strict=True)]
    text = "\n".join([header, *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def assert_same(stored, graph):
    loaded = stored.load()
    for name in ARRAYS:
        expected, actual = getattr(graph, name), getattr(loaded, name)
        assert (expected is None) == (actual is None), name
        assert expected is None or (np.array_equal(expected, actual) and expected.dtype == actual.dtype), name
    assert loaded.node_ids.tolist() == graph.node_ids.tolist()
    assert (loaded.directed, loaded.edge_type_names) == (graph.directed, graph.edge_type_names)


@pytest.fixture
def edges():
    random = np.random.default_rng(3)
    return random.integers(0, 60, (700, 2)), random.integers(1, 1000, 700) / 64


@pytest.fixture(params=[1 << 23, 37])
def small_chunks(request, monkeypatch):
    """Edges in one chunk, and in many, with ids that are merged in several ranges."""
    monkeypatch.setattr(module, "_MAX_CHUNK_ROWS", request.param)
    if request.param == 37:
        monkeypatch.setattr(module, "_ID_BYTES", 1 << 20)
        monkeypatch.setattr(module, "_ENTRY_BYTES", 1 << 16)
        monkeypatch.setattr("cge.data.files.text_fields._PIECE_BYTES", 300)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("self_loops", [False, True])
def test_rows_are_those_of_read_graph(tmp_path, edges, small_chunks, directed, self_loops):
    pairs, weights = edges
    kinds = np.array(["cites", "writes", "likes"])[pairs.sum(axis=1) % 3]
    header = "source,target,weight,type"
    whole = write_edges(tmp_path / "whole.csv", pairs, weights, kinds, header=header)
    write_edges(tmp_path / "part-1.csv", pairs[:300], weights[:300], kinds[:300], header=header)
    write_edges(tmp_path / "part-2.csv.gz", pairs[300:], weights[300:], kinds[300:], header=header)
    options = IngestOptions(EdgeOptions(), directed, self_loops)
    stored = ingest(tmp_path / "part-*", tmp_path / "graph", options=options, memory=64 << 20)
    assert_same(stored, cge.read_graph(whole, directed=directed, self_loops=self_loops))
    assert stored.self_loops is self_loops
    assert not (tmp_path / "graph" / "work").exists()


def test_strings_are_numbered_in_order(tmp_path, edges, small_chunks):
    pairs, _ = edges
    names = np.array([f"node-{k * 7919 % 60}-é" for k in range(60)], object)
    table = pa.table({"source": names[pairs[:, 0]], "target": names[pairs[:, 1]]})
    pq.write_table(table.slice(0, 400), tmp_path / "a.parquet")
    pq.write_table(table.slice(400), tmp_path / "b.parquet")
    stored = ingest([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "graph", memory=64 << 20)
    expected = cge.Graph.from_edges(list(map(tuple, names[pairs].tolist())), node_ids=sorted(set(names[pairs].ravel())))
    assert_same(stored, expected)
    assert stored.ids.is_text


def test_ranges_of_ids_are_merged():
    random = np.random.default_rng(0)
    runs = [pa.array(np.unique(random.integers(0, 500, 200))) for _ in range(5)]
    merged = list(merge_runs(runs, 90))
    assert len(merged) > 5
    ids = np.concatenate([part.to_numpy() for part, _ in merged])
    assert ids.tolist() == sorted({value for run in runs for value in run.to_pylist()})
    for k, run in enumerate(runs):
        numbers = np.concatenate([parts[k] for _, parts in merged])
        assert ids[numbers].tolist() == run.to_pylist()


def test_ids_are_found_and_read_by_ranges(tmp_path, monkeypatch):
    monkeypatch.setattr(id_table, "GROUP_ROWS", 8)
    for kind in (int, str):
        ids = sorted(kind(k * k) for k in range(3, 53))
        writer = id_table.IdWriter(tmp_path / "ids.parquet", pa.int64() if kind is int else pa.large_string())
        for first in range(0, 50, 11):
            writer.write(pa.array(ids[first : first + 11], pa.int64() if kind is int else pa.large_string()))
        table = id_table.IdTable(tmp_path / "ids.parquet", json.loads(json.dumps(writer.close())))
        assert table.find([ids[49], kind(10), ids[0], ids[17], kind(-1), kind(10**9)]).tolist() == [
            49,
            -1,
            0,
            17,
            -1,
            -1,
        ]
        assert table.find(["x" if kind is int else 9]).tolist() == [-1]
        assert table.slice(6, 19).tolist() == ids[6:19]
        with pytest.raises(UnknownNodeError, match="in the list"):
            table.find_all([ids[0], kind(10)], "the list")


def test_features_labels_and_isolated_nodes(tmp_path, edges):
    pairs, _ = edges
    path = write_edges(tmp_path / "edges.csv", pairs[:100])
    values = np.random.default_rng(0).standard_normal((70, 21)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    stored = ingest(path, tmp_path / "array", features=tmp_path / "x.npy", memory=64 << 20)
    assert_same(stored, cge.read_graph(path, tmp_path / "x.npy"))
    assert [slab.shape for slab in map(stored.slab, range(2))] == [(70, 16), (70, 5)]

    order = np.random.default_rng(1).permutation(65)
    rows = {"node": order} | {f"f{k}": values[order, k] for k in range(21)}
    pq.write_table(pa.table({name: column[:30] for name, column in rows.items()}), tmp_path / "x1.parquet")
    pq.write_table(pa.table({name: column[30:] for name, column in rows.items()}), tmp_path / "x2.parquet")
    (tmp_path / "labels.csv").write_text("node,label\n3,a\n64,b\n")
    tables = {"features": [tmp_path / "x1.parquet", tmp_path / "x2.parquet"], "memory": 64 << 20}
    stored = ingest(path, tmp_path / "table", labels=tmp_path / "labels.csv", **tables)
    assert np.array_equal(stored.load().features, values[:65])
    assert stored.load().feature_names[:2] == ("f0", "f1")
    assert pq.read_table(tmp_path / "table" / "labels.parquet").to_pydict() == {"node": [3, 64], "label": ["a", "b"]}

    (tmp_path / "nodes.csv").write_text("node\n" + "\n".join(map(str, range(67))))
    with pytest.raises(FileFormatError, match="2 nodes have no row, the first: 65; give each node one row"):
        ingest(path, tmp_path / "missing", nodes=tmp_path / "nodes.csv", **tables)
    options = IngestOptions(EdgeOptions(), missing_features="mean")
    stored = ingest(path, tmp_path / "mean", nodes=tmp_path / "nodes.csv", options=options, **tables)
    assert np.allclose(stored.load().features[66], values[:65].mean(axis=0), atol=1e-6)
    pq.write_table(pa.table({name: column[20:33] for name, column in rows.items()}), tmp_path / "x2.parquet")
    with pytest.raises(FileFormatError, match="occurs twice; keep one row"):
        ingest(path, tmp_path / "twice", **tables)


def test_damage_is_found(tmp_path, edges):
    path = write_edges(tmp_path / "edges.csv", edges[0])
    folder = ingest(path, tmp_path / "graph", memory=64 << 20).folder
    with pytest.raises(InputError, match="exists and is not empty"):
        ingest(path, folder)
    copy = shutil.copytree(folder, tmp_path / "changed")
    data = bytearray((copy / "indices.npy").read_bytes())
    data[-1] ^= 1
    (copy / "indices.npy").write_bytes(data)
    with pytest.raises(FileFormatError, match="the file was changed since 'cge ingest' wrote it"):
        open_graph(copy).verify()
    (copy / "indices.npy").write_bytes(data[:-8])
    with pytest.raises(FileFormatError, match=f"has {len(data) - 8:,} bytes instead of {len(data):,}"):
        open_graph(copy)
    (copy / "indices.npy").unlink()
    with pytest.raises(FileFormatError, match="the file is missing"):
        open_graph(copy)
    metadata = json.loads((folder / "graph.json").read_text()) | {"format_version": 99}
    (copy / "graph.json").write_text(json.dumps(metadata))
    with pytest.raises(FileFormatError, match="format version 99, this cge reads 1; run 'cge ingest' again"):
        open_graph(copy)
    with pytest.raises(InputError, match=r"features is for files of edges, and .* is a stored graph"):
        cge.read_graph(folder, features="x.npy")
    with pytest.raises(FileFormatError, match="no file has such a name"):
        ingest(tmp_path / "none-*.csv", tmp_path / "new")
    write_edges(tmp_path / "other.csv", [["a", "b"]])
    with pytest.raises(FileFormatError, match=r"line 2: expected an integer node id as in the first row of edges\.csv"):
        ingest([path, tmp_path / "other.csv"], tmp_path / "new")


def test_a_killed_ingest_continues(tmp_path):
    pairs = np.random.default_rng(0).integers(0, 5000, (60_000, 2))
    path = write_edges(tmp_path / "edges.csv", pairs)
    expected = ingest(path, tmp_path / "whole", memory=64 << 20).fingerprint
    script = (
        "import sys; from cge.data.stored import ingest; m = sys.modules['cge.data.stored.ingest'];"
        "import time; m._MAX_CHUNK_ROWS = 4096; m._ENTRY_BYTES = 1 << 12;"
        "step = lambda *a: (print(a[0], flush=True), time.sleep(0.01));"
        f"ingest({str(path)!r}, {str(tmp_path / 'graph')!r}, memory=64 << 20, progress=step)"
    )
    stages = ["reading edges", "grouping entries", "sorting rows", "computing hashes"]
    for stage in stages:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        while (line := process.stdout.readline()) and line.strip() != stage:
            pass
        time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    if not (tmp_path / "graph" / "graph.json").exists():
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert open_graph(tmp_path / "graph").fingerprint == expected
