"""The values of cached properties: whether they were computed, and values that are known without computing them."""

from __future__ import annotations

from functools import cached_property
from typing import Any


def is_cached(owner: object, name: str) -> bool:
    """Return whether a cached property of an object was computed.

    >>> class Square:
    ...     @cached_property
    ...     def area(self):
    ...         return 4.0
    >>> square, known = Square(), Square()
    >>> set_cached(known, "area", 9.0)
    >>> is_cached(square, "area"), is_cached(known, "area"), square.area, known.area
    (False, True, 4.0, 9.0)
    """
    _check_cached_property(owner, name)
    return name in vars(owner)


def set_cached(owner: object, name: str, value: Any) -> None:
    """Give a cached property a value that is known, so that it is not computed."""
    _check_cached_property(owner, name)
    vars(owner)[name] = value


def _check_cached_property(owner: object, name: str) -> None:
    """Refuse the name of anything else, such as that of a property that was renamed."""
    if not isinstance(getattr(type(owner), name, None), cached_property):
        raise AttributeError(f"{type(owner).__name__} has no cached property {name!r}")
