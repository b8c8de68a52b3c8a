"""Sparse matrix products and row operations, compiled and threaded; results do not depend on the number of threads.

`sparse_product` multiplies a sparse by a dense matrix and `unit_rows` normalizes rows; `cge.models.autograd` has the
products with gradients.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.parallel import float_kernel, prefetch, resolve_jobs, run_blocks, split_blocks

_WORK = 2_000_000  # multiplications that are worth a thread
_SMALL_WORK = 50_000_000  # multiplications that are not worth loading Numba
_SUMMED = 128  # products of a sum that a library of linear algebra computes at once
_BLOCK_COLUMNS = 64  # of a dense product
_BLOCK = 4096  # rows that a thread computes at once
_PREFETCH = 6  # entries ahead of which a row is loaded into the cache
_MIN_LENGTH, _MAX_LENGTH = 1e-15, 1e15  # between these, squares are well within float32
_CACHE_LINE = 16  # numbers


class SparseMatrix:
    """A sparse matrix, `csr`; its transpose, `transposed`, is computed for the first gradient.

    `entries` decides how predictions compute products (`is_small`); a part of a larger matrix has the number of that
    one, so that its rows are the same to the last bit.
    """

    def __init__(self, csr: sp.csr_array, n_jobs: int | None = None, entries: int | None = None) -> None:
        self.csr, self.n_jobs, self.entries = csr, n_jobs, csr.nnz if entries is None else entries

    @cached_property
    def transposed(self) -> sp.csr_array:
        """The transpose in CSR form as well; entries of a row are in the order of the rows they come from."""
        return self.csr.T.tocsr()

    def product(self, dense: Array) -> Array:
        """Return X W for `dense` W."""
        return sparse_product(self.csr, dense, self.n_jobs)

    def transposed_product(self, dense: Array) -> Array:
        """Return Xᵀ G for `dense` G."""
        return sparse_product(self.transposed, dense, self.n_jobs)


class SparseFeatures(SparseMatrix):
    """Sparse node features `(n, f)`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and features."""
        return int(self.csr.shape[0]), int(self.csr.shape[1])

    def with_values(self, values: Array) -> SparseFeatures:
        """Return features with other values at the same positions, which are shared."""
        csr = copy(self.csr)  # the positions were checked when the matrix was made
        csr.data = values
        return SparseFeatures(csr, self.n_jobs)


def unit_rows(rows: Any, norm: str = "l2") -> Any:
    """Return floating-point rows, dense or sparse, scaled to unit length in a norm, "l1" or "l2"; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if not sp.issparse(rows):
        return rows / np.maximum(np.linalg.norm(rows, 1 if norm == "l1" else 2, axis=1, keepdims=True), 1e-12)
    lengths = row_lengths(rows, norm)
    values = rows.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(rows.indptr))
    return sp.csr_array((values.astype(rows.dtype), rows.indices, rows.indptr), shape=rows.shape)


def row_lengths(rows: Any, norm: str = "l2") -> Array:
    """Return the length of each sparse row, `(n,)`, in float64 where the square of a number does not fit in float32."""
    order = 1 if norm == "l1" else 2
    with np.errstate(over="ignore"):
        lengths = _lengths(rows, order).astype(np.float64)
    extreme = ~((lengths > _MIN_LENGTH) & (lengths < _MAX_LENGTH))
    if extreme.any():
        lengths[extreme] = _lengths(rows[extreme].astype(np.float64), order)
    return lengths


def _lengths(rows: sp.csr_array, order: int) -> Array:
    """Return the length of each sparse row, `(n,)`, as `scipy.sparse.linalg.norm`, which is slow to import."""
    sizes = abs(rows)
    return np.asarray(sizes.sum(axis=1) if order == 1 else np.sqrt(sizes.power(2).sum(axis=1)))


def input_product(inputs: Array | SparseFeatures, matrix: Array) -> Array:
    """Return the inputs of every node, sparse or dense, times a matrix, `(n, d)`, for predictions."""
    if isinstance(inputs, SparseFeatures):
        return array_product(inputs.csr, matrix, inputs.n_jobs, inputs.entries)
    return dense_product(inputs, matrix)


def dense_product(lhs: Array, rhs: Array) -> Array:
    """Return `lhs @ rhs`; each row is the same to the last bit, whatever the other rows and the number of threads.

    In a product of matrices the rounding of a row depends on its place among the others, and that of long sums on the
    number of threads. So each row is multiplied alone, with blocks of `rhs` small enough to be computed in one thread.

    >>> dense_product(np.ones((2, 300)), np.ones((300, 1))).tolist()
    [[300.0], [300.0]]
    """
    if rhs.shape[1] == 1:
        return np.asarray(np.einsum("ij,jk->ik", lhs, rhs))
    product = np.zeros((len(lhs), rhs.shape[1]), np.result_type(lhs, rhs))
    for first in range(0, len(rhs), _SUMMED):
        rows, block = lhs[:, None, first : first + _SUMMED], rhs[first : first + _SUMMED]
        for column in range(0, rhs.shape[1], _BLOCK_COLUMNS):
            columns = slice(column, column + _BLOCK_COLUMNS)
            product[:, columns] += np.matmul(rows, block[:, columns])[:, 0]
    return product


