"""How the help of a command looks: paragraphs that flow, and a word for what an option takes, none for a flag."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand, TyperGroup

from cge.cli.flags import use_flags

__all__ = ["Command", "Group", "flowing"]

_SIGNS = {bool: "", int: "INT", float: "NUM", str: "WORD"}


def flowing(text: str) -> str:
    r"""Join the lines of each paragraph; indented ones, such as examples, stay as they are.

    >>> flowing("One\nparagraph.\n\n  cge a\n  cge b")
    'One paragraph.\n\n  cge a\n  cge b'
    """
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in parts)


def _tidy(parameter: Any) -> None:
    """Let an option say what it takes in a word, and an argument nothing but its name."""
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005
    elif parameter.metavar is None:
        parameter.metavar = _SIGNS.get(parameter.type_descriptor.annotation)


class Command(TyperCommand):
    """A command of `cge`."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        self.help = None if self.help is None else flowing(self.help)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse arguments; from now on messages name the flags of this command."""
        use_flags(flag for parameter in self.params for flag in (*parameter.opts, *parameter.secondary_opts))
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, and let them look well."""
        return _tidied(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments without braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """The command `cge` itself."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, and let them look well."""
        return _tidied(super().get_params(ctx))


def _tidied(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        _tidy(one)
    return parameters
