"""Fixtures of the integration tests: a browser for pages, and the files of two small communities."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; Debian's package chromium has it")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write the edges of two communities of 20 people, left and right, and labels for some of them."""
    size, random = 20, np.random.default_rng(1)
    edges = [f"{side}{a},{side}{b}" for side in "lr" for a in range(size) for b in random.choice(size, 3) if a != b]
    edges += [f"l{a},r{b}" for a, b in random.choice(size, (4, 2))]
    label = {"l": "left", "r": "right"}
    rows = [[f"{side}{k},{label[side]}" for side in "lr" for k in part] for part in (range(10), range(10, 14))]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *rows[0], ""]))
    (tmp_path / "validation.csv").write_text("\n".join(["node,label", *rows[1], ""]))
    return tmp_path
