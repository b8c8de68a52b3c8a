"""Compiled kernels and the threads that run them.

Kernels are compiled once, cached on disk, and release the interpreter's lock, so ordinary threads run them in parallel.
Numba is imported when the first kernel is called.
Work is split into blocks whose bounds depend on the work alone, never on the number of threads: results are the same
for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial, update_wrapper
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from cge.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
Int: TypeAlias = "int | np.signedinteger[Any]"  # what kernels count with

_MIN_POOL_SIZE = 32  # threads that may be started, also on machines with fewer cores; they start when needed


_building = threading.RLock()
_max_threads: int | None = None  # of a child process that shares the cores with others
_interpreting: ContextVar[bool] = ContextVar("interpreting", default=False)


class _OnFirstCall:
    """A compiled function that `build` makes at the first call."""

    def __init__(self, function: Callable[..., Any], build: Callable[[Callable[..., Any]], Any]) -> None:
        update_wrapper(self, function)
        self._function, self._build = function, build
        self._built: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._built is None and _interpreting.get():
            return self._function(*arguments)
        return (self._built or self.built())(*arguments)

    def built(self) -> Any:
        """Return the compiled function; in its module, kernels that it calls are replaced by theirs."""
        with _building:
            if self._built is None:
                names = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(names.get(name), _OnFirstCall):
                        names[name] = names[name].built()
                self._built = self._build(self._function)
        return self._built


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with Numba: no Python objects, no lock, cached on disk."""
    return cast(Callable[P, R], _OnFirstCall(function, partial(_compiled, boundscheck=False)))


def float_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, and let sums of floats be reordered for speed (always in the same way)."""
    fast = {"reassoc", "contract", "nsz"}  # NaN and infinity keep their meaning
    options: dict[str, Any] = {"boundscheck": False, "error_model": "numpy", "fastmath": fast}
    return cast(Callable[P, R], _OnFirstCall(function, partial(_compiled, **options)))


@contextmanager
def interpreted() -> Iterator[None]:
    """Context in which kernels that are not loaded yet run as Python: for work that takes less time than to load them.

    Only for those of `kernel`: the results of a `float_kernel` would differ by rounding.
    """
    before = _interpreting.set(True)
    try:
        yield
    finally:
        _interpreting.reset(before)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no cache folder is writable: compile in every process
        return numba.njit(nogil=True, **options)(function)


def _prefetch(_context: Any, array: Any, _index: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), byte_pointer)
        shape = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        name = "llvm.prefetch.p0"
        declared = builder.module.globals.get(name)
        function = declared if declared is not None else ir.Function(builder.module, shape, name)
        read, keep_close, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep_close, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _intrinsic(function: Callable[..., Any]) -> Any:
    from numba.extending import intrinsic

    return intrinsic(function)


# Inside a kernel: loads `array[index]` into the cache without waiting for it.
prefetch: Any = _OnFirstCall(_prefetch, _intrinsic)


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads to use; None and −1 mean every core this process may use."""
    if _max_threads is not None:
        return _max_threads
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise InputError(parameter="n_jobs", expected="an integer of at least 1, -1 or None", found=n_jobs)
    return int(n_jobs)


def split_blocks(count: int, size: int) -> list[tuple[int, int]]:
    """Return the bounds (start, end) of blocks of `size`.

    >>> split_blocks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def run_blocks(work: Callable[..., object], blocks: Iterable[tuple[Any, ...]], n_jobs: int | None = None) -> None:
    """Call `work(*block)` for every block, on up to `n_jobs` threads; an error stops the rest and is raised here."""
    blocks = list(blocks)
    if len(blocks) == 1:
        work(*blocks[0])
        return
    n_threads, remaining, failed = min(resolve_jobs(n_jobs), len(blocks)), iter(blocks), threading.Event()

    def run() -> None:
        for block in remaining:  # shared by all threads
            if failed.is_set():
                return
            try:
                work(*block)
            except BaseException:
                failed.set()
                raise

    futures = [_thread_pool().submit(run) for _ in range(n_threads - 1)]
    try:
        run()
    except BaseException:  # an interruption may come between two blocks
        failed.set()
        raise
    finally:
        started = [future for future in futures if not future.cancel()]
        wait(started)  # whatever happens, no thread writes after this call
    for future in started:
        future.result()


@cache
def _thread_pool() -> ThreadPoolExecutor:
    """Return the threads of this process: to start them for each call would take longer than many a product."""
    return ThreadPoolExecutor(max(resolve_jobs(None), _MIN_POOL_SIZE), "cge")


def limit_threads(count: int) -> None:
    """Let this process use at most `count` threads, whatever `n_jobs` says."""
    global _max_threads
    _max_threads = count


def _forget_threads() -> None:
    """Forget the threads of the parent process, which a child does not have, and the locks that they hold."""
    global _building
    _thread_pool.cache_clear()
    _building = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
