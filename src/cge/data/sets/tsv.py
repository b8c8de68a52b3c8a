"""Columns of the tab-separated files of data sets, plain or gzip, read by Arrow.

These files have fixed columns and no quotes; files of users are read by `cge.read_graph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from cge.errors import FileFormatError


def read_columns(path: str | Path, columns: Mapping[str, type], *, header: bool) -> dict[str, npt.NDArray[Any]]:
    """Return columns of `int` (int64) or `str` (objects; an empty field is an empty string) by name.

    With a header columns are selected by name, else by position.
    """
    types = {name: pa.int64() if kind is int else pa.large_string() for name, kind in columns.items()}
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            table = pa_csv.read_csv(
                stream,
                pa_csv.ReadOptions(column_names=None if header else list(columns)),
                pa_csv.ParseOptions(delimiter="\t", quote_char=False),
                pa_csv.ConvertOptions(column_types=types, include_columns=list(columns), strings_can_be_null=False),
            )
    except (OSError, KeyError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as tab-separated columns {', '.join(columns)}: {error}") from None
    arrays = {name: table.column(name) for name in columns}
    empty = next((name for name, column in arrays.items() if column.null_count), None)
    if empty is not None:
        raise FileFormatError(path, f"column {empty!r} has {arrays[empty].null_count:,} empty fields")
    return {name: _numpy(column) for name, column in arrays.items()}


def _numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    return np.asarray(column.to_numpy())
