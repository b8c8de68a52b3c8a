"""A TOML file in place of options: it may contain any option of the command, and any setting by its Python name."""

from __future__ import annotations

from typing import Any

import typer

from cge.cli.estimator_options import METHODS, estimator_of, method_in
from cge.cli.main import command_arguments
from cge.errors import FileFormatError, format_value


def use_config(context: typer.Context, file: str | None) -> str | None:
    """Use the values in a file as defaults of the options."""
    if file is None or context.resilient_parsing:
        return file
    from cge.estimators.configs import flat_settings, read_settings, read_toml

    method = method_in(command_arguments()) or read_toml(file)[1].get("method", METHODS[0])
    if method not in METHODS:
        raise FileFormatError(file, f"method must be one of {', '.join(METHODS)}, found {format_value(method)}")
    known = flat_settings(estimator_of(method))
    every = {name for other in METHODS for name in flat_settings(estimator_of(other))}
    options = {_key(option): option for option in context.command.params if option.name not in ("config", *every)}
    specs = {name: spec[:3] for name, spec in known.items()}
    values = read_settings(file, specs | {"seed": specs["random_state"]}, options)
    if "seed" in values and "random_state" in values:
        raise FileFormatError(file, "seed and random_state are the same; keep one")
    if "seed" in values:
        values["random_state"] = values.pop("seed")
    context.default_map = {
        options[key].name if key in options else key: _default(file, key, value, options.get(key))
        for key, value in values.items()
        if value is not None or key in known
    }
    return file


def _key(parameter: Any) -> str:
    """Return the name of an option in a file."""
    return str(parameter.opts[0]).lstrip("-").replace("-", "_")


def _default(file: str, key: str, value: Any, option: Any) -> Any:
    """Return a value as the command line takes it: flags as they are, everything else as text."""
    if option is not None and isinstance(value, bool) != bool(getattr(option, "is_flag", False)):
        expected = "true or false" if not isinstance(value, bool) else "text"
        raise FileFormatError(file, f"{key} must be {expected}, found {format_value(value)}")
    if isinstance(value, list | dict):
        raise FileFormatError(file, f"{key} must be one value, found {format_value(value)}")
    return value if isinstance(value, bool) else str(value)
