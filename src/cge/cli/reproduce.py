"""`cge reproduce`: run a study again, cell by cell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.printing import print_json
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.experiments.cells import Cell

__all__ = ["reproduce"]


def reproduce(
    study: Annotated[str, typer.Argument(help="weights: where weights of paths pay.")],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH[/METHOD]",
            help="Part of the study: cora, cora/steps, '*/auto'; main, ablation and networks name several methods.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each cell.")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at once [one for each core].")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the results.")] = "results",
    show: Annotated[bool, typer.Option("--show", help="Run nothing; write the tables of what is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as one JSON object.")] = False,
) -> None:
    """Run a study again and write its tables to DIR. Every result is kept as it comes, so an interrupted run goes on.

    For example:

    cge reproduce weights --only cora --seeds 5

    cge reproduce weights --show
    """
    if study != "weights":
        raise InputError(f"there is no study {study!r}; there is: weights")
    from cge.experiments import weights
    from cge.experiments.cells import run_cells
    from cge.experiments.weights_report import write_report

    folder = Path(out)
    if not show:
        told = _Told(quiet or as_json)
        work = list(weights.cells(only, seeds))
        run_cells(work, weights.run, folder / study, jobs or os.cpu_count() or 1, told)
    tables = write_report(folder)
    if as_json:
        print_json(tables)
    elif not quiet:
        print(f"{tables['cells']} cells in {folder / study}, tables in {folder / 'weights.md'}")


class _Told:
    """Prints a line for each cell that is done."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, cell: Cell, row: dict[str, Any]) -> None:
        if not self.quiet:
            print(f"{cell}  test {row['test']:.4f}  {row['weights']}  {row['seconds']:.0f} s", flush=True)
