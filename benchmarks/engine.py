"""`cge bench engine`: seconds of propagation on local threads and on Ray with one and two workers, and equal bytes.

A graph on disk is propagated slab by slab, four hops with two exponents. Ray runs on this machine, with as many nodes
of one core as there are workers, which are warmed up before. Every run ends with the same SHA-256, or it fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from benchmarks.harness import cache_folder
from benchmarks.stored_graphs import write_graph
from cge.data.stored import StoredGraph, ingest, open_graph
from cge.engine import Engine, LocalEngine, RayEngine
from cge.training.slab_columns import HopRows
from cge.training.slab_propagation import SlabTasks, run_tasks

__all__ = ["main"]

_KEPT = HopRows(((0.0, 4), (0.5, 4)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="cge bench engine", description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=96)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="of Ray; none: only local threads")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    stored = _stored(args)
    rows: list[dict[str, Any]] = [{"engine": "local", "workers": 1} | _measure(stored, LocalEngine(1), 1)]
    rows += [{"engine": "ray", "workers": workers} | _on_cluster(stored, workers) for workers in args.workers]
    same = len({row["sha256"] for row in rows}) == 1
    if args.json:
        print(json.dumps({"nodes": args.nodes, "edges": args.edges, "rows": rows, "same": same}))
    else:
        for row in rows:
            print(f"{row['engine']:5}  {row['workers']} workers  {row['seconds']:7.1f} s  {row['sha256'][:16]}")
    return 0 if same else 1


def _stored(args: Any) -> StoredGraph:
    folder = cache_folder() / f"engine-{args.nodes}-{args.edges}-{args.features}"
    if not (folder / "graph" / "graph.json").exists():
        write_graph(folder, args.nodes, args.edges, args.features, 0.001)
        ingest(folder / "edges-*.parquet", folder / "graph", features=folder / "x.npy")
    return open_graph(folder / "graph")


def _measure(stored: StoredGraph, engine: Engine, threads: int) -> dict[str, Any]:
    nodes = np.arange(0, stored.num_nodes, 100)
    with TemporaryDirectory(dir=stored.folder.parent) as folder:
        tasks = SlabTasks(str(stored.folder), stored.fingerprint, folder, 16 << 30, threads)
        tasks.prepare(engine, lambda *_: None)  # starts workers, too
        start, slabs = time.perf_counter(), range(len(stored.slab_names))
        run_tasks(engine, partial(tasks.labeled_rows, _KEPT, nodes), slabs, "propagating", lambda *_: None)
        seconds, digest = time.perf_counter() - start, hashlib.sha256()
        for number in slabs:
            digest.update((Path(folder) / f"rows-{number:04d}.npy").read_bytes())
    return {"seconds": seconds, "sha256": digest.hexdigest()}


def _on_cluster(stored: StoredGraph, workers: int) -> dict[str, Any]:
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(workers):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        return _measure(stored, RayEngine(), 1)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
