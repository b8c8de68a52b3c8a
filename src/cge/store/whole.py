"""Files for other tools, there as a whole or not at all: written under a temporary name, then moved into place."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cge.data.files.paths import FilePath, file_path
from cge.errors import InputError
from cge.store.files import sync_folder

__all__ = ["Writer", "writable_file", "write_whole"]

Writer: TypeAlias = Callable[[BinaryIO], object]  # writes a file's content to a stream


def writable_file(given: FilePath) -> Path:
    """Return the path of a file that can be written; links are followed, so that they stay links.

    >>> writable_file("no-such-folder/vectors.csv")
    Traceback (most recent call last):
    cge.errors.InputError: no-such-folder/vectors.csv: its folder is not there; make it, or choose another file
    """
    path = file_path(given)
    try:
        path = path.resolve()
        mode = path.stat().st_mode if path.exists() else stat.S_IFREG
        there = path.parent.is_dir()
    except (OSError, RuntimeError) as error:  # names that are too long, links that lead to themselves
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{given} cannot be written ({reason}); choose another file") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{given} is a folder; give the path of a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{given} is a pipe or a device; give the path of a file")
    if not there:
        raise InputError(f"{given}: its folder is not there; make it, or choose another file")
    return path


def write_whole(files: Mapping[Path, Writer]) -> None:
    """Write files that belong together; all are complete on the disk before the first one takes its name.

    Whatever goes wrong before, what was there stays as it was. Paths are those of `writable_file`.
    """
    temporary: dict[Path, Path] = {}
    path = Path()
    try:
        for path, write in files.items():
            temporary[path] = path.with_name(f".cge-{secrets.token_hex(8)}.tmp")
            with temporary[path].open("xb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            if path.exists():
                temporary[path].chmod(stat.S_IMODE(path.stat().st_mode))
        for path in files:
            temporary[path].replace(path)
            sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path} cannot be written ({reason}); free the disk or choose another file") from None
    finally:
        for one in temporary.values():
            with suppress(OSError):
                one.unlink(missing_ok=True)
