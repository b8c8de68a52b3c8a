"""Options that commands share, so that they read alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

__all__ = [
    "DatasetName",
    "Jobs",
    "Json",
    "ModelJobs",
    "PerClass",
    "Quiet",
    "TrainShare",
    "TrustData",
    "among",
    "dataset_names",
    "method_names",
]

Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
PerClass = Annotated[int, typer.Option(min=1, help="Training labels of each class, where the data set has no split.")]
TrainShare = Annotated[
    float | None, typer.Option(min=0, max=0.99, help="Draw splits with this share of the labels instead.")
]
TrustData = Annotated[
    bool, typer.Option("--trust-data", help="Read files of a data set whose SHA256 is not the published one.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Threads \\[one for each core].")]
ModelJobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Threads \\[as many as in training].")]


def among(*words: str) -> Callable[[], list[str]]:
    """Return what completes one of these words in the shell."""
    return lambda: list(words)


def dataset_names() -> list[str]:
    """Return what completes the name of a data set."""
    from cge.data import catalog

    return [entry.name for entry in catalog()]


def method_names() -> list[str]:
    """Return what completes the name of a method."""
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
