"""The command `cge`: its sub-commands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

import cge
from cge.cli import bench, check, datasets, demo
from cge.cli.printing import complain
from cge.errors import CgeError

__all__ = ["app", "main"]

_INTERRUPTED = 130  # what shells use for Ctrl-C

app = typer.Typer(
    name="cge",
    epilog="Exit codes: 0 done, 2 the input or the usage is wrong, 1 anything unexpected.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo.demo)
app.command()(check.check)
app.command()(datasets.datasets)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench.bench)


def _version(wanted: bool) -> None:
    if wanted:
        print(cge.__version__)
        raise typer.Exit


@app.callback(help="Customized graph embedding: learn which paths of a graph matter for your task.")
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error (anywhere on the line)."),
) -> None:
    """Take the options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `cge` and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _misused(wrong: typer.TyperException) -> int:
    """Say what is wrong with a call, in one sentence."""
    what = str(wrong.format_message() if hasattr(wrong, "format_message") else wrong).rstrip(".")
    if what:
        context = getattr(wrong, "ctx", None)
        command = context.command_path if context is not None else "cge"
        complain(f"{what}; '{command} --help' lists what there is")
    return 2


def run(arguments: Sequence[str]) -> int:
    """Run `cge` with these arguments and return the exit code."""
    debug = "--debug" in arguments
    try:
        outcome = app([one for one in arguments if one != "--debug"], prog_name="cge", standalone_mode=False)
        code = outcome if isinstance(outcome, int) else 0
        if code == _INTERRUPTED:
            complain("interrupted")
        return code
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as wrong:
        return _misused(wrong)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left (`cge datasets | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CgeError as error:
        if debug:
            raise
        complain(str(error))
        return 2
    except Exception as error:
        if debug:
            raise
        complain(f"unexpected {type(error).__name__}: {error}; run again with --debug for the traceback")
        return 1
