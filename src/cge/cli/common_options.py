"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def int64(value: int | None) -> int | None:
    """Refuse an integer that does not fit in 64 bits."""
    if value is not None and abs(value) >= 2**63:
        raise typer.BadParameter("the number does not fit in 64 bits")
    return value


Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
QuietResult = Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
PerClass = Annotated[
    int, typer.Option(min=1, callback=int64, help="Training labels per class, where the data set has no split.")
]
TrainShare = Annotated[
    float | None, typer.Option(min=0, max=0.99, help="Draw splits with this fraction of the labels for training.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated.")
]
TrustData = Annotated[
    bool, typer.Option("--trust-data", help="Read files of a data set whose SHA256 is not the published one.")
]
FirstSeed = Annotated[int, typer.Option("--seed", "--first-seed", min=0, callback=int64, help="The first seed.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=-1, callback=int64, help="Threads \\[all cores].")]
ModelJobs = Annotated[int | None, typer.Option("--jobs", min=-1, callback=int64, help="Threads \\[as in training].")]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Write text that starts with = + - or @ unchanged; by default an apostrophe is put before it, for "
        "spreadsheets.",
    ),
]
ModelFolder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of a saved model.")]


def among(*words: str) -> Callable[[], list[str]]:
    """Return what completes one of these words in the shell."""
    return lambda: list(words)


def dataset_names() -> list[str]:
    """Return the names of the data sets, for completion in the shell."""
    from cge.data import catalog

    return [entry.name for entry in catalog()]


def method_names() -> list[str]:
    """Return the names of the methods, for completion in the shell."""
    from cge.estimators.methods import methods_for

    return list(methods_for())


DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A data set by name ('cge datasets' lists them), or a folder.",
        autocompletion=dataset_names,
    ),
]
