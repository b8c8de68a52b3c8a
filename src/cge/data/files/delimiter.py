"""Which character separates the columns of a text table: the one that gives every inspected row as many fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cge.errors import FileFormatError, Message

BLANKS = " "  # runs of spaces and tabs

_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", BLANKS: "blanks"}
_BY_SUFFIX = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_INTEGER = re.compile(r'(-?[0-9]+|")\Z')  # a quoted field, of which only a quote is left, may be an integer


def delimiter_name(delimiter: str) -> str:
    """Return the name of a delimiter, in the plural."""
    return _NAMES.get(delimiter, repr(delimiter))


def infer_delimiter(path: Path, texts: Sequence[str], line: int, id_columns: int, min_columns: int) -> str:
    r"""Choose the delimiter of a table by its first rows; the first `id_columns` fields of a row are ids.

    A delimiter fits if it gives every row the same number of fields, two or more. A fitting tab is chosen. Of fitting
    semicolons, commas and blanks, those are excluded that leave another of them inside ids; of the others, one that
    makes all ids integers is preferred, then the order above. Bars are chosen where nothing else fits. If nothing fits,
    the delimiter that fits the most first rows is chosen, and reading the file raises the error.

    >>> infer_delimiter(Path("edges.csv"), ["1;2;1,5", "2;3;2,5"], 1, 2, 2)
    ';'
    """
    unquoted = [_without_quoted(text) for text in texts]
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
        return (usual or fitting or [_best_fit(rows, by_suffix)])[0]
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
        pair = " and ".join(delimiter_name(mark) for mark in usual[:2])
        quoting = "put fields that contain one of them in double quotes"
        hint = Message.of("pass {delimiter}") if id_columns > 1 else quoting
        raise FileFormatError(path, f"both {pair} could separate the columns", line, hint=hint)
    return next((mark for mark in clean if _integer_ids(rows[mark], id_columns)), clean[0])


def _without_quoted(text: str) -> str:
    """Replace quoted fields by a quote, and a dictionary at the end, as NetworkX writes it, by an empty one."""
    return re.sub(r'"[^"]*"', '"', re.sub(r"\{.*\}\s*\Z", "{}", text))


def _split(text: str, delimiter: str) -> list[str]:
    if delimiter != BLANKS:
        return [field.strip() for field in text.split(delimiter)]
    fields = text.split()
    return fields if not {";", ",", "|"} & set(fields) else []


def _uniform_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows, from the first, have as many fields as the first."""
    return next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))


def _best_fit(rows: dict[str, list[list[str]]], by_suffix: str) -> str:
    splitting = [mark for mark in rows if len(rows[mark][0]) > 1]
    return max(splitting, key=lambda mark: _uniform_rows(rows[mark]), default=by_suffix or BLANKS)


def _integer_ids(rows: Sequence[Sequence[str]], id_columns: int) -> bool:
    """Return whether ids are integers; the first row may be a header and is not considered."""
    return all(_INTEGER.match(field) for row in rows[1:] or rows for field in row[:id_columns])
