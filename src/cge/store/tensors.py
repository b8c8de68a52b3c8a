"""Named arrays as one safetensors file: eight bytes of length, a JSON header, the arrays' bytes.

The `safetensors` library reads them and checks every offset. They are written here: the library's `save` holds the
whole file in memory, and its `save_file` leaves temporary files behind when it is killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from cge.arrays import Array
from cge.errors import FileFormatError, InputError, format_value
from cge.store.file_io import HINT, open_regular, sha256_of

_CODES = {
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "int8": "I8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "uint8": "U8",
}
STORABLE = frozenset(_CODES)


def checked_arrays(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays in the order of the file, little-endian: large items first, then by name.

    It is the order of the library: every array starts at a multiple of its item size.
    """
    for name, array in arrays.items():
        if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
            raise InputError(f"arrays need names of printable characters, found {format_value(name)}")
        if not isinstance(array, np.ndarray) or array.dtype.name not in STORABLE:
            problem = f"has dtype {array.dtype}" if isinstance(array, np.ndarray) else f"is a {type(array).__name__}"
            raise InputError(
                f"the array {format_value(name)} {problem}, which cannot be saved",
                hint="use integers, float16 to float64 or bool",
            )
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    return {name: np.asarray(array, array.dtype.newbyteorder("<")) for name, array in ordered}


def tensor_chunks(arrays: dict[str, Array]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file with these arrays, which come from `checked_arrays`."""
    header, start = {}, 0
    for name, array in arrays.items():
        end = start + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data  # a copy, of one array at a time, where it is not in C order


def read_tensors(path: Path, size: int, sha256: str) -> dict[str, Array]:
    """Return the arrays of a file that must have this size and hash; a missing file raises `FileNotFoundError`."""
    try:
        with open_regular(path) as stream:
            length = stream.seek(0, 2)
            if length != size:
                raise FileFormatError(path, f"the file has {length:,} bytes, expected {size:,}", hint=HINT)
            stream.seek(0)
            if sha256_of(stream) != sha256:
                raise FileFormatError(path, "the file was changed since it was saved", hint=HINT)
        with safe_open(path, framework="np") as tensors:
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no dictionary
    except (FileFormatError, FileNotFoundError):
        raise
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        # The library has no error of its own for types and shapes that NumPy does not know.
        raise FileFormatError(
            path, f"this is not a readable safetensors file ({format_value(str(error))})", hint=HINT
        ) from None
    for name, array in arrays.items():
        if array.dtype.name not in STORABLE:
            raise FileFormatError(
                path, f"the array {format_value(name)} has the foreign dtype {array.dtype}", hint=HINT
            )
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise FileFormatError(
                path, f"the array {format_value(name)} contains bytes that are neither true nor false", hint=HINT
            )
    return arrays
