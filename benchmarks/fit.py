"""`cge bench fit`: seconds of whole runs: the paper's encoders beside their twin, the path encoder beside GCN.

`pairs` is `CGE(encoder, weighting).fit` of the paper's encoders with the defaults on the public split, validation
labels given, six rounds. Kernels are compiled before. The twin (`weighting="uniform"`) runs in the same process, just
before. `M pairs/s` counts the pairs of paths that were trained on, over the seconds of the run; the note tells seconds
per run and per round, how many times the twin's round that is, the accuracies of this one seed, and where the time
goes.

`methods` is `fit` of four estimators of this project on the same split, each in a process of its own, the best of
several repeats (fewer where one takes long), kernels compiled before:

- `gcn`: `GCN(hidden=32)`, the two layers of Kipf and Welling, as wide as the vectors of the others;
- `paths auto`: `CGE()`, the default, which compares weights, readers and votes on the validation labels;
- `paths degree`: `CGE(weighting="degree", classifier="deep")`, one training; only whether labels vote is still compared;
- `grand`: random propagation and consistency training over eight hops, the recipe of GRAND (Feng et al. 2020). It is
  `CGE(weighting="uniform", classifier="deep", hops=8, label_propagation="no", dim=32)`, our own implementation of that recipe, not
  the authors' code.

`M nodes/s` counts the nodes of the graph once, over the seconds of the run. The note tells seconds, how many times
those and the peak memory of GCN in the same run that is, and the accuracies of this one seed. Peak memory is that of
the whole process, interpreter and libraries included.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import OURS, Journal, cache_folder
from benchmarks.session import Task, options, run

__all__ = ["main"]

_CASES = {"pairs": ("cora", "citeseer", "pubmed", "nell"), "methods": ("cora", "pubmed", "nell-0.01")}
_ON_DEMAND = ("nell-0.01",)
_BENCHES = {"pairs": "fit", "methods": "fit_methods"}  # a table, a journal and a script for each
_DATA = {"nell": "nell-0.1"}
_ENCODERS = ("table", "features")
_WEIGHTINGS = ("average", "cnn", "lstm")
_GCN = "gcn"
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # GCN comes first: the others are compared with it
    _GCN: ("GCN", {"hidden": 32}),
    "paths auto": ("CGE", {}),
    "paths degree": ("CGE", {"weighting": "degree", "classifier": "consistency"}),
    "grand": (
        "CGE",
        {"weighting": "none", "classifier": "consistency", "hops": 8, "label_propagation": "no", "dim": 32},
    ),
}
_PATIENCE = 60.0  # seconds after which there is no further repeat


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    cases = tuple(dict.fromkeys(case for some in _CASES.values() for case in some))
    parser = options("fit", str(__doc__).splitlines()[0], cases, (OURS,), limit=1200)
    parser.set_defaults(cases=",".join(case for case in cases if case not in _ON_DEMAND))
    parser.add_argument(
        "--kinds",
        choices=[*_CASES, "both"],
        default="both",
        help=f"methods are saved as bench-{_BENCHES['methods']} (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--max-epochs", type=int, help="methods: epochs at most, for a trial (default: each method's own)"
    )
    given = parser.parse_args(argv)
    kinds = tuple(_CASES) if given.kinds == "both" else (given.kinds,)
    found = {_BENCHES[kind]: list(_tasks(kind, given)) for kind in kinds}
    if not any(found.values()):
        parser.error(f"--kinds {given.kinds} has none of the cases {', '.join(given.cases)}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out) if given.json else contextlib.nullcontext():
        for bench, tasks in found.items():
            if tasks:
                run(bench, tasks, given)
    if given.json:  # one object, whatever the kinds
        rows = [row for line in out.getvalue().splitlines() for row in json.loads(line)["rows"]]
        print(json.dumps({"bench": "fit", "rows": rows}, ensure_ascii=False))
    return 0


def _tasks(kind: str, given: Any) -> Iterator[Task]:
    for n_jobs in given.n_jobs:
        for case in given.cases:
            if case in _CASES[kind]:
                yield from (_pairs if kind == "pairs" else _methods)(case, n_jobs, given)


def _pairs(case: str, n_jobs: int, given: Any) -> Iterator[Task]:
    for encoder in _ENCODERS:
        for weighting in _WEIGHTINGS:
            yield Task(
                f"{case} {encoder} {weighting}",
                OURS,
                n_jobs,
                "pairs/s",
                partial(dict, data=_DATA.get(case, case), encoder=encoder, weighting=weighting, seed=given.seed),
            )


def _methods(case: str, n_jobs: int, given: Any) -> Iterator[Task]:
    note = "" if given.max_epochs is None else f"a trial of {given.max_epochs} epochs at most"
    for method in _METHODS:
        job = partial(_method_job, case, method, n_jobs, given)
        yield Task(f"{case} {method}", OURS, n_jobs, "nodes/s", job, note)


def _method_job(case: str, method: str, n_jobs: int, given: Any) -> dict[str, Any]:
    estimator, settings = _METHODS[method]
    return {
        "data": _DATA.get(case, case),
        "estimator": estimator,
        "settings": settings,
        "seed": given.seed,
        "max_epochs": given.max_epochs,
        "repeats": given.repeats,
        "patience": _PATIENCE,
        "gcn": None if method == _GCN else _measured_gcn(case, n_jobs),
    }


def _measured_gcn(case: str, n_jobs: int) -> dict[str, float | None] | None:
    """Return what GCN took in this run; None where it has no number."""
    journal = Journal(cache_folder() / f"journal-{_BENCHES['methods']}.jsonl", resume=True)
    row = journal.get(f"{case} {_GCN}", OURS, n_jobs)
    return None if row is None or row.value is None else {"seconds": row.seconds, "peak_mb": row.peak_mb}


if __name__ == "__main__":
    sys.exit(main())
