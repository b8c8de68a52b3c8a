"""Files that are there as a whole or not at all, and reading only what lies in the folder itself."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cge.errors import FileFormatError

if sys.platform != "win32":
    import fcntl

__all__ = ["HINT", "Written", "locked", "open_regular", "remove_others", "sha256_of", "sync_folder", "write_temporary"]

HINT = "restore the folder from a copy, or save it again"  # of everything damaged

_BLOCK = 1 << 20


class Written(NamedTuple):
    """A file under its temporary name, and what it holds."""

    path: Path
    size: int
    sha256: str


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one writer at a time into a folder; the system unlocks it when a process dies.

    Without it one writer could sweep away the tensors that another is about to name.
    """
    if sys.platform == "win32":  # folders cannot be locked there; writers take turns by themselves
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_temporary(folder: Path, name: str, chunks: Iterable[bytes | memoryview]) -> Written:
    """Write chunks to a new file with a temporary name, down to the disk."""
    path = folder / f".{name}-{secrets.token_hex(8)}.tmp"
    size, digest = 0, hashlib.sha256()
    with path.open("xb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    return Written(path, size, digest.hexdigest())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder down to the disk, so that later changes cannot get there before earlier ones."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync no folders
            raise
    finally:
        os.close(handle)


def remove_others(folder: Path, name: str, keep: str | None) -> None:
    """Remove temporary files and tensors of `name`, but for the tensors `keep`; the caller holds the lock."""
    ours = re.compile(rf"\.{name}-[0-9a-f]{{16}}\.tmp|{name}-[0-9a-f]{{16}}\.safetensors")
    with suppress(OSError):  # what stays is removed by the next writer
        for entry in list(folder.iterdir()):
            if ours.fullmatch(entry.name) and entry.name != keep:
                entry.unlink()


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; links, pipes and devices are refused, for they lead out of the folder or block."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise FileFormatError(path, f"this is {kind}, expected a file; put the file itself there")
    return path.open("rb")


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA256 of the rest of a file, read in blocks."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
