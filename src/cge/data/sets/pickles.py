"""Pickles that hold arrays, read as data: nothing named in the file is ever imported or called.

`pickle_machine` turns a file into plain values and requests; the functions here build arrays, sparse matrices and
dictionaries from the requests, and check what they are built from. Python's own `pickle.Unpickler` with a restricted
`find_class` is not enough for files from strangers: it still runs `__setstate__` of NumPy and SciPy on unchecked state,
and on older Pythons a nine-byte file makes it reserve gigabytes.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.data.compressed import checked_csr
from cge.data.sets.pickle_machine import Machine, MalformedError, Request
from cge.errors import FileFormatError, format_value

__all__ = ["read_pickle"]

Array = npt.NDArray[Any]

_LARGEST = 2**31  # rows or columns; far more than any of these files holds
_DTYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}


def read_pickle(path: str | Path) -> Any:
    """Return the array, CSR matrix, dictionary, list, string or number in a pickle file.

    Anything else raises `FileFormatError`, which names what was found. Text is returned as `bytes` where Python 2
    wrote it.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    machine = Machine(data)
    try:
        return _made(machine.run())
    except MalformedError as problem:
        raise FileFormatError(path, str(problem)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise FileFormatError(
            path, f"is not a pickle of arrays: it is damaged at or before byte {machine.place:,}; get the file again"
        ) from None


def _made(value: Any) -> Any:
    """Build what a request at the top of a file stands for; plain values pass."""
    if not isinstance(value, Request):
        return value
    if value.maker == "new array":
        return _array(value)
    if value.maker == "matrix":
        return _matrix(value)
    raise MalformedError(f"is not a pickle of arrays: found a bare {value.maker}")


def _array(request: Request) -> Array:
    """Build an array from the state `(version, shape, dtype, Fortran order?, bytes)` that NumPy writes."""
    _, shape, kind, fortran, data = request.state
    if isinstance(data, Request) and data.maker == "bytes":
        data = data.arguments[0].encode("latin1") if data.arguments else b""
    if not isinstance(data, bytes) or not isinstance(kind, Request) or kind.maker != "dtype":
        raise MalformedError("holds an array of objects; only arrays of numbers are read")
    name, order = _text(kind.arguments[0]), _text(kind.state[1])
    if name not in _DTYPES:
        raise MalformedError(
            f"holds an array of type {format_value(name)}; only numbers and true/false values are read"
        )
    if order not in ("<", ">", "=", "|"):
        raise MalformedError(f"holds an array whose bytes are in the order {format_value(order)}")
    dtype = np.dtype(order + name)
    _check_shape(shape)
    count = math.prod(shape)
    if count * dtype.itemsize != len(data):
        raise MalformedError(
            f"announces an array of {count:,} values of {dtype.itemsize} bytes, but holds {len(data):,} bytes for it"
        )
    flat = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
    return flat.reshape(shape, order="F" if fortran else "C")


def _matrix(request: Request) -> sp.csr_array:
    """Build a CSR matrix from the attributes that SciPy writes."""
    state = {_text(key): part for key, part in request.state.items()}
    _check_shape(state["_shape"])
    data, indices, indptr = (_array(state[name]) for name in ("data", "indices", "indptr"))
    return checked_csr(data, indices, indptr, state["_shape"])


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, tuple) or len(shape) > 2 or not all(type(n) is int and 0 <= n < _LARGEST for n in shape):
        raise MalformedError("announces an array whose shape is not one or two numbers of a sensible size")


def _text(value: Any) -> str:
    """Return text that Python 2 or Python 3 wrote; never the text *of* a value, which can be exponentially long."""
    if not isinstance(value, str | bytes):
        raise TypeError
    return value if isinstance(value, str) else value.decode("latin1")
