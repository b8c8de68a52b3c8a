"""Reading the files of a stored folder: only regular files that lie in the folder itself."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import BinaryIO

from cge.errors import FileFormatError

HINT = "restore the folder from a copy, or save it again"  # for every kind of damage

_BLOCK = 1 << 20


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; links, pipes and devices are refused, for they lead out of the folder or block."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FileFormatError(path, f"this is {kind}, expected a file", hint="put the file itself there")
    return path.open("rb")


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a file, read in blocks."""
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
