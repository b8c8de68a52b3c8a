"""Commands: how their help looks, and messages of the library that name their flags instead of parameters."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cge.errors import CgeError, FileFormatError, Message, Param, UnknownNodeError

_FLAGS = {"random_state": "--seed", "n_jobs": "--jobs", "y": "--labels", "edges": "--graph", "trust": "--trust-data"}
_FLAGS |= {"target_class": "--class"}
_OTHER_FLAGS = {"node": "--node-column", "label": "--label-column", "nodes": "--node-list", "method": "--search"}
_OTHER_COMMANDS = "correct the file, or read it by 'cge check' and 'cge fit', which have options for it"
_running: ContextVar[frozenset[str]] = ContextVar("running", default=frozenset())  # the flags of the running command
FILE_FORMAT = "File format"  # a panel of the help that only `--help-all` shows
_ALL = "cge.help_all"
_SYNONYMS = {"export": "embed", "train": "fit"}  # names of commands that users of other tools may try
_METAVARS = {bool: "", int: "INT", float: "NUM", str: "TEXT"}
_SUFFIXES = re.compile(r"\{suffixes of (\w+)\}")


def use_flags(flags: Iterable[str]) -> None:
    """Set the flags of the command that runs."""
    _running.set(frozenset(flags))


def flag_of(name: str) -> str:
    """Return the flag of a parameter; most have its name.

    >>> flag_of("learning_rate"), flag_of("random_state")
    ('--learning-rate', '--seed')
    """
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def in_shell(param: Param) -> str:
    """Return how the shell spells a parameter; as Python does where the running command has no such flag.

    >>> use_flags(["--ids", "--weighted", "--unweighted"])
    >>> in_shell(Param("ids", "str")), in_shell(Param("weighted", False)), in_shell(Param("hops", 2))
    ('--ids str', '--unweighted', 'hops=2')
    """
    flag = _flag_in_use(param.name)
    if param.value is False and flag in ("--label-propagation", "--prior-correction"):
        return f"{flag} no"
    if param.value is False:
        flag = "--unweighted" if flag == "--weighted" else flag.replace("--", "--no-", 1)
    if flag not in _running.get():
        return str(param)
    if not param.has_value or isinstance(param.value, bool):
        return flag
    return f"{flag} {shlex.quote(str(param.value))}"


def shell_message(message: str | CgeError | Warning) -> str:
    """Return a message, an error or a warning as text, with parameters as the shell spells them.

    The hint of an error about a file may name options that only commands have which read graphs.
    """
    if isinstance(message, FileFormatError | UnknownNodeError) and _is_foreign(message.hint):
        return f"{shell_message(Message(message.place, message.problem))}; {_OTHER_COMMANDS}"
    if not isinstance(message, str):
        message = message.message if isinstance(message, CgeError) else message.args[0]
    return message.render(in_shell) if isinstance(message, Message) else str(message)


def _is_foreign(hint: object) -> bool:
    """Return whether a hint names a parameter that is no flag of the running command."""
    if isinstance(hint, Param):
        return bool(_running.get()) and _flag_in_use(hint.name) not in _running.get()
    return isinstance(hint, Message) and any(map(_is_foreign, hint.parts))


def _flag_in_use(name: str) -> str:
    """Return the flag of a parameter in the running command, which may call it otherwise."""
    flag = flag_of(name)
    return flag if flag in _running.get() else _OTHER_FLAGS.get(name, flag)


def _unwrapped(text: str) -> str:
    r"""Join the lines of each paragraph; indented ones, such as examples, stay as they are.

    >>> _unwrapped("One\nparagraph.\n\n  cge a\n  cge b")
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


def show_help_all(context: Any, requested: bool) -> None:
    """Print the help with all options; the callback of --help-all."""
    if requested:
        context.meta[_ALL] = True
        print(context.get_help())
        context.exit()


class Command(TyperCommand):
    """A command of `cge`."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        self.help = self.help and _unwrapped(self.help)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse arguments; from now on messages name the flags of this command."""
        use_flags(flag for parameter in self.params for flag in (*parameter.opts, *parameter.secondary_opts))
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters with their metavariables."""
        return _with_metavars(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, arguments without braces or brackets."""
        replaceable = self._has_config() or any("--edges" in parameter.opts for parameter in self.params)
        pieces, marks = super().collect_usage_pieces(ctx), "{}[]" if replaceable else "{}"
        return [piece if piece == "[OPTIONS]" else piece.strip(marks).replace("}...", "...") for piece in pieces]

    def _has_config(self) -> bool:
        return any(parameter.name == "config" for parameter in self.params)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; what is required may be in --config."""
        self.list_suffixes()
        for parameter in self.params:
            if getattr(parameter, "rich_help_panel", None) == FILE_FORMAT and not ctx.meta.get(_ALL):
                parameter.hidden = True  # type: ignore[attr-defined]
            if parameter.required and self._has_config():
                parameter.help += " \\[required, unless in --config]"  # type: ignore[attr-defined]
                parameter.required = False
        super().format_help(ctx, formatter)

    def list_suffixes(self) -> None:
        """Replace `{suffixes of edges}` in help texts by the suffixes of the file formats, which are slow to import."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            if "{suffixes of " in text:
                from cge.data.files.formats import list_suffixes

                parameter.help = _SUFFIXES.sub(lambda match: list_suffixes(match[1]), text)  # type: ignore[attr-defined]


class UnknownCommandError(typer.TyperException):
    """There is no such command; `similar` are those that were probably meant."""

    def __init__(self, name: str, similar: Sequence[str]) -> None:
        super().__init__(f"No such command {name!r}")
        self.similar = similar


class Group(TyperGroup):
    """The command `cge` itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command in the arguments."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            similar = [_SYNONYMS[name]] if name in _SYNONYMS else get_close_matches(name, self.commands)
            raise UnknownCommandError(name, similar)
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters with their metavariables."""
        return _with_metavars(super().get_params(ctx))
