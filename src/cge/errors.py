"""Everything `cge` raises on purpose, and how its messages name parameters.

    CgeError                      any of the below; the command line prints it as one sentence and exits with code 2
    ├── InputError (ValueError)   an argument, an array or a table has a value that is not allowed
    │   ├── FileFormatError       a file cannot be read; has `path` and `line`
    │   ├── CheckpointError       a checkpoint belongs to another fit
    │   └── UnknownNodeError      ids that are not in the graph; has the first of them and their number
    ├── NotFittedError            `fit` was not called (in `cge.estimators.estimator`; also scikit-learn's class)
    └── MissingDataError          a data set or an optional package is not installed; the hint says how to get it

    CgeWarning (UserWarning)      the work is done, but the result may differ from what was intended

Each error has the fields `parameter`, `found`, `expected` and `hint` (None where they do not apply). Messages mention
parameters as `Param`, so that Python and the command line can each use their own spelling.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from string import Formatter
from typing import Any

_MAX_CHARACTERS = 60
_MAX_ITEMS = 10


def format_value(value: object) -> str:
    """Return `repr(value)`, cut to a length that fits in a sentence."""
    text = repr(value)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}… ({len(text):,} characters)"


def format_text(value: object) -> str:
    """Return text as it is, or cut as by `format_value` where it is long.

    >>> format_text("ann"), format_text("a" * 99)[-16:]
    ('ann', '(101 characters)')
    """
    text = str(value)
    return text if len(text) <= _MAX_CHARACTERS else format_value(text)


def format_list(values: Sequence[object]) -> str:
    """Return the first ten values separated by commas, and how many more there are.

    >>> format_list(["a", "b"]), format_list(range(12))[-15:]
    ("'a', 'b'", '8, 9 and 2 more')
    """
    first = ", ".join(map(format_value, values[:_MAX_ITEMS]))
    return f"{first} and {len(values) - _MAX_ITEMS:,} more" if len(values) > _MAX_ITEMS else first


def did_you_mean(word: object, choices: Iterable[object]) -> str:
    """Return the question after a word that is unknown, where one of the choices is similar; otherwise nothing.

    >>> did_you_mean("corra", ["cora", "nell"]), did_you_mean("x", ["cora"])
    ("did you mean 'cora'? ", '')
    """
    closest = get_close_matches(str(word), [str(choice) for choice in choices], 3, 0.65)
    closest.sort(key=lambda choice: choice[:1] != str(word)[:1])  # of several, one that starts alike
    return f"did you mean {format_value(closest[0])}? " if closest else ""


def counted(count: int, noun: str) -> str:
    """Return a number and a noun, in the plural where it is needed."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


MAKE_GRAPH = "build a graph with Graph.from_edges or Graph.from_scipy"


def qualified_type(value: object) -> str:
    """Return the type of a value with its package.

    >>> qualified_type([]), qualified_type(Path("a"))[:10]
    ('a list', 'a pathlib.')
    """
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return f"a {kind.__name__}" if package in ("builtins", "__main__") else f"a {package}.{kind.__name__}"


def disk_hint(error: OSError) -> str:
    """Return the hint for a file that cannot be written."""
    return "free the disk or choose another" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose another"


@dataclass(frozen=True)
class Param:
    """A parameter mentioned in a message, with or without a value; `str` gives its spelling in Python."""

    name: str
    value: object = ...

    @property
    def has_value(self) -> bool:
        """Whether the message mentions a value."""
        return self.value is not ...

    def __str__(self) -> str:
        return f"{self.name}={format_value(self.value)}" if self.has_value else self.name


@dataclass(frozen=True)
class Spelling:
    """Text that differs between Python and the shell."""

    python: str
    shell: str

    def __str__(self) -> str:
        return self.python


class Message(str):
    """Text made of parts, some of them parameters; as a string it uses the spelling of Python, `render` of the shell.

    >>> message = Message("use ", Param("hops", 2), " or less")
    >>> str(message), message.render(lambda param: f"--{param.name} {param.value}")
    ('use hops=2 or less', 'use --hops 2 or less')
    """

    parts: tuple[str | Param | Spelling, ...]

    def __new__(cls, *parts: str | Param | Spelling) -> Message:
        """Join the parts; a part that is a `Message` keeps its parameters."""
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = parts
        return message

    @classmethod
    def of(cls, template: str, **values: object) -> Message:
        """Return the message of a template, whose `{name}` mention parameters, with a value where `values` has one.

        >>> Message.of("name it by {weight}, or pass {weighted}", weighted=False)
        'name it by weight, or pass weighted=False'
        """
        parts: list[str | Param] = []
        for text, name, *_ in Formatter().parse(template):
            parts += [text] if name is None else [text, Param(name, values.get(name, ...))]
        return cls(*parts)

    def render(self, flag: Callable[[Param], str]) -> str:
        """Return the text for the shell; `flag` returns the spelling of a parameter."""

        def text(part: str | Param | Spelling) -> str:
            if isinstance(part, Param):
                return flag(part)
            if isinstance(part, Message):
                return part.render(flag)
            return part.shell if isinstance(part, Spelling) else part

        return "".join(map(text, self.parts))


