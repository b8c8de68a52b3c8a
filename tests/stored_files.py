"""Editing the JSON file of a saved folder by hand, with a hash that fits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["edit_json", "with_hash"]


def with_hash(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with the hash of everything else in it."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return rest | {"sha256": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def edit_json(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a JSON file in place."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(with_hash(content)))
