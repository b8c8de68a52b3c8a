"""Compressed sparse rows from a file, checked before SciPy's compiled code uses them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array


def checked_csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Build a CSR matrix; inconsistent arrays raise `ValueError`.

    SciPy's own full check accepts a negative last value of `indptr`, and its matrix product then crashes.

    >>> checked_csr(np.ones(1), np.array([1]), np.array([0, -1]), (1, 2))
    Traceback (most recent call last):
    ValueError: row pointers must ascend from 0 to 1
    """
    if any(part.ndim != 1 for part in (data, indices, indptr)) or len(data) != len(indices):
        raise ValueError("values and columns must be flat and equally long")
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError("columns and row pointers must be whole numbers")
    if len(indptr) != shape[0] + 1:
        raise ValueError(f"there must be {shape[0] + 1:,} row pointers, found {len(indptr):,}")
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"row pointers must ascend from 0 to {len(indices):,}")
    if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(f"columns must be from 0 to {shape[1] - 1:,}")
    return sp.csr_array((data, indices, indptr), shape=shape)
