"""Shared by all benchmarks: the options, and measuring a row for every task."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import TOOLS, NotInstalledError, python_of
from benchmarks.harness import Journal, Row, cache_folder, failed, finished, run_child, to_json
from benchmarks.report import save, show, stored_result
from cge.errors import CgeError

__all__ = ["Task", "options", "run"]

_ROOT = Path(__file__).parents[1]
_BUSY = 0.2  # cores used by other processes above which the note has a warning


@dataclass(frozen=True)
class Task:
    """A row to be measured: a tool on a case with a number of threads.

    `job` returns the child's job when it is needed; it raises `CgeError` where the data are missing.
    """

    case: str
    tool: str
    n_jobs: int
    unit: str
    job: Callable[[], dict[str, Any]]
    note: str = ""


def options(
    bench: str, description: str, cases: Sequence[str], tools: Sequence[str], limit: float
) -> argparse.ArgumentParser:
    """Return the parser of the options that every benchmark has."""
    parser = argparse.ArgumentParser(prog=f"cge bench {bench}", description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--save", action="store_true", help=f"write the rows to results/bench-{bench}.json and .md")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run")
    parser.add_argument(
        "--jobs",
        dest="n_jobs",
        metavar="N",
        type=_threads,
        default="1,all",
        help="threads: numbers or all (default: %(default)s)",
    )
    parser.add_argument("--cases", type=_choice(cases), default=",".join(cases), help="default: %(default)s")
    parser.add_argument("--tools", type=_choice(tools), default=",".join(tools), help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="the best one counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="measured time per repeat (default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=limit, help="seconds after which a tool is stopped (default: %(default)s)"
    )
    parser.set_defaults(all_tools=list(tools))
    parser.add_argument("--results", type=Path, default=_ROOT / "results", help=argparse.SUPPRESS)
    return parser


def _choice(names: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = [part.strip() for part in text.split(",") if part.strip()]
        wrong = [name for name in chosen if name not in names]
        if wrong or not chosen:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong) or 'nothing'} is not among {', '.join(names)}")
        return [name for name in names if name in chosen]

    return parse


def _threads(text: str) -> list[int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    numbers = {cores if part.strip() == "all" else _count(part) for part in text.split(",")}
    return sorted(numbers)


def _count(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of threads nor all")
    return int(text)


def run(bench: str, tasks: Sequence[Task], args: argparse.Namespace) -> int:
    """Measure every task, print the table or the JSON object, and save it with `--save`."""
    if args.save:
        try:
            stored_result(bench, args.results)  # before hours of measurements
        except CgeError as error:
            print(f"cge bench: {error}", file=sys.stderr)
            return 2
    journal = Journal(cache_folder() / f"journal-{bench}.jsonl", args.resume)
    missing = [tool for tool in args.all_tools if tool not in args.tools]
    rows: list[Row] = []
    for task in tasks:
        row = journal.get(task.case, task.tool, task.n_jobs)
        if row is None:
            _print_progress(f"{bench}: {task.case}, {task.tool}, {task.n_jobs} thread(s) …")
            row = _measure(bench, task, args.limit)
            journal.add(row)
        rows.append(row)
    if args.json:
        print(json.dumps(to_json(bench, rows), ensure_ascii=False))
    else:
        show(bench, rows, missing)
    if args.save:
        for path in save(bench, rows, args.tools, args.results, missing):
            _print_progress(f"wrote {path.name}")
    return 0


def _measure(bench: str, task: Task, limit: float) -> Row:
    columns = (task.case, task.tool, task.n_jobs, task.unit)
    try:
        python, job = python_of(TOOLS[task.tool]), task.job()
    except (NotInstalledError, CgeError) as error:
        return failed(*columns, str(error))
    script = Path(__file__).parent / "peers" / f"{bench}_{task.tool}.py"
    outcome = run_child(python, script, job | {"n_jobs": task.n_jobs}, limit, task.n_jobs)
    if outcome.report is None:
        return failed(*columns, outcome.problem)
    note = task.note
    if outcome.others is not None and outcome.others > _BUSY:
        note = "; ".join(filter(None, [note, f"other processes used {outcome.others:.1f} cores"]))
    return finished(*columns, outcome.report | {"other_load": outcome.others}, note)


def _print_progress(text: str) -> None:
    """Print a line on the error stream, on a terminal only."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)
