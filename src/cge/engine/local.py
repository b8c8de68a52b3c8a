"""Threads or processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

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
        with self._running() as executor:

            def start(block: Block) -> Future[Result]:
                return executor.submit(task, block)

            yield from in_order(start, Future.result, blocks, 2 * self._n_workers)

    def map_as_finished(
        self, task: Callable[[Block], Result], blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Result]]:
        """Yield each block with its result as soon as it is there; processes that still run at an error are ended."""
        if self._n_workers == 1 and not self._processes:
            yield from ((block, task(block)) for block in blocks)
            return
        with self._running() as executor:
            futures = {executor.submit(task, block): block for block in blocks}
            yield from ((futures[future], future.result()) for future in as_completed(futures))

    @contextmanager
    def _running(self) -> Iterator[Executor]:
        """Yield an executor; at an error nothing more is started, and its processes end at once."""
        executor, before = self._executor(), {*multiprocessing.active_children()}
        try:
            yield executor
        except BaseException as error:
            executor.shutdown(wait=not self._processes, cancel_futures=True)
            for process in {*multiprocessing.active_children()} - before if self._processes else ():
                process.terminate()
                process.join()
            if not isinstance(error, BrokenProcessPool):
                raise
            hint = "free memory or use fewer jobs, and run the command again"
            raise InputError("a worker process was killed, probably for lack of memory", hint=hint) from None
        executor.shutdown(wait=True)  # no task writes after this call

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
