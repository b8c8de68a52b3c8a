"""Worker processes of the server: forks that share the memory of the model and one listening socket."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any

_LOG = logging.getLogger("cge.serve")
_PAUSE = 0.2  # seconds between looks at the workers
_GRACE = 10  # seconds for requests that are running when the server stops


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError:
        listening.close()
        raise
    return listening


def serve(app: Any, listening: socket.socket, log_level: str = "warning") -> None:
    """Serve until SIGTERM or Ctrl-C; requests that are running are finished."""
    import uvicorn

    options: Any = {"log_level": log_level, "access_log": False, "timeout_graceful_shutdown": _GRACE}
    options |= {"server_header": False, "timeout_keep_alive": 15, "h11_max_incomplete_event_size": 65_536}
    uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listening])


def serve_workers(app: Any, listening: socket.socket, count: int, log_level: str = "warning") -> None:
    """Serve with several forked processes; one that ends is replaced."""
    import uvicorn  # noqa: F401 - before the fork, so that workers start at once

    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    workers: set[int] = set()
    try:
        while not stopping:
            while len(workers) < count and not stopping:
                workers.add(_start(app, listening, log_level))
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended in workers:
                workers.discard(ended)
                _LOG.warning("worker %d ended with status %d; another one starts", ended, status)
            time.sleep(_PAUSE)
    finally:
        _end(workers)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(workers: set[int]) -> None:
    """End workers, and kill those that have not ended when requests had time to finish."""
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE + 5
    while workers:
        workers -= {worker for worker in workers if os.waitpid(worker, os.WNOHANG)[0]}
        if time.monotonic() > deadline:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
        time.sleep(_PAUSE / 10)


def _start(app: Any, listening: socket.socket, log_level: str) -> int:
    """Start a worker and return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    worker = os.fork()
    if worker:
        return worker
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # until uvicorn has its own handlers
        serve(app, listening, log_level)
        code = 0
    finally:
        os._exit(code)
