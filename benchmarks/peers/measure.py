"""Shared by the scripts of all tools: reading the job, timing, checking walks, reporting. Needs NumPy only."""

import gc
import json
import math
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CHECKED = 20_000  # walks that are checked after the measurement


def job() -> dict[str, Any]:
    """Return the job: the JSON object that is the script's argument."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    return task


def arrays(path: str) -> tuple[Array, Array]:
    """Read a graph: `indptr (n+1,)` int64 and `indices (2m,)` int32."""
    with np.load(path) as file:
        return file["indptr"], file["indices"]


def peak_mb() -> float:
    """Return the largest resident size of this process so far, in MB."""
    # getrusage's maximum survives exec, so a child would report at least its parent's size; VmHWM does not.
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if match:
        return int(match[1]) * 1024 / 1e6
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 1e6 if sys.platform == "darwin" else size * 1024 / 1e6


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what `work()` returns, its wall seconds and its CPU seconds (of all threads and child processes)."""
    gc.collect()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    result = work()
    return result, time.perf_counter() - wall, _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def selected_by(model: Any) -> tuple[dict[str, Any], str]:
    """Return what a trained `CGE` selected, as a dict and as a text for the note."""
    details = {
        "epochs": len(model.history_),
        "weighting": model.weighting_,
        "classifiers": model.classifiers_,
        "label_propagation": model.label_propagation_,
        "candidates": len(model.search_results_),
    }
    with_labels = "with" if model.label_propagation_ else "no"
    classifiers = " and ".join(model.classifiers_)
    return details, f"weighting {model.weighting_}, classifier {classifiers}, {with_labels} label propagation"


def report(**values: Any) -> None:
    """Print the report."""
    print(json.dumps(values))


# ---------------------------------------------------------------------- walks


def measure_walks(task: dict[str, Any], walk: Callable[[Array], Any], to_array: Callable[[Any], Array]) -> None:
    """Time `walk(starts)`, check the walks and report.

    `walk` makes a walk of `task["length"]` nodes from each of `starts (k,)`, in the format of the tool. `to_array`,
    which is not timed, converts them, or the last of them, to `(k, length)` node numbers, shorter walks padded with −1.
    The work is `task["walks"]` walks per node; a slow tool does fewer and a fast one repeats them, so that each of
    `task["repeats"]` repeats takes about `task["seconds"]`; with `task["whole"]` at least one walk per node. The best
    repeat counts.
    """
    indptr, indices = arrays(task["graph"])
    nodes = len(indptr) - 1
    order = np.random.default_rng(0).permutation(nodes)
    full = nodes * task["walks"]
    unit = nodes if task["whole"] else 1

    def starts(count: int) -> Array:
        return np.resize(order, count)  # repeats the order as often as needed

    def run(count: int, repetitions: int) -> tuple[Any, float, float]:
        sources, walks = starts(count), None

        def work() -> Any:
            nonlocal walks
            for _ in range(repetitions):
                walks = None
                walks = walk(sources)
            return walks

        return timed(work)

    walk(starts(min(full, 100)))  # compiles
    count, repetitions = min(full, 500), 1
    while True:
        seconds = run(count, repetitions)[1]
        if seconds >= 0.8 * task["seconds"] and count % unit == 0:
            break
        wanted = math.ceil(count * repetitions * min(10.0, 1.1 * task["seconds"] / seconds))
        count, repetitions = min(full, math.ceil(wanted / unit) * unit), max(1, math.ceil(wanted / full))
    walls, cpus, walks = [], [], None
    for _ in range(task["repeats"]):
        walks = None
        walks, wall, cpu = run(count, repetitions)
        walls.append(wall)
        cpus.append(cpu)
    peak = peak_mb()
    table = to_array(walks)
    if table.ndim != 2 or table.shape[1] != task["length"] or not 0 < len(table) <= count:
        raise SystemExit(f"got an array of shape {table.shape}, expected {count} walks of {task['length']} nodes")
    table = table[:_CHECKED].astype(np.int64)
    wrong, steps = wrong_steps(indptr, indices, table)
    if wrong > 1e-3 * steps:
        raise SystemExit(f"{wrong:,} of {steps:,} steps are not edges of the graph")
    report(
        work=count * (task["length"] - 1) * repetitions,
        seconds=min(walls),
        cpu_seconds=min(cpus),
        peak_mb=peak,
        walks=count * repetitions,
        checked_walks=len(table),
        return_rate=return_rate(table),
        note=f"{wrong:,} of {steps:,} steps are not edges" if wrong else "",
    )


