"""`cge reproduce`: run a study again, cell by cell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cge.cli.checkout import import_studies
from cge.cli.common_options import Json, Quiet, among
from cge.cli.main import Stopped
from cge.cli.printing import print_json
from cge.errors import InputError, MissingDataError

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
    registry = import_studies("reproduce")
    if study not in registry.NAMES:
        raise InputError(f"there is no study {study!r}; there are {', '.join(registry.NAMES)}")
    if show and only is not None:
        raise InputError("--show writes the tables of all stored results; leave out --only")
    folder = Path(out)
    selected = registry.study(study, folder)
    missing: dict[str, str] = {}
    if not show:
        cells = list(selected.cells(only and only.lower(), seeds))  # names are taken in any case
        progress = _Progress(quiet or as_json, len(cells))
        try:
            missing = registry.run_cells(
                cells, selected.run, folder / study, jobs or os.cpu_count() or 1, progress, selected.current
            )
        except KeyboardInterrupt:
            raise Stopped("the same command continues where it stopped") from None
        if missing and len(missing) == len({cell.graph for cell in cells}):
            raise MissingDataError(next(iter(missing.values())))
    report = selected.write_report(folder)
    if as_json:
        print_json(report)
    elif not quiet:
        print(f"{report['cells']} cells in {folder / study}, tables in {folder / f'{study}.md'}")
    if missing:
        raise MissingDataError(f"without {', '.join(missing)}: {next(iter(missing.values()))}")


class _Progress:
    """Prints a line for each finished cell."""

    def __init__(self, quiet: bool, cells: int) -> None:
        self.quiet, self.cells = quiet, cells

    def __call__(self, cell: Any, row: dict[str, Any], number: int) -> None:
        if not self.quiet:
            weights = f"  {row['weights']}" if "weights" in row else ""
            seconds = row["cpu_seconds"] if "cpu_seconds" in row else row["seconds"]
            print(f"{number}/{self.cells}  {cell}  test {row['test']:.4f}{weights}  {seconds:.0f} s", flush=True)
