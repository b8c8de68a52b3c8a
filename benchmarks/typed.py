"""`cge bench typed`: CPU time of a fit on a graph with eight relations, beside that on the same graph without types.

Nodes of four types with 16 dense features, ten edges per node, which are drawn at random and have types. Classes are
those of the features plus noise. Each fit is a process of its own with the default model search.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.planted import SIZES
from benchmarks.report import machine_description
from cge.estimators.cge import CGE
from cge.graph import Graph

__all__ = ["main", "typed_graph"]

_EDGES, _FEATURES, _CLASSES, _LABELS = 10, 16, 4, 1000
_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2))  # node types with edges between them; both directions are relations
_RESULTS = Path(__file__).parents[1] / "results"


def typed_graph(nodes: int, types: bool, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Return a random graph, with or without its types, and the class of each node."""
    random = np.random.default_rng(seed)
    node_types, kind = np.arange(nodes) % 4, random.integers(len(_PAIRS), size=_EDGES * nodes)
    endpoints = [np.array(_PAIRS)[kind, side] + 4 * random.integers(nodes // 4, size=len(kind)) for side in (0, 1)]
    centers = random.normal(size=(_CLASSES, _FEATURES))
    classes = random.integers(_CLASSES, size=nodes)
    features = (centers[classes] + 2 * random.normal(size=(nodes, _FEATURES))).astype(np.float32)
    names = np.array(["a", "b", "c", "d"])[node_types] if types else None
    return Graph.from_edges(np.column_stack(endpoints), num_nodes=nodes, features=features, node_types=names), classes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="cge bench typed", description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--save", action="store_true", help="write results/bench-typed.json")
    parser.add_argument("--size", choices=list(SIZES), default="100k", help="number of nodes, default: %(default)s")
    parser.add_argument("--jobs", type=int, default=None, help="threads, default: all cores")
    parser.add_argument("--child", choices=["yes", "no"], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child is not None:
        print(json.dumps(_fit(SIZES[args.size], args.child == "yes", args.jobs)))
        return 0
    rows = []
    for types in ("no", "yes"):
        command = [sys.executable, __file__, "--size", args.size, "--child", types]
        command += [] if args.jobs is None else ["--jobs", str(args.jobs)]
        output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        rows.append({"types": types} | json.loads(output.splitlines()[-1]))
    ratio = rows[1]["cpu_seconds"] / rows[0]["cpu_seconds"]
    result = {"bench": "typed", "size": args.size, "machine": machine_description([]), "rows": rows, "ratio": ratio}
    lines = ["| types | CPU s | wall s | weighting |", "|---|--:|--:|---|"]
    lines += [
        f"| {row['types']} | {row['cpu_seconds']:.1f} | {row['seconds']:.1f} | {row['weighting']} |" for row in rows
    ]
    print(json.dumps(result) if args.json else "\n".join([*lines, "", f"ratio of CPU times: {ratio:.2f}"]))
    if args.save:
        (_RESULTS / "bench-typed.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _fit(nodes: int, types: bool, n_jobs: int | None) -> dict[str, float | str]:
    """Return the CPU and wall seconds of a fit; labels are of one node type."""
    graph, classes = typed_graph(nodes, types)
    labeled = 4 * np.random.default_rng(1).choice(nodes // 4, min(_LABELS, nodes // 8), replace=False)
    train, validation = (np.full(nodes, -1) for _ in range(2))
    half = len(labeled) // 2
    train[labeled[:half]], validation[labeled[half:]] = classes[labeled[:half]], classes[labeled[half:]]
    start, wall = time.process_time(), time.perf_counter()
    model = CGE(n_jobs=n_jobs).fit(graph, train, validation)
    seconds = {"cpu_seconds": time.process_time() - start, "seconds": time.perf_counter() - wall}
    return seconds | {"weighting": model.weighting_}


if __name__ == "__main__":
    sys.exit(main())
