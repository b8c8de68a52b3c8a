"""What tests share: where the data sets are, and graphs drawn by Hypothesis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Test workers run in parallel; more OpenMP threads than cores make small PyTorch operations slow. Read before torch is.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("cge", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("cge")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the public data sets; tests that need it skip where it is absent."""
    folder = os.environ.get("CGE_DATA_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the public data sets: set CGE_DATA_DIR to their folder")
    return Path(folder)


@pytest.fixture
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of the test's own as CGE_DATA_DIR, and an empty cache."""
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def two_torch_threads() -> Iterator[None]:
    """Let PyTorch use two threads during a test."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def restored_registries() -> Iterator[None]:
    """Remove what a test registers: weightings, classifiers, file formats and methods."""
    from cge.data.files import formats
    from cge.estimators import methods
    from cge.models.weightings import WEIGHTINGS
    from cge.training.classifier_registry import CLASSIFIERS

    tables, dicts = [formats._FORMATS, methods._TABLE], [WEIGHTINGS, CLASSIFIERS]
    before: list[Any] = [table.copy() for table in (*tables, *dicts)]
    yield
    for table, entries in zip(tables, before[:2], strict=True):
        table[:] = entries
    for registry, entries in zip(dicts, before[2:], strict=True):
        registry.clear()  # type: ignore[attr-defined]
        registry.update(entries)  # type: ignore[attr-defined]
