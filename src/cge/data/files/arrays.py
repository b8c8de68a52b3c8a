"""NumPy arrays and archives of them. Nothing is ever unpickled, and no size is believed that the file does not hold."""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.data.files.blocks import DEFLATED, open_bytes
from cge.data.files.sizes import refuse_empty_space, refuse_missing_bytes
from cge.data.sparse_checks import checked_csr
from cge.errors import FileFormatError, format_value

__all__ = ["load_members", "load_npy", "load_npz"]

Array = npt.NDArray[Any]

_LISTED = 20  # names in a message


@contextmanager
def _refusing_pickles(path: Path, what: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy tells that headers of Python 2 are slow to read
            yield
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(path, "the array needs more memory than this machine can give") from None
    except Exception as error:  # a damaged file makes NumPy, SciPy and zipfile raise a dozen different ones
        if "Object arrays" in str(error) or "pickle" in str(error):
            raise FileFormatError(
                path, "this holds Python objects as a pickle, which may run any code and is never opened; save numbers"
            ) from None
        raise FileFormatError(path, f"this is no readable {what} file; write or fetch it again") from None


def load_npy(path: Path) -> Array:
    """Load an array of numbers or strings."""
    with open_bytes(path) as stream, _refusing_pickles(path, ".npy"):
        packed = not isinstance(stream, BufferedReader)
        refuse_missing_bytes(path, stream, path.stat().st_size * (DEFLATED if packed else 1), packed=packed)
        stream.seek(0)
        return _read(path, stream)


def _read(path: Path, stream: Any) -> Array:
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    if not array.dtype.isnative:  # of a machine with the other order of bytes
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U" and array.size:  # NumPy does not look, and Python refuses such strings much later
        codes = np.ascontiguousarray(array).view(np.uint32)
        if codes.max() > sys.maxunicode:
            raise FileFormatError(path, f"a string holds {codes.max():#x}, which is no character; write it again")
    return array


def load_npz(path: Path, keys: Sequence[str]) -> Any:
    """Load a sparse matrix as `scipy.sparse.save_npz` writes it, or the first array whose name is in `keys`."""
    with _archive(path) as (archive, found):
        if "format" in found:
            return _sparse(path, archive)
        key = next((key for key in keys if key in found), None)
        if key is None:
            expected = f"a sparse matrix or an array named {' or '.join(map(repr, keys))}"
            raise FileFormatError(path, f"expected {expected}, found {_listed(found)}")
        return _member(path, archive, key)


def load_members(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Load the arrays of an archive that have these names."""
    with _archive(path) as (archive, found):
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise FileFormatError(path, f"expected an array named {missing!r}, found {_listed(found)}; get it again")
        return {name: _member(path, archive, name) for name in names}


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    """Open an archive, and list its arrays; nothing is ever unpacked to the disk, whatever members are called."""
    with open_bytes(path) as stream, _refusing_pickles(path, ".npz"):
        if not zipfile.is_zipfile(stream):
            raise FileFormatError(path, "this is no readable .npz file; write or fetch it again")
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            yield archive, [name.removesuffix(".npy") for name in archive.namelist()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(format_value, names[:_LISTED])) + (", …" if len(names) > _LISTED else "") or "nothing"


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as stream:
        most = min(info.file_size, path.stat().st_size * DEFLATED)  # what a directory tells may be wrong, too
        refuse_missing_bytes(path, stream, most)  # type: ignore[arg-type]
    with archive.open(info) as stream:
        return _read(path, stream)


def _sparse(path: Path, archive: zipfile.ZipFile) -> sp.csr_array:
    """Build a matrix from the parts that SciPy writes; a broken file must not crash compiled code."""
    kind = _member(path, archive, "format").item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    rows, columns = (int(size) for size in _member(path, archive, "shape"))
    data = _member(path, archive, "data")
    if data.dtype.kind not in "fiub":
        raise FileFormatError(path, f"expected a matrix of numbers, found {data.dtype}")
    refuse_empty_space(path, rows, data.size)
    try:
        if kind in ("csr", "csc"):
            parts = data, _member(path, archive, "indices"), _member(path, archive, "indptr")
            if kind == "csr":
                return checked_csr(*parts, (rows, columns))
            return sp.csr_array(checked_csr(*parts, (columns, rows)).T)
        if kind == "coo":
            return _from_coordinates(data, _member(path, archive, "row"), _member(path, archive, "col"), rows, columns)
        if kind == "dia":
            return sp.csr_array(sp.dia_array((data, _member(path, archive, "offsets")), shape=(rows, columns)))
    except FileFormatError:
        raise
    except (ValueError, IndexError) as error:
        raise FileFormatError(path, f"the matrix is damaged ({error}); write or fetch it again") from None
    raise FileFormatError(path, f"expected a matrix as csr, csc, coo or dia, found {kind!r}; save its .tocsr()")


def _from_coordinates(data: Array, row: Array, column: Array, rows: int, columns: int) -> sp.csr_array:
    for what, places, size in (("rows", row, rows), ("columns", column, columns)):
        if places.shape != data.shape or places.ndim != 1 or places.dtype.kind not in "iu":
            raise ValueError(f"{what} must be whole numbers, one for each value")
        if len(places) and not 0 <= places.min() <= places.max() < size:
            raise ValueError(f"{what} must be from 0 to {size - 1:,}")
    return sp.csr_array(sp.coo_array((data, (row, column)), shape=(rows, columns)))
