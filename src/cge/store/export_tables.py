"""Tables of columns as text, whose cells no spreadsheet evaluates, and as Parquet, written block by block.

A column is an array of numbers, a list of strings (None where there is none) or a list of lists of strings; in Parquet
also a list of lists of integers, or an array of two dimensions, whose rows become lists.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cge.arrays import Array
from cge.errors import InputError, format_value
from cge.parallel import split_blocks

SEPARATOR = "; "  # between several strings in one cell

_ROWS = 16_384  # at once
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def escape_formula(text: str) -> str:
    """Return a cell with a leading apostrophe where a spreadsheet would evaluate it as a formula.

    A cell that starts with apostrophes and a formula gets one more, so that removing one apostrophe from every escaped
    cell restores the text. Numbers stay as they are.

    >>> escape_formula("=1+1"), escape_formula("'=1+1"), escape_formula("it's"), escape_formula("-5")
    ("'=1+1", "''=1+1", "it's", '-5')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def checked_texts(ids: Array) -> Sequence[str]:
    """Return node ids as text; they must be integers, or strings that UTF-8 can encode."""
    if ids.dtype.kind == "i":
        return [str(number) for number in ids.tolist()]
    texts: list[Any] = np.asarray(ids, object).tolist()
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            problem = "a file can contain node ids that are all integers or all strings, found "
            problem += f"{format_value(text)} at position {place:,}"
            raise InputError(problem, hint="give the nodes such ids, for example str(id)")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            problem = f"the node id {format_value(text)} contains half of a surrogate pair, which UTF-8 cannot encode"
            raise InputError(problem, hint="rename the node")
    return texts


def write_text_table(
    stream: BinaryIO, columns: Mapping[str, Any], delimiter: str, *, header: bool = True, exact: bool = False
) -> None:
    """Write columns as CSV or TSV: text in quotes, numbers as short as they read back.

    Formulas are escaped unless text is to be `exact`.
    """
    if header:
        head = io.StringIO()
        csv.writer(head, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(
            name if exact else escape_formula(name) for name in columns
        )
        stream.write(head.getvalue().encode())
    plain = {name: _cells(column, exact) for name, column in columns.items()}
    schema = _schema(plain)
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter=delimiter)
    with pyarrow.csv.CSVWriter(stream, schema, write_options=options) as writer:
        for batch in _batches(plain, schema):
            writer.write_batch(batch)


def write_parquet_table(stream: BinaryIO, columns: Mapping[str, Any]) -> None:
    """Write columns as Parquet; text stays as it is."""
    schema = _schema(columns)
    with pq.ParquetWriter(stream, schema) as writer:
        for batch in _batches(columns, schema):
            writer.write_batch(batch)


def count_escaped_cells(columns: Mapping[str, Any]) -> int:
    """Return how many cells of a text table, including its header, get an apostrophe."""
    texts = {name: column for name, column in columns.items() if not isinstance(column, np.ndarray)}
    pairs = ((_cells(column, False), _cells(column, True)) for column in (list(columns), *texts.values()))
    return sum(cell != text for cells, exact in pairs for cell, text in zip(cells, exact, strict=True))


def _cells(column: Any, exact: bool) -> Any:
    """Return a column of text as cells of a text table."""
    if isinstance(column, np.ndarray):
        return column
    texts = (SEPARATOR.join(cell) if isinstance(cell, list) else cell for cell in column)
    return [text if text is None or exact else escape_formula(text) for text in texts]


def _schema(columns: Mapping[str, Any]) -> pa.Schema:
    return pa.schema([(name, _type(column)) for name, column in columns.items()])


def _type(column: Any) -> pa.DataType:
    if isinstance(column, np.ndarray):
        kind = pa.from_numpy_dtype(column.dtype)
        return pa.list_(kind, column.shape[1]) if column.ndim == 2 else kind
    lists = [cell for cell in column if isinstance(cell, list)]
    items = [item for row in lists for item in row if item is not None]
    integers = bool(items) and all(isinstance(item, int) for item in items)
    return pa.list_(pa.int64() if integers else pa.string()) if lists else pa.string()


def _batches(columns: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start, end in split_blocks(len(next(iter(columns.values()))), _ROWS):
        arrays = [_array(column[start:end], schema.field(name).type) for name, column in columns.items()]
        yield pa.record_batch(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values, kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), type=kind)
