"""Pickles of arrays, sparse matrices and adjacency lists, as Planetoid publishes them.

`find_class` is an allow-list, and what it returns are classes of this module that store the state of an array: neither
NumPy nor SciPy sees the state before it is checked. Files whose SHA256 is not the published one are refused before they
are unpickled; a file that the caller trusts may use only the opcodes that such files need.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.checks import checked_csr
from cge.data.sets.fetch import read_checked, short_message
from cge.errors import FileFormatError, format_value

_MAX_SIZE = 2**31  # rows or columns; far more than any of these files has
_DTYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}
# Without persistent ids, extension codes, INST and OBJ (older ways to call a class) and buffers outside the file.
_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE"),
    *("LIST", "EMPTY_LIST", "APPEND", "APPENDS", "DICT", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD"),
}


class _State:
    """The arguments and the state that a pickle has for an object."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArrayState(_State):
    """State `(version, shape, dtype, Fortran order?, bytes)`."""


class _DtypeState(_State):
    """Arguments `(name, …)`, state `(version, byte order, …)`."""


class _CsrState(_State):
    """State: a dictionary with `data`, `indices`, `indptr` and `_shape`."""


_ALLOWED: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": _ArrayState,
    "numpy._core.multiarray._reconstruct": _ArrayState,
    "numpy.ndarray": _State,  # an argument of the above
    "numpy.dtype": _DtypeState,
    "scipy.sparse.csr.csr_matrix": _CsrState,
    "scipy.sparse._csr.csr_matrix": _CsrState,
    "collections.defaultdict": defaultdict,
    "__builtin__.list": list,
    "builtins.list": list,
}


class _Unpickler(pickle.Unpickler):
    """Builds nothing but numbers, text, tuples, lists, dictionaries and the classes above."""

    def find_class(self, module: str, name: str, /) -> Any:
        full = f"{module}.{name}"
        if full not in _ALLOWED:
            raise _NotAllowedError(f"asks for {format_value(full)}")
        return _ALLOWED[full]

    def persistent_load(self, _pid: Any) -> Any:
        raise _NotAllowedError("refers to an object outside the file by a persistent id")


class _NotAllowedError(Exception):
    """The file needs something that is not on the allow-list; the text completes a sentence about the file."""


def read_pickle(path: str | Path, *, trust: bool = False) -> Any:
    """Return the array, CSR matrix, dictionary or list in a pickle file.

    A file is read if its name and SHA256 are those of a public one, or with `trust`; either way nothing that it names
    is imported or called. Anything but numbers, text, lists, dictionaries, arrays of numbers and CSR matrices raises
    `FileFormatError`. Text of Python 2 is decoded as Latin-1.
    """
    path = Path(path)
    content = read_checked(path, trust=trust)
    try:
        if trust:
            _check_opcodes(content)
        return _build(_Unpickler(io.BytesIO(content), encoding="latin1").load())
    except _NotAllowedError as error:
        allowed = "only arrays, sparse matrices, dictionaries and lists are read from a pickle"
        raise FileFormatError(path, f"{error}, but {allowed}; nothing in the file was run") from None
    except Exception as error:  # damaged pickles raise a dozen different ones
        problem = f"is not a pickle of arrays ({short_message(error)}); fetch the file again"
        raise FileFormatError(path, problem) from None


def _check_opcodes(content: bytes) -> None:
    """Refuse opcodes that are not needed, and places in the memo for which memory would be reserved in vain."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _OPCODES:
            raise _NotAllowedError(f"holds the opcode {opcode.name}")
        if argument is not None and opcode.name.endswith("PUT") and argument > len(content):
            raise ValueError(f"memo index {argument:,} in a file of {len(content):,} bytes")


def _build(value: Any) -> Any:
    """Return the array or matrix that a state stands for; plain values pass."""
    if isinstance(value, _ArrayState):
        return _array(value)
    if isinstance(value, _CsrState):
        shape = _checked_shape(value.state["_shape"])
        data, indices, indptr = (_array(value.state[name]) for name in ("data", "indices", "indptr"))
        return checked_csr(data, indices, indptr, (shape[0], shape[1]))
    if isinstance(value, _State | type):
        raise ValueError("found a type without a value")
    return value


def _array(source: _ArrayState) -> Array:
    _, shape, dtype_state, fortran, content = source.state
    if not isinstance(dtype_state, _DtypeState):
        raise TypeError("found an array without a type")
    name, order = dtype_state.arguments[0], dtype_state.state[1]
    if not isinstance(name, str) or name not in _DTYPES or order not in ("<", ">", "=", "|"):
        raise ValueError("expected an array of numbers, found another type")
    dtype = np.dtype(order + name)
    data = content.encode("latin1") if isinstance(content, str) else content
    size = math.prod(_checked_shape(shape)) * dtype.itemsize
    if not isinstance(data, bytes) or len(data) != size:
        raise ValueError(f"expected {size:,} bytes for an array of shape {shape}, found {len(data):,}")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")).reshape(shape, order="F" if fortran else "C")


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or len(shape) > 2 or not all(type(n) is int and 0 <= n < _MAX_SIZE for n in shape):
        raise ValueError("the shape of an array is not one or two numbers of a sensible size")
    return shape
