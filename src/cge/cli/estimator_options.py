"""Settings of estimators as options of `cge fit`: one flag for each, made from constructors and config objects.

Name, meaning, legal values and default come from the estimators. Values are read as text, converted to numbers where
possible, and checked by the library alone. A TOML file may contain any option, and any setting by its Python name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import wraps
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.command import Command, flag_of
from cge.cli.common_options import among
from cge.cli.main import ARGUMENTS
from cge.errors import FileFormatError, InputError, format_value

if TYPE_CHECKING:
    from cge.estimators.configs import FlatSetting

METHODS = ("cge", "paper")  # the values of --method, and the estimators CGE and PaperCGE
_RUN = ("random_state", "n_jobs")  # settings of a run rather than of a model; they stand with the other options
_BOTH, _CGE, _PAPER = "With both methods", "Only with --method cge", "Only with --method paper (the paper's algorithm)"
_METAVARS = {"int": "INT", "float": "NUM", "str": "NAME", "bool": "auto|yes|no"}
_BOOLS = ("yes", "no")


def estimator_of(method: str) -> type:
    """Return the class that a value of --method stands for."""
    from cge.estimators.cge import CGE
    from cge.estimators.paper_cge import PaperCGE

    if method not in METHODS:
        raise InputError(parameter="method", expected=f"one of {', '.join(METHODS)}", found=method)
    return {"cge": CGE, "paper": PaperCGE}[method]


def method_in(arguments: Collection[str]) -> str | None:
    """Return the value of --method on a command line, None where it is not given.

    >>> method_in(["edges.csv", "--method", "paper"]), method_in(["--method=cge"]), method_in(["--hops", "2"])
    ('paper', 'cge', None)
    """
    values = [value for flag, value in pairwise(arguments) if flag == "--method"]
    values += [word.removeprefix("--method=") for word in arguments if word.startswith("--method=")]
    return values[-1] if values else None


def late(command: Callable[..., None], common: Collection[str]) -> type[Command]:
    """Return the class of a command that gets its options for settings only when it is called.

    The estimators are slow to import, and `cge --help` need not wait for them. `--help` shows the parameters in
    `common`, `--help-all` all of them.
    """

    class Late(Command):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            """Parse arguments with the complete command, which replaces this one."""
            app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            app.command(self.name, cls=Command)(_with_settings(command))
            complete = typer.main.get_command(app)
            if "--help" in args:
                for parameter in complete.params:
                    hidden = parameter.name not in (*common, "help_all") and parameter.param_type_name == "option"
                    parameter.hidden = hidden  # type: ignore[attr-defined]
            return complete.make_context(info_name, args, parent, **extra)

    return Late


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting of the estimators; it gets those given as `**settings`, as text."""
    from cge.estimators.configs import flat_settings

    flat, paper = (flat_settings(estimator_of(method)) for method in METHODS)
    panels: dict[str | None, list[inspect.Parameter]] = {panel: [] for panel in (None, _BOTH, _CGE, _PAPER)}
    for name, spec in (flat | paper | flat).items():  # in the order of CGE, whose texts come first
        panel = None if name in _RUN else _PAPER if name not in flat else _BOTH if name in paper else _CGE
        text, other = _help(spec), _help(paper.get(name, spec))
        option = _option(name, panel, spec, text if other == text else f"{text} With --method paper: {other}")
        panels[panel].append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option))

    @wraps(command)
    def complete(**options: Any) -> None:
        command(**options)

    *own, help_all = inspect.signature(command).parameters.values()
    parameters = [*own, *chain(*panels.values()), help_all]
    complete.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return complete


def _option(name: str, panel: str | None, spec: FlatSetting, text: str) -> Any:
    """Return the annotation by which Typer makes the option of a setting."""
    settings: dict[str, Any] = {"help": text, "rich_help_panel": panel, "show_default": False}
    flag = flag_of(name)
    if spec.kind == "bool" and not spec.setting.choices:
        return Annotated[bool | None, typer.Option(f"{flag}/{flag.replace('--', '--no-', 1)}", **settings)]
    if spec.setting.choices:
        settings["autocompletion"] = among(*spec.setting.choices, *_BOOLS[: 2 * (spec.kind == "bool")])
    return Annotated[str | None, typer.Option(flag, metavar=_METAVARS[spec.kind], **settings)]


