"""Arrays and sparse matrices in NumPy's, SciPy's and the Matrix-Market format.

Nothing is unpickled, declared sizes are checked against the file, and compressed sparse rows are checked before SciPy's
compiled code uses them. SciPy reads Matrix Market (Boisvert, Pozo and Remington, NIST, 1996), too, but a damaged file
may end the whole process; here the entries go through the same tokenizer as all text, with its line numbers.
"""

from __future__ import annotations

import math
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import checked_csr
from cge.data.files.blocks import MAX_COMPRESSION, numbered_lines, open_bytes
from cge.data.files.dialect import Dialect, is_integer
from cge.data.files.numbering import Names
from cge.data.files.text_fields import NUMBER, Field, read_fields
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, format_value
from cge.memory import require_memory

_MAX_LISTED = 20  # names in a message
_ROWS_PER_ENTRY = 100
_MIN_ROW_LIMIT = 10_000_000
_BANNER = "%%matrixmarket"
_VALUES = ("real", "integer", "double", "pattern")
_SYMMETRIES = ("general", "symmetric")
_EXAMPLE = "%%MatrixMarket matrix coordinate real general"


@contextmanager
def _array_errors(path: Path, what: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns that headers of Python 2 are slow to read
            yield
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(path, "the array needs more memory than this machine has") from None
    except Exception:  # a damaged file makes NumPy, SciPy and zipfile raise a dozen different ones
        raise FileFormatError(path, f"this is not a readable {what} file; write or fetch it again") from None


def load_npy(path: Path) -> Array:
    """Load an array of numbers or strings."""
    with open_bytes(path) as stream, _array_errors(path, ".npy"):
        compressed = not isinstance(stream, BufferedReader)
        size = path.stat().st_size * (MAX_COMPRESSION if compressed else 1)
        _check_array_size(path, stream, size, exact=not compressed)
        stream.seek(0)
        return _read(path, stream)


def _read(path: Path, stream: Any) -> Array:
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    if not array.dtype.isnative:  # written on a machine with another byte order
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U" and array.size:  # NumPy does not check, and Python refuses such strings much later
        codes = np.ascontiguousarray(array).view(np.uint32)
        if codes.max() > sys.maxunicode:
            raise FileFormatError(path, f"a string contains {codes.max():#x}, which is not a character; write it again")
    return array


def load_npz(path: Path, keys: Sequence[str]) -> Any:
    """Load a sparse matrix as `scipy.sparse.save_npz` writes it, or the first array whose name is in `keys`."""
    with _archive(path) as (archive, names):
        if "format" in names:
            return _sparse(path, archive)
        key = next((key for key in keys if key in names), None)
        if key is None:
            expected = f"a sparse matrix or an array named {' or '.join(map(repr, keys))}"
            raise FileFormatError(path, f"expected {expected}, found {_list(names)}")
        return _member(path, archive, key)


def load_members(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Load the arrays of an archive that have these names."""
    with _archive(path) as (archive, members):
        missing = next((name for name in names if name not in members), None)
        if missing is not None:
            raise FileFormatError(path, f"expected an array named {missing!r}, found {_list(members)}; fetch it again")
        return {name: _member(path, archive, name) for name in names}


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    """Open an archive and list its arrays; nothing is extracted to the disk."""
    with open_bytes(path) as stream, _array_errors(path, ".npz"):
        if not zipfile.is_zipfile(stream):
            raise FileFormatError(path, "this is not a readable .npz file; write or fetch it again")
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            yield archive, [name.removesuffix(".npy") for name in archive.namelist()]


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(format_value, names[:_MAX_LISTED])) + (", …" if len(names) > _MAX_LISTED else "") or "nothing"


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as stream:
        size = min(info.file_size, path.stat().st_size * MAX_COMPRESSION)  # sizes in the directory may be wrong, too
        _check_array_size(path, stream, size)  # type: ignore[arg-type]
    with archive.open(info) as stream:
        return _read(path, stream)


def _sparse(path: Path, archive: zipfile.ZipFile) -> sp.csr_array:
    """Build a matrix from the arrays that SciPy writes; a damaged file must not crash compiled code."""
    kind = _member(path, archive, "format").item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    rows, columns = (int(size) for size in _member(path, archive, "shape"))
    data = _member(path, archive, "data")
    if data.dtype.kind not in "fiub":
        raise FileFormatError(path, f"expected a matrix of numbers, found {data.dtype}")
    _check_empty_rows(path, rows, data.size)
    try:
        if kind in ("csr", "csc"):
            parts = data, _member(path, archive, "indices"), _member(path, archive, "indptr")
            shape = (rows, columns) if kind == "csr" else (columns, rows)
            matrix = checked_csr(*parts, shape)
            return matrix if kind == "csr" else sp.csr_array(matrix.T)
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
    for what, indices, size in (("rows", row, rows), ("columns", column, columns)):
        if indices.shape != data.shape or indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise ValueError(f"{what} must be integers, one for each value")
        if len(indices) and not 0 <= indices.min() <= indices.max() < size:
            raise ValueError(f"{what} must be from 0 to {size - 1:,}")
    return sp.csr_array(sp.coo_array((data, (row, column)), shape=(rows, columns)))


def _check_empty_rows(path: Path, rows: int, entries: int) -> None:
    """Refuse a matrix that consists almost only of empty rows: it is probably damaged."""
    limit = _ROWS_PER_ENTRY * entries + _MIN_ROW_LIMIT
    if rows > limit:
        content = f"only {entries:,} {'entry' if entries == 1 else 'entries'}"
        problem = f"found {rows:,} rows, but {content}, for which at most {limit:,} rows are allowed"
        raise FileFormatError(path, problem, hint="correct the size, or leave out isolated nodes")


def _check_array_size(path: Path, stream: BinaryIO, size: int, *, exact: bool = True) -> None:
    """Refuse an array in NumPy's format whose header declares more than the `size` bytes of `stream`.

    The size of compressed data is not `exact` but an upper bound.
    """
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        problem = "this contains pickled objects, which can run arbitrary code and are never opened; save numbers"
        raise FileFormatError(path, problem)
    if math.prod(shape) == 0 and max(shape) > _MIN_ROW_LIMIT:
        raise FileFormatError(path, f"the header declares an empty array of shape {shape}; write numbers")
    declared, available = math.prod(shape) * max(dtype.itemsize, 1), size - stream.tell()
    if declared > available:
        size_found = f"{available:,}" if exact else f"at most {available:,}"
        problem = f"the header declares an array of shape {shape} in {declared:,} bytes, found {size_found}"
        raise FileFormatError(path, problem, hint="is the file truncated?")
    require_memory(declared)


def read_matrix_market(path: Path) -> sp.csr_array:
    """Read a sparse matrix of real numbers; both halves of a symmetric one."""
    dialect, symmetric, shape = _read_header(path)
    fields = [Field(0, INTEGER, "row number"), Field(1, INTEGER, "column number")]
    if dialect.columns == 3:
        fields.append(Field(2, NUMBER, "column 3"))
    read = read_fields(path, dialect, fields, Names(), np.float64, True)
    for name, numbers, size in zip(("row", "column"), read.columns.values(), shape, strict=False):
        outside = np.flatnonzero((numbers < 1) | (numbers > size))
        if len(outside):
            first = int(outside[0])
            problem = f"the {name} number {numbers[first]} is not between 1 and {size}"
            raise FileFormatError(path, problem, int(read.lines[first]))
    row, column = (numbers - 1 for numbers in read.columns.values())
    if len(row) != shape[2]:
        problem = f"the header declares {shape[2]:,} entries, found {len(row):,}; is the file truncated?"
        raise FileFormatError(path, problem)
    _check_empty_rows(path, shape[0], len(row))
    values = read.numbers[:, 0] if dialect.columns == 3 else np.ones(len(row))
    if symmetric and shape[0] != shape[1]:
        raise FileFormatError(path, f"a symmetric matrix must be square, found {shape[0]:,} rows, {shape[1]:,} columns")
    if symmetric:
        off_diagonal = row != column
        row, column = np.concatenate([row, column[off_diagonal]]), np.concatenate([column, row[off_diagonal]])
        values = np.concatenate([values, values[off_diagonal]])
    return sp.csr_array(sp.coo_array((values, (row, column)), shape=shape[:2]))


def _read_header(path: Path) -> tuple[Dialect, bool, tuple[int, int, int]]:
    """Return the dialect, whether the matrix is symmetric (one half is written), and rows, columns and entries."""
    words: list[str] = []
    for number, start, raw in numbered_lines(path):
        text = raw.decode("utf-8", "replace").strip()
        if number == 1:
            words = text.lower().split()
            _check_banner(path, text, words)
        elif text and not text.startswith("%"):
            sizes = text.split()
            if len(sizes) != 3 or not all(is_integer(size) and size[0] != "-" and len(size) < 19 for size in sizes):
                problem = f"expected the numbers of rows, columns, entries, found {format_value(text)}"
                raise FileFormatError(path, problem, number)
            rows, columns, entries = map(int, sizes)
            width = 2 if words[3] == "pattern" else 3
            first_bytes, source = (start, start + len(raw)), "in the banner"
            dialect = Dialect(" ", "%", width, [sizes], number, first_bytes, header=True, width_source=source)
            return dialect, words[4] == "symmetric", (rows, columns, entries)
    raise FileFormatError(path, "the file is empty" if not words else "expected the size of the matrix, found the end")


def _check_banner(path: Path, text: str, words: list[str]) -> None:
    if len(words) != 5 or words[0] != _BANNER:
        raise FileFormatError(path, f"expected a banner such as {_EXAMPLE!r}, found {format_value(text)}", 1)
    for word, allowed in zip(words[1:], (("matrix",), ("coordinate",), _VALUES, _SYMMETRIES), strict=True):
        if word not in allowed:
            raise FileFormatError(path, f"expected {' or '.join(map(repr, allowed))} in the banner, found {word!r}", 1)
