"""Settings of an estimator as options of a command: one flag for each argument of the constructor, made from it.

The constructor says what a setting is called, what it means, which values are legal and which is the default. Values
come as text, become numbers where they can, and are judged by the library alone, so that a wrong one gets its sentence.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.command import Command
from cge.cli.common_options import among
from cge.cli.flags import flag_of

if TYPE_CHECKING:
    from cge.estimators.settings import Setting

__all__ = ["late", "values_of", "with_settings"]

_RUN = ("random_state", "n_jobs")  # settings of a run rather than of a model; they stand with the other options
_SETTINGS = "Settings"
_SIGNS = {"int": "INT", "float": "NUM", "str": "WORD"}


def late(command: Callable[..., None]) -> type[Command]:
    """Return the class of a command that gets the settings of `cge.CGE` as options only when it is called.

    `cge.CGE` is slow to import, and `cge --help` need not wait for it.
    """

    class Late(Command):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            """Parse arguments for the whole command, which takes this one's place."""
            from cge.estimators.cge import CGE

            app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            app.command(self.name, cls=Command)(with_settings(command, CGE))
            return typer.main.get_command(app).make_context(info_name, args, parent, **extra)

    return Late


def with_settings(command: Callable[..., None], estimator: type) -> Callable[..., None]:
    """Give a command an option for each setting of an estimator; it takes them as `**settings`, as text."""
    from cge.estimators.configs import flat_settings

    known = flat_settings(estimator)
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=known[name][2],
            annotation=_option(name, panel, *known[name][:3]),
        )
        for panel, names in _panels(known).items()
        for name in names
    ]

    @wraps(command)
    def whole(**given: Any) -> None:
        command(**given)

    signature = inspect.signature(command)
    own = list(signature.parameters.values())
    whole.__signature__ = signature.replace(parameters=[*own, *parameters])  # type: ignore[attr-defined]
    return whole


def _panels(known: Iterable[str]) -> dict[str | None, list[str]]:
    """Return the settings in the panels of the help that they stand in."""
    panels: dict[str | None, list[str]] = {None: [], _SETTINGS: []}
    for name in known:
        panels[None if name in _RUN else _SETTINGS].append(name)
    return panels


def _option(name: str, panel: str | None, kind: str, setting: Setting, default: Any) -> Any:
    """Return the annotation by which Typer makes the option of a setting."""
    told: dict[str, Any] = {"help": _help(setting, default), "rich_help_panel": panel, "show_default": False}
    flag = flag_of(name)
    if kind == "bool":
        return Annotated[bool, typer.Option(f"{flag}/{flag.replace('--', '--no-', 1)}", **told)]
    if setting.choices:
        told["autocompletion"] = among(*setting.choices)
    return Annotated[str | None, typer.Option(flag, metavar=_SIGNS[kind], **told)]


def _help(setting: Setting, default: Any) -> str:
    """Return the help of a setting as a sentence, with legal values and default in few words."""
    text = setting.help
    parts = [part for part in text.split("; ") if not part.startswith("a callable")]  # which only Python has
    if not all(f"'{choice}'" in setting.help for choice in setting.choices):
        parts.append("one of " + ", ".join(setting.choices))
    words = "; ".join(part for part in (*parts, _range(setting)) if part)
    words = re.sub(r"`(\w+)`", lambda found: flag_of(found[1]), words)
    begin = words[0].upper() if words[0].isascii() else words[0]  # λ stays what it is
    return f"{begin}{words[1:]} \\[{_shown(default)}]"


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else f"{default}"


def _range(setting: Setting) -> str:
    """Say between which numbers a setting lies.

    >>> from cge.estimators.settings import Setting
    >>> _range(Setting("", low=1)), _range(Setting("", low=0, high=1e6)), _range(Setting("", above=0, high=10))
    ('at least 1', '0 to 1e+06', 'above 0, at most 10')
    """
    if setting.low is not None and setting.high is not None:
        return f"{setting.low:g} to {setting.high:g}"
    bounds = [("above", setting.above), ("at least", setting.low), ("at most", setting.high)]
    return ", ".join(f"{word} {number:g}" for word, number in bounds if number is not None)


def values_of(estimator: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that came as text as the constructor takes them; what is no number stays as it is."""
    from cge.estimators.configs import flat_settings

    return {
        name: _value(given[name], kind, setting) for name, (kind, setting, _, _) in flat_settings(estimator).items()
    }


def _value(text: Any, kind: str, setting: Setting) -> Any:
    if not isinstance(text, str) or setting.choices:
        return text
    if setting.optional and text.lower() == "none":
        return None
    for number in (int, float) if kind == "int" else (float,):
        try:
            return number(text)
        except ValueError:
            continue
    return text
