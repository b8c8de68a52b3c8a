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

from cge.store.text import guarded

__all__ = ["SEPARATOR", "guarded_cells", "write_parquet_table", "write_text_table"]

SEPARATOR = "; "  # between several strings in one cell

_ROWS = 16_384  # at once


def write_text_table(
    stream: BinaryIO, columns: Mapping[str, Any], delimiter: str, *, header: bool = True, exact: bool = False
) -> None:
    """Write columns as CSV or TSV: text in quotes, numbers as short as they read back.

    Formulas are disarmed unless text is to be `exact`.
    """
    if header:
        head = io.StringIO()
        csv.writer(head, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(
            name if exact else guarded(name) for name in columns
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


def guarded_cells(columns: Mapping[str, Any]) -> int:
    """Return how many cells of a text table, its header included, get an apostrophe."""
    texts = {name: column for name, column in columns.items() if not isinstance(column, np.ndarray)}
    pairs = ((_cells(column, False), _cells(column, True)) for column in (list(columns), *texts.values()))
    return sum(one != other for cells, exact in pairs for one, other in zip(cells, exact, strict=True))


def _cells(column: Any, exact: bool) -> Any:
    """Return a column of text as cells of a text table."""
    if isinstance(column, np.ndarray):
        return column
    joined = (SEPARATOR.join(one) if isinstance(one, list) else one for one in column)
    return [one if one is None or exact else guarded(one) for one in joined]


def _schema(columns: Mapping[str, Any]) -> pa.Schema:
    return pa.schema([(name, _type(column)) for name, column in columns.items()])


def _type(column: Any) -> pa.DataType:
    if isinstance(column, np.ndarray):
        kind = pa.from_numpy_dtype(column.dtype)
        return pa.list_(kind, column.shape[1]) if column.ndim == 2 else kind
    lists = [one for one in column if isinstance(one, list)]
    known = [one for row in lists for one in row if one is not None]
    whole = bool(known) and all(isinstance(one, int) for one in known)
    return pa.list_(pa.int64() if whole else pa.string()) if lists else pa.string()


def _batches(columns: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    count = len(next(iter(columns.values())))
    for begin in range(0, count, _ROWS):
        arrays = [_array(column[begin : begin + _ROWS], schema.field(name).type) for name, column in columns.items()]
        yield pa.record_batch(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values, kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), type=kind)
