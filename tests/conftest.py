"""What tests share: where the data sets are, and graphs drawn by Hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("cge", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("cge")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the public data sets; tests that need it skip where it is absent."""
    folder = os.environ.get("CGE_DATA_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the public data sets: set CGE_DATA_DIR to their folder")
    return Path(folder)
