"""Text as other programs take it: cells that no spreadsheet computes, words without blanks, XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from cge.errors import InputError, format_value

__all__ = ["as_word", "as_xml", "checked_texts", "forbidden_in_xml", "guarded", "one_line"]

Array = npt.NDArray[Any]

_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_WORD = re.compile(r"[%\s\x00-\x1f\x7f-\x9f\ufeff]")
_LINES = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


def guarded(text: str) -> str:
    """Return a cell with an apostrophe before it where a spreadsheet would take it for a formula.

    One more goes before a cell that begins with apostrophes and a formula, so that no two cells become one: dropping
    one from every cell that begins with an apostrophe and matches gives back what was there. Numbers stay.

    >>> guarded("=1+1"), guarded("'=1+1"), guarded("it's"), guarded("-5")
    ("'=1+1", "''=1+1", "it's", '-5')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def as_word(text: str) -> str:
    """Return text without blanks and control characters; `urllib.parse.unquote` is the way back.

    >>> as_word("New York, 50%")
    'New%20York,%2050%25'
    """
    return _NO_WORD.sub(lambda found: quote(found[0], safe=""), text)


def one_line(text: str) -> str:
    r"""Return text for tables that know no quotes: tabs and ends of lines become blanks.

    >>> one_line("a\tb")
    'a b'
    """
    return _LINES.sub(" ", text)


def as_xml(text: str) -> str:
    """Return text as XML holds it, in elements and attributes; what XML cannot hold becomes U+FFFD.

    >>> as_xml('<a & "b">')
    '&lt;a &amp; &quot;b&quot;&gt;'
    """
    return _NO_XML.sub("\ufffd", text).translate(_XML)


def forbidden_in_xml(text: str) -> str | None:
    """Return the first character that XML cannot hold."""
    found = _NO_XML.search(text)
    return None if found is None else found[0]


def checked_texts(ids: Array) -> Sequence[str]:
    """Return node ids as text; they are integers or strings that UTF-8 can hold, no other ids can be written."""
    if ids.dtype.kind == "i":
        return [str(one) for one in ids.tolist()]
    texts: list[Any] = np.asarray(ids, object).tolist()
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"files hold node ids that are all integers or all strings, found {format_value(text)} at position {place:,}; "
                "give the nodes such ids, for example str(id)"
            )
        if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise InputError(
                f"the node id {format_value(text)} holds half of a surrogate pair, which no file can hold; rename the node"
            )
    return texts
