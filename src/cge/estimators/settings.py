"""Settings of estimators: name, default, legal values and help, in one place for checks, command line and docs.

Estimators are dataclasses with fields such as `dim: int = param(128, "size of the vectors", low=1)`. The constructor
only stores; `check_settings` is called by `fit`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

from cge.errors import InputError, Message, Spelling

T = TypeVar("T")

RANDOM_STATE: dict[str, Any] = {"text": "seed; results do not depend on the number of threads or processes", "low": 0}
N_JOBS: dict[str, Any] = {"text": "number of threads or processes", "low": 1, "also": (-1,), "optional": True}
N_JOBS["none"] = "-1, all cores"

_Unquoted = type("_Unquoted", (str,), {"__repr__": str.__str__})  # an annotation that `help` shows without quotes
_ATTRIBUTES = "Attributes\n----------"
_WIDTH = 100  # of a line of a docstring
_MAX_INT = 2**63 - 1  # the largest integer of 64 bits


@dataclass(frozen=True)
class Setting:
    """What a setting means and which values it may have.

    Numbers lie between `low` and `high`, both included; `above` excludes the bound itself; `also` are further legal
    numbers. `optional` settings may be None, which stands for `none`. `choices` are the legal strings, which may have
    descriptions; True and False are legal too where the kind is `bool`, a callable where `callables` describes it.
    `config` is the dataclass of a group of settings, whose fields are settings themselves: legal are None, an object of
    it, or a dict. `registry` returns further choices with descriptions, which can be registered from outside.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] | Mapping[str, str] = ()
    optional: bool = False
    none: str = ""
    callables: str = ""
    config: type | None = None
    registry: Callable[[], Mapping[str, str]] | None = None

    def resolved(self) -> Setting:
        """Return the setting with the choices that are registered now."""
        if self.registry is None:
            return self
        choices = {**dict(self.choices), **self.registry()}  # type: ignore[arg-type]
        return replace(self, choices=choices, registry=None)

    def descriptions(self) -> list[str]:
        """Return what each choice, a callable and None mean, as far as that is described."""
        choices = self.choices.items() if isinstance(self.choices, Mapping) else ()
        values = [f"{name!r}: {text}" for name, text in choices]
        return values + [self.callables] * bool(self.callables) + [f"None: {self.none}"] * bool(self.none)

    def legal(self, kind: str) -> Message:
        """Return in words what is legal for a setting of this kind (`int`, `float`, `bool` or `str`)."""
        if self.config is not None:
            article = "an" if self.config.__name__[0] in "AEIOU" else "a"
            return Message(f"{article} {self.config.__name__}, a dict of its fields, or None")
        or_none = Spelling(" or None", " or none") if self.optional else ""
        if self.choices:
            python, shell = [*map(repr, self.choices)], [*self.choices]
            if kind == "bool":
                python, shell = [*python, "True", "False"], [*shell, "yes", "no"]
            values = Spelling(", ".join(python), ", ".join(shell))
            or_callable = Spelling(" or a callable", "") if self.callables else ""
            return Message("one of " if len(shell) > 1 else "", values, or_callable, or_none)
        kinds = {"int": "an integer", "float": "a number", "bool": "True or False", "tuple": "a sequence of names"}
        words = kinds.get(kind, f"a {kind}")
        also = "".join(f", {number}" for number in self.also)
        return Message(" ".join(filter(None, (words, *self._bounds()))), also, or_none)

    def sentence(self) -> str:
        """Return the meaning and the legal values, with a capital letter, but for λ and ξ."""
        bounds = "" if self.also else self._bounds()[1]
        if isinstance(self.choices, tuple):
            bounds += ", ".join(map(repr, self.choices))
        first = self.help[0].upper() if self.help[0].isascii() else self.help[0]
        return f"{first}{self.help[1:]}{f'; {bounds}' if bounds else ''}"

    def _bounds(self) -> tuple[str, str]:
        """Return the bounds in words, after the preposition that joins them to a noun."""
        if self.low is not None and self.high is not None:
            return "from", f"{self.low:g} to {self.high:g}"
        if self.above is not None:
            return "", f"above {self.above:g}" + ("" if self.high is None else f", at most {self.high:g}")
        return ("", "") if self.low is None else ("of", f"at least {self.low:g}")

    def expected(self, kind: str, value: Any) -> Message:
        """Return what is legal instead of a value that is not."""
        return Message("an integer that fits in 64 bits") if _too_large(value) else self.legal(kind)

    def allows(self, kind: str, value: Any) -> bool:
        """Return whether a value is legal; the fields of a group are checked one by one, by `check_settings`."""
        if self.config is not None:
            return value is None or isinstance(value, self.config | dict)
        if value is None:
            return self.optional
        if self.choices:
            named = isinstance(value, str) and value in self.choices
            return named or (bool(self.callables) and callable(value)) or (kind == "bool" and isinstance(value, bool))
        if kind == "bool":
            return isinstance(value, bool | np.bool_)
        if kind == "tuple":
            return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        number = int | np.integer if kind == "int" else int | float | np.integer | np.floating
        if isinstance(value, bool) or not isinstance(value, number) or _too_large(value):
            return False
        return value in self.also or bool(
            np.isfinite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
        )


