"""Edge lists from files, with node ids numbered 0 … n-1.

The columns of sources, targets, weights and types are chosen by options, by name, or by position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import ENDPOINT_NAMES, TYPE_NAMES, WEIGHT_NAMES, concatenate_ids, edge_columns
from cge.data.files.blocks import numbered_lines
from cge.data.files.dialect import Column, Dialect, TextOptions, column_index, find_column, is_integer
from cge.data.files.file_path import name_file
from cge.data.files.formats import find_format
from cge.data.files.node_tables import counts_up, is_index_name, look_like_ids
from cge.data.files.numbering import Names, number_codes, number_integers
from cge.data.files.table import Table, TextRules, is_number
from cge.data.files.text_fields import NAME, NUMBER, PLAIN_NETWORKX, Field, decode_names
from cge.data.files.tokenizer import INTEGER, comma_hint, parse_number
from cge.errors import FileFormatError, InputError, Message, format_list, format_value
from cge.ids import factorize

_AS_TEXT = Message.of("pass {ids} to read all ids as text", ids="str")
_NO_WEIGHTS = Message.of("remove the edge, or pass {weighted} to ignore weights", weighted=False)
_PARTS = ("source", "target", "weight", "edge_type")
_FEATURE = "feature "  # before the column of an edge feature, among the parts
_NO_TEXT = Message.of("write a number, or nothing where it is missing; read text by {edge_type}")
_MIN_COUNTED = 5  # rows by which a column is recognized that counts them
_NO_ATTRIBUTES = "{}"  # what NetworkX writes after an edge that has no attributes


@dataclass(frozen=True)
class EdgeOptions:
    """Options of the caller for an edge list; None means that it is inferred. Columns are names, or numbers from 1.

    `usual_names` are names of the columns of sources and targets in an earlier file: a first row with both is a header.
    """

    source: Column = None
    target: Column = None
    weight: Column = None
    edge_type: Column = None
    weighted: bool | None = None
    ids: str = "auto"
    text: TextOptions = field(default_factory=TextOptions)
    edge_features: Sequence[str | int] = ()
    usual_names: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.edge_features, str):
            raise InputError(parameter="edge_features", expected="a list of columns", found=self.edge_features)
        if self.ids not in ("auto", "int", "str"):
            raise InputError(parameter="ids", expected="'auto', 'int' or 'str'", found=self.ids)
        if self.weight is not None and self.weighted is False:
            template = "{weight} names a column, but {weighted} asks to ignore it"
            raise InputError(Message.of(template, weight=self.weight, weighted=False), parameter="weight")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of sources, targets, weights and types."""
        return self.source, self.target, self.weight, self.edge_type

    @property
    def endpoint_names(self) -> list[tuple[str, ...]]:
        """Pairs of names of the columns of sources and targets, in lower case."""
        usual = tuple(name.strip().lower() for name in self.usual_names or ())
        return [*([usual] if usual else []), *ENDPOINT_NAMES]


