"""Sparse matrices in the Matrix-Market exchange format (Boisvert, Pozo and Remington, NIST, 1996).

SciPy reads them too, but a damaged file may end the whole process instead of raising an error; here the entries go
through the same tokenizer as all text, with its line numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from cge.data.files.arrays import check_empty_rows
from cge.data.files.blocks import numbered_lines
from cge.data.files.dialect import Dialect, is_integer
from cge.data.files.numbering import Names
from cge.data.files.text_fields import NUMBER, Field, read_fields
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, format_value

_BANNER = "%%matrixmarket"
_VALUES = ("real", "integer", "double", "pattern")
_SYMMETRIES = ("general", "symmetric")
_EXAMPLE = "%%MatrixMarket matrix coordinate real general"


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
    check_empty_rows(path, shape[0], len(row))
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
