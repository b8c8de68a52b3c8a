"""What the scripts of all tools share: reading the job, timing, checking walks, reporting. Needs NumPy only."""

import gc
import json
import math
import re
import resource
import sys
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

    def rounds_of(count: int, rounds: int) -> tuple[Any, float, float]:
        chosen, walks = starts(count), None

        def work() -> Any:
            nonlocal walks
            for _ in range(rounds):
                walks = None
                walks = walk(chosen)
            return walks

        return timed(work)

    walk(starts(min(full, 100)))  # compiles
    count, rounds = min(full, 500), 1
    while True:
        seconds = rounds_of(count, rounds)[1]
        if seconds >= 0.8 * task["seconds"] and count % unit == 0:
            break
        wanted = math.ceil(count * rounds * min(10.0, 1.1 * task["seconds"] / seconds))
        count, rounds = min(full, math.ceil(wanted / unit) * unit), max(1, math.ceil(wanted / full))
    walls, cpus, walks = [], [], None
    for _ in range(task["repeats"]):
        walks = None
        walks, wall, cpu = rounds_of(count, rounds)
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
        work=count * (task["length"] - 1) * rounds,
        seconds=min(walls),
        cpu_seconds=min(cpus),
        peak_mb=peak,
        walks=count * rounds,
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
    rounds = max(1, min(1000, round(task["seconds"] / wall)))
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) * rounds + wall < task["patience"]:
        _, wall, cpu = timed(lambda: [load(task["path"]) for _ in range(rounds)])
        walls.append(wall / rounds)
        cpus.append(cpu / rounds)
    report(work=task["edges"], seconds=min(walls), cpu_seconds=min(cpus), peak_mb=peak, repeats=len(walls))
