"""The command `cge`: its sub-commands, and messages for wrong usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from cge.cli.checkout import bench, reproduce
from cge.cli.command import Command, Group, UnknownCommandError
from cge.cli.data import check, datasets
from cge.cli.demo import demo
from cge.cli.estimator_options import late
from cge.cli.evaluate import evaluate, tune
from cge.cli.explain import explain
from cge.cli.fit import COMMON, fit
from cge.cli.ingest import ingest
from cge.cli.links import links
from cge.cli.main import print_error
from cge.cli.predict import predict
from cge.cli.report import report
from cge.cli.score import score
from cge.cli.serve import serve
from cge.cli.update import update
from cge.cli.vectors import embed, similar

_COMMANDS: tuple[Callable[..., None], ...] = (demo, check, ingest, fit, predict, score, explain, embed, similar)
_COMMANDS += (links, update, serve, report, datasets, evaluate, tune, reproduce)

app = typer.Typer(
    name="cge",
    cls=Group,
    epilog="Exit codes: 0 done, 2 wrong input or usage, 1 anything unexpected, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    suggest_commands=False,  # `UnknownCommandError` has them
)
for command in _COMMANDS:
    app.command(cls=late(fit, COMMON) if command is fit else Command)(command)
app.command(
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    options_metavar="[--json] [--help]",
)(bench)


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


def _print_usage_error(error: typer.TyperException) -> int:
    """Print what is wrong with a command line, in one sentence."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "cge"
    problem, hint = error.format_message().rstrip("."), ""
    if isinstance(error, UnknownCommandError):
        hint = ", ".join(map(repr, error.similar))
    elif possibilities := getattr(error, "possibilities", None):  # of Typer's NoSuchOption, which it does not export
        problem, hint = error.message, possibilities[0]
    if hint:
        hint = f" did you mean {hint}?"
    param = error.param if isinstance(error, typer.BadParameter) else None
    if param is not None and (command, param.name) == ("cge fit", "labels"):
        hint = " a fit needs labels, and 'cge embed EDGES --out vectors.parquet' makes vectors without any;"
    if problem:
        print_error(f"{problem};{hint} '{command} --help' lists the {'options' if ' ' in command else 'commands'}")
    return 2
