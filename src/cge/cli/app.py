"""The command `cge`: its sub-commands, and what becomes of a wrong call."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from cge.cli import (
    bench,
    check,
    datasets,
    demo,
    embed,
    evaluate,
    explain,
    fit,
    predict,
    report,
    reproduce,
    similar,
    tune,
)
from cge.cli.command import Command, Group
from cge.cli.estimator_options import late
from cge.cli.main import complain

__all__ = ["app", "call"]

_OTHER_WORDS = {"export": "embed", "train": "fit"}  # for commands, which look like no name or like a wrong one

app = typer.Typer(
    name="cge",
    cls=Group,
    epilog="Exit codes: 0 done, 2 the input or the usage is wrong, 1 anything unexpected, 130 Ctrl-C, 143 SIGTERM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command(cls=Command)(demo.demo)
app.command(cls=Command)(check.check)
app.command(cls=late(fit.fit))(fit.fit)
app.command(cls=Command)(predict.predict)
app.command(cls=Command)(explain.explain)
app.command(cls=Command)(embed.embed)
app.command(cls=Command)(similar.similar)
app.command(cls=Command)(report.report)
app.command(cls=Command)(datasets.datasets)
app.command(cls=Command)(evaluate.evaluate)
app.command(cls=Command)(tune.tune)
app.command(cls=Command)(reproduce.reproduce)
app.command(
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    options_metavar="[--json] [--help]",
)(bench.bench)


def _version(wanted: bool) -> None:
    if wanted:
        from cge import __version__

        print(__version__)
        raise typer.Exit


@app.callback(help="Customized graph embedding: learn which paths of a graph matter for your task.")
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error (anywhere on the line)."),
) -> None:
    """Take the options that stand before a command."""


def call(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; errors of the library pass through."""
    try:
        outcome = app(list(arguments), prog_name="cge", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as wrong:
        return _misused(wrong)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _misused(wrong: typer.TyperException) -> int:
    """Say what is wrong with a call, in one sentence."""
    what = str(wrong.format_message() if hasattr(wrong, "format_message") else wrong).rstrip(".")
    if what:
        context = getattr(wrong, "ctx", None)
        command = context.command_path if context is not None else "cge"
        what = what.replace(". Did you mean", "; did you mean")
        meant = [one for word, one in _OTHER_WORDS.items() if what.startswith(f"No such command '{word}'")]
        what = f"{what.partition(';')[0]}; did you mean '{meant[0]}'?" if meant else what
        complain(f"{what}{'' if what.endswith('?') else ';'} '{command} --help' lists what there is")
    return 2
