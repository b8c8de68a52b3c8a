"""The way in: run `cge`, and turn what goes wrong into one sentence and an exit code.

Only the standard library is imported here: what is slow to import comes within reach of the `except` clauses, so that
an early Ctrl-C ends in a word and not in a traceback.
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

__all__ = ["Stopped", "command_line", "complain", "main", "run"]

_INTERRUPTED, _TERMINATED = 130, 143  # what shells use for Ctrl-C and SIGTERM
_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """Ctrl-C in a command that has a way on to tell; a KeyboardInterrupt would lose its words in Typer."""


class _Ending:
    """Lets SIGTERM end a command as Ctrl-C does, and remembers which of the two it was."""

    def __init__(self) -> None:
        self.code, self.word = _INTERRUPTED, "interrupted"

    def __call__(self, *_: int | FrameType | None) -> None:
        self.code, self.word = _TERMINATED, "terminated"
        raise KeyboardInterrupt

    def told(self, more: str = "") -> int:
        """Say how the command ended, and return the exit code."""
        complain(f"{self.word}; {more}" if more else self.word)
        return self.code


@contextmanager
def _listening() -> Iterator[_Ending]:
    """Listen to SIGTERM, where nobody does yet; only the main thread of a process can."""
    ending = _Ending()
    free = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not free:
        yield ending
        return
    signal.signal(signal.SIGTERM, ending)
    try:
        yield ending
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `cge` and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run `cge` with these arguments and return the exit code."""
    token = _arguments.set(tuple(arguments))
    try:
        with _listening() as ending:
            return _run(arguments, ending)
    finally:
        _arguments.reset(token)


def command_line(without: Sequence[str] = ()) -> str:
    """Return the command that runs, as a shell takes it, without some options."""
    words = [one for one in _arguments.get() if one not in ("--debug", *without)]
    return shlex.join(["cge", *words]).encode(errors="backslashreplace").decode()  # file names may be no text


def _run(arguments: Sequence[str], ending: _Ending) -> int:
    debug = "--debug" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    try:
        from cge.cli.app import call

        code = call([one for one in arguments if one != "--debug"])
        if sys.stdout is not None:
            sys.stdout.flush()
        return ending.told() if code == _INTERRUPTED else code
    except KeyboardInterrupt:
        return ending.told()
    except Stopped as stopped:
        return ending.told(str(stopped))
    except BrokenPipeError:
        # Whoever read our output has left (`cge datasets | head`): nothing is wrong, and nothing more can be said.
        _leave_output()
        return 0
    except OSError as error:
        if debug:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # Python would try again at its end, and complain
            _leave_output()
        return _failed(error)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # so rich ends when it prints help into a closed pipe
            return 0
        raise
    except Exception as error:
        if debug:
            raise
        return _failed(error)


def _leave_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    from cge.cli.flags import shell_message
    from cge.errors import CgeError, disk_hint

    if isinstance(error, CgeError):
        complain(shell_message(error))
        return 2
    if isinstance(error, OSError) and error.errno:  # the disk, the network, permissions: no defect of cge
        complain(f"{error.filename or 'the output'} cannot be used ({error.strerror}); {disk_hint(error)}")
        return 2
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # so torch says it
        complain("the memory is used up; take a smaller graph or smaller settings, or a machine with more")
        return 2
    complain(f"unexpected {type(error).__name__}: {error}; run again with --debug for the traceback")
    return 1


def complain(message: str) -> None:
    """Print one sentence on the error stream, and on one line, whatever the names of files hold."""
    from cge.cli.model_files import printable

    print(f"cge: {printable(message)}", file=sys.stderr)
