"""`cge serve` as a process: workers that are killed, a graceful end, and the explorer page in a browser."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run

pytest.importorskip("uvicorn", reason="uvicorn is part of the extra 'serve'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, size = tmp_path_factory.mktemp("serve") / "model", 20
    edges = [(i + s, (i + k) % size + s) for s in (0, size) for i in range(size) for k in (1, 2)]
    x = np.random.default_rng(0).random((2 * size, 3)) + np.repeat(np.eye(2, 3), size, axis=0)
    labels = {i: "left" if i < size else "<b>right</b>" for i in range(0, 2 * size, 4)}
    model = cge.CGE("degree", hops=2, classifier="mlp", training={"max_epochs": 10})
    model.fit(cge.Graph.from_edges(edges, x), labels).save(path)
    return path


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server; return its process and port."""
    words = [sys.executable, "-m", "cge", "serve", str(folder), "--port", "0", *options]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"CGE_TOKEN": ""})
    assert server.stderr is not None
    line = server.stderr.readline()
    assert line.startswith("http://127.0.0.1:"), line
    return server, int(line.split()[0].rpartition(":")[2])


def predict(port: int) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", port, timeout=30)
    body = json.dumps({"nodes": [1, 30]})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    try:
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(30) in (0, 143)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[int]:
    process, port = start(folder)
    yield port
    end(process)


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in listed.split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the children of a process from /proc")
def test_killed_workers_are_replaced_and_the_server_ends_in_good_order(folder: Path) -> None:
    process, port = start(folder, "--workers", "2")
    try:
        assert predict(port)[0] == 200
        before = children(process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        deadline = time.monotonic() + 20
        while len(now := set(children(process.pid)) - {before[0]}) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(now) == 2
        assert [predict(port)[0] for _ in range(5)] == [200] * 5
    finally:
        end(process)
    with pytest.raises(ConnectionRefusedError):
        predict(port)


def test_wrong_usage(folder: Path, server: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(folder), "--port", str(server)]) == 2
    assert "cannot be used" in capsys.readouterr().err
    (tmp_path / "token").write_text("two words")
    assert run(["serve", str(folder), "--token-file", str(tmp_path / "token")]) == 2
    assert "one word" in capsys.readouterr().err
    assert run(["serve", str(tmp_path)]) == 2


def test_the_explorer_in_a_browser(server: int, browser: Any) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(f"http://localhost:{server}/")
    page.locator("#model:has-text('40 nodes')").wait_for()  # the policy of the page forbids wait_for_function
    page.fill("#node", "30")
    page.click("#search button")
    page.wait_for_selector("#similar tr:nth-child(2)")
    assert page.text_content("#title") == "30: <b>right</b>"  # text, not markup
    assert page.locator("#paths tr").count() > 2
    page.click("#similar tr:nth-child(2) button")
    page.locator("#title:not(:has-text('30:'))").wait_for()
    page.click("#find-links")
    page.wait_for_selector("#links tr:nth-child(2)")
    assert not errors
    page.fill("#node", "999")
    page.click("#search button")
    page.locator("#error:has-text('999')").wait_for()
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
