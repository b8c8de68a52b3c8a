"""Everything `cge` raises on purpose.

    CgeError                      any of the below; the command line turns it into one sentence and exit code 2
    ├── InputError (ValueError)   an argument, an array or a table holds something it must not
    │   ├── FileFormatError       a file cannot be read; carries `path`, `line` and says what was found and expected
    │   ├── CheckpointError       a checkpoint belongs to another fit
    │   └── UnknownNodeError      ids that are not in the graph; carries the first offenders and their number
    └── MissingDataError          a data set or an optional program is not on this machine; says how to get it

    CgeWarning (UserWarning)      the work is done, but not as you may think

A message is one sentence that names the value found and the way out.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "CgeError",
    "CgeWarning",
    "CheckpointError",
    "FileFormatError",
    "InputError",
    "MissingDataError",
    "UnknownNodeError",
    "format_list",
    "format_value",
]

_SHOWN_CHARACTERS = 60
_LISTED = 10


def format_value(value: object) -> str:
    """Return `repr(value)`, cut to a length that fits in a sentence.

    >>> format_value("abc")
    "'abc'"
    """
    text = repr(value)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def format_list(values: Sequence[object]) -> str:
    """Return values as a sentence names them, the first ten and how many more there are.

    >>> format_list(["a", "b"]), format_list(range(12))[-15:]
    ("'a', 'b'", '8, 9 and 2 more')
    """
    first = ", ".join(map(format_value, values[:_LISTED]))
    return f"{first} and {len(values) - _LISTED:,} more" if len(values) > _LISTED else first


def disk_hint(error: OSError) -> str:
    """Return what to do about something that cannot be written, as far as the disk is to blame.

    >>> disk_hint(OSError(errno.ENOSPC, "No space left on device")), disk_hint(OSError(errno.EACCES, "no"))
    ('free the disk or choose another', 'choose another')
    """
    return "free the disk or choose another" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose another"


class CgeError(Exception):
    """Base of every error raised on purpose."""


class InputError(CgeError, ValueError):
    """An argument, an array or a table holds something it must not."""


class FileFormatError(InputError):
    """A file cannot be read as what it should be.

    >>> str(FileFormatError("a.csv", "expected 2 columns, found 3", line=7))
    'a.csv, line 7: expected 2 columns, found 3'
    """

    def __init__(self, path: str | Path, problem: str, line: int | None = None) -> None:
        self.path, self.problem, self.line = Path(path), problem, line
        place = f"{path}, line {line:,}" if line is not None else f"{path}"
        super().__init__(f"{place}: {problem}")


class CheckpointError(InputError):
    """A checkpoint belongs to another fit: other settings, graph or labels."""


class UnknownNodeError(InputError):
    """Ids that are not nodes of the graph.

    >>> str(UnknownNodeError("labels", ["x", "y"], count=12))
    "12 nodes in labels are not in the graph, the first: 'x', 'y'"
    """

    def __init__(self, where: str, offenders: Sequence[object], count: int | None = None, hint: str = "") -> None:
        self.offenders, self.count = list(offenders), len(offenders) if count is None else count
        nodes = "node" if self.count == 1 else "nodes"
        verb = "is" if self.count == 1 else "are"
        format_list = ", ".join(format_value(one) for one in self.offenders[:5])
        first = ": " if self.count == 1 else ", the first: "
        super().__init__(
            f"{self.count:,} {nodes} in {where} {verb} not in the graph{first}{format_list}{hint and '; ' + hint}"
        )


class MissingDataError(CgeError):
    """A data set or an optional program is not on this machine."""


class CgeWarning(UserWarning):
    """The work is done, but something about it should be known."""
