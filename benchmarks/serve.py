"""`cge bench serve`: requests per second and latencies of `cge serve`, with hostile requests and killed workers.

A model of CORA is trained for a few epochs and served by two workers. For each number of clients, every client sends
requests one after the other (of ten: six /predict of 10 nodes, two /similar, one /explain, one /predict of a new node)
on a connection that is kept open. Rows with hostile requests: meanwhile another client sends broken and oversized
requests, and a worker is killed every minute (at least once). A request that finds its connection closed by a killed
worker is sent once more; any other failure counts. Memory is that of all processes of the server, shared pages counted
in proportion. Results are saved after each row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import machine_description, save_table
from cge.data import load_dataset
from cge.estimators.cge import CGE
from cge.estimators.persistence import load

__all__ = ["main"]

_JSON = b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_HOSTILE = [
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /predict" + _JSON + b'Content-Length: 9\r\n\r\n{"nodes":',
    b"POST /predict" + _JSON + b"Content-Length: 99999999\r\n\r\n" + b"[" * 2_000_000,
    b"\x00\xff" * 500 + b"\r\n\r\n",
    b"POST /explain HTTP/1.1\r\nHost: evil\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
]


class _Client:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[Any, Any] | None = None

    async def ask(self, operation: str, content: dict[str, Any]) -> int:
        """Send a request, once more where the connection was closed, and return the status."""
        for attempt in (1, 2):
            try:
                if self.streams is None:
                    self.streams = await asyncio.open_connection("127.0.0.1", self.port)
                reader, writer = self.streams
                return await self._ask(reader, writer, operation, json.dumps(content).encode())
            except (ConnectionError, asyncio.IncompleteReadError):
                self.streams = None
                if attempt == 2:
                    raise
        raise AssertionError

    async def _ask(self, reader: Any, writer: Any, operation: str, body: bytes) -> int:
        head = f"POST /{operation} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        json.loads(await reader.readexactly(length))
        return int(answer.split()[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="cge bench serve", description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--save", action="store_true", help="write results/serve.json and .md")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64], help="default: 1 8 64")
    parser.add_argument("--seconds", type=float, default=600, help="for each number of clients; default: %(default)s")
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--model", help="folder of a model to serve instead of the one of CORA")
    parser.add_argument("--calm", action="store_true", help="no hostile requests, no killed workers")
    args = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or f"{folder}/model"
        nodes = load(model).node_ids_.tolist() if args.model else _save_model(model)
        server, port = _start(model, args.workers)
        try:
            for count in args.clients:
                rows.append(asyncio.run(_measure(server.pid, port, count, args.seconds, nodes, args.calm)))
                result = {"bench": "serve", "machine": machine_description([]), "workers": args.workers, "rows": rows}
                if args.save:
                    save_table("serve", __doc__, result, _table(rows))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    print(json.dumps(result) if args.json else "\n".join(_table(rows)))
    return 0 if not any(row["failed"] for row in rows) else 1


def _table(rows: list[dict[str, Any]]) -> list[str]:
    titles = ["clients", "seconds", "requests", "per_second", "p50_ms", "p99_ms", "failed", "hostile", "killed"]
    titles += ["mb_before", "mb_after"]
    lines = [f"| {' | '.join(title.replace('_', ' ') for title in titles)} |", "|--:" * len(titles) + "|"]
    return lines + [f"| {' | '.join(f'{row[title]:,.4g}' for title in titles)} |" for row in rows]


def _save_model(folder: str) -> list[int]:
    data = load_dataset("cora")
    model = CGE("degree", classifier="mlp", label_propagation=False, training={"max_epochs": 20})
    model.fit(data.graph, data.labels_of(data.splits[0].train)).save(folder)
    return list(map(int, data.graph.node_ids))


def _start(folder: str, workers: int) -> tuple[Any, int]:
    words = [sys.executable, "-m", "cge", "serve", folder, "--port", "0", "--workers", str(workers)]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"CGE_TOKEN": ""})
    line = server.stderr.readline() if server.stderr is not None else ""
    return server, int(line.split()[0].rpartition(":")[2])


async def _measure(
    server: int, port: int, clients: int, seconds: float, nodes: list[Any], calm: bool
) -> dict[str, Any]:
    latencies: list[float] = []
    counts = {"failed": 0, "hostile": 0, "killed": 0}
    end, before = time.monotonic() + seconds, _memory(server)

    async def client(seed: int) -> None:
        draw, connection = random.Random(seed), _Client(port)
        number = draw.randrange(10)
        while time.monotonic() < end:
            number += 1
            operation, content = _request(number % 10, draw, nodes)
            start = time.perf_counter()
            try:
                status = await asyncio.wait_for(connection.ask(operation, content), 60)
            except Exception:
                status = 0
            latencies.append(time.perf_counter() - start)
            counts["failed"] += status != 200
        if connection.streams is not None:
            connection.streams[1].close()

    async def hostile() -> None:
        number = 0
        while time.monotonic() < end:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_HOSTILE[number % len(_HOSTILE)])
                await asyncio.wait_for(reader.read(100), 0.2)
            except (ConnectionError, TimeoutError):
                pass
            finally:
                writer.close()
            number += 1
            counts["hostile"] += 1
            await asyncio.sleep(0.05)

    async def killer() -> None:
        pause = min(seconds / 2, 60)
        while time.monotonic() + pause < end:
            await asyncio.sleep(pause)
            workers = _children(server)
            if len(workers) > 1:
                os.kill(workers[0], signal.SIGKILL)
                counts["killed"] += 1

    await asyncio.gather(*(client(seed) for seed in range(clients)), *([] if calm else [hostile(), killer()]))
    latencies.sort()
    percentiles = {f"p{share}_ms": 1000 * latencies[int(share / 100 * (len(latencies) - 1))] for share in (50, 99)}
    rates = {"seconds": seconds, "requests": len(latencies), "per_second": len(latencies) / seconds}
    return {"clients": clients, **rates, **percentiles, **counts, "mb_before": before, "mb_after": _memory(server)}


def _request(number: int, draw: random.Random, nodes: list[Any]) -> tuple[str, dict[str, Any]]:
    if number < 6:
        return "predict", {"nodes": draw.sample(nodes, 10)}
    if number < 8:
        return "similar", {"node": draw.choice(nodes)}
    if number < 9:
        return "explain", {"node": draw.choice(nodes), "top": 5}
    new = 10**7 if isinstance(nodes[0], int) else "a new node"
    return "predict", {"graph": {"edges": [[new, draw.choice(nodes)], [new, draw.choice(nodes)]]}}


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _memory(server: int) -> float:
    """Return the proportional set size of the server and its workers, in MB."""
    total = 0
    for process in (server, *_children(server)):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


if __name__ == "__main__":
    sys.exit(main())
