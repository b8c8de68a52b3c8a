"""`cge bench walks`: steps per second of random walks, of cge and other packages, in one run.

Uniform walks and node2vec's (p = 1, q = 0.5), 80 nodes long. Graph loading, imports and compilation are not measured,
nor is the preprocessing of a peer; that of cge is, with at least one walk per node. A slow peer makes fewer walks. The
walks of every tool are checked after the measurement: each step must be an edge. `return_rate` in the JSON rows (how
often a step leads back to the node before the last) shows whether p and q have the same meaning in all tools.
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
_ONE_THREAD = ("numpy", "fastnode2vec")  # have no setting for threads
_WHOLE = (OURS, "numpy")  # make at least one walk per node


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = options("walks", str(__doc__).splitlines()[0], GRAPHS, _TOOLS["uniform"], limit=180)
    parser.add_argument("--kinds", choices=[*_KINDS, "both"], default="both", help="default: %(default)s")
    args = parser.parse_args(argv)
    kinds = tuple(_KINDS) if args.kinds == "both" else (args.kinds,)
    tasks = [task for kind in kinds for case in args.cases for task in _tasks(kind, case, args)]
    return run("walks", tasks, args)


def _tasks(kind: str, case: str, args: Any) -> Iterator[Task]:
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
            "repeats": args.repeats,
            "seconds": args.seconds,
        }

    for n_jobs in args.n_jobs:
        for tool in _TOOLS[kind]:
            if tool in args.tools and (n_jobs == 1 or tool not in _ONE_THREAD):
                yield Task(f"{case} {kind}", tool, n_jobs, "steps/s", partial(job, tool in _WHOLE))


if __name__ == "__main__":
    sys.exit(main())