def array_product(matrix: sp.csr_array, dense: Array, n_jobs: int | None, entries: int | None = None) -> Array:
    """Return `matrix @ dense` for predictions: small products by SciPy, since loading the kernels takes longer.

    A part of a larger matrix is given the number of `entries` of that one.
    """
    if is_small(matrix.nnz if entries is None else entries, dense.shape[1]):
        return np.asarray(matrix @ dense)
    return sparse_product(matrix, dense, n_jobs)


def is_small(entries: int, width: int) -> bool:
    """Return whether SciPy multiplies so many entries with `width` columns before the kernels are even loaded."""
    return entries * width < _SMALL_WORK


def sparse_product(
    matrix: sp.csr_array,
    dense: Array,
    n_jobs: int | None,
    *,
    factor: float = 1.0,
    base: Array | None = None,
    base_factor: float = 0.0,
    rows: Array | None = None,
    distance: Array | None = None,
    max_distance: int = 0,
) -> Array:
    """Return `factor · matrix @ dense + base_factor · base` for a sparse matrix; `base` has the shape of the result.

    Each row is computed by one thread, so the result does not depend on their number. With `rows` only those are
    computed, and the others are undefined. With `distance (n,)` only rows of `dense` at most `max_distance` away are
    read, and `base` is added only where the distance is 0.
    """
    out = np.empty((matrix.shape[0], dense.shape[1]), np.result_type(matrix.dtype, dense.dtype))
    dense = np.ascontiguousarray(dense, out.dtype)
    dtype, addend = out.dtype.type, out if base is None else np.ascontiguousarray(base, out.dtype)
    operands = (matrix.indptr, matrix.indices, matrix.data.astype(out.dtype, copy=False)), dense
    selected = np.empty(0, np.int64) if rows is None else rows
    sums = dtype(factor), dtype(base_factor), addend  # not read where base_factor is 0
    near = np.empty(0, np.int16) if distance is None else distance, max_distance

    def block(first: int, stop: int) -> None:
        _multiply_rows(*operands, selected, sums, near, first, stop, out)

    ends = matrix.indptr
    if rows is not None:
        ends = np.concatenate([[0], np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])])
    run_blocks(block, row_blocks(ends, dense.shape[1], n_jobs), n_jobs)
    return out


def row_blocks(ends: Array, width: int, n_jobs: int | None) -> list[tuple[int, int]]:
    """Return blocks of rows of about equal work; `ends (n + 1,)` counts the entries before each row.

    >>> row_blocks(np.array([0, 3, 3, 10]), 1, 2)
    [(0, 3)]
    """
    count, pieces = len(ends) - 1, min(int(ends[-1]) * width // _WORK, 2 * resolve_jobs(n_jobs))
    if pieces < 2:
        return [(0, count)]
    borders = np.searchsorted(ends, np.linspace(0, ends[-1], pieces + 1)[1:-1])
    return list(pairwise(np.unique(np.r_[0, borders, count]).tolist()))


@float_kernel
def _multiply_rows(
    matrix: Any, dense: Array, rows: Array, sums: Any, near: Any, first: int, stop: int, out: Array
) -> None:
    indptr, indices, values = matrix
    factor, base_factor, base = sums
    distance, max_distance = near
    width, last, some, limited = dense.shape[1], len(indices) - 1, len(rows) > 0, len(distance) > 0
    for place in range(first, stop):
        row = rows[place] if some else place
        if base_factor != 0 and (not limited or distance[row] == 0):
            for k in range(width):
                out[row, k] = base_factor * base[row, k]
        else:
            for k in range(width):
                out[row, k] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            if limited and distance[indices[entry]] > max_distance:
                continue
            ahead = np.int64(indices[min(entry + _PREFETCH, last)]) * width
            for k in range(0, width, _CACHE_LINE):
                prefetch(dense, ahead + k)
            value = factor * values[entry]
            line = dense[indices[entry]]
            for k in range(width):
                out[row, k] += value * line[k]


def entry_dots(matrix: sp.csr_array, lhs: Array, rhs: Array, zero: np.floating[Any], n_jobs: int | None) -> Array:
    """Return ⟨lhs[u], rhs[v]⟩ for each entry (u, v) of a matrix, `(m,)`, summed in the precision of `zero`."""
    dots = np.empty(len(matrix.indices), lhs.dtype)

    def block(first: int, stop: int) -> None:
        _entry_dots(matrix.indptr, matrix.indices, lhs, rhs, zero, first, stop, dots)

    run_blocks(block, split_blocks(matrix.shape[0], _BLOCK), n_jobs)
    return dots


@float_kernel
def _entry_dots(
    indptr: Array, indices: Array, lhs: Array, rhs: Array, zero: Any, first: int, stop: int, dots: Array
) -> None:
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            total = zero
            for d in range(lhs.shape[1]):
                total += lhs[u, d] * rhs[v, d]
            dots[entry] = total
