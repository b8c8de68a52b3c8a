"""`cge bench`: run a benchmark of the checkout."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from cge.cli.checkout import checkout_folder
from cge.cli.common_options import Json, among
from cge.errors import InputError


def bench(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="walks, load, skipgram, fit or scale.",
            autocompletion=among("walks", "load", "skipgram", "fit", "scale"),
        ),
    ],
    as_json: Json = False,
) -> None:
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
    folder = checkout_folder("benchmarks", "bench")
    scripts = sorted(script.stem for script in folder.glob("*.py") if "def main(" in script.read_text())
    if name not in scripts:
        raise InputError(f"there is no benchmark {name!r}; choose one of {', '.join(scripts)}")
    command = [sys.executable, str(folder / f"{name}.py"), *(["--json"] if as_json else []), *context.args]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - a script of this checkout
    raise typer.Exit(code)
