"""A TOML file in the place of options: whatever an option of the command is called may stand in it."""

from __future__ import annotations

from typing import Any

import typer

from cge.errors import FileFormatError, format_value

__all__ = ["take_config"]


def take_config(context: typer.Context, file: str | None) -> str | None:
    """Let a file say what the command line does not; it becomes the default of the options.

    Settings have the names and values of the constructor of `cge.CGE`, other options those of the command line.
    """
    if file is None or context.resilient_parsing:
        return file
    from cge.estimators.cge import CGE
    from cge.estimators.settings import settings_of
    from cge.estimators.settings_file import read_settings

    known = settings_of(CGE)
    options = {_word(one): one for one in context.command.params if one.name not in ("config", *known)}
    seed = {"seed": known["random_state"]}  # as the command line calls it
    given = read_settings(file, known | seed, options)
    if "seed" in given and "random_state" in given:
        raise FileFormatError(file, "seed and random_state are the same; keep one")
    if "seed" in given:
        given["random_state"] = given.pop("seed")
    context.default_map = {
        options[word].name if word in options else word: _value(file, word, value, options.get(word))
        for word, value in given.items()
        if value is not None or word in known
    }
    return file


def _word(parameter: Any) -> str:
    """Return how an option is called in a file."""
    return str(parameter.opts[0]).lstrip("-").replace("-", "_")


def _value(file: str, word: str, value: Any, option: Any) -> Any:
    """Return a value as the command line takes it: flags as they are, all else as text."""
    if option is not None and isinstance(value, bool) != bool(option.is_flag if hasattr(option, "is_flag") else False):
        wanted = "true or false" if not isinstance(value, bool) else "text"
        raise FileFormatError(file, f"{word} must be {wanted}, found {format_value(value)}")
    if isinstance(value, list | dict):
        raise FileFormatError(file, f"{word} must be one value, found {format_value(value)}")
    return value if isinstance(value, bool) else str(value)
