"""Independent training runs at the same time, each in a child process that shares the memory of its parent.

The Python part of an epoch cannot run in two threads at once, so threads would not use all cores. A child is forked: it
reads graph and inputs without a copy and sends back what it has trained. Results do not depend on how many run at once.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from cge.errors import InputError
from cge.parallel import limit_threads, resolve_jobs

ParallelTask = Callable[[Callable[[Any], None]], Any]  # takes a function that sends messages; returns a result

_PR_SET_PDEATHSIG = 1


def run_parallel(
    tasks: Sequence[ParallelTask], n_jobs: int | None, receive: Callable[[Any], None] | None = None
) -> list[Any]:
    """Return the results of `tasks`, at most `n_jobs` of which run at a time; their messages go to `receive`.

    A single task, or any where processes cannot be forked safely, runs in this process. An error stops all tasks.
    """
    receive = receive or (lambda _message: None)
    n_workers = min(resolve_jobs(n_jobs), len(tasks))
    if n_workers < 2 or not _can_fork():
        return [task(receive) for task in tasks]
    threads = max(1, resolve_jobs(n_jobs) // n_workers)
    results: dict[int, Any] = {}
    children: dict[Connection, tuple[int, Any]] = {}  # by connection: number of the task, process
    waiting = list(enumerate(tasks))[::-1]
    try:
        while waiting or children:
            while waiting and len(children) < n_workers:
                number, task = waiting.pop()
                connection, process = _start(task, threads)
                children[connection] = number, process
            for connection in cast(list[Connection], wait(list(children))):
                kind, value = _receive(connection)
                if kind == "message":
                    receive(value)
                    continue
                number, process = children.pop(connection)
                process.join()
                connection.close()
                if kind == "error":
                    raise value
                results[number] = value
    finally:
        for connection, (_, process) in children.items():
            process.kill()
            process.join()
            connection.close()
    return [results[number] for number in range(len(tasks))]


def _can_fork() -> bool:
    """Return whether processes can be forked: on Linux, without CUDA, and not from a daemon process."""
    import torch

    return sys.platform == "linux" and not torch.cuda.is_available() and not multiprocessing.current_process().daemon


def _start(task: ParallelTask, threads: int) -> tuple[Connection, Any]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(task, sender, threads), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child re-creates its locks
        process.start()
    sender.close()
    return receiver, process


def _run(task: ParallelTask, sender: Connection, threads: int) -> None:
    """Run a task in a child process, which ends if its parent does."""
    import torch

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with the parent, even if that is killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit_threads(threads)
    torch.set_num_threads(1)  # those of PyTorch do not survive a fork: it would wait for them
    with suppress(BrokenPipeError):
        try:
            result = "result", task(lambda message: sender.send(("message", message)))
        except BrokenPipeError:
            os._exit(1)
        except Exception as error:
            result = "error", error
        try:
            sender.send(result)
        except (AttributeError, TypeError, ValueError) as error:  # cannot be pickled
            sender.send(("error", RuntimeError(f"{result[1]!r} ({error})")))
    sender.close()
    os._exit(0)  # nothing of the parent, such as temporary files, is cleaned up here


def _receive(connection: Connection) -> tuple[str, Any]:
    try:
        kind, value = connection.recv()
    except EOFError:
        hint = "free memory or use n_jobs=1, and fit again"
        return "error", InputError(
            "a process that trained a candidate was killed, probably for lack of memory", hint=hint
        )
    return str(kind), value
