"""A short run of `scripts/kill_test.py`: killed commands leave complete files, and resumed fits give the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_test.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_killed_commands_leave_complete_files(tmp_path: Path) -> None:
    words = ["--kills", "1", "--only", "fit", "--out", str(tmp_path / "kills.json")]
    process = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    results = json.loads((tmp_path / "kills.json").read_text())
    assert sorted(results) == ["fit"]
    assert all(counts["kills"] == 1 for counts in results.values())
