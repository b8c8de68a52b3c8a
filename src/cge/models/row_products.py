"""Products with the random-walk matrix of a graph that may be larger than memory.

Closed-form weightings have edge strengths g that do not depend on learned parameters, so that M_b = D^(b−1) G D^(−b)
for every normalization exponent b, and with P = D^(−1) G

    M_b^k = D^b P^k D^(−b)

All of them take products with P alone, which needs no weight per entry where edges have none. A product is computed for
blocks of rows, and within a block for blocks of columns, ascending. Entries of a row ascend as well, so that the terms
of a sum are added in the same order, and the bits of the result are the same, for any size of the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.npy_header import read_header
from cge.parallel import float_kernel, prefetch, resolve_jobs, run_blocks, split_blocks

_PIECES = 8  # parts of a block of rows for each thread
_AHEAD = 8  # entries ahead of which a row is loaded into the cache
_RANGE = 1 << 16  # rows that are scaled at once
_BASE_MEMORY = 700 << 20  # bytes of Python, its libraries and compiled kernels
_MIN_BLOCK = 1 << 10


class FileArray:
    """An `.npy` file of which only slices are read and written, without mapping it into memory."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            self.shape, self.dtype = read_header(stream)
            self.path, self._offset = path, stream.tell()
        self._row = int(np.prod(self.shape[1:], dtype=np.int64))

    @classmethod
    def create(cls, path: Path, shape: tuple[int, ...], dtype: Any) -> FileArray:
        """Create a file of zeros."""
        with path.open("wb") as stream:
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            stream.truncate(stream.tell() + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        return cls(path)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        size, offset = max(stop - start, 0) * self._row, self._offset + start * self._row * self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, size, offset=offset).reshape(max(stop - start, 0), *self.shape[1:])

    def __setitem__(self, rows: slice, values: Array) -> None:
        start = rows.indices(len(self))[0]
        with self.path.open("r+b") as stream:
            stream.seek(self._offset + start * self._row * self.dtype.itemsize)
            stream.write(np.ascontiguousarray(values, self.dtype).data)

    def take(self, rows: Array) -> Array:
        """Return some rows, ascending."""
        values = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for first, stop in split_blocks(len(self), _RANGE):
            low, high = np.searchsorted(rows, [first, stop])
            if high > low:
                values[low:high] = self[first:stop][rows[low:high] - first]
        return values


@dataclass(frozen=True)
class BlockSizes:
    """Sizes that fit in memory: `width` columns of inputs at once, and blocks of rows and columns of the graph.

    None means all of them, in memory.
    """

    width: int
    rows: int | None = None
    columns: int | None = None

    @property
    def in_memory(self) -> bool:
        """Whether all nodes are in memory, for `width` columns of inputs."""
        return self.rows is None


