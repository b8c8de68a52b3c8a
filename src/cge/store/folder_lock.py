"""A folder that one process works in: others are told who does; the claim ends with its process, however that ends."""

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

__all__ = ["claimed"]

_NAME = ".cge-working"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep a folder to this process; raise `InputError` where another one has it.

    The system drops the lock when a process dies, so a file that is left behind keeps nobody out. Where files cannot
    be locked (on Windows, on some network file systems) nobody is kept out.
    """
    if sys.platform == "win32":
        yield
        return
    path = folder / _NAME
    handle = _locked(path, folder)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # first, so that who opens the name now gets a file of its own
        os.close(handle)


def _locked(path: Path, folder: Path) -> int:
    """Return a locked file that still has its name; refuse where another process has it."""
    while True:
        handle = _opened(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise InputError(f"{holder} is working in {folder}; wait until it is done") from None
        except OSError:
            return handle  # nothing can be locked here
        try:
            if path.stat().st_ino == os.fstat(handle).st_ino:
                with suppress(OSError):  # a full disk: the lock holds without a name in it
                    os.truncate(handle, 0)
                    os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # the last holder removed the name while we waited for it


def _opened(path: Path) -> int:
    """Open a file for the lock, which is made where there is none; links and devices would lead out of the folder."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if path.is_symlink():
            raise InputError(f"{path} is a symbolic link; remove it") from None
        raise InputError(f"{path} cannot be written ({error.strerror}); mend that") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path} is no regular file; remove it")
    return handle
