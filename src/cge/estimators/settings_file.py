"""Settings in a TOML file, one on a line, with the names that constructors have."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cge.errors import FileFormatError, format_value
from cge.estimators.settings import Setting

__all__ = ["read_settings"]


def read_settings(
    file: str | Path,
    known: Mapping[str, tuple[str, Setting, Any]] | None = None,
    also: Collection[str] = (),
) -> dict[str, Any]:
    """Return the settings in a TOML file; "none" stands for None.

    Parameters
    ----------
    file : path
    known : as `settings_of` returns them, optional
        The settings there are: any other name is refused, and so is a value that is not legal.
    also : names, optional
        What may stand there besides; the values are not looked at.
    """
    path = Path(file)
    text, found = _read(path)
    nested = [name for name, value in found.items() if isinstance(value, dict)]
    if nested:
        raise FileFormatError(path, f"settings stand alone, without a table such as [{nested[0]}]")
    given = {name: None if value == "none" else value for name, value in found.items()}
    if known is None:
        return given
    for name, value in given.items():
        if name in also:
            continue
        if name not in known:
            near = get_close_matches(name, [*known, *also], n=1, cutoff=0.0)
            hint = f"the nearest is {near[0]!r}" if near else "there are none"
            raise FileFormatError(path, f"there is no setting {name!r}; {hint}", _line(text, name))
        kind, setting, _ = known[name]
        if value is None and "none" in setting.choices:  # text has one word for None and for this choice
            given[name] = "none"
        elif not setting.allows(kind, value):
            raise FileFormatError(
                path, f"{name} must be {setting.legal(kind)}, found {format_value(value)}", _line(text, name)
            )
    return given


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise FileFormatError(path, "this file is not there") from None
    except OSError as wrong:
        raise FileFormatError(path, f"this file cannot be read ({wrong.strerror})") from None
    except (ValueError, RecursionError) as wrong:
        raise FileFormatError(path, f"this is no TOML: {wrong}") from None


def _line(text: str, name: str) -> int | None:
    """Return the line on which a name is given a value."""
    begins = re.compile(rf"""\s*(["']?){re.escape(name)}\1\s*=""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), None)
