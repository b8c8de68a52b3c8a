"""Files of data sets: in `CGE_DATA_DIR`, in the user's cache, or downloaded into the cache.

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

_MAX_LISTED = 3  # paths in a message


@dataclass(frozen=True)
class DataFile:
    """A file: its path below a data folder, its checksum, and the address of a download if there is one."""

    path: str
    sha256: str
    url: str | None = None


def data_dir() -> Path | None:
    """Return the folder that the environment variable `CGE_DATA_DIR` names, or None."""
    folder = os.environ.get("CGE_DATA_DIR")
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """Return the folder for downloads: `CGE_CACHE_DIR`, or the cache folder of the operating system."""
    folder = os.environ.get("CGE_CACHE_DIR")
    return Path(folder).expanduser() if folder else Path(pooch.os_cache("cge"))


def location_of(files: Sequence[DataFile]) -> str:
    """Return where all of these files are: "CGE_DATA_DIR", "cache" or "missing"."""
    folder = data_dir()
    if folder is not None and not _missing(folder, files):
        return "CGE_DATA_DIR"
    return "missing" if _missing(cache_dir(), files) else "cache"


def fetch_files(
    name: str,
    files: Sequence[DataFile],
    *,
    contents: str = "its files",
    download: bool = True,
    trust: bool = False,
) -> Path:
    """Return the folder that holds all of these files, after a download where that is needed and possible.

    `contents` describes the files to a person who has to get them by hand. A file whose SHA256 is not the published one
    raises `FileFormatError` unless `trust` is true.
    """
    folder = _complete_folder(name, files, contents, download)
    if not trust:
        for file in files:
            check_sha256(folder / file.path, file.sha256)
    return folder


def _complete_folder(name: str, files: Sequence[DataFile], contents: str, download: bool) -> Path:
    location = location_of(files)
    if location == "CGE_DATA_DIR":
        return data_dir() or Path()
    cache = cache_dir()
    if location == "missing":
        missing = _missing(cache, files)
        if any(file.url is None for file in missing):
            raise MissingDataError(
                f"the data set {name!r} is not on this machine and cannot be downloaded: get {contents} "
                f"({_list(files)}) as described in docs/datasets.md under {name.partition('-')[0]!r}, and put them "
                f"into {_folders()}"
            )
        if not download:
            raise _missing_error(name, files, f"which download=False forbids, from {missing[0].url}")
        for file in missing:
            _download(name, file, files, cache)
    return cache


def _missing(folder: Path, files: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if not (folder / file.path).is_file()]


def _download(name: str, file: DataFile, files: Sequence[DataFile], cache: Path) -> None:
    pooch.get_logger().setLevel("WARNING")  # it logs every file otherwise
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
        raise _missing_error(name, files, f"which failed for {file.url}: {_short(error)}") from None
    except ValueError:
        raise _missing_error(
            name,
            files,
            f"which failed for {file.url}: the SHA256 of the download is not {file.sha256}, and it was deleted",
        ) from None


def _missing_error(name: str, files: Sequence[DataFile], why: str) -> MissingDataError:
    return MissingDataError(
        f"the data set {name!r} is not on this machine: put its files ({_list(files)}) into {_folders()}, or have it "
        f"downloaded ({why})"
    )


def _list(files: Sequence[DataFile]) -> str:
    """Return the paths of the missing files: the first few, and how many more."""
    missing = [file.path for file in _missing(data_dir() or cache_dir(), files)]
    more = len(missing) - _MAX_LISTED
    return ", ".join(missing[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _folders() -> str:
    folder = data_dir()
    if folder is None:
        state = "which is not set"
    elif not folder.is_dir():
        state = f"now {str(folder)!r}, which is not a folder"
    else:
        state = f"now {str(folder)!r}, where they are missing"
    return f"the folder named by CGE_DATA_DIR ({state}) or into the cache {str(cache_dir())!r}"


def _short(error: Exception) -> str:
    text = str(error).strip()
    return text if text and len(text) <= 120 and "\n" not in text else type(error).__name__
