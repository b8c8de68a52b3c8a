"""`cge bench scale --large`: ingest, fit, predict and embed of graphs on disk, each command in a process of its own.

Beside them SGC in memory, by SciPy and by PyG, with a limit on the address space: what does not fit ends with an error.
Peak memory is the `VmHWM` of the command's process, as the kernel reports it to its parent. Slopes are those of seconds
and memory between a size and the next smaller one, on logarithmic scales, with the same settings at every size.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.harness import cache_folder
from benchmarks.stored_graphs import write_graph
from cge.memory import free_memory

SIZES = {"100k": (10**5, 10**6), "1M": (10**6, 10**7), "10M": (10**7, 10**8)}  # nodes and edges
FEATURES, LABEL_SHARE = 100, 0.01
PEERS = ("scipy", "pyg")
_GROWING = ("seconds", "cpu_seconds", "peak_mb")


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
            "fit": [work / "graph", *labels, "--out", work / "model", "--out-of-core"],
            "predict": [work / "model", "--out", work / "predictions"],
            "embed": [work / "model", "--out", work / "vectors"],
        }
        steps = {name: _run([name, *words, "--memory", memory]) for name, words in commands.items()}
        row = {"case": case, "nodes": nodes, "steps": steps, "accuracy": _accuracy(work / "predictions", data)}
        row["peers"] = {tool: _run_peer(tool, data) for tool in PEERS}
        row["seconds"] = sum(step["seconds"] for step in steps.values())
        row["cpu_seconds"] = sum(step["cpu_seconds"] for step in steps.values())
        row["peak_mb"] = max(step["peak_mb"] for step in steps.values())
        if rows:
            last, ratio = rows[-1], math.log(nodes / rows[-1]["nodes"])
            row["slopes"] = {name: math.log(row[name] / last[name]) / ratio for name in _GROWING}
        rows.append(row)
        print(json.dumps(row), flush=True)
        subprocess.run(["rm", "-r", str(work)], check=True)
    return rows


def _run(words: list[Any]) -> dict[str, float]:
    code, usage, _ = _measured(["-m", "cge", *map(str, words), "--quiet"])
    if code:
        raise RuntimeError(f"cge {words[0]} ended with exit code {code}")
    return usage


def _run_peer(tool: str, data: Path) -> dict[str, float] | None:
    """Return seconds, peak memory and accuracy of SGC by another package; None where it ran out of memory."""
    code, usage, output = _measured([str(Path(__file__).parent / "peers/sgc_large.py"), tool, str(data)], limited=True)
    return None if code else usage | {"accuracy": float(output)}


def _measured(words: list[str], *, limited: bool = False) -> tuple[int, dict[str, float], str]:
    """Run Python with arguments; return its exit code, what it used, and what it printed."""

    def limit() -> None:
        free = free_memory()
        if limited and free is not None:
            resource.setrlimit(resource.RLIMIT_AS, (free, free))

    start = time.perf_counter()
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, preexec_fn=limit) as process:
        output = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    used = {"seconds": time.perf_counter() - start, "cpu_seconds": usage.ru_utime + usage.ru_stime}
    return process.returncode, used | {"peak_mb": usage.ru_maxrss / 1024}, output


def _accuracy(parts: Path, data: Path) -> float:
    """Return the accuracy on test nodes."""
    test = dict(line.split(",") for line in (data / "test.csv").read_text().splitlines()[1:])
    correct = 0
    for part in sorted(parts.glob("*.parquet")):
        table = pq.read_table(part, columns=["node", "class"])
        pairs = zip(table["node"].to_pylist(), table["class"].to_pylist(), strict=True)
        correct += sum(test.get(str(node)) == predicted for node, predicted in pairs)
    return correct / max(len(test), 1)
