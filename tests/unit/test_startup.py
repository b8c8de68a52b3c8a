"""What is imported when: commands that use a stored model wait neither for PyTorch nor for scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import groups_with_sparse_features, partial_labels, quick_cge

_CHECK = """
import sys
def check(what, *names):
    imported = [name for name in names if name in sys.modules]
    assert not imported, f"{what} imports {imported}"
"""


def run(code: str, *arguments: str) -> None:
    command = [sys.executable, "-c", _CHECK + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_and_asking_for_help() -> None:
    run(
        """
import cge
check("import cge", "torch", "sklearn", "numba", "scipy", "numpy", "pyarrow")
from cge.cli.main import run
assert run(["--help"]) == 0
check("cge --help", "torch", "sklearn", "numba", "scipy", "numpy", "pyarrow")
from cge import CGE, Graph, load, load_dataset, read_graph
check("from cge import CGE", "torch", "sklearn", "numba", "pandas")
CGE(hops=2).get_params()
check("CGE()", "torch", "sklearn", "numba", "pandas")
"""
    )


@pytest.mark.parametrize("weighting", ["degree", "cosine"])
def test_commands_that_use_a_stored_model(weighting: str, tmp_path: Path) -> None:
    model = quick_cge(weighting, classifier="mlp", label_propagation=weighting == "cosine", max_epochs=2)
    model.fit(groups_with_sparse_features(), partial_labels()).save(tmp_path)
    kernels = "()" if weighting == "cosine" else "('numba',)"  # cosines of edges are computed by kernels
    run(
        f"""
from cge.cli.main import run
model, vectors = sys.argv[1:]
for command in (["predict", model], ["similar", model, "3"], ["embed", model, "--out", vectors]):
    assert run([*command, "--quiet"]) == 0
    check(command[0], "torch", "sklearn", "pandas", *{kernels})
for command in (["explain", model, "--node", "3"], ["explain", model]):
    assert run([*command, "--quiet"]) == 0
    check(command[0], "torch", "sklearn", "pandas")
import cge
cge.load(model).predict()
check("cge.load", "torch", "sklearn", "pandas")
""",
        str(tmp_path),
        str(tmp_path / "vectors.npz"),
    )
