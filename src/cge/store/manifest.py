"""The JSON file of a stored folder: kind, metadata, versions, and the size and hash of the tensors.

The file contains the SHA-256 of its own content, too. The hashes detect damage. They do not prove who wrote a folder:
whoever changes it on purpose can compute them again.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata as packages
from io import BufferedReader
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from cge.errors import FileFormatError, InputError, format_value

MAX_BYTES = 64 * 2**20  # whatever grows with the graph is an array
FORMAT_VERSION = 9

Record = TypeVar("Record")

_FORMAT = "cge"
_TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer", float: "a number", bool: "a bool"}


@dataclass(frozen=True)
class Tensors:
    """The name, the number of bytes and the hash of the file of tensors."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of the JSON file."""

    kind: str
    metadata: dict[str, Any]
    environment: dict[str, str]
    tensors: Tensors


def damaged(path: str | Path, problem: str) -> FileFormatError:
    """Return the error of a stored file that is not as it was saved."""
    return FileFormatError(path, problem, hint="restore the folder from a copy, or save it again")


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; links, pipes and devices are refused, for they lead out of the folder or block."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FileFormatError(path, f"this is {kind}, expected a file", hint="put the file itself there")
    return path.open("rb")


def tensor_name(name: str, sha256: str) -> str:
    """Return the name of the tensor file; its hash keeps states from overwriting tensors of each other."""
    return f"{name}-{sha256[:16]}.safetensors"


def environment() -> dict[str, str]:
    """Return the versions and the platform something is saved with; nothing about the machine or the time."""
    versions = {"platform": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}
    for package in ("cge", "numpy", "torch"):
        with suppress(packages.PackageNotFoundError):
            versions[package] = packages.version(package)  # without importing torch
    return versions


def plain(value: Any, place: str = "metadata") -> Any:
    """Return a value with the types of JSON: tuples become lists, NumPy scalars Python numbers; others are refused."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place} is {value}, which JSON cannot contain", hint="use None, or put it in an array")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, f"{place}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{place} has the key {format_value(key)}", hint="keys must be strings")
        return {str(key): plain(item, f"{place}[{key!r}]") for key, item in value.items()}
    hint = "use numbers, strings, lists and dictionaries, and arrays for the rest"
    raise InputError(f"{place} is {format_value(value)}", hint=hint)


def metadata_field(metadata: Mapping[str, Any], key: str, kind: type, *more: type) -> Any:
    """Return an entry of stored metadata, which must have one of the types; an integer is a float, too."""
    value, kinds = metadata.get(key), (kind, *more)
    if type(value) is int and float in kinds:
        return float(value)
    if type(value) not in kinds:
        names = " or ".join(_TYPE_NAMES.get(each, "None") for each in kinds)
        raise InputError(f"{key!r} must be {names}, found {format_value(value) if key in metadata else 'nothing'}")
    return value


def metadata_record(kind: type[Record], row: Any) -> Record:
    """Return the dataclass that a dictionary of stored metadata describes; all fields must have their types."""
    if not isinstance(row, dict):
        raise InputError(f"expected an object with the fields of {kind.__name__}, found {format_value(row)}")
    types: dict[str, list[Any]] = _field_types(cast(Any, kind))
    unknown = [key for key in row if key not in types]
    if unknown:
        raise InputError(f"{kind.__name__} has no field {format_value(unknown[0])}")
    return kind(**{name: metadata_field(row, name, *types[name]) for name in types})


@cache
def _field_types(kind: type) -> dict[str, list[Any]]:
    """Return the types that each field of a dataclass may have."""
    types = get_type_hints(kind)
    allowed = {name: get_args(types[name]) if isinstance(types[name], UnionType) else (types[name],) for name in types}
    return {name: [get_origin(each) or each for each in allowed[name]] for name in types}


def to_bytes(manifest: Manifest) -> bytes:
    """Return the JSON file; keys are sorted, so that equal manifests have equal bytes."""
    try:
        content = asdict(manifest) | {"format": _FORMAT, "format_version": FORMAT_VERSION}
        content["sha256"] = _sha256(content)
        data = json.dumps(content, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists in lists
        raise InputError(f"the metadata cannot be written as JSON ({error})", hint="put it in arrays") from None
    if len(data) > MAX_BYTES:
        problem = f"the metadata takes {len(data):,} bytes, at most {MAX_BYTES:,} fit"
        raise InputError(problem, hint="put long lists in arrays")
    return data


def is_manifest(content: Any) -> bool:
    """Return whether parsed JSON has this format, of whatever version."""
    return isinstance(content, dict) and content.get("format") == _FORMAT


def parse(path: Path, name: str, data: bytes) -> Manifest:
    """Return the content of a JSON file; anything but a complete manifest raises `FileFormatError`."""
    try:
        content = json.loads(data.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise damaged(path, "this is not readable JSON") from None
    if not is_manifest(content):
        raise FileFormatError(path, "this was not written by cge", hint="give a folder that cge has saved")
    _check_version(path, content)
    try:
        kinds = {"tensors": dict, "kind": str, "metadata": dict, "environment": dict}
        fields = {key: metadata_field(content, key, kind) for key, kind in kinds.items()}
        tensors = metadata_record(Tensors, fields.pop("tensors"))
        for key in fields["environment"]:
            metadata_field(fields["environment"], key, str)
    except InputError as error:
        raise damaged(path, f"{error}") from None
    if not re.fullmatch("[0-9a-f]{64}", tensors.sha256):
        raise damaged(path, f"expected a SHA-256 of 64 digits, found {format_value(tensors.sha256)}")
    expected = tensor_name(name, tensors.sha256)
    if tensors.file != expected:  # whatever leads out of the folder, too
        raise damaged(path, f"expected the tensor file {expected!r}, found {format_value(tensors.file)}")
    stored_hash = content.pop("sha256", None)
    try:
        unchanged = stored_hash == _sha256(content)
    except (ValueError, RecursionError):  # numbers too large for a float, lists in lists in lists
        unchanged = False
    if not unchanged:
        raise damaged(path, "the file was changed since it was saved")
    return Manifest(**fields, tensors=tensors)


def _check_version(path: Path, content: dict[str, Any]) -> None:
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise damaged(path, f"expected format version {FORMAT_VERSION}, found {format_value(version)}")
    if version > FORMAT_VERSION:
        problem = f"written by a newer cge (format version {version}, this one reads {FORMAT_VERSION}); upgrade cge"
        raise FileFormatError(path, problem)
    if version < FORMAT_VERSION:
        versions = content.get("environment")
        release = versions.get("cge") if isinstance(versions, dict) else None
        writer = f"cge {release}" if isinstance(release, str) else "an older cge"
        hint = "remove it and start the fit again" if content.get("kind") == "checkpoint" else "fit the model again"
        problem = f"written by {writer} in format version {version}, this cge reads {FORMAT_VERSION}"
        raise FileFormatError(path, problem, hint=hint)


def _sha256(content: dict[str, Any]) -> str:
    """Return the SHA-256 of everything else that the JSON file contains."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)
