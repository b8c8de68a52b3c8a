"""`cge reproduce`: run a study, cell by cell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cge.cli.checkout import import_studies, require
from cge.cli.common_options import Json, Quiet, among
from cge.cli.main import Stopped
from cge.cli.printing import print_json
from cge.errors import InputError, MissingDataError


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="table2, table3: tables of the paper; figures: its analyses of path weights; weights: which weighting "
            "is more accurate on which graph.",
            autocompletion=among("table2", "table3", "figures", "weights"),
        ),
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH[/METHOD]",
            help="A part of the study: cora, cora/gcn, '*/gcn'; for weights also a group of methods (main, ablation, "
            "networks, attempts); for figures ANALYSIS\\[/GRAPH]: length, length/cora, '*/cora'.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Seeds of each cell.")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Parallel processes \\[one per core].")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the results.")] = "results",
    show: Annotated[bool, typer.Option("--show", help="Run nothing; write the tables of the stored results.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a study and write its tables and figures (from a checkout; needs the package matplotlib).

    Every result is stored as it finishes: the same command continues where it stopped. Each cell uses one thread.

    For example:

      cge reproduce table2 --only cora --seeds 5
      cge reproduce figures --only length/cora
      cge reproduce weights --show
    """
    registry = import_studies("reproduce")
    require("matplotlib", "studies", "reproduce")
    if study not in registry.NAMES:
        raise InputError(f"there is no study {study!r}; there are {', '.join(registry.NAMES)}")
    if show and only is not None:
        raise InputError("--show writes the tables of all stored results; leave out --only")
    folder = Path(out)
    selected = registry.study(study, folder)
    missing: dict[str, str] = {}
    if not show:
        cells = list(selected.cells(only and only.lower(), seeds))  # names in any case
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
            weighting = f"  {row['weighting']}" if "weighting" in row else ""
            print(
                f"{number}/{self.cells}  {cell}  test {row['test']:.4f}{weighting}  {row['seconds']:.0f} s", flush=True
            )
