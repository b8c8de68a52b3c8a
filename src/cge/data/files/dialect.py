"""How a text table is written: its delimiter, header and columns, inferred from the first rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from cge.data.files.blocks import numbered_lines
from cge.errors import FileFormatError, InputError, Message, Spelling, did_you_mean, format_value

BLANKS = " "  # runs of spaces and tabs
Column = str | int | None  # by name, or by number from 1; None means that it is inferred

_INSPECTED_ROWS = 20
_DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", BLANKS: "blanks"}
_BY_SUFFIX = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_INTEGER = re.compile(r"-?[0-9]+\Z")
_INTEGER_OR_QUOTE = re.compile(r'(-?[0-9]+|")\Z')  # a quoted field, of which only a quote is left, may be an integer
_EXCEL = re.compile(r'"?sep=([^"])"?\Z', re.IGNORECASE)  # a first line in which Excel names the delimiter
_CHARACTER = Message("one ASCII character", Spelling(" or None", ""))


@dataclass(frozen=True)
class TextOptions:
    """Options of the caller for a text table; None means that it is inferred."""

    header: bool | None = None
    delimiter: str | None = None
    comment: str | None = "#"

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("comment", self.comment)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in '"\n\r\0'):
                raise InputError(parameter=name, expected=_CHARACTER, found=value)


@dataclass(frozen=True)
class Dialect:
    """How a file is written, and where its rows start.

    `delimiter` is a space for runs of blanks; `comments` are at most two characters that start a line to skip. `rows`
    are the fields of up to two first rows, the header included, `sample` those of up to twenty. `first_line` and
    `first_bytes` are the line number of the first and its range of bytes. `width_source` says in words what determined
    the number of columns.
    """

    delimiter: str
    comments: str
    columns: int
    rows: Sequence[list[str]]
    first_line: int
    first_bytes: tuple[int, int]
    header: bool = False
    width_source: str = ""
    sample: Sequence[list[str]] = ()

    @property
    def delimiter_name(self) -> str:
        """The delimiter in words."""
        return _DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))

    @property
    def names(self) -> list[str] | None:
        """The header, if there is one."""
        return self.rows[0] if self.header else None

    @property
    def first_data_row(self) -> list[str] | None:
        """The first row after the header, if there is one."""
        return next(iter(self.rows[int(self.header) :]), None)


def inspect_text(path: Path, options: TextOptions, *, id_columns: int = 1, min_columns: int = 2) -> Dialect:
    """Infer the dialect of a text table from its first rows; whether there is a header is decided by the caller.

    The first `id_columns` fields of a row are ids; `min_columns` is 1 where a table of one column is usual.
    """
    lines: list[tuple[int, int, str, int]] = []
    empty, delimiter, comments = True, options.delimiter, options.comment or ""
    for number, start, raw in numbered_lines(path):
        empty = empty and not raw
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if number == 1:
            excel = _EXCEL.match(text)
            if excel and excel[1].isascii():
                delimiter = delimiter or excel[1]
                continue
            if text.startswith(("% ", "%%")) and comments == "#":  # as in KONECT's files
                comments = "#%"
        if text.strip(" \t\r") and not (comments and text.lstrip(" \t").startswith(tuple(comments))):
            lines.append((number, start, text, start + len(raw)))
            if len(lines) == _INSPECTED_ROWS:
                break
    if not lines:
        raise FileFormatError(path, "the file is empty" if empty else "the file has no rows, only blanks or comments")
    number, start, text, end = lines[0]
    if "\r" in text:
        raise FileFormatError(path, "lines end in bare carriage returns; save the file with ordinary line ends", number)
    if delimiter is None:
        delimiter = infer_delimiter(path, [line[2] for line in lines], number, id_columns, min_columns)
    sample = [split_line(line[2], delimiter) for line in lines]
    rows = sample[:2]
    header, width_source = bool(options.header), f"in line {number:,}"
    return Dialect(delimiter, comments, len(rows[0]), rows, number, (start, end), header, width_source, sample)


def infer_delimiter(path: Path, texts: Sequence[str], line: int, id_columns: int, min_columns: int) -> str:
    r"""Choose the delimiter of a table by its first rows; the first `id_columns` fields of a row are ids.

    A delimiter fits if it gives every row the same number of fields, two or more. A fitting tab is chosen. Of fitting
    semicolons, commas and blanks, those are excluded that leave another of them inside ids; of the others, one that
    makes all ids integers is preferred, then the order above. Bars are chosen where nothing else fits. If nothing fits,
    the delimiter that fits the most first rows is chosen, and reading the file raises the error.

    >>> infer_delimiter(Path("edges.csv"), ["1;2;1,5", "2;3;2,5"], 1, 2, 2)
    ';'
    """
    # A quoted field becomes a quote; a dictionary at the end, as NetworkX writes it, an empty one.
    unquoted = [re.sub(r'"[^"]*"', '"', re.sub(r"\{.*\}\s*\Z", "{}", text)) for text in texts]
    suffix = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "")
    by_suffix = _BY_SUFFIX.get(suffix, "")
    # A list of names in one column may contain blanks.
    candidates = "\t;,|" if by_suffix and min_columns == 1 else "\t;,|" + BLANKS
    rows = {candidate: [_split(text, candidate) for text in unquoted] for candidate in candidates}
    fitting = [mark for mark in candidates if len(rows[mark][0]) > 1 and _uniform_rows(rows[mark]) == len(unquoted)]
    if "\t" in fitting:
        return "\t"
    usual = [mark for mark in fitting if mark != "|"]
    if len(usual) < 2:
        splitting = [mark for mark in rows if len(rows[mark][0]) > 1]
        best = max(splitting, key=lambda mark: _uniform_rows(rows[mark]), default=by_suffix or BLANKS)
        return (usual or fitting or [best])[0]
    blanks_matter = id_columns > 1 and not by_suffix
    clean = [
        mark
        for mark in usual
        if not any(
            other in field
            for other in usual
            if other != mark and (other != BLANKS or blanks_matter)
            for row in rows[mark]
            for field in row[: max(id_columns, 2) if mark == BLANKS else id_columns]
        )
    ]
    if not clean:
        pair = " and ".join(_DELIMITER_NAMES[mark] for mark in usual[:2])
        quoting = "put fields that contain one of them in double quotes"
        hint = Message.of("pass {delimiter}") if id_columns > 1 else quoting
        raise FileFormatError(path, f"both {pair} could separate the columns", line, hint=hint)

    def has_integer_ids(mark: str) -> bool:
        data_rows = rows[mark][1:] or rows[mark]  # the first row may be a header
        return all(_INTEGER_OR_QUOTE.match(field) for row in data_rows for field in row[:id_columns])

    return next(filter(has_integer_ids, clean), clean[0])


def _split(text: str, delimiter: str) -> list[str]:
    if delimiter != BLANKS:
        return [field.strip() for field in text.split(delimiter)]
    fields = text.split()
    return fields if not {";", ",", "|"} & set(fields) else []


def _uniform_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows, from the first, have as many fields as the first."""
    return next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))


