"""Messages of the library name options in backquotes, as Python takes them; here they become flags of the shell."""

from __future__ import annotations

import re
import shlex

__all__ = ["OPTIONS", "as_flags"]

# What a message may name; `cge check` has a flag for each.
OPTIONS = frozenset(
    {
        "comment",
        "delimiter",
        "directed",
        "edge_type",
        "header",
        "ids",
        "label",
        "multilabel",
        "node",
        "self_loops",
        "source",
        "target",
        "weight",
        "weighted",
    }
)
_MARKED = re.compile(r"`(\w+)=([^`]*)`")


def as_flags(message: str) -> str:
    """Turn every marked option of a message into its flag.

    >>> as_flags('pass `ids="str"`, `weighted=False` or `delimiter=`')
    'pass --ids str, --unweighted or --delimiter'
    """
    return _MARKED.sub(lambda found: _flag(found[1], found[2]) if found[1] in OPTIONS else found[0], message)


def _flag(name: str, value: str) -> str:
    flag = "--" + name.replace("_", "-")
    if value in ("", "True"):
        return flag
    if value == "False":
        return "--unweighted" if name == "weighted" else flag.replace("--", "--no-", 1)
    return f"{flag} {shlex.quote(value.strip(chr(34) + chr(39)))}"
