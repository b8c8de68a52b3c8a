"""Named arrays as one safetensors file: eight bytes of length, a JSON header, the arrays' bytes.

The `safetensors` library reads them and checks every offset. They are written here: the library's `save` holds the
whole file in memory, and its `save_file` leaves temporary files behind when it is killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from cge.arrays import Array
from cge.errors import FileFormatError, InputError, format_value
from cge.store.manifest import Tensors, damaged, open_regular

_INTEGERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
STORABLE = _INTEGERS | {"bool", "float16", "float32", "float64"}


def checked_arrays(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays in the order of the file, little-endian: large items first, then by name.

    It is the order of the library: every array starts at a multiple of its item size.
    """
    for name, array in arrays.items():
        if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
            raise InputError(f"arrays need names of printable characters, found {format_value(name)}")
        if not isinstance(array, np.ndarray) or array.dtype.name not in STORABLE:
            problem = f"has dtype {array.dtype}" if isinstance(array, np.ndarray) else f"is a {type(array).__name__}"
            problem = f"the array {format_value(name)} {problem}, which cannot be saved"
            raise InputError(problem, hint="use integers, float16 to float64 or bool")
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    return {name: np.asarray(array, array.dtype.newbyteorder("<")) for name, array in ordered}


def tensor_chunks(arrays: dict[str, Array]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file with these arrays, which come from `checked_arrays`."""
    header, start = {}, 0
    for name, array in arrays.items():
        end = start + array.nbytes
        code = "BOOL" if array.dtype == np.bool_ else f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data  # a copy, of one array at a time, where it is not in C order


def read_tensors(folder: Path, expected: Tensors) -> dict[str, Array]:
    """Return the arrays of a file, which must have its size and hash; a missing file raises `FileNotFoundError`."""
    path = folder / expected.file
    try:
        with open_regular(path) as stream:
            size = stream.seek(0, 2)
            if size != expected.size:
                raise damaged(path, f"the file has {size:,} bytes, expected {expected.size:,}")
            stream.seek(0)
            if hashlib.file_digest(stream, "sha256").hexdigest() != expected.sha256:
                raise damaged(path, "the file was changed since it was saved")
        with safe_open(path, framework="np") as tensors:
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no dictionary
    except (FileFormatError, FileNotFoundError):
        raise
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        # The library has no error of its own for types and shapes that NumPy does not know.
        raise damaged(path, f"this is not a readable safetensors file ({format_value(str(error))})") from None
    for name, array in arrays.items():
        if array.dtype.name not in STORABLE:
            raise damaged(path, f"the array {format_value(name)} has the foreign dtype {array.dtype}")
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise damaged(path, f"the array {format_value(name)} contains bytes that are neither true nor false")
    return arrays