class CgeError(Exception):
    """Base of every error raised on purpose.

    Parameters
    ----------
    problem : str or Message, optional
        What is wrong; by default "`parameter` must be `expected`, found `found`".
    parameter : str, optional
        The parameter whose value is wrong.
    found, expected : optional
        The value, and the values that are allowed, in words.
    hint : str or Message, optional
        What to do about it; it follows the problem after a semicolon.

    >>> error = InputError(parameter="hops", expected="at least 0", found=-1, hint=Message.of("use {hops}", hops=4))
    >>> str(error), error.parameter
    ('hops must be at least 0, found -1; use hops=4', 'hops')
    """

    place = ""  # where the problem is, such as a file and a line; empty for arguments

    def __init__(
        self,
        problem: str = "",
        *,
        parameter: str | None = None,
        found: object = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        if not problem and parameter is not None:
            problem = Message(Param(parameter), " must be ", expected or "legal", f", found {format_value(found)}")
        self.problem, self.parameter, self.found, self.expected, self.hint = problem, parameter, found, expected, hint
        super().__init__(str(self.message))

    @property
    def message(self) -> Message:
        """The sentence: place, problem and hint."""
        return Message(self.place, self.problem, *(("; ", self.hint) if self.hint else ()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors of worker processes arrive as they are: subclasses have other arguments than `args`."""
        return _restore_error, (type(self), self.args, vars(self))


def _restore_error(kind: type[CgeError], arguments: tuple[Any, ...], state: dict[str, Any]) -> CgeError:
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(state)
    return error


class InputError(CgeError, ValueError):
    """An argument, an array or a table has a value that is not allowed."""


class FileFormatError(InputError):
    """A file cannot be read as what it should be."""

    def __init__(self, path: str | Path, problem: str, line: int | None = None, **fields: Any) -> None:
        self.path, self.line = Path(path), line
        self.place = f"{path}, line {line:,}: " if line is not None else f"{path}: "
        super().__init__(problem, **fields)


class CheckpointError(InputError):
    """A checkpoint belongs to another fit: other settings, graph or labels."""


class UnknownNodeError(InputError):
    """Ids that are not nodes of the graph.

    `node_ids` are ids of the graph; the message shows the first of them, or that their type is another one. `similar`
    is the id that was probably meant.
    """

    def __init__(
        self,
        where: str | Param,
        offenders: Sequence[object],
        count: int | None = None,
        hint: str | None = None,
        node_ids: Sequence[object] = (),
        similar: object = None,
    ) -> None:
        self.offenders, self.count = list(offenders), len(offenders) if count is None else count
        first = ", ".join(map(format_value, self.offenders[:5]))
        place = Message(" in ", where) if where else ""
        if self.count == 1:
            examples = _examples(self.offenders, node_ids, similar)
            problem = Message(f"node {first}", place, f" is not in the graph{examples}")
        else:
            problem = Message(f"{self.count:,} nodes", place, f" are not in the graph, the first: {first}")
        super().__init__(problem, hint=hint)


def _examples(offenders: Sequence[object], node_ids: Sequence[object], similar: object) -> str:
    """Return in parentheses how ids of the graph look, and whether their type differs from that of an unknown one."""
    if similar is not None:
        return f" (did you mean {format_value(similar)}?)"
    kinds = {str: "text", int: "an integer"}
    first, unknown = list(node_ids[:2]), offenders[0]
    if not first:
        return ""
    text = f"ids look like {', '.join(map(format_value, first))}"
    kind, other = kinds.get(type(first[0])), kinds.get(type(unknown))
    if kind is not None and other is not None and kind != other:
        text += f"; ids are {'integers' if kind == 'an integer' else kind}, and {format_value(unknown)} is {other}"
    return f" ({text})"


class MissingDataError(CgeError):
    """A data set or an optional package is not installed."""


class CgeWarning(UserWarning):
    """The work is done, but the result may differ from what was intended."""
