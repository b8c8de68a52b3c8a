"""Parameters as arrays by name: the state of a training, and checks of arrays that were stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError


@dataclass(frozen=True, eq=False)
class TrainerState:
    """The state of a training after an epoch, from which it continues to the same bytes."""

    metadata: dict[str, Any]
    arrays: Mapping[str, Array]


def arrays_below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def check_array(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> None:
    """Raise an error if an array is missing or has another shape."""
    if name not in arrays:
        raise InputError(f"the parameters {name} are missing")
    if arrays[name].shape != shape:
        raise InputError(f"the parameters {name} must have shape {shape}, found {arrays[name].shape}")


def finite_array(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """Return an array of parameters, which must have this shape and be finite."""
    check_array(arrays, name, shape)
    if not np.isfinite(arrays[name]).all():
        raise InputError(f"the parameters {name} are not finite")
    return np.array(arrays[name])
