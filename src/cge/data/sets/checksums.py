"""SHA256 of the public files: a file is read only if its hash is the published one, or if the caller trusts it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from cge.errors import FileFormatError, Message


@cache
def checksums() -> dict[str, str]:
    """Return the SHA256 of each public file by its path, from the list in the package (`sha256sum -c` reads it too)."""
    lines = (resources("cge.data.sets") / "bundled" / "SHA256SUMS").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def check_sha256(path: Path, expected: str | None) -> None:
    """Refuse a file whose SHA256 is not the expected one; None means that none is published for this file."""
    try:
        with path.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    _compare(path, actual, expected)


def read_checked(path: Path, *, trust: bool) -> bytes:
    """Return the content of a public file, found in the list of checksums by its name; `trust` skips the check."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    if not trust:
        by_name = {public.rpartition("/")[2]: digest for public, digest in checksums().items()}
        _compare(path, hashlib.sha256(content).hexdigest(), by_name.get(path.name))
    return content


def _compare(path: Path, actual: str, expected: str | None) -> None:
    if expected is None:
        hint = Message.of("pass {trust} if you trust its source", trust=True)
        raise FileFormatError(path, f"no SHA256 is published for this file, found {actual}", hint=hint)
    if actual != expected:
        hint = Message.of("fetch the file again, or pass {trust} if you trust its source", trust=True)
        raise FileFormatError(path, f"expected the SHA256 {expected}, found {actual}", hint=hint)
