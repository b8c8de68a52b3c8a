"""Which columns of an edge list hold sources, targets, weights and types: by options, by name, or by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cge.data.files.dialect import Dialect, TextOptions, column_index, comma_hint, find_column, is_integer, parse_number
from cge.data.files.table import Table
from cge.data.files.text_fields import PLAIN_NETWORKX
from cge.errors import FileFormatError, InputError, Message, format_value

_ENDPOINT_NAMES = (
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"), ("head", "tail")),
    *(("source_id", "target_id"), ("src_id", "dst_id"), ("fromnodeid", "tonodeid")),
)
_WEIGHT_NAMES = ("weight", "weights", "w")
_TYPE_NAMES = ("type", "kind", "edge_type", "relation")
NO_ATTRIBUTES = "{}"  # what NetworkX writes after an edge that has no attributes


@dataclass(frozen=True)
class EdgeOptions:
    """Options of the caller for an edge list; None means that it is inferred. Columns are names, or numbers from 1."""

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
    def columns(self) -> tuple[str | int | None, ...]:
        """The columns of sources, targets, weights and types."""
        return self.source, self.target, self.weight, self.edge_type


@dataclass(frozen=True)
class EdgeColumns:
    """Indices, from 0, of the columns of an edge list; `attributes` is one that NetworkX writes and that is empty."""

    source: int
    target: int
    weight: int | None
    edge_type: int | None
    attributes: int | None = None

    def by_part(self, names: Sequence[str] | None) -> dict[str, str | int]:
        """Return the column of each part: its name, or its number from 1 where there are no names."""
        parts = {"source": self.source, "target": self.target, "weight": self.weight, "edge_type": self.edge_type}
        return {part: names[k] if names else k + 1 for part, k in parts.items() if k is not None}

    def unread(self, names: Sequence[str] | None, count: int) -> tuple[str | int, ...]:
        """Return the columns that hold none of the parts, in the same form."""
        read = (self.source, self.target, self.weight, self.edge_type, self.attributes)
        return tuple(names[k] if names else k + 1 for k in range(count) if k not in read)


def has_edge_header(dialect: Dialect, options: EdgeOptions) -> bool:
    """Return whether the first row of a text file names the columns."""
    names = [name.lower() for name in dialect.rows[0]]
    if any(isinstance(column, str) for column in options.columns):
        return True
    if any(source in names and target in names for source, target in _ENDPOINT_NAMES):
        return True
    if len(dialect.rows) < 2 or dialect.columns < 2:
        return False
    given = enumerate((options.source, options.target))
    columns = [option - 1 if isinstance(option, int) else k for k, option in given]
    first, second = ([row[column] for column in columns if column < len(row)] for row in dialect.rows)
    return not any(map(is_integer, first)) and len(second) == 2 and all(map(is_integer, second))


def choose_edge_columns(table: Table, options: EdgeOptions) -> EdgeColumns:
    """Choose columns as the caller says, else by name, else the first two (and a third for weights)."""
    path, names = table.path, table.names
    line = table.dialect.first_line if table.dialect else None
    row = table.dialect.first_data_row if table.dialect else None

    def by_option(option: str | int | None, what: str) -> int | None:
        return None if option is None else column_index(path, option, what, names, table.width, line)

    lower = [name.strip().lower() for name in names or ()]
    pair = next((pair for pair in _ENDPOINT_NAMES if pair[0] in lower and pair[1] in lower), None)
    default = (lower.index(pair[0]), lower.index(pair[1])) if pair else (0, 1)
    source, target = by_option(options.source, "source"), by_option(options.target, "target")
    source, target = default[0] if source is None else source, default[1] if target is None else target
    weight, edge_type = by_option(options.weight, "weight"), by_option(options.edge_type, "edge_type")
    attributes = None
    if names is not None:
        if edge_type is None and find_column(names, _TYPE_NAMES) not in (None, source, target, weight):
            edge_type = find_column(names, _TYPE_NAMES)
        named_weight = find_column(names, _WEIGHT_NAMES)
        if weight is None and options.weighted is not False and named_weight not in (source, target, edge_type):
            weight = named_weight
    elif weight is None and edge_type is None and row is not None and _expects_weights(options, table.width):
        third = _third_column(path, table.width, row, (source, target), line)
        weight, attributes = (None, third) if row[third] == NO_ATTRIBUTES else (third, None)
    if options.weighted and weight is None:
        hint = Message.of("name it by {weight}, or pass {weighted}", weighted=False)
        raise FileFormatError(path, "found no column of weights", line, hint=hint)
    chosen = [column for column in (source, target, weight, edge_type) if column is not None]
    if len(set(chosen)) < len(chosen):
        raise InputError(Message.of("{source}, {target}, {weight} and {edge_type} must be different columns"))
    return EdgeColumns(source, target, weight, edge_type, attributes)


def _expects_weights(options: EdgeOptions, count: int) -> bool:
    """Return whether a file without a header should have weights: not if endpoints of many columns are given."""
    endpoints_given = options.source is not None and options.target is not None
    return options.weighted is not False and (count == 3 or (count > 3 and not endpoints_given))


def _third_column(path: Path, count: int, row: Sequence[str], endpoints: tuple[int, int], line: int | None) -> int:
    """Return the only other column of a file without a header, which must hold weights (or NetworkX's `{}`)."""
    if row[-1].endswith("}") and any(value.startswith("{") for value in row[2:]) and row[-1] != NO_ATTRIBUTES:
        start = next(k for k, value in enumerate(row) if k > 1 and value.startswith("{"))
        problem = f"expected a weight, found the attributes {' '.join(row[start:])}"
        raise FileFormatError(path, problem, line, hint=PLAIN_NETWORKX)
    if count > 3:
        template = "say which to read, as in {source}, {target}, {weight}, or pass {weighted} to read no weights"
        which = Message.of(template, source=1, target=2, weight=3, weighted=False)
        raise FileFormatError(path, f"found {count} columns without a header", line, hint=which)
    third = next(column for column in range(3) if column not in endpoints)
    text = row[third] if third < len(row) else ""
    if parse_number(text) is None and text != NO_ATTRIBUTES:
        row_numbers = is_integer(row[0]) and not any(map(is_integer, row[1:]))
        shifted = "{source} and {target} if column 1 counts the rows, " if row_numbers else ""
        ways = "{edge_type} to read types, {weighted} to ignore the column, or {header} if this line names the columns"
        values = {"source": 2, "target": 3, "edge_type": third + 1, "weighted": False, "header": True}
        hint = comma_hint(text) or Message.of(f"pass {shifted}{ways}", **values)
        problem = f"expected a weight in column {third + 1}, found {format_value(text)}"
        raise FileFormatError(path, problem, line, hint=hint)
    return third
