"""Propagate a stored graph while nodes, workers and the driver are lost at random moments; compare the bytes.

Ray runs on three local nodes (`ray.cluster_utils.Cluster`). Kinds of faults: a node is removed without grace, a worker
process is killed, the driver is killed and started again, the disk is full (a limit on the size of files) and then not,
and a slab of features has a changed bit, which must be refused with one sentence.

    python scripts/fault_test.py --moments 10 --out results/faults.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cge.data.stored import ingest, open_graph
from cge.engine import Engine, LocalEngine, RayEngine
from cge.errors import CgeError
from cge.training.slab_columns import HopRows
from cge.training.slab_propagation import SlabTasks, run_tasks

NODES, EDGES, FEATURES = 20_000, 200_000, 96
KEPT = HopRows(((0.0, 4), (0.5, 4)))
TASK_SECONDS = 0.3  # by which tasks are slowed down, so that faults fall into them


def task(tasks: SlabTasks, nodes: Any, number: int) -> None:
    """Propagate a slab; the process is known by a file while it runs."""
    running = tasks.folder / f"running-{os.getpid()}"
    running.touch()
    time.sleep(TASK_SECONDS)
    tasks.labeled_rows(KEPT, nodes, number)
    running.unlink(missing_ok=True)


def propagate(graph: Path, work: Path, engine: Engine) -> str:
    """Run all tasks and return the hash of their results."""
    stored, nodes = open_graph(graph), np.arange(0, NODES, 9)
    tasks = SlabTasks.of(stored, work, engine, 4 << 30, 1)
    tasks.prepare(LocalEngine(1), lambda *_: None)
    slabs = range(len(stored.slab_names))
    run_tasks(engine, partial(task, tasks, nodes), slabs, "propagating", lambda *_: None)
    digest = hashlib.sha256()
    for number in slabs:
        digest.update((work / f"rows-{number:04d}.npy").read_bytes())
    return digest.hexdigest()


def write_graph(folder: Path) -> Path:
    """Write a random graph."""
    generator = np.random.default_rng(0)
    edges = generator.integers(0, NODES, (EDGES, 2))
    lines = "".join(f"{a},{b}\n" for a, b in edges.tolist())
    (folder / "edges.csv").write_text("source,target\n" + lines)
    np.save(folder / "x.npy", generator.standard_normal((NODES, FEATURES)).astype(np.float32))
    return ingest(folder / "edges.csv", folder / "graph", features=folder / "x.npy").folder


class Faults:
    """Causes faults on one cluster and one graph; each method returns whether the bytes are the expected ones."""

    def __init__(self, folder: Path, with_ray: bool) -> None:
        self.folder, self.graph = folder, write_graph(folder)
        self.expected = propagate(self.graph, folder / "expected", LocalEngine(1))
        self.cluster: Any = None
        if with_ray:
            os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")  # of a busy machine
            from ray.cluster_utils import Cluster

            self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
            self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(2)]
            self.cluster.wait_for_nodes()

    def _delay(self) -> float:
        return random.uniform(0.1, 2.5)

    def _connected(self, work: Path, fault: Any) -> bool:
        """Propagate on the cluster while `fault` runs in another thread."""
        import ray

        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
        thread = threading.Thread(target=fault)
        thread.start()
        result = propagate(self.graph, work, RayEngine())
        thread.join()
        return result == self.expected

    def node_removed(self, work: Path) -> bool:
        """Remove a node without grace."""

        def remove() -> None:
            time.sleep(self._delay())
            self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)

        same = self._connected(work, remove)
        self.nodes.append(self.cluster.add_node(num_cpus=1))  # Ray starts nodes in the main thread only
        self.cluster.wait_for_nodes()
        return same

    def worker_killed(self, work: Path) -> bool:
        """Kill a process that runs a task."""

        def kill() -> None:
            time.sleep(self._delay())
            for _ in range(50):
                running = [int(path.name.partition("-")[2]) for path in work.glob("running-*")]
                running = [
                    process for process in running if process != os.getpid() and Path(f"/proc/{process}").exists()
                ]
                if running:
                    os.kill(random.choice(running), signal.SIGKILL)
                    return
                time.sleep(0.1)

        return self._connected(work, kill)

    def _driver(self, work: Path, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, __file__, "--driver", str(self.graph), str(work), *more]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def driver_killed(self, work: Path) -> bool:
        """Kill the driver, and run it again."""
        address = [] if self.cluster is None else ["--address", self.cluster.address]
        process = self._driver(work, *address)
        for _ in range(600):
            if any(work.glob("running-*")) or process.poll() is not None:
                break
            time.sleep(0.05)
        time.sleep(self._delay())
        process.kill()
        process.communicate()
        output, _ = self._driver(work, *address).communicate()
        return output.strip() == self.expected

    def disk_full(self, work: Path) -> bool:
        """Let writing fail at a random size of files, then run without a limit."""
        limit = random.randint(1000, 2_000_000)
        output, errors = self._driver(work, "--file-bytes", str(limit)).communicate()
        refused = output.strip() == self.expected or ("Traceback" not in errors and "File too large" in errors)
        output, _ = self._driver(work).communicate()
        return refused and output.strip() == self.expected

    def slab_changed(self, work: Path) -> bool:
        """Change a bit of a slab; it must be refused."""
        copy = shutil.copytree(self.graph, work.with_name(f"{work.name}-graph"))
        path = random.choice(sorted(copy.glob("x-*.npy")))
        data = bytearray(path.read_bytes())
        data[random.randrange(128, len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        try:
            propagate(copy, work, LocalEngine(1))
        except CgeError as error:
            return f"{path.name}: the file was changed" in str(error)
        return False


RAY_KINDS, LOCAL_KINDS = ("node_removed", "worker_killed", "driver_killed"), ("disk_full", "slab_changed")


def run_driver(arguments: argparse.Namespace) -> int:
    """Propagate in this process, perhaps with a limit on the size of files, and print the hash."""
    if arguments.file_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments.file_bytes, arguments.file_bytes))
    try:
        engine: Engine = RayEngine(arguments.address) if arguments.address else LocalEngine(1)
        graph, work = map(Path, arguments.driver)
        print(propagate(graph, work, engine))
    except (CgeError, OSError) as error:
        print(str(error), file=sys.stderr)
        return 2
    return 0


def main() -> int:
    """Run all faults; return 1 if any result differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=10, help="random moments for each kind of fault")
    parser.add_argument("--kinds", nargs="*", default=[*RAY_KINDS, *LOCAL_KINDS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    parser.add_argument("--driver", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--file-bytes", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.driver:
        return run_driver(arguments)
    random.seed(arguments.seed)
    results: dict[str, dict[str, int]] = {}
    with TemporaryDirectory() as folder:
        faults = Faults(Path(folder), any(kind in RAY_KINDS for kind in arguments.kinds))
        for kind in arguments.kinds:
            same = 0
            for moment in range(arguments.moments):
                same += getattr(faults, kind)(Path(folder) / f"{kind}-{moment}")
            results[kind] = {"moments": arguments.moments, "same": same}
            print(f"{kind.replace('_', ' ')}: {same} of {arguments.moments} as expected", flush=True)
            if arguments.out:
                Path(arguments.out).write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["same"] < result["moments"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
