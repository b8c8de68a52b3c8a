"""Files of a computation that continues after an interruption: complete under their names, or not there."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array

_HASH_BYTES = 1 << 22


def save_array(path: Path, array: Array) -> None:
    """Write an array under a temporary name and rename it."""
    temporary, rows = path.with_name(path.name + ".tmp"), np.ascontiguousarray(array)
    with temporary.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(rows))
        stream.write(rows.tobytes() if not rows.size else rows.data)  # `np.save` does not say why it fails
    temporary.replace(path)


def save_json(path: Path, content: Any) -> None:
    """Write JSON under a temporary name and rename it, when it is on the disk."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as stream:
        json.dump(content, stream, indent=2, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def load_json(path: Path) -> Any:
    """Return the content of a JSON file; None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def create_array(path: Path, shape: tuple[int, ...], dtype: Any) -> Array:
    """Create a memory-mapped `.npy` file under its temporary name; `finish_array` renames it."""
    temporary = path.with_name(path.name + ".tmp")
    if not np.prod(shape):  # an empty file cannot be mapped
        with temporary.open("wb") as stream:
            np.save(stream, np.empty(shape, dtype))
        return np.empty(shape, dtype)
    array = np.lib.format.open_memmap(temporary, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would end the process later
        with temporary.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, temporary.stat().st_size)
    return array


def finish_array(path: Path) -> None:
    """Give a file of `create_array` its name."""
    path.with_name(path.name + ".tmp").replace(path)


def open_array(path: Path) -> Array:
    """Return a memory-mapped array, read-only; an empty one is read."""
    array: Array = np.load(path, allow_pickle=False)[:0] if _is_empty(path) else np.load(path, "r", allow_pickle=False)
    return array


def _is_empty(path: Path) -> bool:
    with path.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return 0 in read(stream)[0]


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(_HASH_BYTES):
            digest.update(data)
    return digest.hexdigest()
