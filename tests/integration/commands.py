"""Run a command of `cge` in this process, and return what it prints.

The words of a command are passed one by one, or all in one string without quotes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cge.cli.main import run

ROOT = Path(__file__).parents[2]


def _run(words: tuple[str, ...]) -> int:
    return run(words[0].split() if len(words) == 1 else list(words))


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the output of a command that must succeed without notes."""
    assert _run(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def json_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the one JSON object, without NaN and infinity, that a command prints."""
    printed = output_of(capsys, *(words[0].split() if len(words) == 1 else words), "--json")
    assert printed.count("\n") == 1
    result: dict[str, Any] = json.loads(printed, parse_constant=lambda name: pytest.fail(name))
    return result


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one sentence of a command that must be refused."""
    assert _run(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cge: ")
    assert printed.err.count("\n") == 1
    assert "unexpected" not in printed.err
    return printed.err.removeprefix("cge: ").rstrip("\n")


def subprocess_environment() -> dict[str, str]:
    """Return the environment of a process that imports `cge` from this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT / "src")}
