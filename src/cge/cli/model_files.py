"""What commands share that use a saved model: loading it, node ids from the shell, output files, printing."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cge.errors import InputError, Message, UnknownNodeError, format_value


def load_model(folder: str, n_jobs: int | None = None) -> Any:
    """Return the model in a folder; it uses `n_jobs` threads, by default as many as in training."""
    from cge.estimators.persistence import load

    try:
        return load(folder, n_jobs=n_jobs)
    except InputError as error:
        if (Path(folder) / "checkpoint").is_dir() and not (Path(folder) / "model.json").exists():
            hint = "continue it with the same 'cge fit' command and --resume"
            raise InputError(f"{folder}: the fit into this folder is not finished", hint=hint) from None
        if error.parameter != "weighting":
            raise
        hint = "load it in Python with cge.load(…, weighting=…)"  # a weighting of the user is code
        raise InputError(Message(f"{folder}: ", error.problem), hint=hint) from None


def require_predictions(model: Any, folder: str) -> None:
    """Refuse a model that has vectors only."""
    if not hasattr(model, "predict_proba"):
        problem = f"{folder} contains a {type(model).__name__}, which has vectors but makes no predictions"
        raise InputError(problem, hint="train a classifier with 'cge fit'")


def require_vectors(model: Any, folder: str, hint: str = "train one with 'cge fit'") -> None:
    """Refuse a model without vectors."""
    if not hasattr(model, "embedding_"):
        raise InputError(f"{folder} contains a {type(model).__name__}, which has no vectors", hint=hint)


def output_file(given: str, formats: Sequence[str], option: str = "--out", inputs: Iterable[str | None] = ()) -> Path:
    """Return the path of a file to write; refuse one that cannot be written before anything is computed."""
    from cge.data.files.file_path import file_path
    from cge.store.atomic import writable_file
    from cge.store.exports import file_format

    try:
        file_path(given)
    except InputError:
        raise InputError(f"{option} must be the path of a file, found {format_value(given)}") from None
    try:
        file_format(given, formats)
        path = writable_file(given)
    except InputError as error:
        raise InputError(Message(f"{option} ", error.message)) from None
    for source in inputs:
        if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {given} is also an input file; choose another one to write")
    return path


def split_ids(given: str) -> list[str]:
    """Return ids that are separated by commas; one that contains a comma is put in quotes.

    >>> split_ids('a, "New York, NY"')
    ['a', 'New York, NY']
    """
    try:
        words = next(csv.reader([given], skipinitialspace=True, strict=True), [])
    except csv.Error:
        problem = f"--nodes {format_value(given)} has a quote that does not close"
        raise InputError(problem, hint='write " as "" inside') from None
    words = [word.strip() for word in words]
    if not words or not all(words):
        raise InputError(f"--nodes must be ids separated by commas, found {format_value(given)}")
    return list(dict.fromkeys(words))


def ids_of(model: Any, words: Sequence[str]) -> list[Any]:
    """Return ids in the type that the model has: integers where its ids are."""
    from cge.data.files.dialect import is_integer

    if model.node_ids_.dtype.kind != "i":
        return list(words)
    wrong = next((word for word in words if not is_integer(word)), None)
    if wrong is not None:
        raise UnknownNodeError("", [wrong], node_ids=model.node_ids_[:2].tolist())
    return [int(word) for word in words]


def printable(value: object) -> str:
    r"""Return text for a terminal: control characters are written as escapes.

    >>> print(printable("a\x1b[31m"))
    a\x1b[31m
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def escape_note(cells: int) -> list[str]:
    """Return a note that some cells were changed for spreadsheets."""
    start = f"{cells:,} cells start like formulas" if cells > 1 else "1 cell starts like a formula"
    return [f"{start}; an apostrophe was put before them, for spreadsheets (--exact leaves it out)"] if cells else []
