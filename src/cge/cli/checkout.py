"""Commands that need a checkout: `cge reproduce` runs a study, cell by cell, and `cge bench` a benchmark."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from cge.cli.common_options import Address, EngineName, Json, Quiet, among, flag_option, text_option
from cge.cli.main import Stopped
from cge.cli.printing import print_json
from cge.errors import InputError, MissingDataError

ROOT = Path(__file__).parents[3]

# The names of the scripts in `benchmarks` and of the studies in `studies/registry.py`, which may not be installed.
BENCHMARKS = ("walks", "load", "skipgram", "fit", "typed", "update", "serve", "scale", "engine", "startup")
STUDIES = ("table2", "table3", "figures", "labels", "paper", "selection", "tasks", "typed", "vectors", "weights")

Study = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="table2, table3: tables of the paper; figures: its analyses of path weights; labels: accuracy by number "
        "of labels; paper: its algorithm by outer steps, strength of the supervised gradient, and with an oracle; "
        "selection: rules of the model search; tasks: vectors of two tasks on one graph; typed: heterogeneous graphs; "
        "vectors: accuracy of vectors alone; weights: which weighting is more accurate on which graph.",
        autocompletion=among(*STUDIES),
    ),
]
Only = Annotated[
    str | None,
    text_option(
        "GRAPH[/METHOD]",
        "A part of the study: cora, cora/gcn, '*/gcn'; for weights also a group of methods (main, ablation, "
        "networks, attempts); for figures ANALYSIS\\[/GRAPH]: length, length/cora, '*/cora'; for labels "
        "GRAPH\\[/BUDGET\\[/METHOD]]: cora/20, '*/20+500/gcn'.",
    ),
]
Benchmark = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS[:-1])} or {BENCHMARKS[-1]}.",
        autocompletion=among(*BENCHMARKS),
    ),
]


def _checkout_folder(name: str, command: str) -> Path:
    """Return a folder of the checkout that this package runs from; refuse a command that has none."""
    folder = ROOT / name
    if not ((ROOT / "pyproject.toml").is_file() and folder.is_dir()):
        hint = f"clone its repository and call './run {command}' there"
        raise MissingDataError(f"'cge {command}' needs a checkout of the project: {hint}")
    return folder


def require_package(package: str, extra: str, command: str) -> None:
    """Refuse a command whose optional package is not installed."""
    if find_spec(package) is None:
        raise MissingDataError(f"'cge {command}' needs the package {package}: pip install 'cge[{extra}]'")


def reproduce(
    study: Study,
    only: Only = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Seeds of each run (method and data set).")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Parallel processes \\[default: one per core].")] = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[str, text_option("DIR", "Folder for the results.")] = "results",
    show: Annotated[bool, flag_option("--show", "Run nothing; write the tables of the stored results.")] = False,
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
    from cge.engine import make_engine

    root = str(_checkout_folder("studies", "reproduce").parent)
    if root not in sys.path:
        sys.path.insert(0, root)  # worker processes inherit it
    registry: Any = import_module("studies.registry")
    require_package("matplotlib", "studies", "reproduce")
    if study not in registry.NAMES:
        raise InputError(f"there is no study {study!r}; there are {', '.join(registry.NAMES)}")
    if show and only is not None:
        raise InputError("--show writes the tables of all stored results; leave out --only")
    folder = Path(out)
    selected = registry.study(study, folder if engine == "local" else folder.resolve())
    missing: dict[str, str] = {}
    if not show:
        cells = list(selected.cells(only and only.lower(), seeds))  # names in any case

        def print_cell(cell: Any, row: dict[str, Any], number: int) -> None:
            if not (quiet or as_json):
                print(f"{number}/{len(cells)}  {cell}{_cell_summary(row)}", flush=True)

        try:
            where = make_engine(engine, address, jobs, processes=True)
            missing = registry.run_cells(cells, selected.run, folder / study, where, print_cell, selected.current)
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


def _cell_summary(row: dict[str, Any]) -> str:
    """Return the test score, the weighting and the seconds of a cell, as far as it has a single one of each."""
    formats = {"test": "test {:.4f}", "weighting": "{}", "seconds": "{:.0f} s"}
    values = {name: row[name] for name in formats if isinstance(row.get(name), str | float | int)}
    return "".join("  " + formats[name].format(value) for name, value in values.items())


def bench(context: typer.Context, name: Benchmark, as_json: Json = False) -> None:
    """Measure the speed of cge and of other packages (from a checkout).

    Every package runs in an environment and a process of its own. Further options are those of the benchmark;
    `cge bench walks --help` lists them.

    For example:

      cge bench walks
      cge bench walks --json --cases cora --tools cge,numpy
    """
    if name == "--help":  # `cge bench walks --help` is passed on to the script
        print(context.get_help())
        return
    folder = _checkout_folder("benchmarks", "bench")
    if name not in BENCHMARKS:
        raise InputError(f"there is no benchmark {name!r}; choose one of {', '.join(sorted(BENCHMARKS))}")
    command = [sys.executable, str(folder / f"{name}.py"), *(["--json"] if as_json else []), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)  # noqa: S603 - a script of this checkout
