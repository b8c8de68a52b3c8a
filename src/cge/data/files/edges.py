"""Edge lists from files: which columns to read, the ids in them, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cge.checks import edge_columns, joined
from cge.data.files.blocks import BLOCK_BYTES, numbered_lines
from cge.data.files.dialect import (
    Dialect,
    TextOptions,
    as_number,
    column_place,
    decimal_comma,
    is_integer,
    known,
    look,
    unique_header,
)
from cge.data.files.interning import Names
from cge.data.files.numbering import number_codes, number_integers
from cge.data.files.parquet import parquet_schema, read_parquet_fields
from cge.data.files.text_fields import NAME, NUMBER, PLAIN_NETWORKX, Field, Fields, decoded, read_fields
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, InputError, Message, format_value
from cge.ids import factorize

__all__ = ["AS_TEXT", "EdgeOptions", "EdgeTable", "Layout", "edges_from_array", "read_parquet_edges", "read_text_edges"]

Array = npt.NDArray[Any]

_ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("u", "v"),
    ("node1", "node2"),
    ("head", "tail"),
    ("source_id", "target_id"),
    ("src_id", "dst_id"),
    ("fromnodeid", "tonodeid"),
)
_WEIGHTS = ("weight", "weights", "w")
_TYPES = ("type", "kind", "edge_type", "relation")
AS_TEXT = Message.of("pass {ids} to read all ids as text", ids="str")
_NO_WEIGHTS = Message.of("remove the edge, or pass {weighted} to ignore weights", weighted=False)
_NO_ATTRIBUTES = "{}"  # what NetworkX writes behind an edge that has none


@dataclass(frozen=True)
class EdgeOptions:
    """What a caller says about an edge list; None asks to look. Columns are names, or numbers from 1."""

    source: str | int | None = None
    target: str | int | None = None
    weight: str | int | None = None
    edge_type: str | int | None = None
    weighted: bool | None = None
    ids: str = "auto"
    text: TextOptions = field(default_factory=TextOptions)

    def __post_init__(self) -> None:
        if self.ids not in ("auto", "int", "str"):
            raise InputError(parameter="ids", expected="'auto', 'int' or 'str'", found=self.ids)
        if self.weight is not None and self.weighted is False:
            template = "{weight} names a column, but {weighted} asks to ignore it"
            raise InputError(Message.of(template, weight=self.weight, weighted=False), parameter="weight")

    @property
    def named(self) -> bool:
        """Whether a column is given by its name, so that there must be a header."""
        return any(isinstance(one, str) for one in (self.source, self.target, self.weight, self.edge_type))


@dataclass(frozen=True)
class Layout:
    """How an edge list was taken: what separates its columns, whether it has a header, and the column of each part.

    `columns` are names, or numbers from 1, and so are those that nobody reads. `guessed_weight` says that weights are
    taken for what they look like.
    """

    columns: Mapping[str, str | int]
    unread: tuple[str | int, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    guessed_weight: bool = False
    first_line: int | None = None


@dataclass(frozen=True)
class EdgeTable:
    """Edges as numbers into `ids`; `types` are numbers into `type_names`."""

    source: Array
    target: Array
    ids: Array
    weights: Array | None = None
    types: Array | None = None
    type_names: tuple[str, ...] = ()
    layout: Layout | None = None


@dataclass(frozen=True)
class _Places:
    source: int
    target: int
    weight: int | None
    edge_type: int | None
    attributes: int | None = None  # a column that NetworkX writes, which has to be empty

    def named(self, names: Sequence[str] | None) -> dict[str, str | int]:
        """Return the column of each part, by name where there are names."""
        parts = {"source": self.source, "target": self.target, "weight": self.weight, "edge_type": self.edge_type}
        return {part: names[k] if names else k + 1 for part, k in parts.items() if k is not None}

    def others(self, names: Sequence[str] | None, count: int) -> tuple[str | int, ...]:
        """Return the columns that hold none of the parts, by name where there are names."""
        read = (self.source, self.target, self.weight, self.edge_type, self.attributes)
        return tuple(names[k] if names else k + 1 for k in range(count) if k not in read)


def read_text_edges(path: Path, options: EdgeOptions, block_size: int = BLOCK_BYTES) -> EdgeTable:
    """Read an edge list from CSV, TSV or text separated by blanks, plain or gzip."""
    dialect = look(path, options.text, keys=2)
    dialect = replace(dialect, header=_has_header(dialect, options))
    line, row = dialect.first_line, dialect.data
    if dialect.columns < 2:
        pair = f"a source and a target separated by {dialect.separated}"
        found = format_value(dialect.rows[0][0])
        hint = Message.of("pass {delimiter}")
        raise FileFormatError(path, f"expected {pair}, found only {found}", line, hint=hint)
    if row is None:
        raise FileFormatError(path, "the file holds a header but no rows")
    if dialect.names:
        unique_header(path, dialect.names, line)
    places = _places(path, options, dialect.names, dialect.columns, row, line)
    ends = [row[place] for place in (places.source, places.target) if place < len(row)]
    whole = options.ids == "int" or (options.ids == "auto" and all(map(is_integer, ends)))
    names = Names()
    fields = _fields(places, whole, " as in the first row" if options.ids == "auto" else "")
    read = read_fields(path, dialect, fields, names, block_size=block_size)
    layout = Layout(
        places.named(dialect.names),
        places.others(dialect.names, dialect.columns),
        dialect.separated,
        dialect.header,
        places.weight is not None and options.weight is None and not dialect.header,
        line,
    )
    return replace(_table(path, places, read, names, whole), layout=layout)


def read_parquet_edges(path: Path, options: EdgeOptions) -> EdgeTable:
    """Read an edge list from a Parquet file."""
    schema = parquet_schema(path)
    unique_header(path, schema.names)
    if len(schema.names) < 2:
        raise FileFormatError(path, f"expected a source and a target, found the columns {schema.names}")
    places = _places(path, options, schema.names, len(schema.names), None, None)
    kinds = [schema.types[place] for place in (places.source, places.target)]
    numeric = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds]
    if options.ids == "auto" and any(numeric) and not all(numeric):
        raise FileFormatError(path, f"sources are {kinds[0]}, but targets are {kinds[1]}", hint=AS_TEXT)
    whole = options.ids == "int" or (options.ids == "auto" and all(numeric))
    names = Names()
    read = read_parquet_fields(path, _fields(places, whole, ""), names)
    layout = Layout(places.named(schema.names), places.others(schema.names, len(schema.names)))
    return replace(_table(path, places, read, names, whole), layout=layout)


def edges_from_array(path: Path, array: Array) -> EdgeTable:
    """Take edges from an array of shape (edges, 2)."""
    if array.size and (array.ndim != 2 or array.shape[1] != 2):
        hint = "save more columns as a table" if array.ndim == 2 and array.shape[1] > 2 else "save pairs of ids"
        raise FileFormatError(path, f"expected edges of shape (edges, 2), found {array.shape}; {hint}")
    try:
        source, target = edge_columns(array)
    except InputError as error:
        raise FileFormatError(path, error.message) from None
    codes, ids = factorize(joined(source, target))
    return EdgeTable(codes[: len(source)], codes[len(source) :], ids, layout=Layout({"source": 1, "target": 2}))


def _has_header(dialect: Dialect, options: EdgeOptions) -> bool:
    if options.text.header is not None:
        return options.text.header
    first = [name.lower() for name in dialect.rows[0]]
    if options.named or any(source in first and target in first for source, target in _ENDS):
        return True
    if len(dialect.rows) < 2 or dialect.columns < 2:
        return False
    places = [option - 1 if isinstance(option, int) else k for k, option in enumerate((options.source, options.target))]
    ends = [[row[place] for place in places if place < len(row)] for row in dialect.rows]
    return not any(map(is_integer, ends[0])) and len(ends[1]) == 2 and all(map(is_integer, ends[1]))


def _places(
    path: Path,
    options: EdgeOptions,
    names: Sequence[str] | None,
    count: int,
    row: Sequence[str] | None,
    line: int | None,
) -> _Places:
    """Decide which columns hold what: as the caller says, else by name, else the first two (and a third: weights)."""

    def given(option: str | int | None, what: str) -> int | None:
        return None if option is None else column_place(path, option, what, names, count, line)

    lower = [name.strip().lower() for name in names or ()]
    pair = next((ends for ends in _ENDS if ends[0] in lower and ends[1] in lower), None)
    usual = (lower.index(pair[0]), lower.index(pair[1])) if pair else (0, 1)
    source, target = given(options.source, "source"), given(options.target, "target")
    source, target = usual[0] if source is None else source, usual[1] if target is None else target
    weight, edge_type = given(options.weight, "weight"), given(options.edge_type, "edge_type")
    ends, attributes = (source, target), None
    if names is not None:
        if edge_type is None and known(names, _TYPES) not in (None, *ends, weight):
            edge_type = known(names, _TYPES)
        if weight is None and options.weighted is not False and known(names, _WEIGHTS) not in (None, *ends, edge_type):
            weight = known(names, _WEIGHTS)
    elif weight is None and edge_type is None and row is not None and _expects_weights(options, count):
        third = _third(path, count, row, ends, line)
        weight, attributes = (None, third) if row[third] == _NO_ATTRIBUTES else (third, None)
    if options.weighted and weight is None:
        hint = Message.of("name it by {weight}, or pass {weighted}", weighted=False)
        raise FileFormatError(path, "found no column of weights", line, hint=hint)
    chosen = [place for place in (*ends, weight, edge_type) if place is not None]
    if len(set(chosen)) < len(chosen):
        raise InputError(Message.of("{source}, {target}, {weight} and {edge_type} must be different columns"))
    return _Places(source, target, weight, edge_type, attributes)


def _expects_weights(options: EdgeOptions, count: int) -> bool:
    """Say whether a file without a header shall have weights; of many columns, none if its ends are told."""
    told = options.source is not None and options.target is not None
    return options.weighted is not False and (count == 3 or (count > 3 and not told))


def _third(path: Path, count: int, row: Sequence[str], ends: tuple[int, int], line: int | None) -> int:
    """Return the only other column of a file without a header, which must hold weights (or NetworkX's `{}`)."""
    if row[-1].endswith("}") and any(one.startswith("{") for one in row[2:]) and row[-1] != _NO_ATTRIBUTES:
        begin = next(k for k, one in enumerate(row) if k > 1 and one.startswith("{"))
        found = " ".join(row[begin:])
        raise FileFormatError(path, f"expected a weight, found the attributes {found}", line, hint=PLAIN_NETWORKX)
    if count > 3:
        raise FileFormatError(
            path,
            f"found {count} columns without a header",
            line,
            hint=Message.of(
                "say which to read, as in {source}, {target}, {weight}, or pass {weighted} to read no weights",
                source=1,
                target=2,
                weight=3,
                weighted=False,
            ),
        )
    third = next(place for place in range(3) if place not in ends)
    text = row[third] if third < len(row) else ""
    if as_number(text) is None and text != _NO_ATTRIBUTES:
        numbered = is_integer(row[0]) and not any(map(is_integer, row[1:]))
        shifted = "{source} and {target} if column 1 counts the rows, " if numbered else ""
        hint = decimal_comma(text) or Message.of(
            f"pass {shifted}{{edge_type}} to read types, {{weighted}} to ignore the column, or {{header}} if this line "
            "names the columns",
            source=2,
            target=3,
            edge_type=third + 1,
            weighted=False,
            header=True,
        )
        found = f"expected a weight in column {third + 1}, found {format_value(text)}"
        raise FileFormatError(path, found, line, hint=hint)
    return third


def _fields(places: _Places, whole: bool, why: str) -> list[Field]:
    kind = INTEGER if whole else NAME
    fields = [
        Field(places.source, kind, "node id", why, AS_TEXT),
        Field(places.target, kind, "node id", why, AS_TEXT),
    ]
    if places.weight is not None:
        fields.append(Field(places.weight, NUMBER, "weight", hint=_NO_WEIGHTS, positive=True))
    if places.edge_type is not None:
        fields.append(Field(places.edge_type, NAME, "edge type"))
    if places.attributes is not None:
        fields.append(Field(places.attributes, NAME, "attributes"))
    return fields


def _table(path: Path, places: _Places, read: Fields, names: Names, whole: bool) -> EdgeTable:
    named = (places.source, places.target, places.edge_type, places.attributes)
    order = sorted(place for place in named if place is not None)
    by_place = dict(zip(order, read.columns, strict=True))
    source, target = by_place[places.source], by_place[places.target]
    texts = decoded(path, names) if names.count else np.empty(0, object)
    if places.attributes is not None:
        _refuse_attributes(path, texts[np.unique(by_place[places.attributes])].tolist())
    ids = number_integers([source, target]) if whole else texts[number_codes([source, target], names.count)]
    weights = None if places.weight is None else read.numbers[:, 0]
    if places.edge_type is None:
        return EdgeTable(source, target, ids, weights)
    types = by_place[places.edge_type]
    return EdgeTable(source, target, ids, weights, types, tuple(texts[number_codes([types], names.count)].tolist()))


def _refuse_attributes(path: Path, found: Sequence[str]) -> None:
    """Refuse what NetworkX writes behind an edge, unless there is nothing in it."""
    other = next((one for one in found if one != _NO_ATTRIBUTES), None)
    if other is not None:
        line = next((number for number, _, text in numbered_lines(path) if other.encode() in text), None)
        problem = f"expected no attributes as in the first row, found {format_value(other)}"
        raise FileFormatError(path, problem, line, hint=PLAIN_NETWORKX)
