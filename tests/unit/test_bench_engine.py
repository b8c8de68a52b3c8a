"""The benchmarks of stored graphs, on small ones."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import benchmarks.engine
import benchmarks.large_scale


def test_engine(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.engine.cache_folder", lambda: tmp_path)
    arguments = ["--nodes", "500", "--edges", "2000", "--features", "20", "--workers", "--json"]
    assert benchmarks.engine.main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["same"]
    assert result["rows"][0]["engine"] == "local"


def test_large(tmp_path, monkeypatch):
    """Commands are recorded, not run; accuracy is that of the parts."""
    commands = []

    def run(words):
        commands.append(words)
        if words[0] == "predict":
            words[3].mkdir(parents=True)
            classes = [f"c{node % 16}" for node in range(2000)]
            pq.write_table(pa.table({"node": range(2000), "class": classes}), words[3] / "part-00000.parquet")
        return {"seconds": 1.0, "cpu_seconds": 2.0, "peak_mb": 100.0 * len(commands)}

    monkeypatch.setattr("benchmarks.large_scale.cache_folder", lambda: tmp_path)
    monkeypatch.setattr("benchmarks.large_scale._run", run)
    monkeypatch.setitem(benchmarks.large_scale.SIZES, "1M", (2000, 10_000))
    monkeypatch.setitem(benchmarks.large_scale.SIZES, "10M", (20_000, 10_000))
    rows = benchmarks.large_scale.measure_large(["1M", "10M"], "1GB")
    assert [words[0] for words in commands[:4]] == ["ingest", "fit", "predict", "embed"]
    assert rows[0]["accuracy"] == 1.0
    assert rows[0]["peak_mb"] == 400.0
    assert rows[1]["slopes"] == {"seconds": 0.0, "cpu_seconds": 0.0, "peak_mb": pytest.approx(np.log10(2))}
    assert rows[0]["cpu_seconds"] == 8.0
    assert rows[0]["peers"]["scipy"]["accuracy"] == pytest.approx(rows[0]["peers"]["pyg"]["accuracy"], abs=0.05)
