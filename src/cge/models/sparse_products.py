"""Sparse matrix products and row operations, compiled and threaded; results do not depend on the number of threads.

`sparse_product` multiplies a sparse by a dense matrix, `feature_product` does so for node features inside autograd,
`unit_rows` normalizes rows and `keyed_dropout` sets a random share of dense numbers to zero.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.parallel import float_kernel, kernel, prefetch, resolve_jobs, run_blocks, split_blocks
from cge.randomness import STEP, mix

_WORK = 2_000_000  # multiplications that are worth a thread
_BLOCK = 4096  # rows that a thread computes at once
_PREFETCH = 6  # entries ahead of which a row is loaded into the cache
_MIN_LENGTH, _MAX_LENGTH = 1e-15, 1e15  # between these, squares are well within float32
_CACHE_LINE = 16  # numbers
_PAIRS = 1 << 18  # pairs of numbers that a thread draws at once
_HALF, _LOWER = np.uint64(32), np.uint64(2**32 - 1)


class SparseMatrix:
    """A matrix in CSR form, `rows`; its transpose `columns` is computed for the first gradient."""

    def __init__(self, rows: sp.csr_array, n_jobs: int | None = None) -> None:
        self.rows, self.n_jobs = rows, n_jobs

    @cached_property
    def columns(self) -> sp.csr_array:
        """The transpose in CSR form as well; entries of a row are in the order of the rows they come from."""
        return self.rows.T.tocsr()

    def product(self, dense: Array) -> Array:
        """Return X W for `dense` W."""
        return sparse_product(self.rows, dense, self.n_jobs)

    def transposed_product(self, dense: Array) -> Array:
        """Return Xᵀ G for `dense` G."""
        return sparse_product(self.columns, dense, self.n_jobs)


class SparseFeatures(SparseMatrix):
    """Sparse node features `(n, f)`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and features."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    def with_values(self, values: Array) -> SparseFeatures:
        """Return features with other values at the same positions, which are shared."""
        rows = copy(self.rows)  # the positions were checked when the matrix was made
        rows.data = values
        return SparseFeatures(rows, self.n_jobs)


NodeFeatures: TypeAlias = Tensor | SparseFeatures  # (n, f)


class _MatMul(torch.autograd.Function):
    """M x, with gradients for x and for the entries of M."""

    @staticmethod
    def forward(context: Any, matrix: SparseMatrix, _values: Tensor | None, x: Tensor) -> Tensor:
        context.matrix = matrix
        context.save_for_backward(x)
        return torch.from_numpy(matrix.product(x.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        matrix, to_values, to_x = context.matrix, None, None
        upstream = np.ascontiguousarray(gradient.detach().numpy())
        if context.needs_input_grad[1]:
            x = np.ascontiguousarray(context.saved_tensors[0].detach().numpy())
            to_values = torch.from_numpy(entry_dots(matrix.rows, upstream, x, np.float64(0), matrix.n_jobs))
        if context.needs_input_grad[2]:
            to_x = torch.from_numpy(matrix.transposed_product(upstream))
        return None, to_values, to_x


def matrix_product(matrix: SparseMatrix, x: Tensor, values: Tensor | None = None) -> Tensor:
    """Return M x, differentiable in x, and in the entries of M if they are passed as `values` as well."""
    product: Tensor = _MatMul.apply(matrix, values, x)  # type: ignore[no-untyped-call]
    return product


def feature_product(x: NodeFeatures, weight: Tensor) -> Tensor:
    """Return `x @ weight`, `(n, k)`, differentiable in `weight (f, k)`."""
    return x @ weight if isinstance(x, Tensor) else matrix_product(x, weight)


def take_rows(x: NodeFeatures, rows: Tensor) -> NodeFeatures:
    """Return some rows of the features, sparse if they are sparse."""
    return x[rows] if isinstance(x, Tensor) else SparseFeatures(x.rows[rows.numpy()], x.n_jobs)


def mean_squares(x: NodeFeatures) -> Tensor:
    """Return the mean square of each feature over all nodes, `(f,)`.

    >>> mean_squares(torch.tensor([[1.0, 0.0], [3.0, 2.0]]))
    tensor([5., 2.])
    """
    if isinstance(x, Tensor):
        return x.square().mean(0)
    sums = np.bincount(x.rows.indices, np.square(x.rows.data, dtype=np.float64), minlength=x.shape[1])
    return torch.from_numpy((sums / x.shape[0]).astype(x.rows.dtype))


def unit_rows(rows: Any, norm: str = "l2") -> Any:
    """Return floating-point rows, dense or sparse, scaled to unit length in a norm, "l1" or "l2"; zero rows stay zero.

    The lengths of sparse rows are computed in float64 where the square of a number does not fit in float32.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    order = 1 if norm == "l1" else 2
    if not sp.issparse(rows):
        return rows / np.maximum(np.linalg.norm(rows, order, axis=1, keepdims=True), 1e-12)
    with np.errstate(over="ignore"):
        lengths = sp.linalg.norm(rows, order, axis=1).astype(np.float64)
    extreme = ~((lengths > _MIN_LENGTH) & (lengths < _MAX_LENGTH))
    if extreme.any():
        lengths[extreme] = sp.linalg.norm(rows[extreme].astype(np.float64), order, axis=1)
    values = rows.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(rows.indptr))
    return sp.csr_array((values.astype(rows.dtype), rows.indices, rows.indptr), shape=rows.shape)


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

    if rows is None:
        ends, count = matrix.indptr, len(out)
    else:
        ends, count = np.concatenate([[0], np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])]), len(rows)
    pieces = int(ends[-1]) * dense.shape[1] // _WORK
    if pieces < 2:
        block(0, count)
        return out
    pieces = min(pieces, 2 * resolve_jobs(n_jobs))
    borders = np.searchsorted(ends, np.linspace(0, ends[-1], pieces + 1)[1:-1])
    run_blocks(block, list(pairwise(np.unique(np.r_[0, borders, count]).tolist())), n_jobs)
    return out


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


def keyed_dropout(values: Tensor, share: float, key: np.uint64, n_jobs: int | None = None) -> Tensor:
    """Return dense numbers with a share of them set to zero and the others scaled up; the key determines which.

    Each 64 random bits decide for two numbers, so the result does not depend on the number of threads.
    """
    source = values.contiguous().numpy().reshape(-1)
    out = np.empty_like(source)
    limit, factor = np.uint64(round(share * 2.0**32)), source.dtype.type(1 / (1 - share))
    work = split_blocks(-(-len(source) // 2), _PAIRS)
    run_blocks(lambda first, stop: _drop(source, key, limit, factor, first, stop, out), work, n_jobs)
    return torch.from_numpy(out).reshape(values.shape)


@kernel
def _drop(source: Array, key: np.uint64, limit: np.uint64, factor: Any, first: int, stop: int, out: Array) -> None:
    for pair in range(first, stop):
        bits = mix(key + np.uint64(pair) * STEP)
        place = 2 * pair
        out[place] = source[place] * factor if bits >> _HALF >= limit else 0
        if place + 1 < len(source):
            out[place + 1] = source[place + 1] * factor if bits & _LOWER >= limit else 0
