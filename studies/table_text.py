"""The text of numbers in the tables of studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def percent_text(interval: Mapping[str, Any] | None, mark: str = "") -> str:
    """Return a mean in percent, between marks, and its standard deviation, if there is one; empty without a mean.

    >>> percent_text({"mean": 0.815, "sd": 0.004, "runs": 5}, "**"), percent_text({"mean": 0.8, "sd": None, "runs": 1})
    ('**81.5** ± 0.4', '80.0')
    """
    if interval is None:
        return ""
    sd = "" if interval["sd"] is None else f" ± {100 * interval['sd']:.1f}"
    return f"{mark}{100 * interval['mean']:.1f}{mark}{sd}"


def percent_of_runs(interval: Mapping[str, Any] | None) -> str:
    """Return the same, with the number of runs.

    >>> percent_of_runs({"mean": 0.815, "sd": 0.004, "runs": 5}), percent_of_runs(None)
    ('81.5 ± 0.4 (5)', '')
    """
    return "" if interval is None else f"{percent_text(interval)} ({interval['runs']})"


def p_text(p: float | None) -> str:
    """Return a p-value.

    >>> p_text(0.0004), p_text(0.0312), p_text(None)
    ('< 0.001', '0.031', '')
    """
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
