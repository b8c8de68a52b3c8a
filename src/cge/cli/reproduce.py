"""`cge reproduce`: run a study again, cell by cell."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Json, Quiet, among
from cge.cli.main import Stopped
from cge.cli.printing import print_json
from cge.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from cge.experiments.cells import Cell

__all__ = ["reproduce"]


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="table2 or table3 of the paper, figures: its analyses of path weights, or weights: where they pay.",
            autocompletion=among("table2", "table3", "figures", "weights"),
        ),
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH[/METHOD]",
            help="Part of it: cora, cora/gcn, '*/gcn'; of weights main, ablation, networks and attempts, too; of "
            "figures ANALYSIS\\[/GRAPH]: length, length/cora, '*/cora'.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each cell.")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at once \\[one for each core].")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the results.")] = "results",
    show: Annotated[bool, typer.Option("--show", help="Run nothing; write the tables of what is there.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a study again and write its tables.

    Every result is kept as it comes, so the same command goes on where it was stopped. Each cell runs on one thread.

    For example:

      cge reproduce table2 --only cora --seeds 5
      cge reproduce figures --only length/cora
      cge reproduce weights --show
    """
    from cge.experiments import figures, figures_report, tables, weights, weights_report
    from cge.experiments.cells import run_cells

    folder = Path(out)
    valid = partial(tables.current, name=study) if study in tables.TABLES else None
    studies: dict[str, tuple[Any, Any, Any]] = {
        **{
            name: (
                partial(tables.cells, name),
                partial(tables.run, name=name, folder=folder / name / "vectors"),
                partial(tables.write_report, name),
            )
            for name in tables.TABLES
        },
        "figures": (figures.cells, figures.run, figures_report.write_report),
        "weights": (weights.cells, weights.run, weights_report.write_report),
    }
    if study not in studies:
        raise InputError(f"there is no study {study!r}; there are {', '.join(studies)}")
    cells, one, report = studies[study]
    missing: dict[str, str] = {}
    if show and only is not None:
        raise InputError("--show tells everything that is there; leave out --only")
    if not show:
        work = list(cells(only and only.lower(), seeds))  # names are taken in any case
        try:
            told = _Told(quiet or as_json, len(work))
            missing = run_cells(work, one, folder / study, jobs or os.cpu_count() or 1, told, valid)
        except KeyboardInterrupt:
            raise Stopped("the same command goes on where it was stopped") from None
    if missing and len(missing) == len({cell.graph for cell in work}):
        raise MissingDataError(next(iter(missing.values())))
    found = report(folder)
    if as_json:
        print_json(found)
    elif not quiet:
        print(f"{found['cells']} cells in {folder / study}, tables in {folder / f'{study}.md'}")
    if missing:
        raise MissingDataError(f"without {', '.join(missing)}: {next(iter(missing.values()))}")


class _Told:
    """Prints a line for each cell that is done."""

    def __init__(self, quiet: bool, cells: int) -> None:
        self.quiet, self.cells = quiet, cells

    def __call__(self, cell: Cell, row: dict[str, Any], number: int) -> None:
        if not self.quiet:
            weights = f"  {row['weights']}" if "weights" in row else ""
            seconds = row["cpu_seconds"] if "cpu_seconds" in row else row["seconds"]
            print(f"{number}/{self.cells}  {cell}  test {row['test']:.4f}{weights}  {seconds:.0f} s", flush=True)
