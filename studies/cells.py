"""Runs the cells of a study on an engine and stores each result as soon as it is computed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cge
from cge.engine import Engine
from cge.errors import FileFormatError, InputError, MissingDataError

__all__ = ["Cell", "code_version", "read_cells", "run_cells"]


@dataclass(frozen=True, order=True)
class Cell:
    """One run of a study."""

    graph: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.graph}/{self.method}/{self.seed}"


def selected_cells(graphs: Collection[str], methods: Collection[str], only: str | None) -> tuple[Collection[str], str]:
    """Return the graphs and the method of `only`, "" for all: "cora", "cora/cge" or "*/cge"."""
    wanted, _, method = (only or "*").partition("/")
    if wanted != "*" and wanted not in graphs:
        raise InputError(f"the study has no graph {wanted!r}; it has {', '.join(graphs)}")
    if method and method not in methods:
        raise InputError(f"the study has no method {method!r}; it has {', '.join(map(repr, methods))}")
    return graphs if wanted == "*" else (wanted,), method


def grid_cells(graphs: Collection[str], methods: Collection[str], only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield a cell for each seed, graph and method, or those of `only`."""
    graphs, method = selected_cells(graphs, methods, only)
    for seed in range(seeds):
        for graph in graphs:
            for name in (method,) if method else methods:
                yield Cell(graph, name, seed)


def code_version() -> str:
    """Return the version of the package and, in a git checkout, the commit, with a plus sign if code has changed since.

    Every stored result has it.
    """

    def git(*arguments: str) -> str:
        call = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603

    try:
        commit, changes = git("rev-parse", "--short", "HEAD"), git("status", "--porcelain", "--", ".", "../src")
    except (OSError, subprocess.CalledProcessError):
        return cge.__version__
    return f"{cge.__version__} {commit}{'+' if changes else ''}"


def read_cells(folder: Path) -> dict[Cell, dict[str, Any]]:
    """Return the stored results of a folder: a file for each graph, with a line of JSON for each cell."""
    rows = {}
    for file in sorted(folder.glob("*.jsonl")):
        lines = file.read_bytes().split(b"\n")
        lines.pop()  # empty, or the half-written line of a run that was killed: the cell is run again
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                rows[Cell(row["graph"], row["method"], row["seed"])] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                raise FileFormatError(file, "this is no result; remove the line", line=number) from None
    return rows


def run_cells(
    cells: Iterable[Cell],
    work: Callable[[Cell], dict[str, Any]],
    folder: Path,
    engine: Engine,
    on_done: Callable[[Cell, dict[str, Any], int], None] | None = None,
    current: Callable[[Cell, dict[str, Any]], bool] | None = None,
) -> dict[str, str]:
    """Run `work` for every cell without a stored result and append a line for each; an interrupted run continues.

    `work` is a function of a module, which worker processes can import. A stored result that is not `current` is
    computed again. `on_done` is called with the number of finished cells, those of earlier runs included. Cells whose
    data are missing are skipped; the messages about missing data are returned by graph.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {cell for cell, row in read_cells(folder).items() if current is None or current(cell, row)}
    unique = list(dict.fromkeys(cells))
    remaining: Sequence[Cell] = [cell for cell in unique if cell not in done]
    missing: dict[str, str] = {}
    version = code_version()
    results = engine.map_as_finished(partial(_row_or_missing, work), remaining)
    for number, (cell, row) in enumerate(results, len(unique) - len(remaining) + 1):
        if isinstance(row, str):
            missing[cell.graph] = row
            continue
        line = json.dumps({"graph": cell.graph, "method": cell.method, "seed": cell.seed} | row | {"version": version})
        _append(folder / f"{cell.graph}.jsonl", line.encode() + b"\n")
        if on_done is not None:
            on_done(cell, row, number)
    return missing


def _row_or_missing(work: Callable[[Cell], dict[str, Any]], cell: Cell) -> dict[str, Any] | str:
    """Return the result of a cell, or the message that its data are missing."""
    try:
        return work(cell)
    except MissingDataError as error:
        return str(error)


def _append(file: Path, line: bytes) -> None:
    """Append a line to a file, after removing a half-written last line."""
    with file.open("ab+") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(line)
