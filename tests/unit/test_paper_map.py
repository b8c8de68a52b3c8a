"""Everything that docs/paper-map.md and docs/deviations.md name exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "paper-map.md").read_text()
DEVIATIONS = (ROOT / "docs" / "deviations.md").read_text()


def test_functions_exist() -> None:
    named = re.findall(r"`((?:cge|studies)[\w.]*):(\w+)`", MAP)
    assert len(named) > 15
    for module, name in named:
        assert hasattr(import_module(module), name), f"{module}:{name}"


def test_tests_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", MAP)
    assert len(named) > 12
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


def test_deviations_are_numbered_and_cited_ones_are_listed() -> None:
    numbers = [int(number) for number in re.findall(r"^\| D(\d+) \|", DEVIATIONS, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    sources = [file.read_text() for file in (ROOT / "src").rglob("*.py")]
    cited = {
        int(number) for text in [MAP, *sources] for number in re.findall(r"(?<!noqa: )\bD(\d+)\b(?=[ ,.):])", text)
    }
    assert cited <= set(numbers), cited - set(numbers)
