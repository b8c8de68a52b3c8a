"""Settings in a TOML file, one per line, with the flat names of `cge.estimators.configs.flat_settings`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cge.errors import FileFormatError, Message, format_value


def read_settings(
    file: str | Path,
    known: Mapping[str, tuple[Any, ...]] | None = None,
    options: Collection[str] = (),
) -> dict[str, Any]:
    """Return the settings in a TOML file; "none" stands for None.

    Parameters
    ----------
    file : path
    known : {name: (kind, setting, …)}, optional
        The settings there are, as from `flat_settings`: another name is refused, and so is an illegal value.
    options : names, optional
        Further names that are allowed; their values are not checked.
    """
    path = Path(file)
    text, content = read_toml(path)
    table = next((name for name, value in content.items() if isinstance(value, dict)), None)
    if table is not None:
        raise FileFormatError(path, f"found the table [{table}]", hint="write all settings at the top level")
    settings = {name: None if value == "none" else value for name, value in content.items()}
    for name, value in settings.items() if known is not None else ():
        if name in options:
            continue
        if known is None or name not in known:
            close = get_close_matches(name, [*(known or ()), *options], n=1, cutoff=0.0)
            hint = f"the closest name is {close[0]!r}" if close else "there are none"
            raise FileFormatError(path, f"there is no setting {name!r}", _line(text, name), hint=hint)
        kind, setting = known[name][:2]
        if not setting.allows(kind, value):
            problem = Message(f"{name} must be ", setting.expected(kind, value), f", found {format_value(value)}")
            raise FileFormatError(path, problem, _line(text, name), parameter=name)
    return settings


def read_toml(file: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its content."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"the file is not valid TOML: {error}") from None


def _line(text: str, name: str) -> int | None:
    """Return the line that sets a name."""
    assignment = re.compile(rf"""\s*(["']?){re.escape(name)}\1\s*=""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if assignment.match(line)), None)
