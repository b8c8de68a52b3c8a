"""Groups of options: dataclasses each of whose fields is an option of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from cge.cli.command import show_help_all

_HELP_ALL = "help_all"
HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", callback=show_help_all, is_eager=True)
]


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with arguments that are dataclasses, such as `Files`, an option for each of their fields instead.

    Typer has no groups of options, so the signature that it reads is changed here. `**settings` are left out of it:
    `cge.cli.estimator_options` adds an option for each.
    """
    arguments = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in arguments if is_dataclass(each.annotation)}
    options_of = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}
    parameters: list[inspect.Parameter] = []
    for parameter in arguments:
        if parameter.name in groups:
            of_group = options_of[parameter.name].values()
            parameters += [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in of_group]
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter)
    own = any(parameter.name == _HELP_ALL for parameter in parameters)
    if not own:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(_HELP_ALL, keyword, default=False, annotation=HelpAll))

    @wraps(command)
    def with_fields(**options: Any) -> None:
        if not own:
            options.pop(_HELP_ALL)
        values = {name: {field: options.pop(field) for field in options_of[name]} for name in groups}
        command(**{name: group(**values[name]) for name, group in groups.items()}, **options)

    with_fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_fields
