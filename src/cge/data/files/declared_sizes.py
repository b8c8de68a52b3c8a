"""Sizes that a file declares, checked against its content before memory is allocated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cge.errors import FileFormatError

_ROWS_PER_ENTRY = 100
_MIN_ROW_LIMIT = 10_000_000


def check_empty_rows(path: Path, rows: int, entries: int) -> None:
    """Refuse a matrix that consists almost only of empty rows: it is probably damaged."""
    limit = _ROWS_PER_ENTRY * entries + _MIN_ROW_LIMIT
    if rows > limit:
        raise FileFormatError(
            path,
            f"found {rows:,} rows, but only {entries:,} {'entry' if entries == 1 else 'entries'}, for which at most "
            f"{limit:,} rows are allowed; correct the size, or leave out isolated nodes",
        )


def check_array_size(path: Path, stream: BinaryIO, size: int, *, exact: bool = True) -> None:
    """Refuse an array in NumPy's format whose header declares more than the `size` bytes of `stream`.

    The size of compressed data is not `exact` but an upper bound.
    """
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if math.prod(shape) == 0 and max(shape) > _MIN_ROW_LIMIT:
        raise FileFormatError(path, f"the header declares an empty array of shape {shape}; write numbers")
    declared, available = math.prod(shape) * max(dtype.itemsize, 1), size - stream.tell()
    if declared > available and not dtype.hasobject:
        size_found = f"{available:,}" if exact else f"at most {available:,}"
        problem = f"the header declares an array of shape {shape} in {declared:,} bytes, found {size_found}"
        raise FileFormatError(path, problem, hint="is the file truncated?")
