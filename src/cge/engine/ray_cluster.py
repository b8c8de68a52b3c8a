"""A Ray cluster: tasks on its workers, which have the same package and see the same files."""

from __future__ import annotations

import hashlib
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cge.engine.engine import Block, Result, in_order
from cge.errors import InputError, MissingDataError

_SECONDS = 10  # to connect
_RETRIES = 3  # of a task whose worker or machine is lost
_PACKAGES = ("numba", "numpy", "scikit-learn", "scipy", "torch")
_NAMES = f"{', '.join(_PACKAGES[:-1])} or {_PACKAGES[-1]}"


class RayEngine:
    """Runs tasks on a Ray cluster, one core each.

    `address` is "auto" for the cluster that runs on this machine, or "host:port" of its head; None starts Ray on this
    machine alone. A task whose worker is lost is run again, up to three times.
    """

    def __init__(self, address: str | None = None) -> None:
        self.address, self._ray = address, connect(address)

    @property
    def n_workers(self) -> int:
        """The number of cores of the cluster."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def map(self, task: Callable[[Block], Result], blocks: Iterable[Block]) -> Iterator[Result]:
        """Yield `task(block)` in the order of the blocks; an error stops the rest and is raised."""
        handles: list[Any] = []
        submit = self._submitter(task, handles)
        try:
            yield from in_order(submit, self._finish, blocks, 2 * self.n_workers)
        finally:
            self._cancel(handles[-2 * self.n_workers :])

    def map_as_finished(
        self, task: Callable[[Block], Result], blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Result]]:
        """Yield each block with its result as soon as it is there; an error stops the rest and is raised."""
        handles: list[Any] = []
        submit = self._submitter(task, handles)
        running = {submit(block): block for block in blocks}
        try:
            while running:
                (finished,), _ = self._ray.wait([*running], num_returns=1)
                block = running.pop(finished)
                yield block, self._finish(finished)
        finally:
            self._cancel([*running])

    def _submitter(self, task: Callable[[Block], Result], handles: list[Any]) -> Callable[[Block], Any]:
        """Return a function that starts the task on a block, and appends its handle to `handles`."""
        ray = self._ray
        remote, shared_task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run), ray.put(ray.cloudpickle.dumps(task))
        fingerprint = package_fingerprint(_package_of(task))

        def submit(block: Block) -> Any:
            handles.append(remote.remote(fingerprint, shared_task, block))
            return handles[-1]

        return submit

    def _cancel(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            with suppress(Exception):  # those that are finished cannot be canceled
                self._ray.cancel(handle)

    def _finish(self, handle: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, Exception) else error from None
        except errors.RayError as error:  # lost machines, workers out of memory
            problem = f"a task on the Ray cluster failed {_RETRIES + 1} times ({type(error).__name__})"
            hint = "run the command again: blocks that are finished are kept"
            raise InputError(problem, hint=hint) from None


def _run(fingerprint: str, pickled: bytes, block: Block) -> Any:
    """Run a task on a worker, if it has the packages of the driver."""
    try:
        task = pickle.loads(pickled)  # noqa: S301 - from the driver
        same = package_fingerprint(_package_of(task)) == fingerprint
    except (AttributeError, ImportError):
        same = False
    if not same:
        hint = "install the same on all machines of the cluster and restart Ray"
        raise InputError(f"a worker of the Ray cluster has another version of cge, {_NAMES}", hint=hint)
    return task(block)


def _package_of(task: Any) -> str:
    """Return the name of the package that a task's function is in."""
    while isinstance(task, partial):
        task = task.func
    module = getattr(task, "__module__", None) or type(task).__module__
    return "cge" if module == "__main__" else str(module).partition(".")[0]


@cache
def package_fingerprint(package: str = "cge") -> str:
    """Return a hash of the sources of this package and another one, and of the versions of those it computes with.

    It is the same on machines that compute the same.
    """
    installed = " ".join(f"{name} {version(name)}" for name in _PACKAGES)
    digest, folders = hashlib.sha256(installed.encode()), [Path(__file__).parent.parent]
    spec = find_spec(package) if package != "cge" else None
    folders += [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def connect(address: str | None) -> Any:
    """Return Ray, connected to a cluster."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingDataError("the engine 'ray' needs Ray", hint="pip install 'cge[ray]'") from None
    if ray.is_initialized() and address in (None, "auto"):
        return ray
    local: dict[str, Any] = {"include_dashboard": False} if address is None else {}
    try:
        if address not in (None, "auto", "local"):
            _require_listener(str(address))
        if not ray.is_initialized():
            ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **local)
    except (OSError, RuntimeError, ValueError) as error:  # no cluster; another version of Ray or Python
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        hint = "start it with 'ray start --head', with the same versions of Ray and Python"
        raise InputError(f"no connection to the Ray cluster {address!r} ({reason})", hint=hint) from None
    return ray


def _require_listener(address: str) -> None:
    """Raise an error where nobody listens: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("expected 'auto' or host:port")
    with socket.create_connection((host, int(port)), _SECONDS):
        pass
