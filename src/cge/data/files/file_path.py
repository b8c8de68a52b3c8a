"""Paths of files that a caller passes, and errors that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from cge.errors import FileFormatError, InputError, format_value

FilePath = str | PathLike[str]

_ADDRESS = re.compile(r"(https?|ftp|s3|gs):/", re.IGNORECASE)  # a Path has lost the second slash


def file_path(value: FilePath) -> Path:
    """Return a path with `~` expanded; refuse addresses and other values that are not paths.

    >>> file_path("https://example.org/edges.csv")
    Traceback (most recent call last):
    cge.errors.InputError: 'https://example.org/edges.csv' is a web address; download it first
    """
    if not isinstance(value, str | PathLike):
        raise InputError(f"expected the path of a file, found {format_value(value)}")
    text = str(fspath(value))
    if not text.strip():
        raise InputError("the path is empty; pass the path of a file")
    if text == "-":
        raise InputError("reading from standard input is not supported; save it to a file")
    if _ADDRESS.match(text):
        raise InputError(f"{format_value(text)} is a web address; download it first")
    if "\0" in text:
        raise InputError(f"the path {format_value(text)} contains a zero byte; pass the path of a file")
    path = Path(text)
    with suppress(RuntimeError):  # the home directory is unknown
        path = path.expanduser()
    return path


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file from which a wrong value was read."""
    try:
        yield
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(path, error.message) from None


def expand_paths(files: FilePath | Sequence[FilePath] | None) -> list[Path]:
    """Return the paths of files; a pattern such as `edges/*.csv` stands for all files that it matches, sorted."""
    items: Iterable[Any] = [] if files is None else files if isinstance(files, list | tuple) else [files]
    paths: list[Path] = []
    for path in map(file_path, items):
        several = sorted(glob(str(path))) if has_magic(str(path)) and not path.exists() else []  # noqa: PTH207
        if has_magic(str(path)) and not path.exists() and not several:
            raise FileFormatError(path, "no file has such a name; check the path")
        paths += map(Path, several) if several else [path]
    return paths
