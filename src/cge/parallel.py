"""Compiled kernels and the threads that run them.

Kernels are compiled once, cached on disk, and release the interpreter's lock, so ordinary threads run them in parallel.
Work is split into blocks whose bounds depend on the work alone, never on the number of threads: results are the same
for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from cge.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
Int: TypeAlias = "int | np.signedinteger[Any]"  # what kernels count with

_MIN_POOL_SIZE = 32  # threads that may be started, also on machines with fewer cores; they start when needed


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with Numba: no Python objects, no lock, cached on disk."""
    return _compiled(function, nogil=True, boundscheck=False)


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no cache folder is writable: compile in every process
        compiled = numba.njit(**options)(function)
    return compiled


def float_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, and let sums of floats be reordered for speed (always in the same way)."""
    fast = {"reassoc", "contract", "nsz"}  # NaN and infinity keep their meaning
    return _compiled(function, nogil=True, boundscheck=False, error_model="numpy", fastmath=fast)


def _prefetch(_context: Any, array: Any, _index: Any) -> Any:
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


# Inside a kernel: loads `array[index]` into the cache without waiting for it.
prefetch: Any = intrinsic(_prefetch)


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads to use; None and −1 mean every core this process may use."""
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thread_pool.cache_clear)  # a child process has no threads of its parent