def _too_large(value: Any) -> bool:
    """Return whether an integer does not fit in 64 bits."""
    return isinstance(value, int) and abs(value) > _MAX_INT


def param(default: Any, text: str, **options: Any) -> Any:
    """Return a dataclass field for a setting; `options` are those of `Setting`."""
    return field(default=default, metadata={"setting": Setting(text, **options)})


def settings_of(owner: Any) -> dict[str, tuple[str, Setting, Any]]:
    """Return the settings of an estimator or config class: name → (kind, setting, default)."""
    settings: dict[str, tuple[str, Setting, Any]] = {}
    for name, argument in inspect.signature(owner).parameters.items():
        declared = owner.__dataclass_fields__[name]
        kind = re.split(r"\W", str(declared.type))[0]  # annotations are text: "int | None"
        settings[name] = (kind, declared.metadata["setting"].resolved(), argument.default)
    return settings


def documented(owner: type[T]) -> type[T]:
    """Add the settings of a class to its docstring, as parameters, and the attributes of its base class."""
    lines, parameters = ["Parameters", "----------"], list(inspect.signature(owner.__init__).parameters.values())
    for place, (name, (_, spec, default)) in enumerate(settings_of(owner).items(), 1):
        annotation = _Unquoted(parameters[place].annotation)
        lines += [f"{name} : {annotation}, default={default!r}", *_described(spec)]
        parameters[place] = parameters[place].replace(annotation=annotation)
    if "__init__" in vars(owner):  # `help` shows its signature
        owner.__init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    text, heading, examples = inspect.cleandoc(owner.__doc__ or "").partition("Examples\n--------")
    summary, *own = text.split(_ATTRIBUTES)
    bases = (inspect.cleandoc(base.__doc__ or "") for base in owner.__mro__[1:])
    inherited = next((base.split(_ATTRIBUTES)[1] for base in bases if _ATTRIBUTES in base), "")
    attributes = inherited + "".join(own).rstrip()
    parts = [summary.rstrip(), "\n".join(lines), attributes and _ATTRIBUTES + attributes, heading + examples]
    owner.__doc__ = "\n\n".join(part for part in parts if part).rstrip()
    return owner


def _described(spec: Setting) -> list[str]:
    """Return the lines of a docstring about a setting: a sentence, then an item for each value."""
    values = spec.descriptions()
    lines = [f"    {line}" for line in wrap(spec.sentence() + (":" if values else "."), _WIDTH)]
    items = [wrap(f"- {value}", _WIDTH, subsequent_indent="  ") for value in values]
    return [*lines, *([""] if items else []), *(f"    {line}" for item in items for line in item)]


def check_settings(estimator: Any) -> None:
    """Refuse a setting outside its legal values, in one sentence that names them."""
    for name, (kind, spec, _) in settings_of(type(estimator)).items():
        value = getattr(estimator, name)
        _check(name, kind, spec, value)
        if spec.config is not None and value is not None:
            _check_group(name, spec.config, value if isinstance(value, dict) else vars(value))


def _check_group(group: str, config: type, values: dict[str, Any]) -> None:
    known = settings_of(config)
    for name, value in values.items():
        if name not in known:
            problem = Message.of(f"{{{group}}} has no field {name!r}")
            raise InputError(problem, parameter=group, found=name, hint=f"its fields are {', '.join(known)}")
        _check(name, *known[name][:2], value)


def _check(name: str, kind: str, spec: Setting, value: Any) -> None:
    if not spec.allows(kind, value):
        raise InputError(parameter=name, expected=spec.expected(kind, value), found=value)