def split_line(text: str, delimiter: str) -> list[str]:
    r"""Split one line as the kernel does, without its checks.

    >>> split_line('1, "a ""b"" ",', ","), split_line(" 1\t 2 ", " ")
    (['1', 'a "b" ', ''], ['1', '2'])
    """
    if delimiter == BLANKS:
        fields = re.findall(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+', text)
    else:
        mark, blank = re.escape(delimiter), " " if delimiter == "\t" else " \t"
        fields = re.findall(rf'(?:^|{mark})[{blank}]*("(?:[^"]|"")*"(?=[{blank}]*(?:{mark}|$))|[^{mark}]*)', text)
    stripped = (value.strip(" " if delimiter == "\t" else " \t") for value in fields)
    return [
        value[1:-1].replace('""', '"') if len(value) > 1 and value[0] == value[-1] == '"' else value
        for value in stripped
    ]


def is_integer(text: str) -> bool:
    """Return whether text is an integer: digits, possibly after a minus sign."""
    return bool(_INTEGER.match(text))


def check_unique_names(path: Path, names: Sequence[str], line: int | None = None) -> None:
    """Refuse a header in which a name occurs twice."""
    duplicate = next((name for name in names if names.count(name) > 1 and name), None)
    if duplicate is not None:
        problem = f"the header has the name {format_value(duplicate)} twice; rename one of the columns"
        raise FileFormatError(path, problem, line)


def column_index(
    path: Path, option: str | int, what: str, names: Sequence[str] | None, count: int, line: int | None = None
) -> int:
    """Return the index, from 0, of a column that the caller gave by name or by number from 1."""
    if isinstance(option, str):
        if names is None or option not in names:
            columns = f"; {did_you_mean(option, names)}the columns are {', '.join(map(repr, names))}" if names else ""
            raise FileFormatError(path, f"there is no column {option!r} for {what}{columns}", line)
        return names.index(option)
    if isinstance(option, bool) or not isinstance(option, int) or option < 1:
        raise InputError(parameter=what, expected="the name of a column or its number, from 1", found=option)
    if option > count:
        raise FileFormatError(path, f"there is no column {option} for {what}, found {count} columns", line)
    return option - 1


def find_column(names: Sequence[str], choices: Collection[str]) -> int | None:
    """Return the index of the first name that is one of `choices` (in any case), or None."""
    return next((index for index, name in enumerate(names) if name.strip().lower() in choices), None)
