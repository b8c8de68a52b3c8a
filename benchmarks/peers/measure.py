"""What the scripts of all tools share: reading the job, timing, checking walks, reporting. Needs NumPy only."""

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

_CHECKED = 20_000  # walks looked at after the measurement


def job() -> dict[str, Any]:
    """Return the job: the JSON object that is the script's argument."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def arrays(path: str) -> tuple[Array, Array]:
    """Read a graph: `indptr (n+1,)` int64 and `indices (2m,)` int32."""
    with np.load(path) as file:
        return file["indptr"], file["indices"]


def peak_mb() -> float:
    """Return the largest resident size of this process so far, in MB."""
    # getrusage's maximum survives exec, so a child would report at least its parent's size; VmHWM does not.
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) * 1024 / 1e6
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 1e6 if sys.platform == "darwin" else size * 1024 / 1e6


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what `work()` returns, its wall seconds and its CPU seconds (of all threads)."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def chosen_by(model: Any) -> tuple[dict[str, Any], str]:
    """Return what a trained `CGE` chose: facts, and words for a note."""
    facts = {
        "epochs": len(model.history_),
        "weights": model.weighting_,
        "classifiers": model.classifiers_,
        "label_propagation": model.label_propagation_,
        "compared": len(model.search_results_),
    }
    votes = "with votes" if model.label_propagation_ else "no votes"
    return facts, f"weights {model.weighting_}, read by {' and '.join(model.classifiers_)}, {votes}"


def report(**facts: Any) -> None:
    """Print the report."""
    print(json.dumps(facts))


# ---------------------------------------------------------------------- walks


def measure_walks(task: dict[str, Any], walk: Callable[[Array], Any], to_array: Callable[[Any], Array]) -> None:
    """Time `walk(starts)`, check what it returned and report.

    `walk` makes one walk of `task["length"]` nodes from each of `starts (k,)`, in whatever form the tool gives them.
    `to_array` turns that, or the last of it, into `(k, length)` node numbers, ended walks filled up with −1; it is not
    timed. The work is `task["walks"]` walks per node; a slow tool does fewer and a quick one does them several times,
    so that each of `task["repeats"]` repeats takes about `task["seconds"]`; with `task["whole"]` no fewer than one per
    node. The best repeat counts.
    """
    indptr, indices = arrays(task["graph"])
    nodes = len(indptr) - 1
    order = np.random.default_rng(0).permutation(nodes)
    full = nodes * task["walks"]
    unit = nodes if task["whole"] else 1

    def starts(count: int) -> Array:
        return np.resize(order, count)  # repeats the order as often as needed

    def rounds_of(count: int, max_epochs: int) -> tuple[Any, float, float]:
        chosen, walks = starts(count), None

        def work() -> Any:
            nonlocal walks
            for _ in range(max_epochs):
                walks = None
                walks = walk(chosen)
            return walks

        return timed(work)

    walk(starts(min(full, 100)))  # compiles
    count, max_epochs = min(full, 500), 1
    while True:
        seconds = rounds_of(count, max_epochs)[1]
        if seconds >= 0.8 * task["seconds"] and count % unit == 0:
            break
        wanted = math.ceil(count * max_epochs * min(10.0, 1.1 * task["seconds"] / seconds))
        count, max_epochs = min(full, math.ceil(wanted / unit) * unit), max(1, math.ceil(wanted / full))
    walls, cpus, walks = [], [], None
    for _ in range(task["repeats"]):
        walks = None
        walks, wall, cpu = rounds_of(count, max_epochs)
        walls.append(wall)
        cpus.append(cpu)
    peak = peak_mb()
    table = to_array(walks)
    if table.ndim != 2 or table.shape[1] != task["length"] or not 0 < len(table) <= count:
        raise SystemExit(f"an array of shape {table.shape} was made, not {count} walks of {task['length']} nodes")
    table = table[:_CHECKED].astype(np.int64)
    wrong, steps = wrong_steps(indptr, indices, table)
    if wrong > 1e-3 * steps:
        raise SystemExit(f"{wrong:,} of {steps:,} steps are not edges of the graph")
    report(
        work=count * (task["length"] - 1) * max_epochs,
        seconds=min(walls),
        cpu_seconds=min(cpus),
        peak_mb=peak,
        walks=count * max_epochs,
        checked_walks=len(table),
        return_rate=return_rate(table),
        note=f"{wrong:,} of {steps:,} steps are not edges" if wrong else "",
    )


def wrong_steps(indptr: Array, indices: Array, walks: Array) -> tuple[int, int]:
    """Return how many steps of `walks (k, length)` are not edges, and how many there are."""
    nodes = len(indptr) - 1
    keys = np.repeat(np.arange(nodes), np.diff(indptr)) * nodes + indices  # ascending, as rows are
    source, target = walks[:, :-1].ravel(), walks[:, 1:].ravel()
    there = target >= 0
    steps = source[there] * nodes + target[there]
    place = np.minimum(np.searchsorted(keys, steps), len(keys) - 1)
    return int(np.count_nonzero(keys[place] != steps)), len(steps)


def return_rate(walks: Array) -> float:
    """Return how often a step leads back to the node before the last: tools with the same p and q agree on it."""
    there = walks[:, 2:] >= 0
    return float(np.mean((walks[:, 2:] == walks[:, :-2])[there])) if there.any() else 0.0


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
    max_epochs = max(1, min(1000, round(task["seconds"] / wall)))
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) * max_epochs + wall < task["patience"]:
        _, wall, cpu = timed(lambda: [load(task["path"]) for _ in range(max_epochs)])
        walls.append(wall / max_epochs)
        cpus.append(cpu / max_epochs)
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
    made: list[Array] = []
    for seed in range(task["seeds"]):
        if task["patience"] is not None and sum(walls) > task["patience"]:
            break
        (vectors, pairs), wall, cpu = timed(prepare(seed))
        walls.append(wall)
        cpus.append(cpu)
        if task["scorer"]:
            made.append(np.array(vectors, np.float32))
    peak = peak_mb()
    known = {"work": pairs, "seconds": min(walls), "cpu_seconds": min(cpus), "peak_mb": peak, "runs": len(walls)}
    report(**known, **scored(task, made))


def measure_deepwalk(task: dict[str, Any], script: str, deepwalk: Callable[[int], Array]) -> None:
    """Time processes that read an edge list and make vectors, and report.

    This process starts others with the same script; in them `task["vectors"]` says where the vectors of
    `deepwalk(seed)` go. The first one does `task["warm_up"]`, a small job, so that what a tool compiles and keeps is
    there. The others, `task["seeds"]` or fewer where they take longer than `task["patience"]`, have a seed each; the
    best one counts.
    """
    if "vectors" in task:
        np.save(task["vectors"], deepwalk(task["seed"]))
        report(peak_mb=peak_mb())
        return
    runs: list[tuple[float, float, float]] = []
    made: list[Array] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        _run_script(script, task | task["warm_up"] | {"vectors": str(path), "seed": 0})
        for seed in range(task["seeds"]):
            if sum(run[0] for run in runs) > task["patience"]:
                break
            runs.append(_run_script(script, task | {"vectors": str(path), "seed": seed}))
            made.append(np.load(path))
    wrong = [vectors.shape for vectors in made if vectors.shape != (task["nodes"], task["dim"])]
    if wrong:
        raise SystemExit(f"vectors of shape {wrong[0]} were made, not {(task['nodes'], task['dim'])}")
    scores = scored(task, made)
    wall, cpu, peak = (min(run[place] for run in runs) for place in range(3))
    held = 2 * 4 * task["nodes"] * task["dim"] + 8 * (task["nodes"] + 1) + 4 * 2 * task["edges"]
    told = f"{wall:.1f} s, {cpu:.1f} CPU s"
    size = "" if task["scorer"] else f"peak {peak * 1e6 / held:.2f} × tables and rows"
    note = "; ".join(filter(None, [told, size, scores.pop("note", "")]))
    pairs = task["nodes"] * task["walks"] * pairs_of_walk(task["length"], task["window"], shrink=False)
    known = {"work": pairs, "seconds": wall, "cpu_seconds": cpu, "peak_mb": peak, "runs": len(runs)}
    report(**known, memory_ratio=peak * 1e6 / held, note=note, **scores)


def _run_script(script: str, task: dict[str, Any]) -> tuple[float, float, float]:
    """Run a script on a task; return its wall and CPU seconds from start to end and its peak memory in MB."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, script, json.dumps(task)], capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(1)
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return wall, cpu, json.loads(done.stdout.splitlines()[-1])["peak_mb"]


def scored(task: dict[str, Any], made: list[Array]) -> dict[str, Any]:
    """Return what the project's own scorer says of vectors: mean accuracies, each of them, and a note."""
    if not task["scorer"] or not made:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.npy" for number in range(len(made))]
        for path, vectors in zip(paths, made, strict=True):
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
