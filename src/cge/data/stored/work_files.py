"""Files of a computation that continues after an interruption: complete under their names, or not there.

They can be computed again, so that they need no lock, and most of them need not be on the disk before they get their
names: `cge.store.atomic` writes the files that users keep.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.npy_header import read_header

_HASH_BYTES = 1 << 22


@contextmanager
def renamed(path: Path) -> Iterator[Path]:
    """Yield the temporary name of a file, `temporary_name`; rename the file when it has been written."""
    temporary = temporary_name(path)
    yield temporary
    temporary.replace(path)


def temporary_name(path: Path) -> Path:
    """Return the name that a file has until it is complete; the next attempt to write the file overwrites it."""
    return path.with_name(path.name + ".tmp")


def save_array(path: Path, array: Array) -> None:
    """Write an array."""
    rows = np.ascontiguousarray(array)
    with renamed(path) as temporary, temporary.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(rows))
        stream.write(rows.tobytes() if not rows.size else rows.data)  # `np.save` does not say why it fails


def save_json(path: Path, content: Any) -> None:
    """Write JSON; it gets its name when it is on the disk."""
    with renamed(path) as temporary, temporary.open("w") as stream:
        json.dump(content, stream, indent=2, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())


def load_json(path: Path) -> Any:
    """Return the content of a JSON file; None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def create_array(path: Path, shape: tuple[int, ...], dtype: Any) -> Array:
    """Create a memory-mapped `.npy` file."""
    if not np.prod(shape):  # an empty file cannot be mapped
        with path.open("wb") as stream:
            np.save(stream, np.empty(shape, dtype))
        return np.empty(shape, dtype)
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would end the process later
        with path.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    return array


def join_arrays(path: Path, parts: Sequence[Array]) -> None:
    """Write arrays, one after the other, as one."""
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    with renamed(path) as temporary:
        joined = create_array(temporary, (ends[-1],), parts[0].dtype)
        for part, (start, stop) in zip(parts, pairwise(ends), strict=True):
            joined[start:stop] = part
        if isinstance(joined, np.memmap):
            joined.flush()


def open_array(path: Path) -> Array:
    """Return a memory-mapped array, read-only; an empty one is read."""
    with path.open("rb") as stream:
        shape, dtype = read_header(stream)
        offset = stream.tell()
    return np.empty(shape, dtype) if 0 in shape else np.memmap(path, dtype, "r", offset, shape)


def load_array(path: Path) -> Array:
    """Return the array of a file, in memory."""
    return np.array(open_array(path))


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(_HASH_BYTES):
            digest.update(data)
    return digest.hexdigest()
