"""`cge bench scale`: seconds and memory of the whole pipeline, from files to vectors, as graphs grow.

The pipeline is what a user does: read edges, features and labels from files, `CGE().fit` with the defaults, vectors of
all nodes, export to Parquet, save the model, predict. Graphs are generated with 10 k, 100 k and 1 M nodes, ten edges
per node, 100 dense features, ten planted classes and labels of 1 % of the nodes; `npm` has 304 k nodes and planted
classes too. Each pipeline runs in a process of its own, after a warm-up on 1,000 nodes; the memory of the warm-up is
the baseline.

`M nodes/s` is the number of nodes divided by the seconds of the whole pipeline. The note has the seconds of each step,
memory above the baseline, accuracy on nodes without labels, and how time (fit, embed and export) and memory above the
baseline grow from the next smaller generated graph: the slope between the two on logarithmic scales. 1 is linear.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import OURS, Journal, cache_folder
from benchmarks.large_scale import SIZES, measure_large
from benchmarks.planted import PlantedFiles, planted_files
from benchmarks.session import Task, options, run

__all__ = ["main"]

_GROWING = ("10k", "100k", "1M")
_CASES = (*_GROWING, "npm")
_WARM_UP = "1k"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = options("scale", str(__doc__).splitlines()[0], _CASES, (OURS,), limit=7200)
    parser.set_defaults(n_jobs="all", repeats=1)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--max-epochs", type=int, help="largest number of epochs, for a quick test (default: that of CGE)"
    )
    text = "measure graphs on disk, larger than memory (100k, 1M, 10M), with the commands of cge"
    parser.add_argument("--large", nargs="*", choices=tuple(SIZES), metavar="SIZE", help=text)
    parser.add_argument("--memory", default="10GB", help="of each command with --large (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.large is not None:
        measure_large(args.large or list(SIZES), args.memory)
        return 0
    return run("scale", list(_tasks(args)), args)


def _tasks(args: Any) -> Iterator[Task]:
    note = "" if args.max_epochs is None else f"at most {args.max_epochs} epochs"
    for n_jobs in args.n_jobs:
        for case in args.cases:
            yield Task(case, OURS, n_jobs, "nodes/s", partial(_job, case, n_jobs, args), note)


def _job(case: str, n_jobs: int, args: Any) -> dict[str, Any]:
    return {
        "files": _paths(planted_files(case)),
        "warm_up": _paths(planted_files(_WARM_UP)),
        "seed": args.seed,
        "max_epochs": args.max_epochs,
        "repeats": args.repeats,
        "smaller": _measured_smaller(case, n_jobs),
    }


def _paths(files: PlantedFiles) -> dict[str, str]:
    return {name: str(path) for name, path in vars(files).items()}


def _measured_smaller(case: str, n_jobs: int) -> dict[str, float] | None:
    """Return size, time and memory of the next smaller generated graph in this run, if it was measured."""
    position = _GROWING.index(case) if case in _GROWING else 0
    if not position:
        return None
    journal = Journal(cache_folder() / "journal-scale.jsonl", resume=True)
    row = journal.get(_GROWING[position - 1], OURS, n_jobs)
    if row is None or row.details is None:
        return None
    return {name: row.details[name] for name in ("nodes", "slope_seconds", "above_baseline_mb")}


if __name__ == "__main__":
    sys.exit(main())
