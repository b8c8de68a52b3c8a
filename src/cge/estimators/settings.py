"""Settings live in constructors: name, default, legal values and help, once, for checks, command line and docs.

A constructor annotates each argument with a `Setting`:

    def __init__(self, dim: Annotated[int, Setting("numbers in a vector", low=1)] = 128) -> None: ...

The constructor only stores; `check_settings` is called by `fit`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

import numpy as np

from cge.errors import InputError

__all__ = ["Setting", "check_settings", "documented", "settings_of"]

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What a setting means and which values it may have.

    Numbers lie between `low` and `high`, both included; `above` excludes the bound itself. `optional` settings may be
    None. `choices` are the legal strings; with `open_to_callables` a callable is legal too. `config` is the dataclass
    of a group of settings, whose fields are settings themselves: legal are None, an object of it, or a dict.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    open_to_callables: bool = False
    config: type | None = None

    def legal(self, kind: str) -> str:
        """Say in words what is legal for a setting of this kind (`int`, `float`, `bool` or `str`)."""
        if self.config is not None:
            return f"a {self.config.__name__}, a dict of its fields, or None"
        if self.choices:
            words = "one of " + ", ".join(repr(choice) for choice in self.choices)
            return words + (" or a callable" if self.open_to_callables else "")
        words = {"int": "a whole number", "float": "a number", "bool": "True or False"}.get(kind, f"a {kind}")
        bounds = []
        if self.above is not None:
            bounds.append(f"above {self.above:g}")
        if self.low is not None:
            bounds.append(f"of at least {self.low:g}")
        if self.high is not None:
            bounds.append(f"of at most {self.high:g}")
        return " ".join([words, " and ".join(bounds)]).strip() + (" or None" if self.optional else "")

    def allows(self, kind: str, value: Any) -> bool:
        """Say whether a value is legal; the fields of a group are checked one by one, by `check_settings`."""
        if self.config is not None:
            return value is None or isinstance(value, self.config | dict)
        if value is None:
            return self.optional
        if self.choices:
            return (isinstance(value, str) and value in self.choices) or (self.open_to_callables and callable(value))
        if kind == "bool":
            return isinstance(value, bool | np.bool_)
        number = int | np.integer if kind == "int" else int | float | np.integer | np.floating
        if isinstance(value, bool) or not isinstance(value, number):
            return False
        return bool(
            np.isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
        )


def settings_of(estimator: type) -> dict[str, tuple[str, Setting, Any]]:
    """Return the settings of an estimator class: name → (kind, setting, default)."""
    hints = get_type_hints(estimator.__init__, include_extras=True)  # type: ignore[misc]
    found: dict[str, tuple[str, Setting, Any]] = {}
    for name, parameter in inspect.signature(estimator).parameters.items():
        annotated = hints[name]
        setting = next(one for one in annotated.__metadata__ if isinstance(one, Setting))
        kinds = [
            one for one in getattr(annotated.__origin__, "__args__", (annotated.__origin__,)) if one is not type(None)
        ]
        found[name] = (kinds[0].__name__, setting, parameter.default)
    return found


def documented(estimator: type[T]) -> type[T]:
    """Add the settings of an estimator class to its docstring, as its parameters."""
    lines = ["Parameters", "----------"]
    for name, (kind, setting, default) in settings_of(estimator).items():
        lines += [f"{name} : {kind}, default {default!r}", f"    {setting.help}; {setting.legal(kind)}."]
    before, mark, after = inspect.cleandoc(estimator.__doc__ or "").partition("Attributes\n----------")
    estimator.__doc__ = before + "\n".join([*lines, "", ""]) + mark + after
    return estimator


def check_settings(estimator: Any) -> None:
    """Refuse a setting outside its legal values, in one sentence that names them."""
    for name, (kind, setting, _) in settings_of(type(estimator)).items():
        value = getattr(estimator, name)
        _check(name, kind, setting, value)
        if setting.config is not None and value is not None:
            _check_group(name, setting.config, value if isinstance(value, dict) else vars(value))


def _check_group(group: str, config: type, values: dict[str, Any]) -> None:
    known = settings_of(config)
    for name, value in values.items():
        if name not in known:
            raise InputError(parameter=group, expected=f"of the fields {', '.join(known)}", found=name)
        _check(name, known[name][0], known[name][1], value)


def _check(name: str, kind: str, setting: Setting, value: Any) -> None:
    if not setting.allows(kind, value):
        raise InputError(parameter=name, expected=setting.legal(kind), found=value)
