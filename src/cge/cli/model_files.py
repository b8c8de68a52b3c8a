"""What commands share that use a saved model: loading it, ids as they come from the shell, files to write, printing."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cge.errors import InputError, Message, format_value

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = [
    "EXACT",
    "ids_of",
    "load_model",
    "need_predictions",
    "note_of_guards",
    "output_file",
    "printable",
    "split_ids",
    "tell",
]


EXACT = "Write text that begins with = + - or @ as it is; by default an apostrophe goes before it, for spreadsheets."


def load_model(folder: str, n_jobs: int | None = None) -> Any:
    """Return the model that a folder holds; it uses so many threads, by default as many as in training."""
    from cge.estimators.loading import load

    try:
        return load(folder, n_jobs=n_jobs)
    except InputError as error:
        if (Path(folder) / "checkpoint").is_dir() and not (Path(folder) / "model.json").exists():
            raise InputError(
                f"{folder}: the fit into this folder was not finished; the same 'cge fit' with --resume goes on with it"
            ) from None
        if error.parameter != "weighting":
            raise
        hint = "load it in Python with cge.load(…, weighting=…)"  # a weighting of the user is code
        raise InputError(Message(f"{folder}: ", error.problem), hint=hint) from None


def need_predictions(model: Any, folder: str) -> None:
    """Refuse a model that has vectors only."""
    if not hasattr(model, "predict_proba"):
        kind = type(model).__name__
        raise InputError(f"{folder} holds a {kind}, which has vectors and predicts nothing; train one with 'cge fit'")


def output_file(given: str, formats: Sequence[str], option: str = "--out", inputs: Iterable[str | None] = ()) -> Path:
    """Return a file to write; say what is wrong with it before anything is computed."""
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
        raise InputError(f"{option} {error}") from None
    for one in inputs:
        if one is not None and path.exists() and Path(one).exists() and path.samefile(one):
            raise InputError(f"{option} {given} is the file that is read; choose another one to write")
    return path


def split_ids(given: str) -> list[str]:
    """Return ids that are separated by commas; one that holds a comma stands in quotes.

    >>> split_ids('a, "New York, NY"')
    ['a', 'New York, NY']
    """
    try:
        words = next(csv.reader([given], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(
            f'--nodes {format_value(given)} has a quote that does not close; write " as "" inside'
        ) from None
    words = [word.strip() for word in words]
    if not words or not all(words):
        raise InputError(f"--nodes must be ids separated by commas, found {format_value(given)}")
    return list(dict.fromkeys(words))


def ids_of(model: Any, words: Sequence[str], option: str) -> list[Any]:
    """Return ids as the model has them: integers where its ids are."""
    from cge.data.files.dialect import is_integer

    if model.node_ids_.dtype.kind != "i":
        return list(words)
    wrong = next((word for word in words if not is_integer(word)), None)
    if wrong is not None:
        first = ", ".join(map(str, model.node_ids_[:3].tolist()))
        raise InputError(
            f"{option} must be integers, as the ids of this model ({first}, …), found {format_value(wrong)}"
        )
    return [int(word) for word in words]


def printable(value: object) -> str:
    r"""Return text for a terminal: what would move its cursor or change its colors is written as an escape.

    >>> print(printable("a\x1b[31m"))
    a\x1b[31m
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def note_of_guards(cells: int) -> list[str]:
    """Say that cells are not as they were."""
    what = f"{cells:,} cells begin as formulas do" if cells > 1 else "1 cell begins as a formula does"
    why = "which keeps spreadsheets from computing; --exact writes text as it is"
    return [f"{what} and got an apostrophe, {why}"] if cells else []


def tell(notes: Iterable[str]) -> None:
    """Print notes on the error stream."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
