"""Which character parts the columns of a text table: the one that gives every looked-at row as many fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cge.errors import FileFormatError, Message

__all__ = ["BLANKS", "delimiter_of", "in_words"]

BLANKS = " "  # runs of spaces and tabs

_WORDS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", BLANKS: "blanks"}
_USUAL = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_INTEGER = re.compile(r'(-?[0-9]+|")\Z')  # a quoted field, hidden behind a quote, may be one


def in_words(delimiter: str) -> str:
    """Name a delimiter in the plural."""
    return _WORDS.get(delimiter, repr(delimiter))


def delimiter_of(path: Path, texts: Sequence[str], line: int, keys: int, least: int) -> str:
    r"""Choose the delimiter of a table by its first rows; the first `keys` fields of a row hold ids.

    A delimiter fits if it gives every row the same number of fields, two or more. Tabs go first. Of semicolons, commas
    and blanks, one is out if ids hold another that fits; then integers as ids speak for one, then this order. Bars are
    taken where nothing else fits. Where nothing fits, rows are unlike: the one that fits the longest is taken, and
    reading the file tells what is wrong.

    >>> delimiter_of(Path("edges.csv"), ["1;2;1,5", "2;3;2,5"], 1, 2, 2)
    ';'
    """
    bare = [_hidden(text) for text in texts]
    usual = _USUAL.get(next((one.lower() for one in reversed(path.suffixes) if one.lower() != ".gz"), ""), "")
    # A list of names in one column may hold blanks.
    candidates = "\t;,|" if usual and least == 1 else "\t;,|" + BLANKS
    rows = {one: [_cut(text, one) for text in bare] for one in candidates}
    fitting = [one for one in candidates if len(rows[one][0]) > 1 and _alike(rows[one]) == len(bare)]
    if "\t" in fitting:
        return "\t"
    parting = [one for one in fitting if one != "|"]
    if len(parting) < 2:
        return (parting or fitting or [_nearest(rows, usual)])[0]
    blanks_count = keys > 1 and not usual
    clean = [
        one
        for one in parting
        if not any(
            other in field
            for other in parting
            if other != one and (other != BLANKS or blanks_count)
            for row in rows[one]
            for field in row[: max(keys, 2) if one == BLANKS else keys]
        )
    ]
    if not clean:
        pair = " and ".join(in_words(one) for one in parting[:2])
        quoted = "put fields that hold one of them in double quotes"
        hint = Message.of("pass {delimiter}") if keys > 1 else quoted
        raise FileFormatError(path, f"both {pair} could separate the columns", line, hint=hint)
    return next((one for one in clean if _integers(rows[one], keys)), clean[0])


def _hidden(text: str) -> str:
    """Hide what is in quotes, and a dictionary at the end, as NetworkX writes it."""
    return re.sub(r'"[^"]*"', '"', re.sub(r"\{.*\}\s*\Z", "{}", text))


def _cut(text: str, delimiter: str) -> list[str]:
    if delimiter != BLANKS:
        return [field.strip() for field in text.split(delimiter)]
    fields = text.split()
    return fields if not {";", ",", "|"} & set(fields) else []


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows, from the first, have as many fields as the first."""
    return next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))


def _nearest(rows: dict[str, list[list[str]]], usual: str) -> str:
    several = [one for one in rows if len(rows[one][0]) > 1]
    return max(several, key=lambda one: _alike(rows[one]), default=usual or BLANKS)


def _integers(rows: Sequence[Sequence[str]], keys: int) -> bool:
    """Say whether ids are integers, in the first row aside: it may be a header."""
    return all(_INTEGER.match(field) for row in rows[1:] or rows for field in row[:keys])
