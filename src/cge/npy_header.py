"""Headers of `.npy` files that hold numbers in C order, as this package writes them.

NumPy reads headers by `ast.literal_eval`, but before Python 3.11.8 two threads that parse Python at the same time may
fail with "AST constructor recursion depth mismatch" (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import numpy as np

_HEADER = re.compile(rb"\{'descr': '([<>|][biuf]\d+)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \}\s*")


def read_header(stream: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of the array in an open file, whose next byte is then the first of the values.

    >>> import io
    >>> stream = io.BytesIO()
    >>> np.save(stream, np.zeros((3, 2)))
    >>> stream.seek(0), read_header(stream), len(stream.read())
    (0, ((3, 2), dtype('float64')), 48)
    """
    version = np.lib.format.read_magic(stream)
    length = int.from_bytes(stream.read(2 if version == (1, 0) else 4), "little")
    header = _HEADER.fullmatch(stream.read(length))
    if header is None:
        raise ValueError("expected an array of numbers in C order")
    return tuple(map(int, re.findall(rb"\d+", header[2]))), np.dtype(header[1].decode())
