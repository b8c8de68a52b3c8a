"""`cge bench skipgram`: pairs per second of skip-gram training and DeepWalk from file to vectors, in one run.

Vectors of 128 numbers, five negatives for each pair, one epoch. CORA: 10 walks of 80 nodes from each node, window 10;
npm: 5 walks of 20 nodes, window 5.

`pairs` measures training: cge and ensmallen make their walks within the measured time, gensim is handed them and its
vocabulary. On npm one walk per node is enough for a rate, and gensim trains on a part of them. A *pair* is a center
with one context that was trained. gensim shrinks its windows at random, to half on average, and so trains half of the
pairs that full windows have: they are counted as what they are. Its down-sampling of frequent nodes is off. ensmallen
looks one step less ahead than back, leaves out contexts that are the center itself, and draws its five negatives for
each center instead of each pair; its pairs are counted on walks of its own.

`deepwalk` measures a process of its own from its start to the vectors: interpreter, imports, reading the edge list,
walks, training. Kernels that a tool keeps on disk are there from a run before. `M pairs/s` is then the number of
pairs that full windows have, the same for every tool, over the wall seconds; the note has the seconds. Peak memory is
also told as a multiple of both tables and the rows of the graph.

On CORA every row tells how well the vectors predict the fields: logistic regression on the public split, C chosen on
the validation nodes, mean over seeds. Two rates compare only where these do.
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
_GENSIM_WALKS = 60_000  # at most, where only the rate is wanted
_PATIENCE = 12.0  # seconds after which there is no further run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    tools = tuple(dict.fromkeys(tool for kind in _TOOLS.values() for tool in kind))
    parser = options("skipgram", str(__doc__).splitlines()[0], _CASES, tools, limit=300)
    parser.add_argument("--kinds", choices=[*_TOOLS, "both"], default="both", help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=8, help="vectors of CORA that are scored, one thread (default: %(default)s)"
    )
    given = parser.parse_args(argv)
    kinds = tuple(_TOOLS) if given.kinds == "both" else (given.kinds,)
    tasks = [task for kind in kinds for case in given.cases for task in _tasks(kind, case, given)]
    return run("skipgram", tasks, given)


def _tasks(kind: str, case: str, given: Any) -> Iterator[Task]:
    for n_jobs in given.n_jobs:
        for tool in _TOOLS[kind]:
            # A peer needs minutes for DeepWalk on npm: once, with all threads.
            once = kind == "deepwalk" and case == "npm" and tool != "cge"
            if tool in given.tools and not (once and n_jobs < max(given.n_jobs)):
                yield Task(f"{case} {kind}", tool, n_jobs, "pairs/s", partial(_job, kind, case, n_jobs, given))


def _job(kind: str, case: str, n_jobs: int, given: Any) -> dict[str, Any]:
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
        "seeds": given.seeds if scored and kind == "pairs" and n_jobs == 1 else given.repeats,
        "patience": None if scored and kind == "pairs" and n_jobs == 1 else _PATIENCE,
        "warm_up": {"integers": str(small.integers), "nodes": small.nodes, "walks": 1},
        "scorer": [sys.executable, str(Path(__file__).parent / "accuracy.py"), case] if scored else None,
    }


if __name__ == "__main__":
    sys.exit(main())
