"""`cge bench scale --large`: ingest, fit, predict and embed of graphs on disk, each command in a process of its own.

Peak memory is the `VmHWM` of the command's process, as the kernel reports it to its parent. Slopes are those of seconds
and memory between a size and the next smaller one, on logarithmic scales, with the same settings at every size.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.harness import cache_folder
from benchmarks.stored_graphs import write_graph

SIZES = {"1M": (10**6, 10**7), "10M": (10**7, 10**8)}  # nodes and edges
FEATURES, LABEL_SHARE = 100, 0.01


def measure_large(cases: Sequence[str], memory: str) -> list[dict[str, Any]]:
    """Return seconds and peak memory of each command, test accuracy and slopes, for each size."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        nodes, edges = SIZES[case]
        data, work = cache_folder() / f"large-{case}", cache_folder() / f"large-{case}-{os.getpid()}"
        if not (data / "test.csv").exists():
            write_graph(data, nodes, edges, FEATURES, LABEL_SHARE)
        labels = ["--labels", data / "labels.csv", "--validation", data / "validation.csv"]
        commands: dict[str, list[Any]] = {
            "ingest": [data / "edges-*.parquet", "--features", data / "x.npy", "--out", work / "graph"],
            "fit": [work / "graph", *labels, "--out", work / "model"],
            "predict": [work / "model", "--out", work / "predictions"],
            "embed": [work / "model", "--out", work / "vectors"],
        }
        steps = {name: _run([name, *words, "--memory", memory]) for name, words in commands.items()}
        row = {"case": case, "nodes": nodes, "steps": steps, "accuracy": _accuracy(work / "predictions", data)}
        row["seconds"] = sum(step["seconds"] for step in steps.values())
        row["peak_mb"] = max(step["peak_mb"] for step in steps.values())
        if rows:
            last, ratio = rows[-1], math.log(nodes / rows[-1]["nodes"])
            row["slopes"] = {name: math.log(row[name] / last[name]) / ratio for name in ("seconds", "peak_mb")}
        rows.append(row)
        print(json.dumps(row), flush=True)
        subprocess.run(["rm", "-r", str(work)], check=True)
    return rows


def _run(words: list[Any]) -> dict[str, float]:
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "cge", *map(str, words), "--quiet"]) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"cge {words[0]} ended with exit code {process.returncode}")
    return {"seconds": time.perf_counter() - start, "peak_mb": usage.ru_maxrss / 1024}


def _accuracy(parts: Path, data: Path) -> float:
    """Return the accuracy on test nodes."""
    test = dict(line.split(",") for line in (data / "test.csv").read_text().splitlines()[1:])
    correct = 0
    for part in sorted(parts.glob("*.parquet")):
        table = pq.read_table(part, columns=["node", "class"])
        pairs = zip(table["node"].to_pylist(), table["class"].to_pylist(), strict=True)
        correct += sum(test.get(str(node)) == predicted for node, predicted in pairs)
    return correct / max(len(test), 1)