def wrong_steps(indptr: Array, indices: Array, walks: Array) -> tuple[int, int]:
    """Return how many steps of `walks (k, length)` are not edges, and the number of steps."""
    nodes = len(indptr) - 1
    keys = np.repeat(np.arange(nodes), np.diff(indptr)) * nodes + indices  # ascending, as rows are
    source, target = walks[:, :-1].ravel(), walks[:, 1:].ravel()
    valid = target >= 0
    steps = source[valid] * nodes + target[valid]
    position = np.minimum(np.searchsorted(keys, steps), len(keys) - 1)
    return int(np.count_nonzero(keys[position] != steps)), len(steps)


def return_rate(walks: Array) -> float:
    """Return how often a step leads back to the node before the last: tools with the same p and q agree on it."""
    valid = walks[:, 2:] >= 0
    return float(np.mean((walks[:, 2:] == walks[:, :-2])[valid])) if valid.any() else 0.0


# ---------------------------------------------------------------------- loading


def measure_load(task: dict[str, Any], load: Callable[[str], tuple[int, int]]) -> None:
    """Time `load(path)`, which reads an edge list and returns (nodes, stored entries), and report.

    A small file is read first, so that nothing is compiled or imported within the measured time. There are at most
    `task["repeats"]` repeats, fewer where one takes long; small files are read several times in each. The peak memory
    is that of the first reading.
    """
    load(task["warm_up"])
    (nodes, entries), wall, cpu = timed(lambda: load(task["path"]))
    peak = peak_mb()
    if (nodes, entries) != (task["nodes"], 2 * task["edges"]):
        raise SystemExit(f"read {nodes} nodes and {entries} entries, not {task['nodes']} and {2 * task['edges']}")
    repetitions = max(1, min(1000, round(task["seconds"] / wall)))
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) * repetitions + wall < task["patience"]:
        _, wall, cpu = timed(lambda: [load(task["path"]) for _ in range(repetitions)])
        walls.append(wall / repetitions)
        cpus.append(cpu / repetitions)
    report(work=task["edges"], seconds=min(walls), cpu_seconds=min(cpus), peak_mb=peak, repeats=len(walls))


# ---------------------------------------------------------------------- skip-gram


def pairs_of_walk(length: int, window: int, shrink: bool) -> float:
    """Return the pairs of a walk; with windows that `shrink` each center's reach is uniform from 1 to `window`.

    A node with reach r has r contexts on each side, fewer near the ends: 2 r L - r (r + 1) in a walk of L > r nodes.
    """
    reaches = [min(reach, length - 1) for reach in (range(1, window + 1) if shrink else (window,))]
    return sum(2 * reach * length - reach * (reach + 1) for reach in reaches) / len(reaches)


def uniform_walks(indptr: Array, indices: Array, starts: Array, length: int, seed: int) -> Array:
    """Return a walk from each of `starts (k,)`, `(k, length)`; every node must have a neighbor."""
    random = np.random.default_rng(seed)
    walks = np.empty((len(starts), length), np.int64)
    walks[:, 0] = starts
    for step in range(1, length):
        last = walks[:, step - 1]
        walks[:, step] = indices[indptr[last] + random.integers(indptr[last + 1] - indptr[last])]
    return walks


