"""An extension of Griffe: docstrings as the reference shows them.

`@documented` adds the settings of an estimator to its docstring when the class is made, so it is taken from there. What
the parser of docstrings does not take is mended: an example without a heading, a heading with nothing below it.
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
    """Mends docstrings that were read from the source."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mend the docstring of whatever has one."""
        if obj.docstring is None:
            return
        if isinstance(obj, griffe.Class) and any(str(one.value) == "documented" for one in obj.decorators):
            made = getattr(import_module(obj.module.path), obj.name)
            obj.docstring.value = inspect.cleandoc(made.__doc__)
        obj.docstring.value = mended(obj.docstring.value)


def mended(text: str) -> str:
    """Return a docstring with a heading above its examples, and none above nothing."""
    text = _EMPTY.sub("", text)
    example = _EXAMPLE.search(text)
    if example is None or _HEADING.search(text):
        return text
    return f"{text[: example.start()]}Examples\n--------\n{text[example.start() :]}"
