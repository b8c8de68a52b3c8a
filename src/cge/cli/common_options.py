"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

FILES = "Files"  # a panel of the help


def _int64(value: int | None) -> int | None:
    """Refuse an integer that does not fit in 64 bits."""
    if value is not None and abs(value) >= 2**63:
        raise typer.BadParameter("the number does not fit in 64 bits")
    return value


def int_option(text: str, *flags: str, minimum: int) -> Any:
    """Return an option that takes an integer."""
    return typer.Option(*flags, min=minimum, callback=_int64, help=text)


def flag_option(flag: str, text: str) -> Any:
    """Return an option without a value."""
    return typer.Option(flag, help=text)


def text_option(metavar: str, text: str, *flags: str, choices: Sequence[str] = (), **more: Any) -> Any:
    """Return an option that takes text; the shell completes `choices`."""
    if choices:
        more["autocompletion"] = among(*choices)
    return typer.Option(*flags, metavar=metavar, help=text, **more)


def file_option(text: str) -> Any:
    """Return an option that takes an input file."""
    return text_option("FILE", text, rich_help_panel=FILES)


def among(*words: str) -> Callable[[], list[str]]:
    """Return what completes one of these words in the shell."""
    return lambda: list(words)


def dataset_names() -> list[str]:
    """Return the names of the data sets."""
    from cge.data import catalog

    return [entry.name for entry in catalog()]


Quiet = Annotated[bool, flag_option("--quiet", "Print nothing but errors.")]
Json = Annotated[bool, flag_option("--json", "Print one JSON object and nothing else.")]
Jobs = Annotated[
    int | None, int_option("Threads or processes; -1: all cores \\[default: all cores].", "--jobs", minimum=-1)
]
ModelJobs = Annotated[
    int | None, int_option("Threads or processes; -1: all \\[default: as in training].", "--jobs", minimum=-1)
]
NoEscape = Annotated[
    bool,
    flag_option(
        "--no-escape",
        "Write text that starts with = + - or @ unchanged; by default an apostrophe is put before it, for "
        "spreadsheets.",
    ),
]
ModelFolder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of a saved model.")]
EngineName = Annotated[str, text_option("NAME", "Where tasks run: 'local', or 'ray'.", choices=("local", "ray"))]
Address = Annotated[str | None, text_option("HOST:PORT", "The Ray cluster; 'auto': the one that runs on this machine.")]
