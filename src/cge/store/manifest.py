"""The JSON file of a stored folder: what is stored, in which format, and which tensors belong to it."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cge.errors import FileFormatError, InputError, format_value
from cge.store.file_io import HINT

__all__ = ["LARGEST", "Manifest", "environment", "is_ours", "parse", "plain", "tensor_name", "to_bytes"]

LARGEST = 64 * 2**20  # bytes; whatever grows with the graph is an array

_FORMAT, _VERSION = "cge", 1


@dataclass(frozen=True)
class Manifest:
    """What the JSON file says; `file`, `size` and `sha256` are those of the tensors."""

    kind: str
    facts: dict[str, Any]
    environment: dict[str, str]
    file: str
    size: int
    sha256: str


def tensor_name(name: str, sha256: str) -> str:
    """Return the name of the tensor file: its content names it, so that no new state overwrites an old one's tensors.

    >>> tensor_name("model", "0123456789abcdef" * 4)
    'model-0123456789abcdef.safetensors'
    """
    return f"{name}-{sha256[:16]}.safetensors"


def environment() -> dict[str, str]:
    """Return the versions something was saved with; nothing that tells whose machine it was, or when."""
    facts = {"platform": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}
    for package in ("cge", "numpy", "torch"):
        with suppress(metadata.PackageNotFoundError):
            facts[package] = metadata.version(package)  # asking torch itself would import it
    return facts


def plain(value: Any, place: str = "facts") -> Any:
    """Return a value as JSON holds it: tuples become lists, NumPy's numbers Python's; anything else is refused.

    >>> plain({"dims": (2, np.int64(3))})
    {'dims': [2, 3]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place} is {value}, which JSON cannot hold; use None, or put it in an array")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(one, f"{place}[{number}]") for number, one in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{place} has the key {format_value(key)}; keys must be strings")
        return {str(key): plain(one, f"{place}[{key!r}]") for key, one in value.items()}
    raise InputError(
        f"{place} is {format_value(value)}; facts are numbers, strings, lists and dictionaries, everything else is an array"
    )


def to_bytes(manifest: Manifest) -> bytes:
    """Return the JSON file: keys sorted, so that the same manifest makes the same bytes."""
    content = {
        "environment": manifest.environment,
        "facts": manifest.facts,
        "format": _FORMAT,
        "format_version": _VERSION,
        "kind": manifest.kind,
        "tensors": {"file": manifest.file, "sha256": manifest.sha256, "size": manifest.size},
    }
    try:
        data = json.dumps(content, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists in lists
        raise InputError(f"the facts cannot be written as JSON ({error}); put them in arrays") from None
    if len(data) > LARGEST:
        raise InputError(f"the facts take {len(data):,} bytes, at most {LARGEST:,} fit; put long lists in arrays")
    return data


def is_ours(content: Any) -> bool:
    """Say whether parsed JSON is a file of this format, of whatever version."""
    return isinstance(content, dict) and content.get("format") == _FORMAT


def parse(path: Path, name: str, data: bytes) -> Manifest:
    """Return what a JSON file says; anything but a whole manifest raises `FileFormatError`."""
    try:
        content = json.loads(data.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise FileFormatError(path, f"this is no readable JSON; {HINT}") from None
    if not is_ours(content):
        raise FileFormatError(path, "this was not written by cge; give a folder that cge has saved")
    version = content.get("format_version")
    if type(version) is int and version > _VERSION:
        raise FileFormatError(
            path,
            f"written by a newer cge (format version {format_value(version)}, this one reads {_VERSION}); upgrade cge",
        )
    if type(version) is not int or version != _VERSION:
        raise FileFormatError(path, f"expected format version {_VERSION}, found {format_value(version)}; {HINT}")
    tensors = _entry(path, content, "tensors", dict)
    manifest = Manifest(
        kind=_entry(path, content, "kind", str),
        facts=_entry(path, content, "facts", dict),
        environment=_entry(path, content, "environment", dict),
        file=_entry(path, tensors, "file", str),
        size=_entry(path, tensors, "size", int),
        sha256=_entry(path, tensors, "sha256", str),
    )
    if not all(isinstance(version, str) for version in manifest.environment.values()):
        raise FileFormatError(path, f"the versions under 'environment' must be strings; {HINT}")
    if not re.fullmatch("[0-9a-f]{64}", manifest.sha256):
        raise FileFormatError(path, f"expected a SHA256 of 64 digits, found {format_value(manifest.sha256)}; {HINT}")
    expected = tensor_name(name, manifest.sha256)
    if manifest.file != expected:  # whatever leads out of the folder, too
        raise FileFormatError(
            path, f"expected the tensor file {expected!r}, found {format_value(manifest.file)}; {HINT}"
        )
    return manifest


def _entry(path: Path, content: dict[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if type(value) is not kind:
        found = format_value(value) if key in content else "nothing"
        names = {dict: "an object", str: "a string", int: "a whole number"}
        raise FileFormatError(path, f"expected {names[kind]} under {key!r}, found {found}; {HINT}")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)
