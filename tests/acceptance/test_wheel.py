"""A wheel installs and runs outside of the checkout, with its bundled data and without studies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path, code: int = 0) -> str:
    """Run a command without the variables of the checkout; return its output, or its errors where it must fail."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "CGE_DATA_DIR"}}
    process = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == code, process.stderr
    return process.stderr if code else process.stdout


def test_the_wheel_runs_on_its_own(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "cge/py.typed" in names
    assert any(name.endswith("cora.npz") for name in names)
    assert {Path(name).parts[0] for name in names if ".dist-info" not in name} == {"cge"}
    assert not any("test" in Path(name).parts or name.endswith(".pyc") for name in names)
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    python, cge = venv / "bin" / "python", venv / "bin" / "cge"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # The libraries cge needs come from the environment of the tests; cge itself comes from the wheel.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=tmp_path).strip())
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    assert run(python, "-c", "import cge; print(cge.__file__)", cwd=tmp_path).startswith(str(venv))
    assert "cora" in str(json.loads(run(cge, "datasets", "--json", cwd=tmp_path)))
    code = "import cge; data = cge.load_dataset('cora'); print(len(data.graph), len(data.split.test))"
    assert run(python, "-c", code, cwd=tmp_path) == "2708 1000\n"
    assert "cge-uniform" in run(cge, "evaluate", "cora", "--method", "list", cwd=tmp_path)
    for command, argument in (("reproduce", "table2"), ("bench", "walks")):
        assert run(cge, command, argument, cwd=tmp_path, code=2) == (
            f"cge: 'cge {command}' needs a checkout of the project: clone its repository and call './run {command}' "
            "there\n"
        )


def test_the_source_distribution_has_studies_and_benchmarks(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"studies/table2.toml", "studies/registry.py", "benchmarks/fit.py", "results/table2.md", "run"} <= names
    assert not any(name.startswith((".venv", "runs")) for name in names)
