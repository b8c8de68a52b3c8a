"""The entry point: run `cge`, and turn errors into one sentence and an exit code.

Only the standard library is imported here: slow imports happen inside the `try` statement, so that an early Ctrl-C
ends without a traceback.
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
from pathlib import Path
from types import FrameType

_INTERRUPTED = 130  # what shells use for Ctrl-C; other signals are 128 + their number
ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())  # of the running command


class Stopped(Exception):  # noqa: N818 - not an error
    """Ctrl-C in a command that can be continued; the message says how. Typer would drop that of a KeyboardInterrupt."""


class _Interruption:
    """Lets SIGTERM and SIGHUP end a command as Ctrl-C does, and remembers which it was."""

    def __init__(self) -> None:
        self.code, self.word = _INTERRUPTED, "interrupted"

    def __call__(self, number: int, _: FrameType | None) -> None:
        self.code, self.word = 128 + number, "terminated"
        raise KeyboardInterrupt

    def report(self, hint: str = "") -> int:
        """Print how the command ended, and return the exit code."""
        print_error(f"{self.word}; {hint}" if hint else self.word)
        return self.code


@contextmanager
def _handling_signals() -> Iterator[_Interruption]:
    """Handle SIGTERM and SIGHUP, unless they already have a handler; only the main thread of a process can."""
    interruption, handled = _Interruption(), []
    if threading.current_thread() is threading.main_thread():
        numbers = [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)]  # Windows has no SIGHUP
        handled = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, interruption)
    try:
        yield interruption
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `cge` and exit with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run `cge` with these arguments and return the exit code."""
    ARGUMENTS.set(tuple(arguments))
    with _handling_signals() as interruption:
        return _run(arguments, interruption)


def command_line(without: Sequence[str] = ()) -> str:
    """Return the running command as a shell takes it, without some options."""
    words = [word for word in ARGUMENTS.get() if word not in ("--debug", *without)]
    return shlex.join(["cge", *words]).encode(errors="backslashreplace").decode()  # file names may not be text


def _run(arguments: Sequence[str], interruption: _Interruption) -> int:
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        if stream is None:  # it was closed; what is printed must not go to the other one
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a character prints a question mark
    try:
        from cge.cli.app import call

        code = call([word for word in arguments if word != "--debug"])
        sys.stdout.flush()
        return interruption.report() if code == _INTERRUPTED else code
    except (KeyboardInterrupt, Stopped) as stopped:
        return interruption.report(str(stopped))
    except BrokenPipeError:
        # The reader of our output has finished (`cge datasets | head`): this is no error, and nothing can be printed.
        _discard_output()
        return 0
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # raised by rich when it prints help into a closed pipe
            return 0
        raise
    except Exception as error:
        if "--debug" in arguments:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # Python would try again at exit, and print a traceback
            _discard_output()
        return _failed(error)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    from cge.cli.command import shell_message
    from cge.errors import CgeError, disk_hint

    if isinstance(error, CgeError):
        print_error(shell_message(error))
        return 2
    if isinstance(error, OSError) and error.errno:  # the disk, the network, permissions: no defect of cge
        print_error(f"{error.filename or 'the output'} cannot be used ({error.strerror}); {disk_hint(error)}")
        return 2
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # the words of torch
        print_error("out of memory; use a smaller graph, smaller settings, or a machine with more memory")
        return 2
    print_error(f"unexpected {type(error).__name__}: {error}; run again with --debug for the traceback")
    return 1


def print_error(message: str) -> None:
    """Print one sentence on the error stream, on one line even if it contains line breaks."""
    print(f"cge: {printable(message)}", file=sys.stderr)


def printable(value: object) -> str:
    r"""Return text for a terminal: control characters are written as escapes.

    >>> print(printable("a\x1b[31m"))
    a\x1b[31m
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(value))
