"""How a text table is written: its delimiter, its header and its columns, looked up in the first rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cge.data.files.blocks import numbered_lines
from cge.data.files.delimiter import BLANKS, delimiter_of, in_words
from cge.errors import FileFormatError, InputError, format_value

__all__ = [
    "Dialect",
    "TextOptions",
    "as_number",
    "column_place",
    "decimal_comma",
    "is_integer",
    "known",
    "look",
    "split_line",
    "unique_header",
]

_LOOKED_AT = 20  # rows
_INTEGER = re.compile(r"-?[0-9]+\Z")
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+\Z")
_EXCEL = re.compile(r'"?sep=([^"])"?\Z', re.IGNORECASE)  # a first line by which Excel tells the delimiter


@dataclass(frozen=True)
class TextOptions:
    """What a caller says about a text table; None asks to look."""

    header: bool | None = None
    delimiter: str | None = None
    comment: str | None = "#"

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("comment", self.comment)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in '"\n\r\0'):
                raise InputError(parameter=name, expected="one ASCII character or None", found=value)


@dataclass(frozen=True)
class Dialect:
    """How a file is written, and where its rows begin.

    `delimiter` is a space for runs of blanks; one of `comments`, at most two, begins a line to skip. `start` is the
    byte and `line` the line at which reading begins: behind the header where there is one. `rows` are the fields of up
    to two first rows, the header included.
    """

    path: Path
    delimiter: str
    comments: str
    columns: int
    rows: Sequence[list[str]]
    numbers: Sequence[int]
    places: Sequence[tuple[int, int]] = field(repr=False)
    header: bool = False
    fixed: str = ""

    @property
    def delimiter_byte(self) -> int:
        """The delimiter for the kernel; 0 means runs of blanks."""
        return 0 if self.delimiter == BLANKS else ord(self.delimiter)

    @property
    def comment_bytes(self) -> tuple[int, int]:
        """The two bytes that begin a comment, for the kernel; −1 where there is none."""
        first, second = [*map(ord, self.comments), -1, -1][:2]
        return first, second

    @property
    def separated(self) -> str:
        """The delimiter in words."""
        return in_words(self.delimiter)

    @property
    def first_line(self) -> int:
        """Number of the first row, the header included."""
        return self.numbers[0]

    @property
    def fixed_by(self) -> str:
        """What fixed the number of columns, in words."""
        return self.fixed or f"in line {self.first_line:,}"

    @property
    def names(self) -> list[str] | None:
        """The header, if there is one."""
        return self.rows[0] if self.header else None

    @property
    def data(self) -> list[str] | None:
        """The first row behind the header, if there is one."""
        rows = self.rows[1:] if self.header else self.rows
        return rows[0] if rows else None

    @property
    def start(self) -> int:
        """Byte at which rows begin."""
        return self.places[0][1 if self.header else 0]

    @property
    def line(self) -> int:
        """Line at which rows begin."""
        return self.numbers[0] + (1 if self.header else 0)


def look(path: Path, options: TextOptions, *, keys: int = 1, least: int = 2) -> Dialect:
    """Look at the first rows of a text table; the header is decided later by what is read.

    The first `keys` fields of a row hold ids; `least` is 1 where a table of one column is usual.
    """
    lines: list[tuple[int, int, str, int]] = []
    empty, delimiter, comments = True, options.delimiter, options.comment or ""
    for number, place, raw in numbered_lines(path):
        empty = empty and not raw
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if number == 1:
            told = _EXCEL.match(text)
            if told and told[1].isascii():
                delimiter = delimiter or told[1]
                continue
            if text.startswith(("% ", "%%")) and comments == "#":  # as in KONECT's files
                comments = "#%"
        if text.strip(" \t\r") and not (comments and text.lstrip(" \t").startswith(tuple(comments))):
            lines.append((number, place, text, place + len(raw)))
            if len(lines) == _LOOKED_AT:
                break
    if not lines:
        raise FileFormatError(path, "the file is empty" if empty else "the file holds no rows, only blanks or comments")
    number, _, text, _ = lines[0]
    if "\r" in text:
        raise FileFormatError(path, "lines end in bare carriage returns; save the file with ordinary line ends", number)
    if delimiter is None:
        delimiter = delimiter_of(path, [line[2] for line in lines], number, keys, least)
    rows = [split_line(line[2], delimiter) for line in lines[:2]]
    return Dialect(
        path,
        delimiter,
        comments,
        len(rows[0]),
        rows,
        [line[0] for line in lines[:2]],
        [(line[1], line[3]) for line in lines[:2]],
        bool(options.header),
    )


def split_line(text: str, delimiter: str) -> list[str]:
    r"""Split one line as the kernel does, without its checks.

    >>> split_line('1, "a ""b"" ",', ","), split_line(" 1\t 2 ", " ")
    (['1', 'a "b" ', ''], ['1', '2'])
    """
    if delimiter == BLANKS:
        found = re.findall(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+', text)
    else:
        mark, blank = re.escape(delimiter), " " if delimiter == "\t" else " \t"
        found = re.findall(rf'(?:^|{mark})[{blank}]*("(?:[^"]|"")*"(?=[{blank}]*(?:{mark}|$))|[^{mark}]*)', text)
    bare = (one.strip(" " if delimiter == "\t" else " \t") for one in found)
    return [one[1:-1].replace('""', '"') if len(one) > 1 and one[0] == one[-1] == '"' else one for one in bare]


def is_integer(text: str) -> bool:
    """Say whether text is an integer: digits, maybe after a minus sign."""
    return bool(_INTEGER.match(text))


def as_number(text: str) -> float | None:
    """Return the number that text stands for, or None.

    >>> as_number("+1e3"), as_number("a"), as_number("1_0")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def decimal_comma(text: str) -> str | None:
    """Return what to do about a number with a comma for its point, or None where text is none.

    >>> decimal_comma("1,5"), decimal_comma("a,b")
    ('write 1.5, with a point', None)
    """
    return f"write {text.replace(',', '.')}, with a point" if _DECIMAL_COMMA.match(text) else None


def unique_header(path: Path, names: Sequence[str], line: int | None = None) -> None:
    """Refuse a header in which a name stands twice."""
    twice = next((name for name in names if names.count(name) > 1 and name), None)
    if twice is not None:
        raise FileFormatError(path, f"the header names {format_value(twice)} twice; rename one of the columns", line)


def column_place(
    path: Path, option: str | int, what: str, names: Sequence[str] | None, count: int, line: int | None = None
) -> int:
    """Return the place, from 0, of a column that the caller gave by name or by number from 1."""
    if isinstance(option, str):
        if names is None or option not in names:
            there = f"; the columns are {', '.join(map(repr, names))}" if names else ""
            raise FileFormatError(path, f"there is no column {option!r} for {what}{there}", line)
        return names.index(option)
    if isinstance(option, bool) or not isinstance(option, int) or option < 1:
        raise InputError(parameter=what, expected="the name of a column or its number, from 1", found=option)
    if option > count:
        raise FileFormatError(path, f"there is no column {option} for {what}, found {count} columns", line)
    return option - 1


def known(names: Sequence[str], choices: Collection[str]) -> int | None:
    """Return the place of the first name that is one of `choices` (case aside), or None."""
    return next((place for place, name in enumerate(names) if name.strip().lower() in choices), None)
