"""`cge bench load`: edges per second from an edge list to compressed sparse rows, for cge and other packages.

A tab-separated file, each edge once, with integer or string ids; the result holds both directions. The file is in the
page cache. The result of every tool is checked: it must have as many nodes and entries as the graph.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.graphs import GRAPHS, graph_files
from benchmarks.session import Task, options, run

__all__ = ["main"]

_KINDS = ("integers", "strings")
_TOOLS = ("cge", "pyarrow", "pandas", "polars", "ensmallen", "csrgraph", "pecanpy", "networkx")
_ONE_THREAD = ("pandas", "csrgraph", "pecanpy", "networkx")  # have no setting for threads
_SHARE = {("powerlaw", "pecanpy"): 0.1, ("powerlaw", "networkx"): 0.1}  # of the edges; these tools take minutes for all
_PATIENCE = 20.0  # seconds after which there is no further repeat
_WARM_UP_LINES = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = options("load", str(__doc__).splitlines()[0], GRAPHS, _TOOLS, limit=240)
    parser.add_argument("--kinds", choices=[*_KINDS, "both"], default="both", help="default: %(default)s")
    args = parser.parse_args(argv)
    kinds = _KINDS if args.kinds == "both" else (args.kinds,)
    tasks = [task for kind in kinds for case in args.cases for task in _tasks(kind, case, args)]
    return run("load", tasks, args)


def _tasks(kind: str, case: str, args: Any) -> Iterator[Task]:
    for n_jobs in args.n_jobs:
        for tool in _TOOLS:
            if tool in args.tools and (n_jobs == 1 or tool not in _ONE_THREAD):
                share = _SHARE.get((case, tool), 1.0)
                note = "" if share == 1.0 else f"on {share:.0%} of the edges"
                yield Task(f"{case} {kind}", tool, n_jobs, "edges/s", _job(kind, case, share, args), note)


def _job(kind: str, case: str, share: float, args: Any) -> Any:
    def job() -> dict[str, Any]:
        files = graph_files(case, share)
        path = files.integers if kind == "integers" else files.strings
        return {
            "path": str(path),
            "warm_up": str(_warm_up(path)),
            "kind": kind,
            "nodes": files.nodes,
            "edges": files.edges,
            "repeats": args.repeats,
            "seconds": args.seconds,
            "patience": _PATIENCE,
        }

    return job


def _warm_up(path: Path) -> Path:
    """Return a file with the first lines of `path`; reading all of `path` puts it into the page cache."""
    small = path.with_suffix(f".{_WARM_UP_LINES}.tsv")
    with path.open("rb") as file:
        if not small.exists():
            small.write_bytes(b"".join(itertools.islice(file, _WARM_UP_LINES)))
        while file.read(1 << 24):
            pass
    return small


if __name__ == "__main__":
    sys.exit(main())
