"""Products of node features with weights; sparse features stay sparse."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.parallel import blocks_of, float_kernel, kernel, prefetch, resolve_jobs, run_blocks
from cge.randomness import STEP, mix

__all__ = ["NodeFeatures", "SparseFeatures", "feature_product", "sparse_product", "take_rows", "thinned", "unit_rows"]

Array = npt.NDArray[Any]

_WORK = 2_000_000  # products of two numbers that are worth a thread
_AHEAD = 6  # entries: so long before its turn a row is asked for
_SHORT, _LONG = 1e-15, 1e15  # lengths between which squares are well within float32
_LINE = 16  # numbers in a line of the cache
_PAIRS = 1 << 18  # of numbers that a thread drops some of at once
_HALF, _LOWER = np.uint64(32), np.uint64(2**32 - 1)


class SparseFeatures:
    """Sparse features `(n, f)`, with their transpose once a gradient asks for it.

    `rows` is a `scipy.sparse.csr_array`; `n_jobs` None uses every core.
    """

    def __init__(self, rows: sp.csr_array, n_jobs: int | None = None) -> None:
        self.rows, self.n_jobs = rows, n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and features."""
        return int(self.rows.shape[0]), int(self.rows.shape[1])

    @cached_property
    def _turned(self) -> tuple[Array, Array, Array]:
        """Rows of the transpose: where they begin, their columns, and which entry of ours each entry is."""
        numbers = sp.csr_array((np.arange(self.rows.nnz), self.rows.indices, self.rows.indptr), shape=self.rows.shape)
        turned = sp.csr_array(numbers.T)
        return turned.indptr, turned.indices, turned.data

    @cached_property
    def columns(self) -> sp.csr_array:
        """The transpose, `(f, n)`, in rows as well."""
        indptr, indices, entries = self._turned
        return sp.csr_array((self.rows.data[entries], indices, indptr), shape=self.rows.shape[::-1])

    def with_values(self, values: Array) -> SparseFeatures:
        """Return features with other values at the same places; what is known of the places is shared."""
        rows = copy(self.rows)  # the places were checked when the matrix was made
        rows.data = values
        other = SparseFeatures(rows, self.n_jobs)
        other.__dict__["_turned"] = self._turned
        return other

    def product(self, weight: Array) -> Array:
        """Return X W for `weight (f, k)`."""
        return sparse_product(self.rows, weight, self.n_jobs)

    def transposed_product(self, gradient: Array) -> Array:
        """Return Xᵀ G for `gradient (n, k)`."""
        return sparse_product(self.columns, gradient, self.n_jobs)


NodeFeatures: TypeAlias = Tensor | SparseFeatures  # (n, f)


