"""Where the files of a data set are: in `CGE_DATA_DIR`, in the user's cache, or at their public home.

Both folders have the same layout, that of `DataFile.path`. Every file is checked against its SHA256: a download before
it gets its name in the cache (what does not match is deleted), all others each time they are loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch

from cge.data.sets.checksums import check_sha256
from cge.errors import MissingDataError

__all__ = ["DataFile", "cache_dir", "data_dir", "location_of", "obtain"]

_SHOWN = 3  # paths in a message


@dataclass(frozen=True)
class DataFile:
    """One file: its path below a data folder, its checksum, and its public address if it has one."""

    path: str
    sha256: str
    url: str | None = None


def data_dir() -> Path | None:
    """Return the folder that the environment variable `CGE_DATA_DIR` names, or None."""
    named = os.environ.get("CGE_DATA_DIR")
    return Path(named).expanduser() if named else None


def cache_dir() -> Path:
    """Return the folder for downloads: `CGE_CACHE_DIR`, or the place the operating system has for caches."""
    named = os.environ.get("CGE_CACHE_DIR")
    return Path(named).expanduser() if named else Path(pooch.os_cache("cge"))


def location_of(files: Sequence[DataFile]) -> str:
    """Say where all of these files are: "CGE_DATA_DIR", "cache" or "not here"."""
    folder = data_dir()
    if folder is not None and not _lacking(folder, files):
        return "CGE_DATA_DIR"
    return "missing" if _lacking(cache_dir(), files) else "cache"


def obtain(
    name: str,
    files: Sequence[DataFile],
    *,
    contents: str = "its files",
    download: bool = True,
    trust: bool = False,
) -> Path:
    """Return the folder that holds all of these files, after a download where that is needed and possible.

    `contents` says what the files are, to a person who has to get them by hand. A file whose SHA256 is not the
    published one raises `FileFormatError` unless `trust` is true.
    """
    folder = _complete_folder(name, files, contents, download)
    if not trust:
        for file in files:
            check_sha256(folder / file.path, file.sha256)
    return folder


def _complete_folder(name: str, files: Sequence[DataFile], contents: str, download: bool) -> Path:
    place = location_of(files)
    if place == "CGE_DATA_DIR":
        return data_dir() or Path()
    cache = cache_dir()
    if place == "missing":
        lacking = _lacking(cache, files)
        if any(file.url is None for file in lacking):
            raise MissingDataError(
                f"the data set {name!r} is not on this machine and cannot be downloaded: get {contents} "
                f"({_listed(files)}) as docs/datasets.md tells under {name.partition('-')[0]!r}, and put them into "
                f"{_folders()}"
            )
        if not download:
            raise _not_here(name, files, f"which download=False forbids, from {lacking[0].url}")
        for file in lacking:
            _download(name, file, files, cache)
    return cache


def _lacking(folder: Path, files: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if not (folder / file.path).is_file()]


def _download(name: str, file: DataFile, files: Sequence[DataFile], cache: Path) -> None:
    pooch.get_logger().setLevel("WARNING")  # it tells of every file otherwise
    target = cache / file.path
    try:
        pooch.retrieve(
            file.url,
            known_hash=f"sha256:{file.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=30),
        )
    except OSError as error:  # errors of the network and of the disk
        raise _not_here(name, files, f"which failed for {file.url}: {_short(error)}") from None
    except ValueError:
        raise _not_here(
            name,
            files,
            f"which failed for {file.url}: what came does not have the SHA256 {file.sha256} and was not kept",
        ) from None


def _not_here(name: str, files: Sequence[DataFile], why: str) -> MissingDataError:
    return MissingDataError(
        f"the data set {name!r} is not on this machine: put its files ({_listed(files)}) into {_folders()}, or have it "
        f"downloaded ({why})"
    )


def _listed(files: Sequence[DataFile]) -> str:
    """Name the files that are looked for and not found: the first few, and how many more."""
    lacking = [file.path for file in _lacking(data_dir() or cache_dir(), files)]
    more = len(lacking) - _SHOWN
    return ", ".join(lacking[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _folders() -> str:
    folder = data_dir()
    if folder is None:
        now = "which is not set"
    elif not folder.is_dir():
        now = f"now {str(folder)!r}, which is not a folder"
    else:
        now = f"now {str(folder)!r}, which lacks them"
    return f"the folder named by CGE_DATA_DIR ({now}) or into the cache {str(cache_dir())!r}"


def _short(error: Exception) -> str:
    text = str(error).strip()
    return text if text and len(text) <= 120 and "\n" not in text else type(error).__name__
