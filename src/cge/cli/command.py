"""How the help of a command looks: paragraphs are wrapped, and an option that takes a value shows its kind."""

from __future__ import annotations

import inspect
import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from cge.cli.flags import use_flags

_METAVARS = {bool: "", int: "INT", float: "NUM", str: "TEXT"}
_SUFFIXES = re.compile(r"\{suffixes of (\w+)\}")


def unwrapped(text: str) -> str:
    r"""Join the lines of each paragraph; indented ones, such as examples, stay as they are.

    >>> unwrapped("One\nparagraph.\n\n  cge a\n  cge b")
    'One paragraph.\n\n  cge a\n  cge b'
    """
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in parts)


def _with_metavars(parameters: list[Any]) -> list[Any]:
    """Give each option a metavariable, and hide the type of arguments."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005
        elif parameter.metavar is None:
            parameter.metavar = _METAVARS.get(parameter.type_descriptor.annotation)
    return parameters


class Command(TyperCommand):
    """A command of `cge`."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        self.help = None if self.help is None else unwrapped(self.help)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse arguments; from now on messages name the flags of this command."""
        use_flags(flag for parameter in self.params for flag in (*parameter.opts, *parameter.secondary_opts))
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters with their metavariables."""
        return _with_metavars(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, arguments without braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        self.list_suffixes()
        if self.name == "fit":
            self._note_required()
        super().format_help(ctx, formatter)

    def _note_required(self) -> None:
        """Write in the help of required options that --config may contain them."""
        for parameter in self.params:
            if parameter.required and parameter.param_type_name == "option":
                parameter.help += " \\[required, unless in --config]"  # type: ignore[attr-defined]
                parameter.required = False

    def list_suffixes(self) -> None:
        """Replace `{suffixes of edges}` in help texts by the suffixes of the file formats, which are slow to import."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            if "{suffixes of " in text:
                from cge.data.files.formats import list_suffixes

                parameter.help = _SUFFIXES.sub(lambda match: list_suffixes(match[1]), text)  # type: ignore[attr-defined]


class Group(TyperGroup):
    """The command `cge` itself."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters with their metavariables."""
        return _with_metavars(super().get_params(ctx))
