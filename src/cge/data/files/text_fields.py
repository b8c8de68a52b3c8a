"""Fields of text tables, parsed from bytes.

A file is read in blocks (`blocks`), a block is cut into pieces of whole lines, and the tokenizer walks over a piece
once: integers are parsed in place, names and numbers are marked by offset and length. Names are then interned, numbers
are cast by Arrow. No Python object is created for a line or a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from cge.arrays import Array
from cge.data.files import tokenizer
from cge.data.files.blocks import BLOCK_BYTES, line_blocks, numbered_lines
from cge.data.files.dialect import BLANKS, Dialect, split_line
from cge.data.files.numbering import Names, strings_from
from cge.data.files.tokenizer import INTEGER, OPTIONAL, TOKEN, comma_hint, pack, parse_number, tokenize, unescape
from cge.errors import FileFormatError, counted, format_value
from cge.memory import allocate

NAME, NUMBER = 2, 3  # further kinds of fields, next to INTEGER; for the tokenizer both are a TOKEN, or OPTIONAL

_PIECE_BYTES = 1 << 18  # what is tokenized at once: its tokens fit in the second-level cache

MISSING = ("nan", "na", "n/a", "none", "null")  # what tables write for an unknown value
PLAIN_NETWORKX = "in NetworkX, write the file by write_weighted_edgelist, or by write_edgelist with data=False"


class GrowingArray:
    """An array that grows at its end while a file is read. Integers are kept in 32 bits for as long as they fit.

    >>> column = GrowingArray(np.int32)
    >>> column.append(np.array([1, 2]))
    >>> column.append(np.array([2**40]))
    >>> column.array()
    array([            1,             2, 1099511627776])
    """

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._array: Array = np.empty(0 if width is None else (0, width), dtype)
        self._used = 0

    def append(self, values: Array) -> None:
        """Copy `values` to the end."""
        if self._array.dtype == np.int32 and values.dtype != np.int32 and len(values):
            bounds = np.iinfo(np.int32)
            if values.min() < bounds.min or values.max() > bounds.max:
                self._array = self._array.astype(np.int64)
        needed = self._used + len(values)
        if needed > len(self._array):
            larger = allocate((max(2 * needed, 1 << 12), *self._array.shape[1:]), self._array.dtype)
            larger[: self._used] = self._array[: self._used]
            self._array = larger
        with np.errstate(over="ignore"):  # becomes infinite in float32, which is refused later
            self._array[self._used : needed] = values
        self._used = needed

    def array(self) -> Array:
        """Return the values appended so far."""
        return self._array[: self._used]


@dataclass(frozen=True)
class Field:
    """A column to read: its index from 0, its kind, and, for messages, its content, the reason, and a hint.

    A number must be finite, and above zero where `positive` is set. It may be missing where `optional` is set: an empty
    field, or one that says so, is read as NaN; a name is then empty. `quote_hint` is the hint for a row with too many
    fields, `parameter` the one that errors of an integer name.
    """

    column: int
    kind: int
    what: str
    reason: str = ""
    hint: str = ""
    positive: bool = False
    optional: bool = False
    quote_hint: str = ""
    parameter: str | None = None


@dataclass(frozen=True)
class Fields:
    """The rows that were read: integers and codes of names by column, numbers `(rows, k)`, the line of each row."""

    columns: dict[int, Array]
    numbers: Array
    lines: Array


class FieldStore:
    """Rows of some columns as they are read, in batches: integers and codes of names by column, numbers, lines."""

    def __init__(self, fields: Sequence[Field], number_type: Any) -> None:
        self.columns = {field.column: GrowingArray(np.int32) for field in fields if field.kind != NUMBER}
        self.numbers = GrowingArray(number_type, len(fields) - len(self.columns))
        self.lines, self.rows = GrowingArray(np.int64), 0

    def fields(self) -> Fields:
        """Return the rows."""
        columns = {column: store.array() for column, store in self.columns.items()}
        return Fields(columns, self.numbers.array(), self.lines.array())


def read_fields(
    path: Path, dialect: Dialect, fields: Sequence[Field], names: Names, number_type: Any, keep_lines: bool
) -> Fields:
    """Read columns of a text table: integers, names (as numbers into `names`) and numbers, the latter in their order.

    `lines` of the result is empty unless `keep_lines`.
    """
    return next(read_chunks(path, dialect, fields, lambda: names, number_type, keep_lines))[0]


def read_chunks(
    path: Path,
    dialect: Dialect,
    fields: Sequence[Field],
    make_names: Callable[[], Names],
    number_type: Any,
    keep_lines: bool,
    max_rows: int | None = None,
) -> Iterator[tuple[Fields, Names]]:
    """Read the same in chunks of at least `max_rows` rows, the last of fewer, each with names of its own."""
    fields = sorted(fields, key=lambda field: field.column)
    integers, tokens = ([field for field in fields if (field.kind == INTEGER) is flag] for flag in (True, False))
    named = [k for k, field in enumerate(tokens) if field.kind == NAME]
    store, names = FieldStore(fields, number_type), make_names()
    for piece in _pieces(path, dialect, fields):
        if max_rows is not None and store.rows >= max_rows:
            yield store.fields(), names
            store, names = FieldStore(fields, number_type), make_names()
        for k, field in enumerate(integers):
            store.columns[field.column].append(piece.integers[:, k])
        if named:
            marks = (piece.starts, piece.lengths)
            starts, lengths = (part.ravel() if len(named) == len(tokens) else part[:, named].ravel() for part in marks)
            codes = names.intern(piece.text, starts, lengths)
            for k, token in enumerate(named):
                store.columns[tokens[token].column].append(codes[k :: len(named)])
        if len(named) < len(tokens):
            store.numbers.append(_numbers(path, piece, tokens, number_type))
        if keep_lines:
            store.lines.append(piece.lines)
        store.rows += len(piece.lines)
    yield store.fields(), names


@dataclass(frozen=True)
class _Piece:
    text: Array  # bytes of the block
    integers: Array  # (rows, integer fields)
    starts: Array  # (rows, other fields)
    lengths: Array
    lines: Array  # (rows,)


def _pieces(path: Path, dialect: Dialect, fields: Sequence[Field]) -> Iterator[_Piece]:
    kinds = np.zeros(dialect.columns, np.int8)
    for field in fields:
        kinds[field.column] = INTEGER if field.kind == INTEGER else OPTIONAL if field.optional else TOKEN
    integers, tokens = int(np.sum(kinds == INTEGER)), int(np.sum(kinds >= TOKEN))
    delimiter = 0 if dialect.delimiter == BLANKS else ord(dialect.delimiter)
    comment, other = [*map(ord, dialect.comments), -1, -1][:2]
    marks = (delimiter, comment, other)
    start_byte, start_line = dialect.first_bytes[int(dialect.header)], dialect.first_line + int(dialect.header)
    whole = starts = lengths = lines = np.empty(0, np.int64)  # reused for every piece
    for buffer, end, first_line in line_blocks(path, start_byte, start_line, BLOCK_BYTES):
        text = np.frombuffer(buffer, np.uint8)
        at, line = 0, first_line
        while at < end:
            stop = end
            if end - at > _PIECE_BYTES:
                stop = buffer.rfind(b"\n", at, at + _PIECE_BYTES) + 1 or buffer.find(b"\n", at + _PIECE_BYTES) + 1
            max_rows = (stop - at) // (dialect.columns + 1) + 1  # a line has its delimiters, a field and a newline
            if max_rows > len(lines):
                whole, lines = np.empty((max_rows, integers), np.int64), np.empty(max_rows, np.int64)
                starts, lengths = np.empty((2, max_rows, tokens), np.int64)
            outputs = (whole, starts, lengths, lines)
            rows, line, problem, line_start, column = tokenize(text, at, stop, line, marks, kinds, outputs)
            if problem:
                raw = bytes(buffer[line_start : buffer.find(b"\n", line_start)])
                _raise_problem(path, dialect, fields, raw, line, problem, column)
            unescape(text, starts[:rows], lengths[:rows])
            yield _Piece(text, whole[:rows], starts[:rows], lengths[:rows], lines[:rows])
            at = stop


def _raise_problem(
    path: Path, dialect: Dialect, fields: Sequence[Field], raw: bytes, line: int, problem: int, column: int
) -> NoReturn:
    """Raise the error for a problem that the kernel reports."""
    text = raw.decode("utf-8", "replace").removesuffix("\r")
    values = split_line(text, dialect.delimiter)
    row, value = format_value(text), format_value(values[column] if column < len(values) else "")
    field = next((field for field in fields if field.column == column), Field(column, TOKEN, f"column {column + 1}"))
    what, width = field.what, counted(dialect.columns, "column")
    texts = {
        tokenizer.OPEN_QUOTE: f'a quoted field does not close on its line: {row}; close it, or write " as "" inside',
        tokenizer.AFTER_QUOTE: f"expected the end of the field after a closing quote, found {row}",
        tokenizer.RAGGED: f"expected {width} as {dialect.width_source}, found {len(values)}: {row}",
        tokenizer.EMPTY: f"the {what} is empty: {row}",
        tokenizer.HUGE: f"the {what} {value} does not fit in 64 bits",
        tokenizer.NO_INTEGER: f"expected an integer {what}{field.reason}, found {value}",
    }
    hint, parameter = "", None
    if problem in (tokenizer.HUGE, tokenizer.NO_INTEGER):
        hint, parameter = field.hint, field.parameter
    if problem == tokenizer.EMPTY and field.quote_hint:
        hint = field.hint
    if problem == tokenizer.RAGGED and len(values) > dialect.columns:
        hint = field.quote_hint
    if problem == tokenizer.RAGGED and "{" in text and text.rstrip().endswith("}"):
        hint = PLAIN_NETWORKX
    raise FileFormatError(path, texts[problem], line, hint=hint, parameter=parameter)


def _numbers(path: Path, piece: _Piece, tokens: Sequence[Field], number_type: type) -> Array:
    """Return the numbers of a piece, `(rows, k)`."""
    numeric = [k for k, field in enumerate(tokens) if field.kind == NUMBER]
    optional = np.array([tokens[k].optional for k in numeric])
    starts, lengths = piece.starts[:, numeric].ravel(), piece.lengths[:, numeric].ravel()
    present = np.arange(len(lengths))
    if optional.any():  # what is not present is NaN
        present = np.flatnonzero(lengths)
        starts, lengths = starts[present], lengths[present]
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    packed = np.empty(int(offsets[-1]), np.uint8)
    pack(piece.text, starts, offsets, packed)

    def text_at(index: int) -> str:
        return packed[offsets[index] : offsets[index + 1]].tobytes().decode("utf-8", "replace")

    def field_at(index: int) -> Field:
        return tokens[numeric[int(present[index]) % len(numeric)]]

    def refuse(index: int) -> NoReturn:
        line, field = piece.lines[present[index] // len(numeric)], field_at(index)
        expected = f"a positive, finite {field.what}" if field.positive else f"a finite number in {field.what}"
        hint = comma_hint(text_at(index)) or field.hint
        raise FileFormatError(path, f"expected {expected}, found {format_value(text_at(index))}", int(line), hint=hint)

    try:
        values: Array = strings_from(packed, offsets).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a number is unusual or wrong: parse each
        values = np.empty(len(starts))
        for index in range(len(starts)):
            number = parse_number(text_at(index))
            if field_at(index).optional and text_at(index).casefold() in MISSING:
                number = np.nan
            values[index] = refuse(index) if number is None else number
    with np.errstate(over="ignore"):
        matrix: Array = values.astype(number_type, copy=False)
    if optional.any():
        matrix = np.full(len(piece.lines) * len(numeric), np.nan, number_type)
        matrix[present] = values
    matrix = matrix.reshape(len(piece.lines), len(numeric))
    lower_bound = np.array([0.0 if tokens[k].positive else -np.inf for k in numeric])
    wrong = np.flatnonzero(~(np.isfinite(matrix) & (matrix > lower_bound)) & ~(np.isnan(matrix) & optional))
    if len(wrong):
        refuse(int(np.searchsorted(present, wrong[0])))
    return matrix


def decode_names(path: Path, names: Names) -> Array:
    """Return interned names as strings; the error for a name that is not UTF-8 has its line."""
    try:
        return names.decoded()
    except UnicodeDecodeError as error:
        line = None
        with suppress(FileFormatError):  # Parquet has no lines
            line = next((number for number, _, text in numbered_lines(path) if error.object in text), None)
        problem = f"expected UTF-8 text, found {format_value(error.object)}; save it as UTF-8"
        raise FileFormatError(path, problem, line) from None