def fit_blocks(memory: int, num_nodes: int, num_entries: int, row_bytes: int, width: int) -> BlockSizes:
    """Return sizes with which a product of `width` columns takes at most so many bytes.

    >>> fit_blocks(8 << 30, 10**7, 2 * 10**8, 9 * 10**8, 16)
    BlockSizes(width=16, rows=None, columns=None)
    """
    usable = max(memory - _BASE_MEMORY, memory // 8)
    each = usable - row_bytes - 16 * num_nodes
    columns = width
    while columns >= 4:
        if 12 * num_nodes * columns <= each:  # three arrays of float32
            return BlockSizes(columns)
        columns //= 2
    entry_bytes = row_bytes / max(num_entries, 1) + 8
    row_size = entry_bytes * num_entries / max(num_nodes, 1) + 8 * width + 40
    rows = max(int(usable / 2 / row_size), _MIN_BLOCK)
    return BlockSizes(width, rows, max(int(usable / 4 / (4 * width)), _MIN_BLOCK))


@dataclass(frozen=True, eq=False)
class WalkMatrix:
    """P of a graph: rows in CSR form, arrays or `FileArray`s, `degree (n,)` float64, and the weight of self-loops.

    A node without a self-loop in the rows gets one of weight `loop_weight`; `own_loops (n,)` marks those that have one.
    """

    indptr: Any
    indices: Any
    weights: Any
    degree: Array
    loop_weight: float
    own_loops: Array | None = None

    def __len__(self) -> int:
        return len(self.degree)

    def rows(self, first: int, stop: int) -> tuple[Array, Array, Array]:
        """Return row pointers from 0, columns and weights of a block of rows; without weights these are empty."""
        pointers = np.asarray(self.indptr[first : stop + 1]).astype(np.int64)
        start, end = int(pointers[0]), int(pointers[-1])
        weights = np.empty(0, np.float32) if self.weights is None else np.asarray(self.weights[start:end], np.float32)
        return pointers - start, self.indices[start:end], weights

    def loops(self, first: int, stop: int) -> Array:
        """Return the weights of added self-loops, `(k, 1)`."""
        weights = np.full(stop - first, self.loop_weight, np.float32)
        if self.own_loops is not None:
            weights[self.own_loops[first:stop]] = 0
        return weights[:, None]


def walk_matrix(indptr: Any, indices: Any, weights: Any, self_loops: bool, block: int | None = None) -> WalkMatrix:
    """Return P with the degrees of the nodes; `self_loops` says that rows may have entries of the node itself."""
    count = len(indptr) - 1
    loop_weight, degree = 1.0, np.empty(count)
    own_loops = np.zeros(count, bool) if self_loops else None
    if weights is not None and len(weights):
        totals = [float(np.sum(weights[a:b], dtype=np.float64)) for a, b in split_blocks(len(weights), 1 << 22)]
        loop_weight = sum(totals) / len(weights)
    matrix = WalkMatrix(indptr, indices, weights, degree, loop_weight, own_loops)
    for first, stop in split_blocks(count, block or count or 1):
        pointers, columns, values = matrix.rows(first, stop)
        if own_loops is not None:
            node = np.repeat(np.arange(first, stop), np.diff(pointers))
            own_loops[node[columns == node]] = True
        if len(values):
            total = np.zeros(stop - first)
            _sum_rows(pointers, values, total)
        else:
            total = np.diff(pointers).astype(np.float64)
        degree[first:stop] = total + matrix.loops(first, stop)[:, 0]
    return matrix


def mean_product(matrix: WalkMatrix, x: Any, out: Any, blocks: BlockSizes, n_jobs: int | None) -> None:
    """Write P x to `out`, both `(n, s)` float32, arrays or `FileArray`s, but not the same one."""
    count, in_memory = len(matrix), isinstance(out, np.ndarray)
    for first, stop in split_blocks(count, blocks.rows or max(count, 1)):
        pointers, indices, weights = matrix.rows(first, stop)
        total = out[first:stop] if in_memory else np.empty((stop - first, out.shape[1]), np.float32)
        np.multiply(x[first:stop], matrix.loops(first, stop), out=total)
        next_entry = pointers[:-1].copy()
        pieces = _PIECES * resolve_jobs(n_jobs)
        borders = np.searchsorted(pointers, np.linspace(0, pointers[-1], pieces + 1)[1:-1])
        parts = list(pairwise(np.unique(np.r_[0, borders, stop - first]).tolist()))
        entries = pointers[1:], indices, weights
        for low, high in split_blocks(count, blocks.columns or max(count, 1)):
            rows = np.ascontiguousarray(x[low:high])

            def add(start: int, end: int, rows: Array = rows, bounds: Any = (low, high)) -> None:
                _add_entries(entries, next_entry, rows, bounds, start, end, total)  # noqa: B023 - called at once

            run_blocks(add, parts, n_jobs)
        total /= matrix.degree[first:stop, None].astype(np.float32)
        if not in_memory:
            out[first:stop] = total


@float_kernel
def _add_entries(entries: Any, next_entry: Array, x: Array, bounds: Any, start: int, stop: int, total: Array) -> None:
    """Add the entries of some rows whose columns are within `bounds`; `x` has the rows of these columns."""
    ends, indices, weights = entries
    low, high = bounds
    width, weighted, last = x.shape[1], len(weights) > 0, len(indices) - 1
    for row in range(start, stop):
        entry, end = next_entry[row], ends[row]
        while entry < end and indices[entry] < high:
            ahead = np.int64(indices[min(entry + _AHEAD, last)]) - low
            if 0 <= ahead < len(x):
                prefetch(x, ahead * width)
            line = x[indices[entry] - low]
            if weighted:
                value = weights[entry]
                for k in range(width):
                    total[row, k] += value * line[k]
            else:
                for k in range(width):
                    total[row, k] += line[k]
            entry += 1
        next_entry[row] = entry


@float_kernel
def _sum_rows(pointers: Array, values: Array, totals: Array) -> None:
    for row in range(len(totals)):
        for entry in range(pointers[row], pointers[row + 1]):
            totals[row] += np.float64(values[entry])


@float_kernel
def add_product(x: Array, matrix: Array, total: Array) -> None:
    """Add `x @ matrix` to `total`, each sum in the order of its terms, which BLAS does not promise."""
    for row in range(len(x)):
        for k in range(len(matrix)):
            value = x[row, k]
            for column in range(matrix.shape[1]):
                total[row, column] += value * matrix[k, column]


def horner(
    matrix: WalkMatrix, inputs: Any, hop_weights: list[float], arrays: tuple[Any, Any], blocks: BlockSizes, n_jobs: Any
) -> Any:
    """Return Σ_k h_k P^k x in one of two further arrays of the shape of the inputs x, which stay as they are."""
    total, other = arrays
    for first, stop in split_blocks(len(matrix), _RANGE):
        total[first:stop] = inputs[first:stop] * np.float32(hop_weights[-1])
    for weight in hop_weights[-2::-1]:
        mean_product(matrix, total, other, blocks, n_jobs)
        total, other = other, total
        if weight:
            for first, stop in split_blocks(len(matrix), _RANGE):
                total[first:stop] = total[first:stop] + inputs[first:stop] * np.float32(weight)
    return total
