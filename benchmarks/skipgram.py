"""`cge bench skipgram`: pairs per second of skip-gram training and DeepWalk from file to vectors, in one run.

Vectors of size 128, five negatives for each pair, one epoch. CORA: 10 walks of 80 nodes per node, window 10; npm: 5
walks of 20 nodes, window 5.

`pairs` measures training: cge and ensmallen make their walks within the measured time, gensim gets them and its
vocabulary as input. On npm one walk per node is enough for a rate, and gensim trains on a part of them. A *pair* is a
center with one context that was trained. gensim shrinks its windows at random, to half on average, and so trains half
of the pairs that full windows have: only these are counted. Its down-sampling of frequent nodes is off. ensmallen's
window is one step shorter ahead than back, it leaves out contexts that are the center itself, and draws five negatives
for each center instead of each pair; its pairs are counted on its own walks.

`deepwalk` measures a process of its own from its start to the vectors: interpreter, imports, reading the edge list,
walks, training. Kernels that a tool stores on disk were compiled in an earlier run. `M pairs/s` is then the number of
pairs that full windows have, the same for every tool, divided by the wall seconds; the note has the seconds. Peak
memory is also given as a multiple of the size of both tables and the graph.

On CORA every row has the accuracy of the vectors: logistic regression on the public split, C selected on the
validation nodes, mean over seeds. Rates are comparable only where accuracies are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.graphs import graph_files
from benchmarks.session import Task, options, run

__all__ = ["main"]

_CASES = ("cora", "npm")
_TOOLS = {"pairs": ("cge", "gensim", "ensmallen"), "deepwalk": ("cge", "ensmallen", "pecanpy")}
_WALKS = {"cora": (10, 80, 10), "npm": (5, 20, 5)}  # walks per node, nodes in a walk, window
_DIM, _NEGATIVES = 128, 5
_GENSIM_WALKS = 60_000  # at most, where only the rate is measured
_PATIENCE = 12.0  # seconds after which there is no further run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    tools = tuple(dict.fromkeys(tool for kind in _TOOLS.values() for tool in kind))
    parser = options("skipgram", str(__doc__).splitlines()[0], _CASES, tools, limit=300)
    parser.add_argument("--kinds", choices=[*_TOOLS, "both"], default="both", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=8, help="seeds of CORA, one thread (default: %(default)s)")
    args = parser.parse_args(argv)
    kinds = tuple(_TOOLS) if args.kinds == "both" else (args.kinds,)
    tasks = [task for kind in kinds for case in args.cases for task in _tasks(kind, case, args)]
    return run("skipgram", tasks, args)


def _tasks(kind: str, case: str, args: Any) -> Iterator[Task]:
    for n_jobs in args.n_jobs:
        for tool in _TOOLS[kind]:
            # A peer needs minutes for DeepWalk on npm: once, with all threads.
            once = kind == "deepwalk" and case == "npm" and tool != "cge"
            if tool in args.tools and not (once and n_jobs < max(args.n_jobs)):
                yield Task(f"{case} {kind}", tool, n_jobs, "pairs/s", partial(_job, kind, case, n_jobs, args))


def _job(kind: str, case: str, n_jobs: int, args: Any) -> dict[str, Any]:
    files, (walks, length, window) = graph_files(case), _WALKS[case]
    small = graph_files("cora")
    scored = case == "cora"
    return {
        "kind": kind,
        "graph": str(files.arrays),
        "integers": str(files.integers),
        "nodes": files.nodes,
        "edges": files.edges,
        "walks": 1 if kind == "pairs" and not scored else walks,
        "most_walks": None if scored else _GENSIM_WALKS,
        "length": length,
        "window": window,
        "dim": _DIM,
        "negatives": _NEGATIVES,
        "seeds": args.seeds if scored and kind == "pairs" and n_jobs == 1 else args.repeats,
        "patience": None if scored and kind == "pairs" and n_jobs == 1 else _PATIENCE,
        "warm_up": {"integers": str(small.integers), "nodes": small.nodes, "walks": 1},
        "scorer": [sys.executable, str(Path(__file__).parent / "accuracy.py"), case] if scored else None,
    }


if __name__ == "__main__":
    sys.exit(main())
