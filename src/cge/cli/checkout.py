"""Studies and benchmarks: code of a checkout that is not part of the installed package."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cge.errors import MissingDataError

ROOT = Path(__file__).parents[3]


def checkout_folder(name: str, command: str) -> Path:
    """Return a folder of the checkout that this package runs from; refuse a command that has none."""
    folder = ROOT / name
    if not ((ROOT / "pyproject.toml").is_file() and folder.is_dir()):
        raise MissingDataError(
            f"'cge {command}' needs a checkout of the project: clone its repository and call './run {command}' there"
        )
    return folder


def import_studies(command: str) -> Any:
    """Return the registry of studies, `studies.registry`."""
    root = str(checkout_folder("studies", command).parent)
    if root not in sys.path:
        sys.path.insert(0, root)  # worker processes inherit it
    return import_module("studies.registry")


def require(package: str, extra: str, command: str) -> None:
    """Refuse a command whose optional package is not installed."""
    if find_spec(package) is None:
        raise MissingDataError(f"'cge {command}' needs the package {package}: pip install 'cge[{extra}]'")
