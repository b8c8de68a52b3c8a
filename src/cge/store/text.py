"""Text for other programs: cells that no spreadsheet evaluates, words without whitespace, XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, format_value

_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_WORD = re.compile(r"[%\s\x00-\x1f\x7f-\x9f\ufeff]")
_LINES = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


def escape_formula(text: str) -> str:
    """Return a cell with a leading apostrophe where a spreadsheet would evaluate it as a formula.

    A cell that starts with apostrophes and a formula gets one more, so that removing one apostrophe from every escaped
    cell restores the text. Numbers stay as they are.

    >>> escape_formula("=1+1"), escape_formula("'=1+1"), escape_formula("it's"), escape_formula("-5")
    ("'=1+1", "''=1+1", "it's", '-5')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def as_word(text: str) -> str:
    """Return text without whitespace and control characters; `urllib.parse.unquote` reverses it.

    >>> as_word("New York, 50%")
    'New%20York,%2050%25'
    """
    return _NO_WORD.sub(lambda match: quote(match[0], safe=""), text)


def one_line(text: str) -> str:
    r"""Return text for tables without quotes: tabs and line breaks become spaces.

    >>> one_line("a\tb")
    'a b'
    """
    return _LINES.sub(" ", text)


def as_xml(text: str) -> str:
    """Return text escaped for XML elements and attributes; characters that XML does not allow become U+FFFD.

    >>> as_xml('<a & "b">')
    '&lt;a &amp; &quot;b&quot;&gt;'
    """
    return _NO_XML.sub("\ufffd", text).translate(_XML)


def forbidden_in_xml(text: str) -> str | None:
    """Return the first character that XML does not allow."""
    match = _NO_XML.search(text)
    return None if match is None else match[0]


def checked_texts(ids: Array) -> Sequence[str]:
    """Return node ids as text; they must be integers, or strings that UTF-8 can encode."""
    if ids.dtype.kind == "i":
        return [str(number) for number in ids.tolist()]
    texts: list[Any] = np.asarray(ids, object).tolist()
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                "a file can contain node ids that are all integers or all strings, "
                f"found {format_value(text)} at position {place:,}",
                hint="give the nodes such ids, for example str(id)",
            )
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(
                f"the node id {format_value(text)} contains half of a surrogate pair, which UTF-8 cannot encode",
                hint="rename the node",
            )
    return texts