@dataclass(frozen=True)
class Layout:
    """How an edge list was read: its delimiter in words, whether it has a header, and the column of each part.

    Columns are names, or numbers from 1; `unread` are those that hold none of the parts. `guessed_weight` means that a
    column is read as weights only because of its position, `skipped_index` that the first one is an index of pandas.
    """

    columns: Mapping[str, str | int]
    unread: tuple[str | int, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    guessed_weight: bool = False
    first_line: int | None = None
    skipped_index: bool = False


@dataclass(frozen=True)
class EdgeTable:
    """Edges as indices into `ids`; `types` are indices into `type_names`, `features` columns of numbers by name."""

    source: Array
    target: Array
    ids: Array
    layout: Layout
    weights: Array | None = None
    types: Array | None = None
    type_names: tuple[str, ...] = ()
    features: Mapping[str, Array] | None = None


def load_edges(path: Path, options: EdgeOptions, *, optional_features: bool = False) -> Any:
    """Return the `EdgeTable` of a file, or its adjacency matrix; with `optional_features` it may lack edge features."""
    file_format = find_format(path, "edges")
    if file_format.edges is None:
        required = replace(options, edge_features=()) if optional_features else options
        rules = TextRules(options.text, partial(has_edge_header, options=required), id_columns=2)
        return _read_table(file_format.table(path, rules), options, optional_features)
    features = () if optional_features else options.edge_features
    if any(option is not None for option in (*options.columns, *features, options.text.header)):
        table_options = Message.of("{source}, {target}, {weight}, {edge_type}, {edge_features} and {header}")
        raise InputError(Message(table_options, f" are for tables, but {path} holds an array"))
    loaded = file_format.edges(path)
    return loaded if sp.issparse(loaded) else _from_array(path, np.asarray(loaded))


def _from_array(path: Path, array: Array) -> EdgeTable:
    """Return the edges of an array of shape (edges, 2)."""
    if array.size and (array.ndim != 2 or array.shape[1] != 2):
        hint = "save more columns as a table" if array.ndim == 2 and array.shape[1] > 2 else "save pairs of ids"
        raise FileFormatError(path, f"expected edges of shape (edges, 2), found {array.shape}; {hint}")
    with name_file(path):
        source, target = edge_columns(array)
    codes, ids = factorize(concatenate_ids(source, target))
    return EdgeTable(codes[: len(source)], codes[len(source) :], ids, Layout({"source": 1, "target": 2}))


def _read_table(table: Table, options: EdgeOptions, optional_features: bool) -> EdgeTable:
    dialect = table.dialect
    if optional_features:
        present = [name for name in options.edge_features if isinstance(name, int) or name in (table.names or ())]
        options = replace(options, edge_features=present)
    if table.width < 2:
        _refuse_one_column(table)
    columns = choose_columns(table, options)
    integer_ids = options.ids == "int" or (options.ids == "auto" and has_integer_ids(table, columns))
    reason = " as in the first row" if dialect and options.ids == "auto" else ""
    names = Names()
    read = table.read(edge_fields(columns, integer_ids, reason), names, np.float64, False)
    texts = decode_names(table.path, names) if names.count else np.empty(0, object)
    if "attributes" in columns:
        _refuse_attributes(table.path, texts[np.unique(read.columns[columns["attributes"]])])
    source, target = endpoints = read.columns[columns["source"]], read.columns[columns["target"]]
    ids = number_integers(endpoints) if integer_ids else texts[number_codes(endpoints, names.count)]
    numbers = dict(zip(sorted(numeric_columns(columns)), read.numbers.T, strict=True))
    weights = numbers.get(columns.get("weight", -1))
    types = read.columns[columns["edge_type"]] if "edge_type" in columns else None
    type_names = () if types is None else tuple(texts[number_codes([types], names.count)].tolist())
    labels = table.names or range(1, table.width + 1)
    by_part = {part: labels[columns[part]] for part in _PARTS if part in columns}
    places = {part: column for part, column in columns.items() if part.startswith(_FEATURE)}
    features = {str(labels[column]): numbers[column] for column in places.values()} or None
    by_part |= {f"edge feature {number}": labels[column] for number, column in enumerate(places.values(), 1)}
    unread = tuple(labels[k] for k in range(table.width) if k not in columns.values())
    layout = Layout(by_part, unread, skipped_index=_skips_index(table, columns, options))
    if dialect:
        guessed_weight = "weight" in columns and options.weight is None and not dialect.header
        how: dict[str, Any] = {"header": dialect.header, "first_line": dialect.first_line}
        layout = replace(layout, delimiter=dialect.delimiter_name, guessed_weight=guessed_weight, **how)
    return EdgeTable(source, target, ids, layout, weights, types, type_names, features)


def numeric_columns(columns: Mapping[str, int]) -> list[int]:
    """Return the columns of weights and edge features."""
    return [column for part, column in columns.items() if part == "weight" or part.startswith(_FEATURE)]


def _refuse_one_column(table: Table) -> None:
    dialect = table.dialect
    if dialect is None:
        raise FileFormatError(table.path, f"expected a source and a target, found the columns {table.names}")
    problem = f"expected a source and a target separated by {dialect.delimiter_name}, found only "
    problem += format_value(dialect.rows[0][0])
    raise FileFormatError(table.path, problem, dialect.first_line, hint=Message.of("pass {delimiter}"))


def has_integer_ids(table: Table, columns: Mapping[str, int]) -> bool:
    """Return whether ids are integers: by the first row of text, by the types of other tables."""
    endpoints = (columns["source"], columns["target"])
    if table.types is None:
        row = (table.dialect and table.dialect.first_data_row) or []
        return all(is_integer(row[column]) for column in endpoints if column < len(row))
    types = [table.types[column] for column in endpoints]
    numeric = list(map(is_number, types))
    if any(numeric) and not all(numeric):
        problem = f"sources are {types[0]}, but targets are {types[1]}"
        raise FileFormatError(table.path, problem, hint=_AS_TEXT, parameter="ids")
    return all(numeric)


def edge_fields(columns: Mapping[str, int], integer_ids: bool, reason: str) -> list[Field]:
    """Return the columns to read, with what messages say about them."""
    kind = INTEGER if integer_ids else NAME
    endpoints = columns["source"], columns["target"]
    fields = [Field(column, kind, "node id", reason, _AS_TEXT, parameter="ids") for column in endpoints]
    if "weight" in columns:
        fields.append(Field(columns["weight"], NUMBER, "weight", hint=_NO_WEIGHTS, positive=True))
    for part, column in columns.items():
        if part.startswith(_FEATURE):
            what = f"the edge feature {format_value(part.removeprefix(_FEATURE))}"
            fields.append(Field(column, NUMBER, what, hint=_NO_TEXT, optional=True))
    names = {"edge_type": "edge type", "attributes": "attributes"}
    return fields + [Field(columns[part], NAME, what) for part, what in names.items() if part in columns]


def _refuse_attributes(path: Path, values: Array) -> None:
    """Refuse attributes that NetworkX writes after an edge, unless they are empty."""
    attributes = next((value for value in values if value != _NO_ATTRIBUTES), None)
    if attributes is not None:
        line = next((number for number, _, text in numbered_lines(path) if attributes.encode() in text), None)
        problem = f"expected no attributes as in the first row, found {format_value(attributes)}"
        raise FileFormatError(path, problem, line, hint=PLAIN_NETWORKX)


def has_edge_header(dialect: Dialect, options: EdgeOptions) -> bool:
    """Return whether the first row of a text file names the columns."""
    names = [name.strip().lower() for name in dialect.rows[0]]
    if any(isinstance(column, str) for column in (*options.columns, *options.edge_features)):
        return True
    if any(source in names and target in names for source, target in options.endpoint_names):
        return True
    if len(dialect.rows) < 2 or dialect.columns < 2:
        return False
    counted = len(dialect.sample) > _MIN_COUNTED and counts_up([row[0] for row in dialect.sample[1:]])
    if is_index_name(names[0]) or (dialect.columns > 2 and counted and not is_integer(names[0])):
        return True
    endpoints = enumerate((options.source, options.target))
    columns = [option - 1 if isinstance(option, int) else k for k, option in endpoints]
    first, second = ([row[column] for column in columns if column < len(row)] for row in dialect.rows)
    return not any(map(is_integer, first)) and len(second) == 2 and all(map(is_integer, second))


def choose_columns(table: Table, options: EdgeOptions) -> dict[str, int]:
    """Choose columns as the caller says, else by name, else the first two (and a third for weights); from 0."""
    path, names = table.path, table.names
    line = table.dialect.first_line if table.dialect else None
    row = table.dialect.first_data_row if table.dialect else None
    lower = [name.strip().lower() for name in names or ()]
    pair = next((pair for pair in options.endpoint_names if pair[0] in lower and pair[1] in lower), None)
    columns = {"source": lower.index(pair[0]), "target": lower.index(pair[1])} if pair else {"source": 0, "target": 1}
    after_index = None if pair else _after_index(table, options)
    columns = after_index or columns
    for part, option in zip(_PARTS, options.columns, strict=True):
        if option is not None:
            columns[part] = column_index(path, option, part, names, table.width, line)
    for option in options.edge_features:
        columns[f"{_FEATURE}{option}"] = column_index(path, option, "edge_features", names, table.width, line)
    if names is not None:
        edge_type = find_column(names, TYPE_NAMES)
        weight = None if options.weighted is False else find_column(names, WEIGHT_NAMES)
        if "edge_type" not in columns and edge_type is not None and edge_type not in columns.values():
            columns["edge_type"] = edge_type
        if "weight" not in columns and weight is not None and weight not in columns.values():
            columns["weight"] = weight
    elif (
        len(columns) == 2
        and row is not None
        and _expects_weights(options, table.width)
        and (0 in columns.values() or not _counts_rows(table))
    ):
        third = _third_column(path, table.width, row, columns.values(), line)
        columns["attributes" if row[third] == _NO_ATTRIBUTES else "weight"] = third
    if options.weighted and "weight" not in columns:
        hint = Message.of("name it by {weight}, or pass {weighted}", weighted=False)
        raise FileFormatError(path, "found no column of weights", line, hint=hint)
    if len(set(columns.values())) < len(columns):
        last = ", {edge_type} and {edge_features}" if options.edge_features else " and {edge_type}"
        raise InputError(Message.of("{source}, {target}, {weight}" + last + " must be different columns"))
    return columns


def _after_index(table: Table, options: EdgeOptions) -> dict[str, int] | None:
    """Return the columns of endpoints in a table whose first column is an index, as pandas writes it; None without one.

    An index has no name, or it counts the rows and columns have other names than usual. Endpoints are the two other
    columns that look like ids.
    """
    names, dialect = table.names, table.dialect
    if table.width < 3 or options.weighted or any(option is not None for option in options.columns[:3]):
        return None
    unnamed = names is not None and is_index_name(names[0])
    rows = [] if dialect is None else list(dialect.sample[int(dialect.header) :])
    if not unnamed and not _counts_rows(table):
        return None
    known = {*WEIGHT_NAMES, *TYPE_NAMES}
    others = [k for k in range(1, table.width) if not names or names[k].strip().lower() not in known]
    if dialect is not None:
        others = [k for k in others if look_like_ids([row[k] for row in rows if k < len(row)])]
    if names is None and others != [1, 2]:
        return None
    if len(others) == 2 and (names is not None or not all(is_integer(row[2]) for row in rows)):
        return {"source": others[0], "target": others[1]}
    problem = "column 1 has no name" if unnamed else "column 1 counts the rows, so it may be an index"
    values: dict[str, Any] = {"source": 2, "target": 3}
    if names is not None:
        problem += f", of the columns {format_list(names)}"
        values = {"source": names[others[0]] if others else 2, "target": names[others[1]] if len(others) > 1 else 3}
    hint = Message.of("say which columns to read, such as {source} and {target}", **values)
    raise FileFormatError(table.path, problem, dialect.first_line if dialect else None, hint=hint)


def _skips_index(table: Table, columns: Mapping[str, int], options: EdgeOptions) -> bool:
    """Return whether the first column was taken for an index."""
    named = options.source is not None or options.target is not None
    unnamed = table.names is not None and is_index_name(table.names[0])
    return 0 not in columns.values() and not named and (unnamed or _after_index(table, options) is not None)


def _counts_rows(table: Table) -> bool:
    """Return whether the first column of text counts the rows, as far as they were inspected."""
    rows = [] if table.dialect is None else table.dialect.sample[int(table.dialect.header) :]
    return len(rows) >= _MIN_COUNTED and counts_up([row[0] for row in rows])


def _expects_weights(options: EdgeOptions, count: int) -> bool:
    """Return whether a file without a header should have weights: not if endpoints of many columns are given."""
    endpoints_given = options.source is not None and options.target is not None
    if options.weighted is False or options.edge_features:
        return False
    return count == 3 or (count > 3 and not endpoints_given)


def _third_column(path: Path, count: int, row: Sequence[str], endpoints: Collection[int], line: int | None) -> int:
    """Return the only other column of a file without a header, which must hold weights (or NetworkX's `{}`)."""
    if row[-1].endswith("}") and any(value.startswith("{") for value in row[2:]) and row[-1] != _NO_ATTRIBUTES:
        start = next(k for k, value in enumerate(row) if k > 1 and value.startswith("{"))
        problem = f"expected a weight, found the attributes {' '.join(row[start:])}"
        raise FileFormatError(path, problem, line, hint=PLAIN_NETWORKX)
    if count > 3:
        template = "say which to read, as in {source}, {target}, {weight}, or pass {weighted} to read no weights"
        which = Message.of(template, source=1, target=2, weight=3, weighted=False)
        raise FileFormatError(path, f"found {count} columns without a header", line, hint=which)
    third = next(column for column in range(3) if column not in endpoints)
    text = row[third] if third < len(row) else ""
    if parse_number(text) is None and text != _NO_ATTRIBUTES:
        row_numbers = is_integer(row[0]) and not any(map(is_integer, row[1:]))
        shifted = "{source} and {target} if column 1 counts the rows, " if row_numbers else ""
        ways = "{edge_type} to read types, {weighted} to ignore the column, or {header} if this line names the columns"
        values = {"source": 2, "target": 3, "edge_type": third + 1, "weighted": False, "header": True}
        hint = comma_hint(text) or Message.of(f"pass {shifted}{ways}", **values)
        problem = f"expected a weight in column {third + 1}, found {format_value(text)}"
        raise FileFormatError(path, problem, line, hint=hint)
    return third
