"""Messages of the library name options and settings as Python takes them; here they become flags of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

__all__ = ["OPTIONS", "as_flags", "flag_of", "settings_as_flags"]

# What a message may name in backquotes; `cge check` and `cge fit` have a flag for each.
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
_SUBJECT = re.compile(rf"^({'|'.join(sorted(OPTIONS))})(?= must be )")
_FLAGS = {"random_state": "--seed", "y": "--labels"}  # all others are called as in Python


def flag_of(name: str) -> str:
    """Return the flag of an argument.

    >>> flag_of("learning_rate"), flag_of("random_state")
    ('--learning-rate', '--seed')
    """
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def as_flags(message: str) -> str:
    """Turn every marked option of a message into its flag.

    >>> as_flags('pass `ids="str"`, `weighted=False` or `delimiter=`')
    'pass --ids str, --unweighted or --delimiter'
    >>> as_flags("delimiter must be one sign")
    '--delimiter must be one sign'
    """
    message = _SUBJECT.sub(lambda found: flag_of(found[1]), message)
    return _MARKED.sub(lambda found: _given(found[1], found[2]) if found[1] in OPTIONS else found[0], message)


def settings_as_flags(message: str, names: Collection[str]) -> str:
    """Turn arguments of estimators, which messages do not mark, into flags; `names` are those there are.

    A name counts where it has a value, where it is no word of English, and as the subject of the sentence.

    >>> settings_as_flags("dim must be a number; use outer='paper' or a lower head_lr", ["dim", "outer", "head_lr"])
    '--dim must be a number; use --outer paper or a lower --head-lr'
    """
    names = [*names, "y", "validation"]
    any_of, odd = "|".join(names), "|".join(name for name in names if "_" in name)
    message = re.sub(
        rf"(?<![\w-])({any_of})=('[^']*'|\"[^\"]*\"|[\w.+-]*\w)?",
        lambda found: _given(found[1], found[2] or ""),
        message,
    )
    message = re.sub(rf"^({any_of})(?= (must|holds?)\b)", lambda found: flag_of(found[1]), message)
    return re.sub(rf"(?<![\w-])({odd})(?!\w)", lambda found: flag_of(found[1]), message) if odd else message


def _given(name: str, value: str) -> str:
    flag = flag_of(name)
    if value in ("", "True"):
        return flag
    if value == "False":
        return "--unweighted" if name == "weighted" else flag.replace("--", "--no-", 1)
    return f"{flag} {shlex.quote(value.strip(chr(34) + chr(39)))}"
