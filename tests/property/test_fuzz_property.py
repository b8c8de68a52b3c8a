"""A slice of `scripts/fuzz.py`: whatever is in a file, only errors raised on purpose come out of a reader."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.models import MODELS, saved
from tests.fuzzing.targets import TARGETS, one

CLASSIFIERS = TARGETS | MODELS


@pytest.mark.parametrize("name", TARGETS)
def test_valid_files_are_taken(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    for file, data in target.valid.items():
        assert one(target, tmp_path, {file: data}) or file.startswith("empty"), file


def test_readers_do_not_stumble_over_files_of_others(tmp_path: Path) -> None:
    for name, target in [*TARGETS.items(), *TARGETS.items()]:  # scripts/fuzz.py gives all of them one folder
        file = next(file for file in target.valid if not file.startswith("empty"))
        assert one(target, tmp_path, {file: target.valid[file]}), name
    assert not list(tmp_path.iterdir())


def test_valid_models_are_taken(tmp_path: Path) -> None:
    for text, tensors in saved().values():
        files = {"model.json": text, json_name(text): tensors}
        assert one(MODELS["model"], tmp_path, files)


def json_name(text: bytes) -> str:
    return text.decode().partition('"file": "')[2].partition('"')[0]


@pytest.mark.parametrize("name", CLASSIFIERS)
@settings(max_examples=25)
@given(random=st.randoms(use_true_random=False))
def test_damaged_files_raise_only_our_errors(name: str, random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one(CLASSIFIERS[name], Path(folder), CLASSIFIERS[name].make(random))