def measure_pairs(task: dict[str, Any], prepare: Callable[[int], Callable[[], tuple[Array, float]]]) -> None:
    """Time what `prepare(seed)` returns, which returns vectors `(n, d)` and the number of pairs trained, and report.

    There are `task["seeds"]` runs, fewer where they take longer than `task["patience"]`; the best one counts. The tool
    has compiled what it compiles before.
    """
    pairs = 0.0
    walls: list[float] = []
    cpus: list[float] = []
    all_vectors: list[Array] = []
    for seed in range(task["seeds"]):
        if task["patience"] is not None and sum(walls) > task["patience"]:
            break
        (vectors, pairs), wall, cpu = timed(prepare(seed))
        walls.append(wall)
        cpus.append(cpu)
        if task["scorer"]:
            all_vectors.append(np.array(vectors, np.float32))
    peak = peak_mb()
    times = {"work": pairs, "seconds": min(walls), "cpu_seconds": min(cpus), "peak_mb": peak, "runs": len(walls)}
    report(**times, **scored(task, all_vectors))


def measure_deepwalk(task: dict[str, Any], script: str, deepwalk: Callable[[int], Array]) -> None:
    """Time processes that read an edge list and make vectors, and report.

    This process starts others with the same script; in them `task["vectors"]` is the file for the vectors of
    `deepwalk(seed)`. The first one does `task["warm_up"]`, a small job, so that kernels that a tool stores on disk are
    compiled. The others, `task["seeds"]` or fewer where they take longer than `task["patience"]`, have a seed each; the
    best one counts.
    """
    if "vectors" in task:
        np.save(task["vectors"], deepwalk(task["seed"]))
        report(peak_mb=peak_mb())
        return
    runs: list[tuple[float, float, float]] = []
    all_vectors: list[Array] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        _run_script(script, task | task["warm_up"] | {"vectors": str(path), "seed": 0})
        for seed in range(task["seeds"]):
            if sum(run[0] for run in runs) > task["patience"]:
                break
            runs.append(_run_script(script, task | {"vectors": str(path), "seed": seed}))
            all_vectors.append(np.load(path))
    wrong = [vectors.shape for vectors in all_vectors if vectors.shape != (task["nodes"], task["dim"])]
    if wrong:
        raise SystemExit(f"got vectors of shape {wrong[0]}, expected {(task['nodes'], task['dim'])}")
    scores = scored(task, all_vectors)
    wall, cpu, peak = (min(run[column] for run in runs) for column in range(3))
    size = 2 * 4 * task["nodes"] * task["dim"] + 8 * (task["nodes"] + 1) + 4 * 2 * task["edges"]
    time_text = f"{wall:.1f} s, {cpu:.1f} CPU s"
    memory_text = "" if task["scorer"] else f"peak {peak * 1e6 / size:.2f} × tables and graph"
    note = "; ".join(filter(None, [time_text, memory_text, scores.pop("note", "")]))
    pairs = task["nodes"] * task["walks"] * pairs_of_walk(task["length"], task["window"], shrink=False)
    times = {"work": pairs, "seconds": wall, "cpu_seconds": cpu, "peak_mb": peak, "runs": len(runs)}
    report(**times, memory_ratio=peak * 1e6 / size, note=note, **scores)


def _run_script(script: str, task: dict[str, Any]) -> tuple[float, float, float]:
    """Run a script on a task; return its wall and CPU seconds from start to end and its peak memory in MB."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, script, json.dumps(task)], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(1)
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return wall, cpu, json.loads(done.stdout.splitlines()[-1])["peak_mb"]


def scored(task: dict[str, Any], all_vectors: list[Array]) -> dict[str, Any]:
    """Return the accuracies of logistic regression on vectors: their means, each of them, and a note."""
    if not task["scorer"] or not all_vectors:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.npy" for number in range(len(all_vectors))]
        for path, vectors in zip(paths, all_vectors, strict=True):
            np.save(path, vectors)
        done = subprocess.run([*task["scorer"], *map(str, paths)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(1)
    each = json.loads(done.stdout.splitlines()[-1])
    validation, test = np.mean(each, axis=0).tolist()
    spread = np.std(each, axis=0).round(4).tolist()
    note = f"accuracy {validation:.3f} validation, {test:.3f} test, {len(each)} seed{'s' if len(each) > 1 else ''}"
    return {"validation": validation, "test": test, "spread": spread, "accuracies": each, "note": note}
