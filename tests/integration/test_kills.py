"""A slice of `scripts/kill_test.py`: commands that are killed leave whole files, and fits go on to the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_test.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_killed_commands_leave_whole_files(tmp_path: Path) -> None:
    words = ["--kills", "1", "--only", "fit,fit --encoder table,embed,report", "--out", str(tmp_path / "kills.json")]
    ended = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "kills.json").read_text())
    assert sorted(found) == ["embed", "fit", "fit --encoder table", "report"]
    assert all(one["kills"] == 1 for one in found.values())
