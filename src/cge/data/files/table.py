"""A table behind one interface, whatever its file format: the columns are known before the rows are read.

Tables are text, Parquet files, or columns in memory that the reader of another format returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cge.arrays import Array
from cge.data.files.blocks import open_bytes
from cge.data.files.dialect import Dialect, TextOptions, check_unique_names, inspect_text
from cge.data.files.numbering import Names
from cge.data.files.text_fields import NUMBER, Field, Fields, FieldStore, read_chunks
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError

_BATCH_ROWS, _BATCH_CELLS = 1 << 16, 1 << 22
_Batches = Callable[[list[str]], Iterable[pa.RecordBatch]]  # of the columns with these names


@dataclass(frozen=True)
class Table:
    """A table of which the columns are known.

    `names` is None for text without a header; `width` is the number of columns. `types` are None for text, which has a
    `dialect`.
    """

    path: Path
    names: list[str] | None
    width: int
    read_chunks: Callable[..., Iterator[tuple[Fields, Names]]]
    types: Sequence[pa.DataType] | None = None
    dialect: Dialect | None = None

    def read(self, fields: Sequence[Field], names: Names, number_type: Any, keep_lines: bool) -> Fields:
        """Read the rows, as `text_fields.read_fields` does."""
        return next(self._read(fields, lambda: names, number_type, keep_lines))[0]

    def chunks(self, fields: Sequence[Field], number_type: Any, max_rows: int) -> Iterator[tuple[Fields, Names]]:
        """Read the rows in chunks of about `max_rows`, each with names of its own."""
        return self._read(fields, Names, number_type, False, max_rows)

    def _read(self, *arguments: Any) -> Iterator[tuple[Fields, Names]]:
        try:
            yield from self.read_chunks(*arguments)
        except MemoryError:
            raise FileFormatError(self.path, "its rows need more memory than is free") from None


@dataclass(frozen=True)
class TextRules:
    """How text is split into columns: options of the caller, and what is expected of this kind of table.

    `has_header` decides by the first rows where the caller does not; the first `id_columns` fields of a row are ids;
    a table has at least `min_columns` columns.
    """

    options: TextOptions
    has_header: Callable[[Dialect], bool]
    id_columns: int = 1
    min_columns: int = 2


def open_text_table(path: Path, rules: TextRules) -> Table:
    """Open CSV, TSV or text separated by blanks, plain or gzip."""
    options = rules.options
    dialect = inspect_text(path, options, id_columns=rules.id_columns, min_columns=rules.min_columns)
    if options.header is None:
        dialect = replace(dialect, header=rules.has_header(dialect))
    if dialect.first_data_row is None:
        raise FileFormatError(path, "the file has a header but no rows")
    if dialect.names:
        check_unique_names(path, dialect.names, dialect.first_line)
    return Table(path, dialect.names, dialect.columns, partial(read_chunks, path, dialect), dialect=dialect)


def open_parquet_table(path: Path, _rules: TextRules) -> Table:
    """Open a Parquet file."""
    with _parquet(path) as file:
        schema = file.schema_arrow
    text = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]

    def batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
        # A few bytes of a file can be a long string in many rows, which are kept as numbers into a dictionary.
        with _parquet(path, read_dictionary=text) as file:
            rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // len(columns)))
            yield from file.iter_batches(columns=columns, batch_size=rows)

    return _table(path, schema, batches)


def columns_table(path: Path, columns: Any) -> Table:
    """Return a table of columns in memory: a dictionary of arrays, a DataFrame or a `pyarrow.Table`."""
    try:
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FileFormatError(path, f"expected columns of equal length, each of one type ({error})") from None
    return _table(path, table.schema, lambda names: table.select(names).to_batches(max_chunksize=_BATCH_ROWS))


def _table(path: Path, schema: pa.Schema, batches: _Batches) -> Table:
    check_unique_names(path, schema.names)
    read = partial(_read_chunks, path, schema.names, batches)
    return Table(path, schema.names, len(schema.names), read, types=schema.types)


@contextmanager
def _parquet(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    with open_bytes(path) as stream:
        try:
            with pq.ParquetFile(stream, **options) as file:
                yield file
        except MemoryError:
            raise
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileFormatError(path, "this is not a readable Parquet file; write or fetch it again") from None


def _read_chunks(
    path: Path,
    header: list[str],
    batches: _Batches,
    fields: Sequence[Field],
    make_names: Callable[[], Names],
    number_type: Any,
    _: bool,
    max_rows: int | None = None,
) -> Iterator[tuple[Fields, Names]]:
    """Read columns batch by batch, as `text_fields.read_chunks` does; `lines` are row numbers, from 1."""
    fields = sorted(fields, key=lambda field: field.column)
    numeric = [field for field in fields if field.kind == NUMBER]
    store, names, rows = FieldStore(fields, number_type), make_names(), 0
    for batch in batches([header[field.column] for field in fields]):
        if max_rows is not None and store.rows >= max_rows:
            yield store.fields(), names
            store, names = FieldStore(fields, number_type), make_names()
        columns = {field.column: batch.column(header[field.column]) for field in fields}
        for field in fields:
            column = columns[field.column]
            if column.null_count and not field.optional:
                row = rows + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise FileFormatError(path, f"the {field.what} is missing in row {row + 1:,}")
            if field.kind == INTEGER:
                store.columns[field.column].append(_integers(path, column, field))
            elif field.kind != NUMBER:
                store.columns[field.column].append(_codes(path, column, field, names))
        if numeric:
            numbers = [_numbers(path, columns[field.column], field, rows) for field in numeric]
            store.numbers.append(np.stack(numbers, axis=1))
        rows, store.rows = rows + len(batch), store.rows + len(batch)
        store.lines.append(np.arange(rows - len(batch) + 1, rows + 1))
    yield store.fields(), names


def is_number(kind: pa.DataType) -> bool:
    """Return whether columns of this type hold integers or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _integers(path: Path, column: pa.Array, field: Field) -> Array:
    problem = f"expected integers as {field.what}"
    if not is_number(column.type):
        problem = f"{problem}, found {column.type}"
        raise FileFormatError(path, problem, hint=field.hint, parameter=field.parameter)
    try:
        values: Array = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        problem = f"{problem} ({error})"
        raise FileFormatError(path, problem, hint=field.hint, parameter=field.parameter) from None
    return values


