"""Runs the scripts of benchmarks within the test process: starting Python and importing libraries takes seconds."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.harness import Outcome

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


def run_in_process(_python: object, script: Path, job: dict[str, Any], _limit: float, _n_jobs: int | None) -> Outcome:
    """Stand in for `run_child`."""
    out = io.StringIO()
    path = [str(PEERS), *sys.path]
    with (
        mock.patch.object(sys, "argv", [str(script), json.dumps(job)]),
        mock.patch.object(sys, "path", path),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
    ):
        runpy.run_path(str(script), run_name="__main__")
    return Outcome(json.loads(out.getvalue().splitlines()[-1]))
