"""Labels of nodes, in one of two forms.

- `(n,)` class indices, −1 for an unlabeled node;
- `(n, c)` zeros and ones for several labels per node; a row of zeros is an unlabeled node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cge.arrays import Array
from cge.errors import InputError


def checked_labels(labels: Any) -> Array:
    """Return labels as int64, `(n,)` with −1 for unknown or `(n, c)` of zeros and ones."""
    array = np.asarray(labels)
    if array.ndim not in (1, 2) or (array.size and array.dtype.kind not in "iub"):
        raise InputError(
            f"labels must be whole numbers of shape (nodes,) or (nodes, classes), "
            f"found shape {array.shape} of {array.dtype}"
        )
    array = array.astype(np.int64, copy=False)
    low, high = (-1, None) if array.ndim == 1 else (0, 1)
    wrong = array < low if high is None else (array < low) | (array > high)
    if wrong.any():
        expected = "-1 for unknown, or 0 and above" if array.ndim == 1 else "0 or 1 for each class"
        raise InputError(f"labels must be {expected}, found {array[wrong][0]} at node {np.argwhere(wrong)[0][0]:,}")
    return array


def labeled(labels: Array) -> npt.NDArray[np.bool_]:
    """Return for each node whether it has a label, `(n,)`.

    >>> labeled(np.array([0, -1, 2])).tolist()
    [True, False, True]
    """
    return np.asarray(labels >= 0 if labels.ndim == 1 else labels.any(axis=1), bool)


def strata_of(labels: Array) -> Array:
    """Return the class by which each node is stratified, `(n,)`: its label, or the rarest of its labels."""
    if labels.ndim == 1:
        return labels
    sizes = labels.sum(axis=0)
    own_sizes = np.where(labels > 0, sizes, np.iinfo(np.int64).max)
    strata: Array = own_sizes.argmin(axis=1)
    return strata


def rank_in_class(strata: Array) -> tuple[Array, Array]:
    """Return each node's rank within its class, by position, and the size of that class."""
    _, code, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(strata), np.int64)
    rank[order] = np.arange(len(strata)) - np.repeat(starts, sizes)
    return rank, sizes[code]
