"""A table behind one interface, whatever its file format: the columns are known before the rows are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from cge.data.files.dialect import Dialect, TextOptions, check_unique_names, inspect_text
from cge.data.files.interning import Names
from cge.data.files.text_fields import Field, Fields, read_fields
from cge.errors import FileFormatError


class ReadRows(Protocol):
    """Reads the rows of a table: the columns that `fields` describe, with text as codes into `names`."""

    def __call__(
        self, fields: Sequence[Field], names: Names, *, number_type: Any = np.float64, keep_lines: bool = False
    ) -> Fields:
        """Read all rows."""


@dataclass(frozen=True)
class Table:
    """A table of which the columns are known.

    Attributes
    ----------
    path : Path
    names : list of str or None
        Names of the columns; None for text without a header.
    width : int
        Number of columns.
    read : callable
        Reads the rows.
    types : sequence of pyarrow.DataType or None
        Types of the columns; None for text.
    dialect : Dialect or None
        Of text: delimiter, first rows, line numbers.
    """

    path: Path
    names: list[str] | None
    width: int
    read: ReadRows
    types: Sequence[pa.DataType] | None = None
    dialect: Dialect | None = None


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
    header = rules.has_header(dialect) if options.header is None else options.header
    dialect = replace(dialect, header=header)
    if dialect.first_data_row is None:
        raise FileFormatError(path, "the file has a header but no rows")
    if dialect.names:
        check_unique_names(path, dialect.names, dialect.first_line)
    read = partial(read_fields, path, dialect, block_size=options.block_size)
    return Table(path, dialect.names, dialect.columns, read, dialect=dialect)
