"""Sizes that a file claims, held against what is in it, before memory is asked for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cge.errors import FileFormatError

__all__ = ["refuse_empty_space", "refuse_missing_bytes"]

_ROWS_PER_ENTRY = 100
_ROWS_ANYWAY = 10_000_000


def refuse_empty_space(path: Path, rows: int, entries: int) -> None:
    """Refuse a matrix that is nearly all empty rows: it is more likely damaged than meant."""
    most = _ROWS_PER_ENTRY * entries + _ROWS_ANYWAY
    if rows > most:
        raise FileFormatError(
            path,
            f"found {rows:,} rows, but only {entries:,} {'entry' if entries == 1 else 'entries'}, and at most {most:,} "
            "rows are allowed then; correct the size, or leave out isolated nodes",
        )


def refuse_missing_bytes(path: Path, stream: BinaryIO, size: int, *, packed: bool = False) -> None:
    """Refuse an array in NumPy's format whose header tells of more than the `size` bytes of `stream`.

    What is `packed` has at most so many.
    """
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if math.prod(shape) == 0 and max(shape) > _ROWS_ANYWAY:
        raise FileFormatError(
            path, f"the header tells of an array of shape {shape}, which holds nothing; write numbers"
        )
    told, there = math.prod(shape) * max(dtype.itemsize, 1), size - stream.tell()
    if told > there and not dtype.hasobject:
        found = f"at most {there:,}" if packed else f"{there:,}"
        raise FileFormatError(
            path, f"the header tells of an array of shape {shape} in {told:,} bytes, found {found}; was the file cut?"
        )
