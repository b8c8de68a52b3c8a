"""Tables of columns as text and as Parquet, written block by block.

A column is an array of numbers, a list of strings (None where there is none) or a list of lists of strings; in Parquet
also a list of lists of integers, or an array of two dimensions, whose rows become lists.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cge.store.text import escape_formula

SEPARATOR = "; "  # between several strings in one cell

_ROWS = 16_384  # at once


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
    count = len(next(iter(columns.values())))
    for start in range(0, count, _ROWS):
        arrays = [_array(column[start : start + _ROWS], schema.field(name).type) for name, column in columns.items()]
        yield pa.record_batch(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values, kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), type=kind)
