"""Atomic writes and locks: files are written under a temporary name and moved into place when all are complete.

A writer that is killed leaves its temporary file, `.cge-….tmp`, which the next writer in the folder removes: nobody
holds its lock any more. The system releases locks when a process ends, however it ends. Nothing is locked on Windows
and on file systems without locks.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cge.data.files.file_path import FilePath, file_path
from cge.errors import InputError, disk_hint

if sys.platform != "win32":
    import fcntl

Writer: TypeAlias = Callable[[BinaryIO], object]  # writes a file's content to a stream

_LOCK_FILE = ".cge-working"
_TEMPORARY = re.compile(r"\.cge-[0-9a-f]{16}\.tmp")


def writable_file(file: FilePath) -> Path:
    """Return the path of a file that can be written; links are followed, so that they stay links."""
    path = file_path(file)
    try:
        path = path.resolve()
        mode = path.stat().st_mode if path.exists() else stat.S_IFREG
        has_folder = path.parent.is_dir()
    except (OSError, RuntimeError) as error:  # names that are too long, links that lead to themselves
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{file} cannot be written ({reason})", hint="choose another file") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{file} is a folder", hint="give the path of a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{file} is a pipe or a device", hint="give the path of a file")
    if not has_folder:
        raise InputError(f"{file}: its folder does not exist", hint="create it, or choose another file")
    return path


def write_files(files: Mapping[Path, Writer], *, folder: Path | None = None) -> None:
    """Write all files under temporary names, then move them into place in the order of `files`.

    Each move is on the disk before the next one starts. What fails before the first move changes nothing. Paths are
    those of `writable_file`. An error names the file, or the `folder` of files that belong together.
    """
    temporary: dict[Path, Path] = {}
    path, locks = Path(), ExitStack()
    try:
        for path, write in files.items():
            _remove_abandoned(path.parent)
            temporary[path] = _create_temporary(path.parent, locks)
            with temporary[path].open("wb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            if path.exists():
                temporary[path].chmod(stat.S_IMODE(path.stat().st_mode))
        for path in files:
            temporary[path].replace(path)
            _sync_folder(path.parent)
    except OSError as error:
        raise write_error(folder or path, error, "folder" if folder else "file") from None
    finally:
        for file in temporary.values():
            with suppress(OSError):
                file.unlink(missing_ok=True)
        locks.close()


def write_error(path: Path, error: OSError, kind: str) -> InputError:
    """Return the error for a file or a folder, its `kind`, that cannot be written."""
    return InputError(f"{path} cannot be written ({error.strerror or error})", hint=f"{disk_hint(error)} {kind}")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    write_files({path: lambda stream: stream.write(text.encode())})


def _create_temporary(folder: Path, locks: ExitStack) -> Path:
    """Create a temporary file, locked until `locks` are closed or the process ends."""
    while True:
        path = folder / f".cge-{secrets.token_hex(8)}.tmp"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if lock_file(handle, wait=True) and not os.fstat(handle).st_nlink:  # removed before it was locked
            os.close(handle)
            continue
        if sys.platform == "win32":  # open files cannot be moved there
            os.close(handle)
        else:
            locks.callback(os.close, handle)
        return path


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of writers that no longer run."""
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if _TEMPORARY.fullmatch(entry.name) and entry.is_file() and not entry.is_symlink():
                with suppress(OSError):
                    handle = os.open(entry, os.O_RDONLY)
                    try:
                        if lock_file(handle, wait=False):
                            entry.unlink()
                    finally:
                        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that later changes cannot get there before earlier ones."""
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


def lock_file(handle: int, *, wait: bool) -> bool:
    """Lock an open file or folder, or raise `BlockingIOError`; return False where the system has no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one writer at a time into a folder; the others wait."""
    if sys.platform == "win32":  # a folder cannot be opened there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock_file(handle, wait=True)
        yield
    finally:
        os.close(handle)


@contextmanager
def reserve_folder(folder: Path) -> Iterator[None]:
    """Reserve a folder for this process; raise `InputError` where another running process has reserved it."""
    if sys.platform == "win32":
        yield
        return
    path = folder / _LOCK_FILE
    handle = _lock_named_file(path, folder)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is released: whoever opens the name now gets a new file
        os.close(handle)


def _lock_named_file(path: Path, folder: Path) -> int:
    """Return the handle of a locked file that still has its name."""
    while True:
        handle = _open_lock_file(path)
        try:
            if not lock_file(handle, wait=False):
                return handle
        except BlockingIOError:
            owner = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise InputError(f"{owner} is working in {folder}", hint="wait until it is done") from None
        try:
            if path.stat().st_ino == os.fstat(handle).st_ino:
                with suppress(OSError):  # on a full disk the lock holds without a name in it
                    os.truncate(handle, 0)
                    os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # the last owner removed the name between our opening and locking it


def _open_lock_file(path: Path) -> int:
    """Open or create the lock file; links and devices, which lead out of the folder, are refused."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if path.is_symlink():
            raise InputError(f"{path} is a symbolic link", hint="remove it") from None
        raise InputError(f"{path} cannot be written ({error.strerror})", hint="check its permissions") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path} is not a regular file", hint="remove it")
    return handle
