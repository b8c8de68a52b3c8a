"""The command `cge`: its sub-commands, and messages for wrong usage."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

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
from cge.cli.main import print_error

_SYNONYMS = {"export": "embed", "train": "fit"}  # names that users of other tools may try

app = typer.Typer(
    name="cge",
    cls=Group,
    epilog="Exit codes: 0 done, 2 wrong input or usage, 1 anything unexpected, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command(cls=Command)(demo.demo)
app.command(cls=Command)(check.check)
app.command(cls=late(fit.fit, fit.COMMON))(fit.fit)
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


def _version(requested: bool) -> None:
    if requested:
        from cge import __version__

        print(__version__)
        raise typer.Exit


@app.callback(
    help="Classify the nodes of a graph from a few labels, and explain each prediction by the paths that contributed "
    "most."
)
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; may also follow the command."),
) -> None:
    """Parse the options before a command."""


def call(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; errors of the library pass through."""
    try:
        result = app(list(arguments), prog_name="cge", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        return _print_usage_error(error)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _similar_option(problem: str) -> tuple[str, str]:
    """Return a message of Typer without its list of possible options, and the one that is most similar.

    >>> _similar_option("No such option: --hop (Possible options: --help, --hops, --method)")
    ('No such option: --hop', ' --hops?')
    """
    problem, _, options = problem.partition(" (Possible options: ")
    option, candidates = problem.rpartition(" ")[2], options.rstrip(")").split(", ")
    closest = get_close_matches(option, candidates, 1, 0.0) if options else []
    return problem, f" {closest[0]}?" if closest else ""


def _print_usage_error(error: typer.TyperException) -> int:
    """Print what is wrong with a command line, in one sentence."""
    problem = str(error.format_message() if hasattr(error, "format_message") else error).rstrip(".")
    if problem:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "cge"
        synonym = next(
            (name for word, name in _SYNONYMS.items() if problem.startswith(f"No such command '{word}'")), ""
        )
        problem, similar = _similar_option(problem)
        problem, _, hint = problem.partition(". Did you mean")  # the words of Typer
        hint = hint or similar
        hint = f"; did you mean '{synonym}'?" if synonym else f"; did you mean{hint}" if hint else ";"
        print_error(f"{problem}{hint} '{command} --help' lists the {'options' if ' ' in command else 'commands'}")
    return 2