def _help(spec: FlatSetting) -> str:
    """Return the help of a setting as a sentence, with the meaning of its values and the default."""
    values = [text for text in spec.setting.descriptions() if text.startswith("'")]
    return f"{spec.setting.sentence()}{': ' if values else ''}{'; '.join(values)} \\[default: {_default_text(spec)}]."


def _default_text(spec: FlatSetting) -> str:
    default = spec.default
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default is None:
        return spec.setting.none or "none"
    return f"{default:g}" if isinstance(default, float) else f"{default}"


def parsed_settings(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that were given as the constructors take them; refuse those that the method does not have."""
    from cge.estimators.configs import flat_settings

    known = flat_settings(estimator_of(method))
    settings = {name: value for name, value in options.items() if value is not None}
    foreign = next((name for name in settings if name not in known), None)
    if foreign is not None:
        other = next(name for name in METHODS if name != method and foreign in flat_settings(estimator_of(name)))
        problem = f"{flag_of(foreign)} is an option of --method {other}, not of --method {method}"
        raise InputError(problem, parameter=foreign, hint="leave it out, or change the method")
    return {name: _parse(value, known[name]) for name, value in settings.items()}


def _parse(text: Any, spec: FlatSetting) -> Any:
    """Return the value of a setting from text."""
    if spec.kind == "bool" and spec.setting.choices:
        return {"yes": True, "no": False, "True": True, "False": False}.get(text, text)
    if spec.setting.optional and str(text).lower() == "none":
        return None
    if isinstance(text, str) and not spec.setting.choices:
        for number in (int, float) if spec.kind == "int" else (float,):
            with suppress(ValueError):
                return number(text)
    return text


def use_config(context: typer.Context, file: str | None) -> str | None:
    """Use the values in a file as defaults of the options."""
    if file is None or context.resilient_parsing:
        return file
    from cge.estimators.configs import flat_settings, read_settings, read_toml

    method = method_in(ARGUMENTS.get()) or read_toml(file)[1].get("method", METHODS[0])
    if method not in METHODS:
        raise FileFormatError(file, f"method must be one of {', '.join(METHODS)}, found {format_value(method)}")
    known = flat_settings(estimator_of(method))
    every = {name for other in METHODS for name in flat_settings(estimator_of(other))}
    options: dict[str, Any] = {
        option.opts[0].lstrip("-").replace("-", "_"): option
        for option in sorted(context.command.params, key=lambda each: each.param_type_name == "argument")
        if option.name not in ("config", *every)
    }
    specs = {name: spec[:3] for name, spec in known.items()}
    values = read_settings(file, specs | {"seed": specs["random_state"]}, options)
    if values.keys() >= {"seed", "random_state"}:
        raise FileFormatError(file, "seed and random_state are the same; keep one")
    values = {"random_state" if key == "seed" else key: value for key, value in values.items()}
    context.default_map = {
        options[key].name if key in options else key: _default(file, key, value, options.get(key))
        for key, value in values.items()
        if value is not None or key in known
    }
    return file


def _default(file: str, key: str, value: Any, option: Any) -> Any:
    """Return a value as the command line takes it: flags as they are, everything else as text."""
    if option is not None and isinstance(value, bool) != bool(getattr(option, "is_flag", False)):
        expected = "true or false" if not isinstance(value, bool) else "text"
        raise FileFormatError(file, f"{key} must be {expected}, found {format_value(value)}")
    if getattr(option, "multiple", False):
        return [str(each) for each in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list | dict):
        raise FileFormatError(file, f"{key} must be one value, found {format_value(value)}")
    return value if isinstance(value, bool) else str(value)
