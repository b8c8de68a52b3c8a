"""The interface of engines, and the engine that a name stands for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from cge.errors import InputError

Block = TypeVar("Block")
Handle = TypeVar("Handle")
Result = TypeVar("Result")

ENGINES = ("local", "ray")


class Engine(Protocol):
    """Runs a task on blocks; `n_workers` of them at a time.

    Tasks and blocks must be picklable where workers are other processes: functions of a module, `functools.partial` of
    them, or instances of classes of a module. What is large belongs in files that tasks open themselves.
    """

    @property
    def n_workers(self) -> int:
        """The number of tasks that run at the same time."""

    def map(self, task: Callable[[Block], Result], blocks: Iterable[Block]) -> Iterator[Result]:
        """Yield `task(block)` in the order of the blocks; an error stops the rest and is raised."""

    def map_as_finished(
        self, task: Callable[[Block], Result], blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Result]]:
        """Yield each block with its result as soon as it is there: for few long tasks whose results are stored."""


def make_engine(
    name: str = "local", address: str | None = None, n_jobs: int | None = None, *, processes: bool = False
) -> Engine:
    """Return the engine of a name, "local" or "ray"; `address` is that of a Ray cluster.

    The local engine has `n_jobs` threads or, with `processes`, processes.

    >>> make_engine("local", n_jobs=2).n_workers
    2
    """
    from cge.engine.local import LocalEngine
    from cge.engine.ray_cluster import RayEngine

    if name not in ENGINES:
        raise InputError(parameter="engine", expected=f"one of {', '.join(map(repr, ENGINES))}", found=name)
    if name == "ray":
        return RayEngine(address)
    if address is not None:
        raise InputError("an address is that of a Ray cluster", parameter="address", hint="add the engine 'ray'")
    return LocalEngine(n_jobs, processes=processes)


def in_order(
    start: Callable[[Block], Handle], finish: Callable[[Handle], Result], blocks: Iterable[Block], ahead: int
) -> Iterator[Result]:
    """Start blocks, at most `ahead` of which are not finished, and yield their results in order."""
    handles: deque[Any] = deque()
    for block in blocks:
        handles.append(start(block))
        if len(handles) >= ahead:
            yield finish(handles.popleft())
    while handles:
        yield finish(handles.popleft())
