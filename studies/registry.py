"""Every study by name: its cells, how a cell is run, and what is written about the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from studies import (
    figures,
    figures_report,
    labels,
    labels_report,
    paper,
    paper_report,
    selection,
    selection_report,
    tables,
    tables_report,
    task_vectors,
    typed,
    vectors,
    vectors_report,
    weights,
    weights_report,
)
from studies.cells import Cell, run_cells

__all__ = ["NAMES", "Study", "run_cells", "study"]

NAMES = (*tables.TABLES, "figures", "labels", "paper", "selection", "tasks", "typed", "vectors", "weights")


@dataclass(frozen=True)
class Study:
    """A study with its results in a folder.

    Attributes
    ----------
    cells : function of (only, seeds)
        Yields the cells to run; `only` selects a part.
    run : function of a cell
        Returns its result as JSON can hold it.
    write_report : function of a folder
        Writes tables and figures of all stored cells, and returns the tables.
    current : function of (cell, result), optional
        Whether a stored result was computed with the present settings; otherwise the cell is run again.
    """

    cells: Callable[[str | None, int], Iterator[Cell]]
    run: Callable[[Cell], dict[str, Any]]
    write_report: Callable[[Path], dict[str, Any]]
    current: Callable[[Cell, dict[str, Any]], bool] | None = None


def study(name: str, folder: Path) -> Study:
    """Return a study whose results are in `folder / name`."""
    if name == "figures":
        return Study(figures.cells, figures.run, figures_report.write_report)
    if name == "labels":
        return Study(labels.cells, labels.run, labels_report.write_report)
    if name == "selection":
        run = partial(selection.run, folder=folder / name / "vectors")
        return Study(selection.cells, run, selection_report.write_report, selection.current)
    if name == "tasks":
        return Study(task_vectors.cells, task_vectors.run, task_vectors.write_report)
    if name == "typed":
        return Study(typed.cells, typed.run, typed.write_report)
    if name == "vectors":
        return Study(vectors.cells, vectors.run, vectors_report.write_report)
    if name == "weights":
        return Study(weights.cells, weights.run, weights_report.write_report)
    if name == "paper":
        return Study(paper.cells, paper.run, paper_report.write_report, paper.current)
    return Study(
        partial(tables.cells, name),
        partial(tables.run, name=name, folder=folder / name / "vectors"),
        partial(tables_report.write_report, name),
        partial(tables.current, name=name),
    )