def _codes(path: Path, column: pa.Array, field: Field, names: Names) -> Array:
    if pa.types.is_temporal(column.type) or pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    if field.optional and column.null_count:
        column = column.cast(pa.large_string()).fill_null("")
    if pa.types.is_dictionary(column.type):
        used, places = np.unique(column.indices.to_numpy(), return_inverse=True)
        return _codes(path, column.dictionary.take(pa.array(used)), field, names)[places]
    if not any(is_kind(column.type) for is_kind in (is_number, pa.types.is_string, pa.types.is_large_string)):
        raise FileFormatError(path, f"expected text or numbers as {field.what}, found {column.type}")
    # A batch may be a slice of a larger array; concatenating a single array makes it contiguous.
    contiguous = pa.concat_arrays([column.cast(pa.large_string())])
    _, offset_buffer, text = contiguous.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[contiguous.offset : contiguous.offset + len(contiguous) + 1]
    content = np.frombuffer(text, np.uint8) if text is not None and text.size else np.empty(0, np.uint8)
    if not content[offsets[0] : offsets[-1]].all():
        raise FileFormatError(path, f"a {field.what} contains a zero byte; expected text")
    lengths = np.diff(offsets)
    if not lengths.all() and not field.optional:
        raise FileFormatError(path, f"a {field.what} is empty")
    return names.intern(content, offsets[:-1], lengths)


def _numbers(path: Path, column: pa.Array, field: Field, rows_before: int) -> Array:
    if not is_number(column.type) and not pa.types.is_boolean(column.type):
        raise FileFormatError(path, f"expected numbers as {field.what}, found {column.type}", hint=field.hint)
    values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(
        (~np.isfinite(values) & ~(np.isnan(values) & field.optional)) | ((values <= 0) & field.positive)
    )
    if len(wrong):
        expected = "positive, finite numbers" if field.positive else "finite numbers"
        row = rows_before + wrong[0] + 1
        problem = f"expected {expected} as {field.what}, found {values[wrong[0]]} in row {row:,}"
        raise FileFormatError(path, problem, hint=field.hint)
    return values
