"""A stored graph is propagated although the disk is full, a file was changed, or parts of a Ray cluster are lost.

`scripts/fault_test.py` causes each fault at one random moment here; `results/faults.json` has ten of each.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCAL, CLUSTER = ["disk_full", "slab_changed"], ["node_removed", "worker_killed", "driver_killed"]
WITHOUT_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'cge[ray]'")


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [LOCAL, pytest.param(CLUSTER, marks=WITHOUT_RAY)], ids=["local", "ray"])
def test_faults(kinds: list[str], tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    command = [sys.executable, str(ROOT / "scripts/fault_test.py"), "--moments", "1", "--out", str(out)]
    result = subprocess.run([*command, "--kinds", *kinds], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    assert json.loads(out.read_text()) == {kind: {"moments": 1, "same": 1} for kind in kinds}


def test_the_stored_results_have_ten_moments_of_each_fault() -> None:
    results = json.loads((ROOT / "results/faults.json").read_text())
    assert results == {kind: {"moments": 10, "same": 10} for kind in [*CLUSTER, *LOCAL]}