class _SparseProduct(torch.autograd.Function):
    """X W for a sparse constant X: the gradient of W is Xᵀ times the gradient of the product."""

    @staticmethod
    def forward(context: Any, x: SparseFeatures, weight: Tensor) -> Tensor:
        context.x = x
        return torch.from_numpy(x.product(weight.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, torch.from_numpy(context.x.transposed_product(gradient.detach().numpy()))


def feature_product(x: NodeFeatures, weight: Tensor) -> Tensor:
    """Return `x @ weight`, `(n, k)`, differentiable in `weight (f, k)`."""
    if isinstance(x, Tensor):
        return x @ weight
    product: Tensor = _SparseProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return product


def take_rows(x: NodeFeatures, rows: Tensor) -> NodeFeatures:
    """Return some rows of the features, in the form they have."""
    return x[rows] if isinstance(x, Tensor) else SparseFeatures(x.rows[rows.numpy()], x.n_jobs)


def unit_rows(rows: sp.csr_array, norm: str = "l2") -> sp.csr_array:
    """Return sparse rows of unit length in a norm, "l1" or "l2", float32; rows of zeros stay.

    Lengths are found in float32, and once more where that cannot hold the square of a number.
    """
    with np.errstate(over="ignore"):
        lengths = _lengths(rows, norm).astype(np.float64)
    odd = ~((lengths > _SHORT) & (lengths < _LONG))
    if odd.any():
        lengths[odd] = _lengths(rows[odd].astype(np.float64), norm)
    values = rows.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(rows.indptr))
    return sp.csr_array((values.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)


def _lengths(rows: sp.csr_array, norm: str) -> Array:
    found: Array = np.asarray((abs(rows) if norm == "l1" else rows.multiply(rows)).sum(axis=1)).ravel()
    return found if norm == "l1" else np.sqrt(found)


def sparse_product(
    matrix: sp.csr_array,
    dense: Array,
    n_jobs: int | None,
    *,
    factor: float = 1.0,
    base: Array | None = None,
    share: float = 0.0,
    rows: Array | None = None,
    level: Array | None = None,
    near: int = 0,
) -> Array:
    """Return `factor · matrix @ dense + share · base` for a sparse matrix, dense others, `base` like the result.

    Whoever computes a row computes all of it, so threads do not matter. With `rows` only those are computed: what
    stands in the others has no meaning. With `level (n,)` the matrix looks only at rows of `dense` whose level is at
    most `near`, and `base` counts where it is 0.
    """
    out = np.empty((matrix.shape[0], dense.shape[1]), np.result_type(matrix.dtype, dense.dtype))
    dense = np.ascontiguousarray(dense, out.dtype)
    start = out if base is None else np.ascontiguousarray(base, out.dtype)  # not looked at where share is 0
    values, kind = matrix.data.astype(out.dtype, copy=False), out.dtype.type
    some = np.empty(0, np.int64) if rows is None else rows
    known = np.empty(0, np.int16) if level is None else level

    def block(first: int, stop: int) -> None:
        given = (matrix.indptr, matrix.indices, values, dense, some, first, stop)
        _rows(*given, kind(factor), start, kind(share), known, near, out)

    if rows is None:
        ends, count = matrix.indptr, len(out)
    else:
        ends, count = np.concatenate([[0], np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])]), len(rows)
    worth = int(ends[-1]) * dense.shape[1] // _WORK
    if worth < 2:
        block(0, count)
        return out
    pieces = min(worth, 2 * resolve_jobs(n_jobs))
    places = np.searchsorted(ends, np.linspace(0, ends[-1], pieces + 1)[1:-1])
    run_blocks(block, list(pairwise(np.unique(np.r_[0, places, count]).tolist())), n_jobs)
    return out


@float_kernel
def _rows(
    indptr: Array,
    indices: Array,
    values: Array,
    dense: Array,
    rows: Array,
    first: int,
    stop: int,
    factor: float,
    base: Array,
    share: float,
    level: Array,
    near: int,
    out: Array,
) -> None:
    width, last, some, known = dense.shape[1], len(indices) - 1, len(rows) > 0, len(level) > 0
    for place in range(first, stop):
        row = rows[place] if some else place
        if share != 0 and (not known or level[row] == 0):
            for k in range(width):
                out[row, k] = share * base[row, k]
        else:
            for k in range(width):
                out[row, k] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            if known and level[indices[entry]] > near:
                continue
            soon = np.int64(indices[min(entry + _AHEAD, last)]) * width
            for k in range(0, width, _LINE):
                prefetch(dense, soon + k)
            value = factor * values[entry]
            line = dense[indices[entry]]
            for k in range(width):
                out[row, k] += value * line[k]


# ---------------------------------------------------------------------- dropping


def thinned(values: Tensor, share: float, key: np.uint64, n_jobs: int | None = None) -> Tensor:
    """Return dense numbers with a share of them set to zero and the others made larger; the key says which.

    Each 64 random bits decide for two numbers, whatever the number of threads.
    """
    given = values.contiguous().numpy().reshape(-1)
    found = np.empty_like(given)
    limit, factor = np.uint64(round(share * 2.0**32)), given.dtype.type(1 / (1 - share))
    pairs = -(-len(given) // 2)
    work = blocks_of(pairs, _PAIRS)
    run_blocks(lambda first, stop: _thin(given, key, limit, factor, first, stop, found), work, n_jobs)
    return torch.from_numpy(found).reshape(values.shape)


@kernel
def _thin(given: Array, key: np.uint64, limit: np.uint64, factor: Any, first: int, stop: int, found: Array) -> None:
    for pair in range(first, stop):
        bits = mix(key + np.uint64(pair) * STEP)
        place = 2 * pair
        found[place] = given[place] * factor if bits >> _HALF >= limit else 0
        if place + 1 < len(given):
            found[place + 1] = given[place + 1] * factor if bits & _LOWER >= limit else 0
