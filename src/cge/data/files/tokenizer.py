"""Lines of bytes to fields, the compiled part of `cge.data.files.text_fields`, and fields to numbers."""

from __future__ import annotations

import re

import numpy as np

from cge.arrays import Array
from cge.parallel import kernel

SKIP, INTEGER, TOKEN, OPTIONAL = range(4)  # a field: skip it, parse it, mark its start and length, which may be 0
RAGGED, EMPTY, NO_INTEGER, HUGE, OPEN_QUOTE, AFTER_QUOTE = range(1, 7)  # problems

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _MINUS, _ZERO = (ord(c) for c in '\t\n\r "-0')
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+\Z")


@kernel
def tokenize(
    text: Array, at: int, stop: int, line: int, marks: tuple[int, int, int], kinds: Array, outputs: tuple[Array, ...]
) -> tuple[int, int, int, int, int]:
    """Split the lines `text[at:stop]` (the last byte is a newline) into fields; `kinds` says what to do with each.

    `marks` are the delimiter, 0 for runs of blanks, and two bytes that start comments, −1 for none. `outputs` are
    integers, starts and lengths of tokens, and line numbers. A length below 0, −1 - length, marks a field with doubled
    quotes. Returns rows, line number, problem (0: none); for a problem also the start of its line and its column.
    """
    delimiter, comment, other = marks
    integers, starts, lengths, lines = outputs
    rows = 0
    tab = _SPACE if delimiter == _TAB else _TAB  # the other blank, if there is one
    while at < stop:
        line_start = at
        while text[at] == _SPACE or text[at] == tab:
            at += 1
        ended = text[at] == _NEWLINE or (text[at] == _RETURN and text[at + 1] == _NEWLINE)
        if ended or text[at] == comment or text[at] == other:
            while text[at] != _NEWLINE:
                at += 1
            at += 1
            line += 1
            continue
        integer = 0
        token = 0
        for column in range(len(kinds)):
            kind = kinds[column]
            quoted = text[at] == _QUOTE
            if quoted:
                at += 1
            first = at
            doubled = False
            if kind == INTEGER:
                negative = text[at] == _MINUS
                if negative:
                    at += 1
                digits = at
                value = 0
                while text[at] >= _ZERO and text[at] <= _ZERO + 9:
                    value = value * 10 + (int(text[at]) - _ZERO)
                    at += 1
                if at - digits > 18:
                    fits, value = _long_integer(text, digits, at, negative)
                    if not fits:
                        return rows, line, HUGE, line_start, column
                elif negative:
                    value = -value
                integers[rows, integer] = value
                integer += 1
                end = at
                if quoted:
                    if text[at] != _QUOTE:
                        return rows, line, NO_INTEGER, line_start, column
                    at += 1
            elif quoted:
                while True:
                    while text[at] != _QUOTE and text[at] != _NEWLINE:
                        at += 1
                    if text[at] == _NEWLINE:
                        return rows, line, OPEN_QUOTE, line_start, column
                    if text[at + 1] != _QUOTE:
                        break
                    doubled = True
                    at += 2
                end = at
                at += 1
            elif delimiter == 0:
                while text[at] != _SPACE and text[at] != _TAB and text[at] != _NEWLINE:
                    at += 1
                end = at
            else:
                while text[at] != delimiter and text[at] != _NEWLINE:
                    at += 1
                end = at
            after = at
            if kind != INTEGER and not quoted:
                if text[at] == _NEWLINE and end > first and text[end - 1] == _RETURN:
                    end -= 1
                while end > first and (text[end - 1] == _SPACE or text[end - 1] == tab):
                    end -= 1
            # Between this field and the next: blanks, then a delimiter or the end of the line.
            while text[at] == _SPACE or text[at] == tab:
                at += 1
            ended = text[at] == _NEWLINE or (text[at] == _RETURN and text[at + 1] == _NEWLINE)
            parted = text[at] == delimiter if delimiter != 0 else at > after
            if not ended and not parted:
                return rows, line, NO_INTEGER if kind == INTEGER else AFTER_QUOTE, line_start, column
            if kind == INTEGER:
                if end == digits:
                    return rows, line, EMPTY if end == first else NO_INTEGER, line_start, column
            elif kind != SKIP:
                if end == first and kind == TOKEN:
                    return rows, line, EMPTY, line_start, column
                starts[rows, token] = first
                lengths[rows, token] = first - end - 1 if doubled else end - first
                token += 1
            if ended != (column == len(kinds) - 1):
                return rows, line, RAGGED, line_start, column
            if not ended and delimiter != 0:
                at += 1
                while text[at] == _SPACE or text[at] == tab:
                    at += 1
        while text[at] != _NEWLINE:
            at += 1
        at += 1
        lines[rows] = line
        line += 1
        rows += 1
    return rows, line, 0, 0, 0


@kernel
def _long_integer(text: Array, start: int, end: int, negative: bool) -> tuple[bool, int]:
    """Parse digits that may exceed 64 bits."""
    while start < end - 1 and text[start] == _ZERO:
        start += 1
    if end - start > 19:
        return False, 0
    value = np.uint64(0)
    for k in range(start, end):
        value = value * np.uint64(10) + np.uint64(text[k] - _ZERO)
    if negative:
        return bool(value <= np.uint64(1 << 63)), int(np.int64(np.uint64(0) - value))
    return bool(value < np.uint64(1 << 63)), int(np.int64(value))


@kernel
def unescape(text: Array, starts: Array, lengths: Array) -> None:
    """Halve doubled quotes, in place, in the fields whose length is marked."""
    for row in range(lengths.shape[0]):
        for token in range(lengths.shape[1]):
            if lengths[row, token] < 0:
                start, length = starts[row, token], -1 - lengths[row, token]
                write = read = start
                while read < start + length:
                    text[write] = text[read]
                    read += 2 if text[read] == _QUOTE else 1
                    write += 1
                lengths[row, token] = write - start


@kernel
def pack(text: Array, starts: Array, offsets: Array, packed: Array) -> None:
    """Copy strings one after the other; string k goes to `packed[offsets[k] : offsets[k + 1]]`."""
    for k in range(len(starts)):
        for byte in range(offsets[k + 1] - offsets[k]):
            packed[offsets[k] + byte] = text[starts[k] + byte]


def parse_number(text: str) -> float | None:
    """Return the number that text represents, or None.

    >>> parse_number("+1e3"), parse_number("a"), parse_number("1_0")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def comma_hint(text: str) -> str | None:
    """Return the hint for a number with a decimal comma, or None where text is not such a number.

    >>> comma_hint("1,5"), comma_hint("a,b")
    ('write 1.5, with a point', None)
    """
    return f"write {text.replace(',', '.')}, with a point" if _DECIMAL_COMMA.match(text) else None
