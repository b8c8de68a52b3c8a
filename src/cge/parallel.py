"""Compiled kernels and the threads that run them.

Kernels are compiled once, cached on disk, and release the interpreter's lock, so ordinary threads run them side by
side. Work is cut into blocks whose borders depend on the work alone, never on the number of threads: whoever computes
a block writes the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import numba

from cge.errors import InputError

__all__ = ["kernel", "run_blocks", "thread_count"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with Numba: no Python objects, no lock, cached on disk."""
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    return compiled


def thread_count(threads: int | None) -> int:
    """Return the number of threads to use; None means every core this process may use.

    >>> thread_count(3)
    3
    """
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads must be a whole number of at least 1 or None, found {threads!r}")
    return threads


def run_blocks(work: Callable[..., object], blocks: Iterable[tuple[Any, ...]], threads: int | None = None) -> None:
    """Call `work(*block)` for every block, on up to `threads` threads; an error in one is raised here."""
    blocks = list(blocks)
    workers = min(thread_count(threads), len(blocks))
    if workers <= 1:
        for block in blocks:
            work(*block)
        return
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, *block) for block in blocks]:
            future.result()
