"""External sort of entries by blocks of rows: chunks are partitioned, then each block is sorted and merged.

Entries of equal row and column are merged in the order of the files, so that the result depends neither on the size of
chunks nor on that of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.csr import Rows, merge_entries
from cge.errors import InputError
from cge.parallel import kernel, run_blocks, split_blocks

_SHORT = 24  # entries of a row that are sorted by insertion
_ROWS = 1 << 14  # rows that a thread sorts at once


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of a matrix: rows, columns, and weights and types where there are any."""

    rows: Array
    cols: Array
    weights: Array | None = None
    types: Array | None = None

    def take(self, places: Array | slice) -> Entries:
        """Return some entries."""
        parts = (self.rows, self.cols, self.weights, self.types)
        return Entries(*(None if part is None else part[places] for part in parts))  # type: ignore[arg-type]


def entries_of(edges: Entries, directed: bool, self_loops: bool) -> Entries:
    """Return the entries of edges: an undirected edge has two, next to each other; self-loops are dropped or kept."""
    if not self_loops:
        edges = edges.take(edges.rows != edges.cols)
    if directed:
        return edges
    rows, cols = np.empty((2, 2 * len(edges.rows)), edges.rows.dtype)
    rows[::2], rows[1::2], cols[::2], cols[1::2] = edges.rows, edges.cols, edges.cols, edges.rows
    more = (None if part is None else np.repeat(part, 2) for part in (edges.weights, edges.types))
    both = Entries(rows, cols, *more)
    if not self_loops:
        return both
    second = (rows == cols) & (np.arange(len(rows)) % 2 == 1)  # a self-loop has one entry
    return both.take(~second)


def partition(entries: Entries, block_rows: int, count: int) -> tuple[Entries, Array]:
    """Return entries grouped by block of rows, in their order within each, and the bounds of groups, `(count + 1,)`."""
    block = (entries.rows // block_rows).astype(np.uint16 if count <= 1 << 16 else np.uint32)
    order = np.argsort(block, kind="stable")  # a radix sort
    return entries.take(order), np.concatenate([[0], np.cumsum(np.bincount(block, minlength=count))])


def sort_block(entries: Entries, first: int, count: int, n_jobs: int | None) -> Rows:
    """Sort the entries of rows `first` to `first + count` and merge those of equal row, column and type."""
    sizes = np.bincount(entries.rows - first, minlength=count)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices, edge = np.empty(len(entries.rows), entries.cols.dtype), np.empty(len(entries.rows), np.int64)
    _place(entries.rows, entries.cols, first, indptr[:-1].copy(), indices, edge)
    run_blocks(lambda start, stop: _sort_rows(indptr, indices, edge, start, stop), split_blocks(count, _ROWS), n_jobs)
    weights = np.empty(0) if entries.weights is None else entries.weights[edge].astype(np.float64)
    types = np.empty(0, np.int16) if entries.types is None else entries.types[edge]
    kept = merge_entries(indptr, indices, weights, types)
    if not np.isfinite(weights).all():
        raise InputError("the weights of an edge that occurs several times add up to infinity; scale the weights down")
    return Rows(
        indptr,
        indices[:kept],
        None if entries.weights is None else weights[:kept].astype(np.float64),
        None if entries.types is None else types[:kept],
    )


def concatenate(parts: list[Entries]) -> Entries:
    """Return the entries of several parts, in their order."""

    def joined(name: str) -> Array | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return Entries(*map(joined, ("rows", "cols", "weights", "types")))  # type: ignore[arg-type]


def entry_files(folder: Path, name: str, weighted: bool, typed: bool) -> dict[str, Path]:
    """Return the files of entries, by part."""
    parts = ["rows", "cols", *(["weights"] if weighted else []), *(["types"] if typed else [])]
    return {part: folder / f"{name}-{part}.npy" for part in parts}


@kernel
def _place(rows: Array, cols: Array, first: int, next_entry: Array, indices: Array, edge: Array) -> None:
    for k in range(len(rows)):
        at = next_entry[rows[k] - first]
        next_entry[rows[k] - first] = at + 1
        indices[at] = cols[k]
        edge[at] = k


@kernel
def _sort_rows(indptr: Array, indices: Array, edge: Array, start: int, stop: int) -> None:
    """Sort the entries of each row by column; equal ones keep their order."""
    for row in range(start, stop):
        first, end = indptr[row], indptr[row + 1]
        if end - first > _SHORT:
            order = np.argsort(indices[first:end], kind="mergesort")
            indices[first:end] = indices[first:end][order]
            edge[first:end] = edge[first:end][order]
            continue
        for k in range(first + 1, end):
            column, place, at = indices[k], edge[k], k
            while at > first and indices[at - 1] > column:
                indices[at], edge[at] = indices[at - 1], edge[at - 1]
                at -= 1
            indices[at], edge[at] = column, place
