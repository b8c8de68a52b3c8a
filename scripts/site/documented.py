"""Griffe extension: prepares docstrings for the reference.

`@documented` adds the parameters of an estimator to its docstring at import, so its docstring and its constructor are
taken from the class.
Examples without a heading get one, and empty headings are removed, since the docstring parser requires it.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> ", re.MULTILINE)
_EMPTY = re.compile(r"^Parameters\n-+\n\n", re.MULTILINE)
_HEADING = re.compile(r"^Examples\n-+$", re.MULTILINE)


class Documented(griffe.Extension):
    """Prepares docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Prepare the docstring of an object."""
        if obj.docstring is None:
            return
        decorators = [str(decorator.value) for decorator in obj.decorators] if isinstance(obj, griffe.Class) else []
        if any(decorator.startswith("documented") for decorator in decorators):
            documented = getattr(import_module(obj.module.path), obj.name)
            obj.docstring.value = inspect.cleandoc(documented.__doc__)
            obj.set_member("__init__", constructor(documented))
        obj.docstring.value = with_headings(obj.docstring.value)


def constructor(documented: type) -> griffe.Function:
    """Return the constructor of a dataclass of settings, with the defaults of its fields."""
    parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for name, parameter in inspect.signature(documented).parameters.items():
        kind = griffe.ParameterKind[parameter.kind.name.lower()]
        parameters.append(griffe.Parameter(name, kind=kind, default=repr(parameter.default)))
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))


def with_headings(text: str) -> str:
    """Return a docstring with a heading above its examples and without empty headings."""
    text = _EMPTY.sub("", text)
    example = _EXAMPLE.search(text)
    if example is None or _HEADING.search(text):
        return text
    return f"{text[: example.start()]}Examples\n--------\n{text[example.start() :]}"
