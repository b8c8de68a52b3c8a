"""Tables of which some rows were replaced after they were computed, without a copy of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array

_MAX_REPLACED = 0.25  # share of replaced rows above which the whole table is copied


@dataclass(frozen=True, eq=False)
class UpdatedRows:
    """A table of `size` rows: `values` at the ascending `rows`, and those of the array `base` elsewhere.

    Rows beyond the end of `base` are among `rows`. It is read by row indices, like an array.

    >>> table = UpdatedRows(np.array([10, 11, 12]), 4, np.array([1, 3]), np.array([21, 23]))
    >>> table[np.array([3, 0, 1])].tolist(), table.array().tolist()
    ([23, 10, 21], [10, 21, 12, 23])
    """

    base: Array
    size: int
    rows: Array
    values: Array

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: Array) -> Array:
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        is_replaced = self.rows[place] == rows
        result = self.base[np.minimum(rows, len(self.base) - 1)]
        result[is_replaced] = self.values[place[is_replaced]]
        return result

    def array(self) -> Array:
        """Return the whole table as an array."""
        return _copied(self.base, self.size, self.rows, self.values)


def with_rows(table: Any, size: int, rows: Array, values: Array) -> Any:
    """Return a table (an array or `UpdatedRows`) of `size` rows, those of ascending `rows` replaced by `values`.

    The time depends on the replaced rows only, of this call and of earlier ones, unless these are many.
    """
    base: Array = table.base if isinstance(table, UpdatedRows) else table
    if isinstance(table, UpdatedRows):
        kept = np.flatnonzero(~np.isin(table.rows, rows, assume_unique=True))
        both = np.concatenate([table.rows[kept], rows])
        order = np.argsort(both, kind="stable")
        rows, values = both[order], np.concatenate([table.values[kept], values])[order]
    if len(rows) > _MAX_REPLACED * size:
        return _copied(base, size, rows, values)
    return UpdatedRows(base, size, rows, values) if len(rows) else base


def _copied(base: Array, size: int, rows: Array, values: Array) -> Array:
    result = np.empty((size, *base.shape[1:]), base.dtype)
    result[: len(base)] = base
    result[rows] = values
    return result
