"""Edge lists from files, with node ids numbered 0 … n-1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import concatenate_ids, edge_columns
from cge.data.files.blocks import numbered_lines
from cge.data.files.dialect import is_integer
from cge.data.files.edge_layout import NO_ATTRIBUTES, EdgeColumns, EdgeOptions, choose_edge_columns, has_edge_header
from cge.data.files.formats import find_format
from cge.data.files.numbering import Names, number_codes, number_integers
from cge.data.files.table import Table, TextRules, is_number
from cge.data.files.text_fields import NAME, NUMBER, PLAIN_NETWORKX, Field, decode_names
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, InputError, Message, format_value
from cge.ids import factorize

AS_TEXT = Message.of("pass {ids} to read all ids as text", ids="str")
_NO_WEIGHTS = Message.of("remove the edge, or pass {weighted} to ignore weights", weighted=False)


@dataclass(frozen=True)
class Layout:
    """How an edge list was read: its delimiter in words, whether it has a header, and the column of each part.

    Columns are names, or numbers from 1; `unread` are those that hold none of the parts. `guessed_weight` means that a
    column is read as weights only because of its position.
    """

    columns: Mapping[str, str | int]
    unread: tuple[str | int, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    guessed_weight: bool = False
    first_line: int | None = None


@dataclass(frozen=True)
class EdgeTable:
    """Edges as indices into `ids`; `types` are indices into `type_names`."""

    source: Array
    target: Array
    ids: Array
    layout: Layout
    weights: Array | None = None
    types: Array | None = None
    type_names: tuple[str, ...] = ()


def load_edges(path: Path, options: EdgeOptions) -> Any:
    """Return the `EdgeTable` of a file, or its adjacency matrix."""
    file_format = find_format(path, "edges")
    if file_format.edges is None:
        rules = TextRules(options.text, partial(has_edge_header, options=options), id_columns=2)
        return _read_table(file_format.table(path, rules), options)
    if any(option is not None for option in (*options.columns, options.text.header)):
        table_options = Message.of("{source}, {target}, {weight}, {edge_type} and {header}")
        raise InputError(Message(table_options, f" are for tables, but {path} holds an array"))
    loaded = file_format.edges(path)
    return loaded if sp.issparse(loaded) else _from_array(path, np.asarray(loaded))


def _from_array(path: Path, array: Array) -> EdgeTable:
    """Return the edges of an array of shape (edges, 2)."""
    if array.size and (array.ndim != 2 or array.shape[1] != 2):
        hint = "save more columns as a table" if array.ndim == 2 and array.shape[1] > 2 else "save pairs of ids"
        raise FileFormatError(path, f"expected edges of shape (edges, 2), found {array.shape}; {hint}")
    try:
        source, target = edge_columns(array)
    except InputError as error:
        raise FileFormatError(path, error.message) from None
    codes, ids = factorize(concatenate_ids(source, target))
    return EdgeTable(codes[: len(source)], codes[len(source) :], ids, Layout({"source": 1, "target": 2}))


def _read_table(table: Table, options: EdgeOptions) -> EdgeTable:
    dialect = table.dialect
    if table.width < 2:
        _refuse_one_column(table)
    columns = choose_edge_columns(table, options)
    integer_ids = options.ids == "int" or (options.ids == "auto" and _has_integer_ids(table, columns))
    reason = " as in the first row" if dialect and options.ids == "auto" else ""
    names = Names()
    read = table.read(_fields(columns, integer_ids, reason), names)
    texts = decode_names(table.path, names) if names.count else np.empty(0, object)
    if columns.attributes is not None:
        _refuse_attributes(table.path, texts[np.unique(read.columns[columns.attributes])])
    source, target = endpoints = read.columns[columns.source], read.columns[columns.target]
    ids = number_integers(endpoints) if integer_ids else texts[number_codes(endpoints, names.count)]
    weights = None if columns.weight is None else read.numbers[:, 0]
    types = None if columns.edge_type is None else read.columns[columns.edge_type]
    type_names = () if types is None else tuple(texts[number_codes([types], names.count)].tolist())
    layout = Layout(columns.by_part(table.names), columns.unread(table.names, table.width))
    if dialect:
        guessed_weight = columns.weight is not None and options.weight is None and not dialect.header
        inferred = (dialect.delimiter_name, dialect.header, guessed_weight, dialect.first_line)
        layout = Layout(layout.columns, layout.unread, *inferred)
    return EdgeTable(source, target, ids, layout, weights, types, type_names)


def _refuse_one_column(table: Table) -> None:
    dialect = table.dialect
    if dialect is None:
        raise FileFormatError(table.path, f"expected a source and a target, found the columns {table.names}")
    problem = f"expected a source and a target separated by {dialect.delimiter_name}, found only "
    problem += format_value(dialect.rows[0][0])
    raise FileFormatError(table.path, problem, dialect.first_line, hint=Message.of("pass {delimiter}"))


def _has_integer_ids(table: Table, columns: EdgeColumns) -> bool:
    """Return whether ids are integers: by the first row of text, by the types of other tables."""
    endpoints = (columns.source, columns.target)
    if table.types is None:
        row = (table.dialect and table.dialect.first_data_row) or []
        return all(is_integer(row[column]) for column in endpoints if column < len(row))
    types = [table.types[column] for column in endpoints]
    numeric = list(map(is_number, types))
    if any(numeric) and not all(numeric):
        raise FileFormatError(table.path, f"sources are {types[0]}, but targets are {types[1]}", hint=AS_TEXT)
    return all(numeric)


def _fields(columns: EdgeColumns, integer_ids: bool, reason: str) -> list[Field]:
    kind = INTEGER if integer_ids else NAME
    fields = [Field(column, kind, "node id", reason, AS_TEXT) for column in (columns.source, columns.target)]
    if columns.weight is not None:
        fields.append(Field(columns.weight, NUMBER, "weight", hint=_NO_WEIGHTS, positive=True))
    if columns.edge_type is not None:
        fields.append(Field(columns.edge_type, NAME, "edge type"))
    if columns.attributes is not None:
        fields.append(Field(columns.attributes, NAME, "attributes"))
    return fields


def _refuse_attributes(path: Path, values: Array) -> None:
    """Refuse attributes that NetworkX writes after an edge, unless they are empty."""
    attributes = next((value for value in values if value != NO_ATTRIBUTES), None)
    if attributes is not None:
        line = next((number for number, _, text in numbered_lines(path) if attributes.encode() in text), None)
        problem = f"expected no attributes as in the first row, found {format_value(attributes)}"
        raise FileFormatError(path, problem, line, hint=PLAIN_NETWORKX)
