"""Runs the cells of a study on several processes; each result is on disk as soon as it is there."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cge.errors import FileFormatError, MissingDataError

__all__ = ["Cell", "read_cells", "run_cells"]


@dataclass(frozen=True, order=True)
class Cell:
    """One run of a study."""

    graph: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.graph}/{self.method}/{self.seed}"


def _end_with(parent: int) -> None:
    """Let a process end when the one that started it is gone, even if that was killed, and by Ctrl-C without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def read_cells(folder: Path) -> dict[Cell, dict[str, Any]]:
    """Return the results that a folder holds: one file for each graph, one line of JSON for each cell."""
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        lines = file.read_bytes().split(b"\n")
        lines.pop()  # nothing, or what was left half-written: the cell is run again
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                found[Cell(row["graph"], row["method"], row["seed"])] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                raise FileFormatError(file, "this is no result; remove the line", line=number) from None
    return found


def run_cells(
    cells: Iterable[Cell],
    work: Callable[[Cell], dict[str, Any]],
    folder: Path,
    jobs: int,
    on_done: Callable[[Cell, dict[str, Any], int], None] | None = None,
    valid: Callable[[Cell, dict[str, Any]], bool] | None = None,
) -> dict[str, str]:
    """Run `work` for every cell that has no result yet and add a line for each; a run that was cut off goes on.

    `work` is a function of a module, which processes can find. A result that is not `valid` any more is made again.
    `on_done` is told how many cells are done, those of earlier runs included. Cells whose data are missing are passed
    over; what is missing is returned by graph.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {cell for cell, row in read_cells(folder).items() if valid is None or valid(cell, row)}
    every = list(dict.fromkeys(cells))
    left: Sequence[Cell] = [cell for cell in every if cell not in done]
    missing: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")  # threads of kernels do not survive a fork
    with ProcessPoolExecutor(max(1, min(jobs, len(left))), context, _end_with, (os.getpid(),)) as pool:
        futures: dict[Future[dict[str, Any]], Cell] = {pool.submit(work, cell): cell for cell in left}
        try:
            for number, future in enumerate(as_completed(futures), len(every) - len(left) + 1):
                cell = futures[future]
                try:
                    row = future.result()
                except MissingDataError as error:
                    missing[cell.graph] = str(error)
                    continue
                line = json.dumps({"graph": cell.graph, "method": cell.method, "seed": cell.seed} | row)
                _append(folder / f"{cell.graph}.jsonl", line.encode() + b"\n")
                if on_done is not None:
                    on_done(cell, row, number)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # whoever stopped us does not wait for what was begun
            raise
    return missing


def _append(file: Path, line: bytes) -> None:
    """Add a line to a file; what was left half-written before it goes."""
    with file.open("ab+") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(line)
