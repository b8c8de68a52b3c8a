"""`cge bench walks`: steps per second of random walks, ours and the peers', in one run.

Uniform walks and node2vec's (p = 1, q = 0.5), 80 nodes long. Graph loading, imports and compilation are not measured,
nor are the tables that a peer prepares; what cge prepares is, with at least one walk per node. A slow peer makes fewer
walks. The walks of every tool are checked after the measurement: each step must be an edge. `return_rate` in the JSON
rows (how often a step leads back to the node before the last) shows whether tools mean the same by p and q.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.graphs import GRAPHS, graph_files
from benchmarks.harness import OURS
from benchmarks.session import Task, options, run

__all__ = ["main"]

_LENGTH = 80
_WALKS = {"cora": 10, "pubmed": 10, "npm": 2, "powerlaw": 1}  # per node
_KINDS = {"uniform": (1.0, 1.0), "node2vec": (1.0, 0.5)}  # p, q
_TOOLS = {
    "uniform": ("cge", "numpy", "ensmallen", "dgl", "fastnode2vec", "csrgraph", "pecanpy"),
    "node2vec": ("cge", "ensmallen", "dgl", "fastnode2vec", "pecanpy"),
}
_ONE_THREAD = ("numpy", "fastnode2vec")  # have no setting for more
_WHOLE = (OURS, "numpy")  # make at least one walk per node, however long that takes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = options("walks", str(__doc__).splitlines()[0], GRAPHS, _TOOLS["uniform"], limit=180)
    parser.add_argument("--kinds", choices=[*_KINDS, "both"], default="both", help="default: %(default)s")
    given = parser.parse_args(argv)
    kinds = tuple(_KINDS) if given.kinds == "both" else (given.kinds,)
    tasks = [task for kind in kinds for case in given.cases for task in _tasks(kind, case, given)]
    return run("walks", tasks, given)


def _tasks(kind: str, case: str, given: Any) -> Iterator[Task]:
    def job(whole: bool) -> dict[str, Any]:
        files, (p, q) = graph_files(case), _KINDS[kind]
        return {
            "graph": str(files.arrays),
            "integers": str(files.integers),
            "nodes": files.nodes,
            "length": _LENGTH,
            "walks": _WALKS[case],
            "whole": whole,
            "p": p,
            "q": q,
            "repeats": given.repeats,
            "seconds": given.seconds,
        }

    for n_jobs in given.n_jobs:
        for tool in _TOOLS[kind]:
            if tool in given.tools and (n_jobs == 1 or tool not in _ONE_THREAD):
                yield Task(f"{case} {kind}", tool, n_jobs, "steps/s", partial(job, tool in _WHOLE))


if __name__ == "__main__":
    sys.exit(main())
