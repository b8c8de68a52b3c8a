"""Locks on files and folders. The system releases them when a process ends, however it ends.

Nothing is locked on Windows and on file systems without locks.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cge.errors import InputError

if sys.platform != "win32":
    import fcntl

_LOCK_FILE = ".cge-working"


def lock_file(handle: int, *, wait: bool) -> bool:
    """Lock an open file or folder until it is closed; return False where the system has no locks.

    Where another process holds the lock, wait for it or raise `BlockingIOError`.
    """
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
    """Reserve a folder for this process; raise `InputError` where another process has reserved it.

    A lock file that a killed process left behind reserves nothing.
    """
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
