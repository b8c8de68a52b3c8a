"""Shared by tests of `cge fit`: a command line on two small communities, and its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import refused

SMALL_FIT = {
    "dim": 8,
    "walks_per_node": 2,
    "walk_length": 6,
    "window": 3,
    "pretrain": 1,
    "max_epochs": 3,
    "outer_steps": 2,
}
SMALL_FIT_FLAGS = [word for name, value in SMALL_FIT.items() for word in ("--" + name.replace("_", "-"), str(value))]


def fit_arguments(folder: Path, *more: str) -> list[str]:
    """Return the arguments of `cge fit` on the files of the fixture `files`; by default with the paper's method."""
    method = ["--method", "paper"] if "--method" not in more else []
    names = [str(folder / "edges.csv"), "--labels", str(folder / "labels.csv"), "--out", str(folder / "m")]
    return ["fit", *names, *method, *more]


def tensor_hashes(folder: Path) -> dict[str, Any]:
    """Return name, size and hash of a model's tensors: everything that was learned, but no times."""
    tensors: dict[str, Any] = json.loads((folder / "model.json").read_text())["tensors"]
    return tensors


def fail_if_called(*_: Any, **__: Any) -> None:
    raise AssertionError("training must not start")


def usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message of a call that must fail before it trains."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cge.training.paper_training.train", fail_if_called)
        return refused(capsys, *arguments)
