"""Threads or processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from cge.engine.engine import Block, Result, in_order
from cge.errors import InputError
from cge.parallel import resolve_jobs


class LocalEngine:
    """Runs tasks in `n_jobs` threads of this process, or with `processes` in as many processes.

    Threads share memory and suit kernels, which release the interpreter's lock. Processes suit Python code and PyTorch;
    they are started anew for each `map`, and take seconds to import what they need.

    >>> list(LocalEngine(2).map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    def __init__(self, n_jobs: int | None = None, *, processes: bool = False) -> None:
        self._n_workers, self._processes = resolve_jobs(n_jobs), processes

    @property
    def n_workers(self) -> int:
        """The number of tasks that run at the same time."""
        return self._n_workers

    def map(self, task: Callable[[Block], Result], blocks: Iterable[Block]) -> Iterator[Result]:
        """Yield `task(block)` in the order of the blocks; an error stops the rest and is raised."""
        if self._n_workers == 1 and not self._processes:
            yield from map(task, blocks)
            return
        executor = self._executor()

        def start(block: Block) -> Future[Result]:
            return executor.submit(task, block)

        try:
            yield from in_order(start, Future.result, blocks, 2 * self._n_workers)
        except BrokenProcessPool:
            hint = "free memory or use fewer jobs, and run the command again"
            raise InputError("a worker process was killed, probably for lack of memory", hint=hint) from None
        finally:
            executor.shutdown(wait=True, cancel_futures=True)  # no task writes after this call

    def _executor(self) -> Executor:
        if not self._processes:
            return ThreadPoolExecutor(self._n_workers, "cge-engine")
        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        return ProcessPoolExecutor(self._n_workers, spawn, _start_worker)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent process, and end when that ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
