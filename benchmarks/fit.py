"""`cge bench fit`: seconds of whole fits: `PaperCGE` compared with uniform weights, `CGE` compared with GCN.

`paper` is `PaperCGE(setting, weighting).fit` with the defaults on the public split and its validation labels. Kernels
are compiled before. The same fit with uniform weights runs in the same process, just before. `M pairs/s` is the number
of trained pairs of path ends divided by the seconds of the run; the note has seconds per run and per epoch, the ratio
to an epoch with uniform weights, the accuracies of this one seed, and the time in each part of the training.

`methods` is `fit` of several estimators on the same split, each in a process of its own, the best of several repeats
(fewer where one takes long), kernels compiled before. Graphs: citation graphs, NELL, ACM (with types), and the 77
characters of Les Misérables, whose labels are communities. GCN needs features.

- `gcn`: `GCN(hidden=32)`, the two layers of Kipf and Welling, with as many hidden units as the others;
- `pyg gcn`: the same with PyTorch Geometric, dense features, written in the benchmark's script;
- `sgc`, `label propagation`, `deepwalk` (with logistic regression): baselines of this package, tuned on the validation
  labels;
- `cge`: `CGE()`, the default, which selects weighting, classifier and label propagation on the validation labels;
- `cge degree`: `CGE(weighting="degree", classifier="consistency")`, which selects label propagation only;
- `grand`: random propagation and consistency training over eight hops, the recipe of GRAND (Feng et al. 2020). It is
  `CGE(weighting="uniform", classifier="consistency", hops=8, label_propagation=False, dim=32)`, our implementation of
  that recipe, not the authors' code.

`M nodes/s` is the number of nodes divided by the seconds of the run. The note has wall seconds, CPU seconds (of child
processes too) and peak memory, their ratios to GCN in the same run, and the accuracies of this one seed. Peak memory is
that of the whole process, interpreter and libraries included.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import OURS, Journal, cache_folder
from benchmarks.session import Task, options, run

__all__ = ["main"]

_CASES = {
    "paper": ("cora", "citeseer", "pubmed", "nell"),
    "methods": ("cora", "citeseer", "pubmed", "les-miserables", "acm", "nell-0.01"),
}
_ON_DEMAND = ("acm", "nell-0.01")
# Les Misérables has no features; NELL's, as a dense matrix for PyG, take 1.4 GB.
_LEFT_OUT = {"les-miserables": ("GCN", "PyGGCN", "SGC"), "nell-0.01": ("PyGGCN",)}
_BENCHES = {"paper": "fit", "methods": "fit_methods"}  # a table, a journal and a script for each
_DATA = {"nell": "nell-0.1"}
_SETTINGS = ("transductive", "inductive")
_WEIGHTINGS = ("average", "cnn", "lstm")
_GCN = "gcn"
_GRAND = {"weighting": "uniform", "classifier": "consistency", "hops": 8, "label_propagation": False, "dim": 32}
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # GCN comes first: the others are compared with it
    _GCN: ("GCN", {"hidden": 32}),
    "pyg gcn": ("PyGGCN", {}),
    "sgc": ("SGC", {}),
    "label propagation": ("LabelPropagation", {}),
    "deepwalk": ("WalkClassifier", {}),
    "cge": ("CGE", {}),
    "cge degree": ("CGE", {"weighting": "degree", "classifier": "consistency"}),
    "grand": ("CGE", _GRAND),
}
_PATIENCE = 60.0  # seconds after which there is no further repeat


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    cases = tuple(dict.fromkeys(case for names in _CASES.values() for case in names))
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
        "--max-epochs",
        type=int,
        help="methods: largest number of epochs, for a quick test (default: no limit)",
    )
    args = parser.parse_args(argv)
    kinds = tuple(_CASES) if args.kinds == "both" else (args.kinds,)
    tasks_of = {_BENCHES[kind]: list(_tasks(kind, args)) for kind in kinds}
    if not any(tasks_of.values()):
        parser.error(f"--kinds {args.kinds} has none of the cases {', '.join(args.cases)}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out) if args.json else contextlib.nullcontext():
        codes = [run(bench, tasks, args) for bench, tasks in tasks_of.items() if tasks]
    if args.json:  # one object for both kinds
        rows = [row for line in out.getvalue().splitlines() for row in json.loads(line)["rows"]]
        print(json.dumps({"bench": "fit", "rows": rows}, ensure_ascii=False))
    return max(codes)


def _tasks(kind: str, args: Any) -> Iterator[Task]:
    for n_jobs in args.n_jobs:
        for case in args.cases:
            if case in _CASES[kind]:
                yield from (_paper if kind == "paper" else _methods)(case, n_jobs, args)


def _paper(case: str, n_jobs: int, args: Any) -> Iterator[Task]:
    for setting in _SETTINGS:
        for weighting in _WEIGHTINGS:
            job: Callable[[], dict[str, Any]] = partial(
                dict, data=_DATA.get(case, case), setting=setting, weighting=weighting, seed=args.seed
            )
            yield Task(f"{case} {setting} {weighting}", OURS, n_jobs, "pairs/s", job)


def _methods(case: str, n_jobs: int, args: Any) -> Iterator[Task]:
    note = "" if args.max_epochs is None else f"at most {args.max_epochs} epochs"
    for method, (estimator, _) in _METHODS.items():
        if estimator in _LEFT_OUT.get(case, ()):
            continue
        job = partial(_method_job, case, method, n_jobs, args)
        yield Task(f"{case} {method}", OURS, n_jobs, "nodes/s", job, note)


def _method_job(case: str, method: str, n_jobs: int, args: Any) -> dict[str, Any]:
    estimator, settings = _METHODS[method]
    return {
        "data": _DATA.get(case, case),
        "estimator": estimator,
        "settings": settings,
        "seed": args.seed,
        "max_epochs": args.max_epochs,
        "repeats": args.repeats,
        "patience": _PATIENCE,
        "gcn": None if method == _GCN else _measured_gcn(case, n_jobs),
    }


def _measured_gcn(case: str, n_jobs: int) -> dict[str, float | None] | None:
    """Return time and memory of GCN in this run, if it was measured."""
    journal = Journal(cache_folder() / f"journal-{_BENCHES['methods']}.jsonl", resume=True)
    row = journal.get(f"{case} {_GCN}", OURS, n_jobs)
    return None if row is None or row.value is None else {"seconds": row.seconds, "peak_mb": row.peak_mb}


if __name__ == "__main__":
    sys.exit(main())
