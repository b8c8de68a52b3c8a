"""A small run of `scripts/fuzz.py`: whatever is in a file, readers raise only a `CgeError`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.models import MODELS, saved
from tests.fuzzing.targets import TARGETS, read_files

ALL_TARGETS = TARGETS | MODELS


@pytest.mark.parametrize("name", TARGETS)
def test_valid_files_are_accepted(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    for file, data in target.valid.items():
        assert read_files(target, tmp_path, {file: data}) or file.startswith("empty"), file


def test_targets_remove_their_files(tmp_path: Path) -> None:
    for name, target in [*TARGETS.items(), *TARGETS.items()]:  # scripts/fuzz.py uses the same folder for all
        file = next(file for file in target.valid if not file.startswith("empty"))
        assert read_files(target, tmp_path, {file: target.valid[file]}), name
    assert not list(tmp_path.iterdir())


def test_valid_models_are_accepted(tmp_path: Path) -> None:
    for text, tensors in saved().values():
        files = {"model.json": text, tensor_file(text): tensors}
        assert read_files(MODELS["model"], tmp_path, files)


def tensor_file(text: bytes) -> str:
    return text.decode().partition('"file": "')[2].partition('"')[0]


@pytest.mark.parametrize("name", ALL_TARGETS)
@settings(max_examples=25)
@given(random=st.randoms(use_true_random=False))
def test_damaged_files_raise_only_our_errors(name: str, random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read_files(ALL_TARGETS[name], Path(folder), ALL_TARGETS[name].make(random))
