"""Runs tools as processes of their own and converts their reports to rows.

A *child* is a script that does one job (a JSON object, its only argument) and prints one JSON line: work done, wall
seconds, CPU seconds and peak memory. An error, a signal or the time limit becomes the note of a row without a value,
and the run continues. A finished row is appended to a journal at once, from which an interrupted run resumes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "OURS",
    "Journal",
    "Row",
    "best_peer",
    "cache_folder",
    "failed",
    "finished",
    "ratio",
    "run_child",
    "shorten_paths",
    "to_json",
]

OURS = "cge"

_THREAD_VARIABLES = (
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)


@dataclass(frozen=True)
class Row:
    """One measurement: a tool on a case with a number of threads.

    `value` is a rate per wall second, higher is better; where it is None, `note` has the reason.
    """

    case: str
    tool: str
    n_jobs: int
    value: float | None
    unit: str
    peak_mb: float | None = None
    per_cpu_second: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    note: str = ""
    details: dict[str, Any] | None = None
    date: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """Case, tool and number of threads, of which a run has one row each."""
        return self.case, self.tool, self.n_jobs


def cache_folder() -> Path:
    """Return the folder for environments, graphs and journals: `$CGE_CACHE_DIR/bench` or `~/.cache/cge/bench`."""
    base = os.environ.get("CGE_CACHE_DIR")
    return (Path(base) if base else Path.home() / ".cache" / "cge") / "bench"


# ---------------------------------------------------------------------- one child


@dataclass(frozen=True)
class Outcome:
    """The report of a child, or what went wrong; and how many cores other processes used meanwhile."""

    report: dict[str, Any] | None
    problem: str = ""
    others: float | None = None


def run_child(
    python: str | Path, script: Path, job: dict[str, Any], limit: float, n_jobs: int | None = None
) -> Outcome:
    """Run `script` with `job` for at most `limit` seconds and return its last line, read as JSON.

    The child is restricted to `n_jobs` cores.
    """
    # Pipes could stay open in a grandchild after the child has ended; files cannot block.
    start, busy, own = time.perf_counter(), _busy_seconds(), _children_seconds()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _cores(n_jobs):
            child = subprocess.Popen(
                [str(python), str(script), json.dumps(job)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | ({} if n_jobs is None else dict.fromkeys(_THREAD_VARIABLES, str(n_jobs))),
                start_new_session=True,
            )
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            return Outcome(None, f"stopped at the time limit of {limit:g} s")
        finally:
            _end_group(child)
        out.seek(0)
        err.seek(0)
        lines, errors = out.read().decode(errors="replace").split("\n"), err.read().decode(errors="replace")
    if code < 0:
        return Outcome(None, f"crashed with {signal.Signals(-code).name}")
    if code > 0:
        return Outcome(None, f"failed: {_last_line(errors) or f'exit code {code}'}")
    try:
        report = json.loads(next(line for line in reversed(lines) if line.strip()))
    except (StopIteration, ValueError):
        return Outcome(None, "ended without a report")
    if not isinstance(report, dict):
        return Outcome(None, "ended without a report")
    busy_now = _busy_seconds()
    others = None
    if busy is not None and busy_now is not None:
        used = (busy_now - busy) - (_children_seconds() - own)
        others = max(0.0, used / (time.perf_counter() - start))
    return Outcome(report, others=others)


def _busy_seconds() -> float | None:
    """Return the CPU seconds that all processes of this machine have used so far; None where this is unknown."""
    status = Path("/proc/stat")
    if not status.exists():
        return None
    user, nice, system, _idle, _wait, interrupt, soft = map(int, status.read_text().split()[1:8])
    return (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK")


def _children_seconds() -> float:
    """Return the CPU seconds of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _cores(count: int | None) -> Iterator[None]:
    """Restrict this thread, and so the processes it starts meanwhile, to `count` cores."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End the process group of the child, and so the processes it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shorten_paths(lines[-1])[:160] if lines else ""


def shorten_paths(text: str) -> str:
    """Shorten paths and addresses to their last part: results are published, paths of this machine are not.

    >>> shorten_paths("no file '/home/me/a.npz' at https://there.org/b/c")
    "no file '…/a.npz' at …/c"
    """
    return re.sub(r"(?:\w+:)?/\S*/", "…/", text)


def finished(case: str, tool: str, n_jobs: int, unit: str, report: dict[str, Any], note: str = "") -> Row:
    """Return the row of a child's report: rates are work divided by the best wall and CPU seconds."""
    notes = [text for text in (note, str(report.get("note", ""))) if text]
    columns = {"work", "seconds", "cpu_seconds", "peak_mb", "note"}
    return Row(
        case,
        tool,
        n_jobs,
        report["work"] / report["seconds"],
        unit,
        report["peak_mb"],
        report["work"] / report["cpu_seconds"] if report["cpu_seconds"] else None,
        report["seconds"],
        report["cpu_seconds"],
        "; ".join(notes),
        {name: value for name, value in report.items() if name not in columns},
    )


def failed(case: str, tool: str, n_jobs: int, unit: str, reason: str) -> Row:
    """Return the row of a tool that could not be measured."""
    return Row(case, tool, n_jobs, None, unit, note=reason)


# ---------------------------------------------------------------------- ratios


def best_peer(rows: Iterable[Row], case: str, n_jobs: int) -> Row | None:
    """Return the fastest row of another tool on this case with at most as many threads.

    Fewer threads count as well: some peers have no setting for more.
    """
    peers = [r for r in rows if r.case == case and r.tool != OURS and r.n_jobs <= n_jobs and r.value is not None]
    return max(peers, key=lambda row: row.value or 0.0, default=None)


def ratio(rows: Sequence[Row], row: Row) -> float | None:
    """Return `row.value` over that of the best peer, None where either is missing.

    >>> rows = [Row("a", "cge", 1, 30.0, "x/s"), Row("a", "peer", 1, 10.0, "x/s")]
    >>> ratio(rows, rows[0]), ratio(rows[:1], rows[0])
    (3.0, None)
    """
    best = best_peer(rows, row.case, row.n_jobs)
    if row.value is None or best is None or not best.value:
        return None
    return row.value / best.value


def to_json(bench: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows as `--json` prints them, each with its ratio to the best peer, without empty values."""
    return {"bench": bench, "rows": [_as_json(row, ratio(rows, row)) for row in rows]}


def _as_json(row: Row, ratio_to_best: float | None) -> dict[str, Any]:
    always = ("case", "tool", "n_jobs", "value", "unit", "peak_mb")
    entry = asdict(row) | {"ratio_to_best_peer": ratio_to_best}
    return {name: value for name, value in entry.items() if name in always or value not in (None, "", {})}


# ---------------------------------------------------------------------- the journal


class Journal:
    """Rows on disk, one JSON line each, appended as they are measured.

    Parameters
    ----------
    path : Path
    resume : bool
        Keep the stored rows; without it the journal starts empty.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rows = {row.key: row for row in _journal_rows(path)} if resume else {}
        path.write_text("".join(_line(row) for row in self._rows.values()), encoding="utf-8")

    def get(self, case: str, tool: str, n_jobs: int) -> Row | None:
        """Return the row of an earlier run, or None."""
        return self._rows.get((case, tool, n_jobs))

    def add(self, row: Row) -> None:
        """Append a row and sync the file."""
        self._rows[row.key] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())


def _line(row: Row) -> str:
    return json.dumps(asdict(row)) + "\n"


def _journal_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a journal, without a half-written last line."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield Row(**json.loads(line))
        except (TypeError, ValueError):
            print(f"{path}: a broken line was skipped", file=sys.stderr)
