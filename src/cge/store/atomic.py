"""Files for other tools, there as a whole or not at all: written under a temporary name, then moved into place.

A writer that is killed leaves its temporary file, `.cge-….tmp`. The next one to write in the folder removes it: a lock
tells that nobody is writing it any more.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cge.data.files.file_path import FilePath, file_path
from cge.errors import InputError, disk_hint
from cge.store.file_io import sync_folder

if sys.platform != "win32":
    import fcntl

__all__ = ["Writer", "writable_file", "write_text", "write_whole"]

Writer: TypeAlias = Callable[[BinaryIO], object]  # writes a file's content to a stream

_TEMPORARY = re.compile(r"\.cge-[0-9a-f]{16}\.tmp")


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
    path, locks = Path(), ExitStack()
    try:
        for path, write in files.items():
            _sweep(path.parent)
            temporary[path] = _claimed(path.parent, locks)
            with temporary[path].open("wb") as stream:
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
        raise InputError(f"{path} cannot be written ({reason}); {disk_hint(error)} file") from None
    finally:
        for one in temporary.values():
            with suppress(OSError):
                one.unlink(missing_ok=True)
        locks.close()


def write_text(path: Path, text: str) -> None:
    """Write a file at once or not at all, as UTF-8."""
    write_whole({path: lambda stream: stream.write(text.encode())})


def _claimed(folder: Path, locks: ExitStack) -> Path:
    """Make a temporary file, and lock it until `locks` are closed or the process ends, however it ends."""
    while True:
        path = folder / f".cge-{secrets.token_hex(8)}.tmp"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if _locked(handle, wait=True) and not os.fstat(handle).st_nlink:  # swept away before it was locked
            os.close(handle)
            continue
        if sys.platform == "win32":  # files that are open cannot be moved there
            os.close(handle)
        else:
            locks.callback(os.close, handle)
        return path


def _sweep(folder: Path) -> None:
    """Remove temporary files whose writer is gone."""
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if _TEMPORARY.fullmatch(entry.name) and entry.is_file() and not entry.is_symlink():
                with suppress(OSError):
                    handle = os.open(entry, os.O_RDONLY)
                    try:
                        if _locked(handle, wait=False):
                            entry.unlink()
                    finally:
                        os.close(handle)


def _locked(handle: int, *, wait: bool) -> bool:
    """Lock an open file, where nobody else has it or one can wait; some systems lock none."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
