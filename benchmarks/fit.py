"""`cge bench fit`: seconds of a whole CGE run, for every network and both encoders, beside its twin without weights.

A run is `CGE(encoder, weighting).fit` with the defaults on the public split, validation labels given, six rounds.
Kernels are compiled before. The twin (`weighting="none"`) runs in the same process, just before. `M pairs/s` counts
the pairs of paths that were trained on, over the seconds of the run; the note tells seconds per run and per round, how
many times the twin's round that is, the accuracies of this one seed, and where the time goes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import OURS
from benchmarks.session import Task, options, run

__all__ = ["main"]

_CASES = ("cora", "citeseer", "pubmed", "nell")
_DATA = {"nell": "nell-0.1"}
_ENCODERS = ("table", "features")
_WEIGHTINGS = ("average", "cnn", "lstm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = options("fit", str(__doc__).splitlines()[0], _CASES, (OURS,), limit=1200)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    given = parser.parse_args(argv)
    tasks = [
        Task(
            f"{case} {encoder} {weighting}",
            OURS,
            threads,
            "pairs/s",
            partial(dict, data=_DATA.get(case, case), encoder=encoder, weighting=weighting, seed=given.seed),
        )
        for threads in given.threads
        for case in given.cases
        for encoder in _ENCODERS
        for weighting in _WEIGHTINGS
    ]
    return run("fit", tasks, given)


if __name__ == "__main__":
    sys.exit(main())
