"""An array that grows at its end while a file is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from cge.arrays import Array


class GrowingArray:
    """An array to append to. Integers are kept in 32 bits for as long as they fit.

    The capacity is doubled when needed; memory that is reserved but not yet written is not used.

    >>> column = GrowingArray(np.int32)
    >>> column.append(np.array([1, 2]))
    >>> column.append(np.array([2**40]))
    >>> column.array()
    array([            1,             2, 1099511627776])
    """

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._array: Array = np.empty(0 if width is None else (0, width), dtype)
        self._used = 0

    def append(self, values: Array) -> None:
        """Copy `values` to the end."""
        if self._array.dtype == np.int32 and values.dtype != np.int32 and len(values):
            bounds = np.iinfo(np.int32)
            if values.min() < bounds.min or values.max() > bounds.max:
                self._array = self._array.astype(np.int64)
        needed = self._used + len(values)
        if needed > len(self._array):
            larger = np.empty((max(2 * needed, 1 << 12), *self._array.shape[1:]), self._array.dtype)
            larger[: self._used] = self._array[: self._used]
            self._array = larger
        with np.errstate(over="ignore"):  # becomes infinite in float32, which is refused later
            self._array[self._used : needed] = values
        self._used = needed

    def array(self) -> Array:
        """Return the values appended so far."""
        return self._array[: self._used]
