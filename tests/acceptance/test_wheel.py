"""A wheel built from the project installs and runs outside the checkout, its bundled data included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "CGE_DATA_DIR"}}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_runs_on_its_own(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "cge/py.typed" in names
    assert any(name.endswith("cora.npz") for name in names)
    assert not any("test" in Path(name).parts or name.endswith(".pyc") for name in names)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # The libraries cge needs come from the environment of the tests; cge itself comes from the wheel.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=tmp_path).strip())
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    assert run(python, "-c", "import cge; print(cge.__file__)", cwd=tmp_path).startswith(str(venv))
    format_list = json.loads(run(venv / "bin" / "cge", "datasets", "--json", cwd=tmp_path))
    assert "cora" in str(format_list)
    code = "import cge; data = cge.load_dataset('cora'); print(len(data.graph), len(data.split.test))"
    assert run(python, "-c", code, cwd=tmp_path) == "2708 1000\n"
