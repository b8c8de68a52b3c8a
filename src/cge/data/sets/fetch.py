"""Files of data sets: in `CGE_DATA_DIR`, in the user's cache, or downloaded into the cache.

Both folders have the same layout, that of `DataFile.path`. A file is read only if its SHA256 is the published one, or
if the caller trusts it: a download is checked before it gets its name in the cache, all others each time they are read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

import pooch

from cge.errors import FileFormatError, Message, MissingDataError

_MAX_LISTED = 3  # paths in a message


@dataclass(frozen=True)
class DataFile:
    """A file: its path below a data folder, its checksum, and the address of a download if there is one."""

    path: str
    sha256: str
    url: str | None = None


@cache
def checksums() -> dict[str, str]:
    """Return the SHA256 of each public file by its path, from the list in the package (`sha256sum -c` reads it too)."""
    lines = (resources("cge.data.sets") / "bundled" / "SHA256SUMS").read_text().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def read_checked(path: Path, *, trust: bool) -> bytes:
    """Return the content of a public file, found in the list of checksums by its name; `trust` skips the check."""
    by_name = {public.rpartition("/")[2]: digest for public, digest in checksums().items()}
    return _read(path, by_name.get(path.name), trust)


def _read(path: Path, expected: str | None, trust: bool) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    actual = hashlib.sha256(content).hexdigest()
    if trust or actual == expected:
        return content
    hint = Message.of("pass {trust} if you trust its source", trust=True)
    if expected is None:
        raise FileFormatError(path, f"no SHA256 is published for this file, found {actual}", hint=hint)
    hint = Message("fetch the file again, or ", hint)
    raise FileFormatError(path, f"expected the SHA256 {expected}, found {actual}", hint=hint)


def data_dir() -> Path | None:
    """Return the folder that the environment variable `CGE_DATA_DIR` names, or None."""
    folder = os.environ.get("CGE_DATA_DIR")
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """Return the folder for downloads: `CGE_CACHE_DIR`, or the cache folder of the operating system."""
    return Path(os.environ.get("CGE_CACHE_DIR") or pooch.os_cache("cge")).expanduser()


def location_of(files: Sequence[DataFile]) -> str:
    """Return where all of these files are: "CGE_DATA_DIR", "cache" or "not downloaded"."""
    folder = data_dir()
    if folder is not None and not _missing(folder, files):
        return "CGE_DATA_DIR"
    return "not downloaded" if _missing(cache_dir(), files) else "cache"


def fetch_files(
    name: str, files: Sequence[DataFile], *, contents: str = "its files", download: bool = True, trust: bool = False
) -> Path:
    """Return the folder that holds all of these files, after a download where that is needed and possible.

    `contents` describes the files to a person who has to get them by hand. A file whose SHA256 is not the published one
    raises `FileFormatError` unless `trust` is true.
    """
    folder = data_dir()
    if folder is None or _missing(folder, files):
        folder = cache_dir()
        _download_missing(name, files, contents, download)
    if not trust:
        for file in files:
            _read(folder / file.path, file.sha256, trust)
    return folder


def _missing(folder: Path, files: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if not (folder / file.path).is_file()]


def _download_missing(name: str, files: Sequence[DataFile], contents: str, download: bool) -> None:
    missing = _missing(cache_dir(), files)
    if any(file.url is None for file in missing):
        raise MissingDataError(
            f"the data set {name!r} is not on this machine and cannot be downloaded: get {contents} "
            f"({_list(files)}) as described in docs/datasets.md under {name.partition('-')[0]!r}, and put them "
            f"into {_folders()}"
        )

    def error(why: str) -> MissingDataError:
        place = f"the data set {name!r} is not on this machine: put its files ({_list(files)}) into {_folders()}"
        return MissingDataError(f"{place}, or have it downloaded (which {why})")

    if missing and not download:
        raise error(f"download=False forbids, from {missing[0].url}")
    pooch.get_logger().setLevel("WARNING")  # it logs every file otherwise
    for file in missing:
        target, downloader = cache_dir() / file.path, pooch.HTTPDownloader(timeout=30)
        try:
            pooch.retrieve(file.url, f"sha256:{file.sha256}", target.name, target.parent, downloader=downloader)
        except OSError as problem:  # errors of the network and of the disk
            raise error(f"failed for {file.url}: {short_message(problem)}") from None
        except ValueError:
            why = f"the SHA256 of the download is not {file.sha256}, and it was deleted"
            raise error(f"failed for {file.url}: {why}") from None


def _list(files: Sequence[DataFile]) -> str:
    """Return the paths of the missing files: the first few, and how many more."""
    missing = [file.path for file in _missing(data_dir() or cache_dir(), files)]
    more = len(missing) - _MAX_LISTED
    return ", ".join(missing[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _folders() -> str:
    folder, state = data_dir(), "which is not set"
    if folder is not None:
        state = f"now {str(folder)!r}, {'where they are missing' if folder.is_dir() else 'which is not a folder'}"
    return f"the folder named by CGE_DATA_DIR ({state}) or into the cache {str(cache_dir())!r}"


def short_message(error: Exception) -> str:
    """Return the text of an error if it fits in a sentence, else its type."""
    text = str(error).strip()
    return text if text and len(text) <= 120 and "\n" not in text else type(error).__name__
