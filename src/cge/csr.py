"""Edges to compressed sparse rows by counting sort: three linear passes, no comparison sort.

Entries are first bucketed by column, then the buckets are read in order and appended to rows, so each row comes out
sorted. Then equal neighbors are merged in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.parallel import kernel


@dataclass(frozen=True)
class Rows:
    """Compressed sparse rows, `(n+1,)` and `(m,)`; in a row, neighbors ascend and (neighbor, type) is unique."""

    indptr: Array
    indices: Array
    weights: Array | None
    types: Array | None


def index_dtype(largest: int) -> type[np.int32] | type[np.int64]:
    """Return the smaller of int32 and int64 that holds `largest` (SciPy and the kernels share these two)."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def build_rows(
    num_nodes: int,
    source: Array,
    target: Array,
    weights: Array | None = None,
    types: Array | None = None,
    *,
    directed: bool = False,
    self_loops: bool = False,
) -> Rows:
    """Sort edges `source[k] → target[k]` (indices below `num_nodes`) into rows.

    Undirected edges are entered in both rows. Duplicates are merged: weights add up, edges without weights collapse;
    edges of different `types` between the same nodes are kept apart. Self-loops are dropped unless `self_loops`.
    """
    node_type = index_dtype(num_nodes)
    no_loop = source != target
    counts = np.bincount(target if self_loops else target[no_loop], minlength=num_nodes + 1)
    counts += 0 if directed else np.bincount(source[no_loop], minlength=num_nodes + 1)
    entries = int(counts.sum())
    pointer_type = index_dtype(entries)
    by_column = np.empty(entries, node_type)  # row of each entry, entries grouped by column
    edge = np.empty(entries if weights is not None or types is not None else 0, index_dtype(len(source)))
    column_start = _starts(counts, pointer_type)
    _bucket(source, target, directed, self_loops, column_start.copy(), by_column, edge)
    row_start = column_start  # undirected entries are symmetric: rows are as long as columns
    if directed:
        row_start = _starts(np.bincount(by_column, minlength=num_nodes + 1), pointer_type)
    indices: Array = np.empty(entries, node_type)
    row_edge = np.empty(len(edge), edge.dtype)
    _transpose(column_start, by_column, edge, row_start.copy(), indices, row_edge)
    del by_column, edge
    # In float64: sums of float32 would round.
    row_weights: Array = np.empty(0) if weights is None else weights[row_edge].astype(np.float64)
    row_types: Array = np.empty(0, np.int16) if types is None else types[row_edge]
    count = merge_entries(row_start, indices, row_weights, row_types)
    if count < entries:
        indices, row_weights, row_types = (part[:count].copy() for part in (indices, row_weights, row_types))
    if weights is not None:
        row_weights = row_weights.astype(weights.dtype, copy=False)
        if not np.isfinite(row_weights).all():
            row = int(np.searchsorted(row_start, np.flatnonzero(~np.isfinite(row_weights))[0], side="right")) - 1
            raise InputError(f"the weights of an edge of node index {row:,} add up to infinity; scale the weights down")
    pointers = row_start.astype(index_dtype(count), copy=False)
    return Rows(pointers, indices, None if weights is None else row_weights, None if types is None else row_types)


def entries_of(indptr: Array, rows: Array) -> Array:
    """Return the positions of all entries of some rows, in their order.

    >>> entries_of(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    starts, sizes = indptr[rows].astype(np.int64), indptr[rows + 1] - indptr[rows]
    shifts = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) if len(rows) else 0
    return np.asarray(shifts + np.arange(int(sizes.sum())))


def nodes_within(indptr: Array, indices: Array, seeds: Array, hops: int) -> Array:
    """Return the nodes at most `hops` hops from a seed, along the entries of rows, ascending."""
    reached = np.zeros(len(indptr) - 1, bool)
    reached[seeds] = True
    frontier = np.unique(seeds)
    for _ in range(hops):
        nearby = indices[entries_of(indptr, frontier)]
        frontier = np.unique(nearby[~reached[nearby]])
        if not len(frontier):
            break
        reached[frontier] = True
    return np.flatnonzero(reached)


def splice_rows(indptr: Array, values: Array, rows: Array, new_indptr: Array, new_values: Array) -> Array:
    """Return values of entries in which those of some ascending `rows` are replaced, and rows may be added at the end.

    `new_indptr` has the rows of the result. `new_values` are the entries of `rows`, one row after the other.
    """
    out = np.empty((int(new_indptr[-1]), *values.shape[1:]), values.dtype)
    old_end = new_end = taken = 0
    last = len(indptr) - 1
    for row in rows.tolist():
        start, stop = int(new_indptr[row]), int(new_indptr[row + 1])
        kept = start - new_end
        out[new_end:start] = values[old_end : old_end + kept]
        out[start:stop] = new_values[taken : taken + stop - start]
        old_end, new_end, taken = int(indptr[min(row + 1, last)]), stop, taken + stop - start
    out[new_end:] = values[old_end:]
    return out


def check_endpoints(source: Array, target: Array, num_nodes: int) -> None:
    """Refuse sources and targets that are not node indices."""
    if source.shape != target.shape or source.ndim != 1:
        raise InputError(f"sources and targets must be flat and equally long, found {source.shape}, {target.shape}")
    for column in (source, target):
        if len(column) and (column.min() < 0 or column.max() >= num_nodes):
            wrong = column[(column < 0) | (column >= num_nodes)][0]
            raise InputError(f"edges contain node index {wrong:,}, but there are {num_nodes:,} nodes")


def check_rows(indptr: Array, indices: Array, num_nodes: int) -> None:
    """Refuse rows with which kernels, which do not check bounds, would read outside of arrays."""
    if indptr.shape != (num_nodes + 1,) or indices.ndim != 1:
        raise InputError(f"{num_nodes:,} rows need {num_nodes + 1:,} row pointers, found {indptr.shape}")
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise InputError(f"row pointers must ascend from 0 to the number of entries, {len(indices):,}")
    if len(indices) and (indices.min() < 0 or indices.max() >= num_nodes):
        wrong = indices[(indices < 0) | (indices >= num_nodes)][0]
        raise InputError(f"an entry has node index {wrong:,}, but there are {num_nodes:,} nodes")


def check_order(indptr: Array, indices: Array) -> None:
    """Refuse rows whose entries do not ascend; the same entry may occur several times, with different types."""
    descends = indices[1:] < indices[:-1]
    descends[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = False  # from one row to the next
    if descends.any():
        row = np.searchsorted(indptr, descends.argmax(), side="right") - 1
        raise InputError(f"the entries of each row must ascend, those of row {row:,} do not")


def _starts(counts: Array, dtype: type[np.int32] | type[np.int64]) -> Array:
    """Return the n+1 offsets of rows from the counts of n rows (in an array of n+1)."""
    starts = np.zeros(len(counts), dtype)
    np.cumsum(counts[:-1], out=starts[1:])
    return starts


@kernel
def _bucket(
    source: Array, target: Array, directed: bool, self_loops: bool, next_entry: Array, by_column: Array, edge: Array
) -> None:
    track = len(edge) > 0
    for k in range(len(source)):
        u, v = source[k], target[k]
        if u == v and not self_loops:
            continue
        at = next_entry[v]
        next_entry[v] = at + 1
        by_column[at] = u
        if track:
            edge[at] = k
        if u != v and not directed:
            at = next_entry[u]
            next_entry[u] = at + 1
            by_column[at] = v
            if track:
                edge[at] = k


@kernel
def _transpose(
    column_start: Array, by_column: Array, edge: Array, next_entry: Array, indices: Array, row_edge: Array
) -> None:
    track = len(edge) > 0
    for column in range(len(column_start) - 1):
        for k in range(column_start[column], column_start[column + 1]):
            row = by_column[k]
            at = next_entry[row]
            next_entry[row] = at + 1
            indices[at] = column
            if track:
                row_edge[at] = edge[k]


@kernel
def merge_entries(indptr: Array, indices: Array, weights: Array, types: Array) -> int:
    """Merge equal entries of sorted rows in place; `indptr` is rewritten. Returns the new number of entries."""
    weighted, typed = len(weights) > 0, len(types) > 0
    count = 0
    start = indptr[0]
    for row in range(len(indptr) - 1):
        end = indptr[row + 1]
        first = count
        for k in range(start, end):
            column = indices[k]
            # Search the entries already written for this neighbor (one per type, so few).
            equal = -1
            previous = count - 1
            while previous >= first and indices[previous] == column:
                if not typed or types[previous] == types[k]:
                    equal = previous
                    break
                previous -= 1
            if equal >= 0:
                if weighted:
                    weights[equal] += weights[k]
                continue
            indices[count] = column
            if weighted:
                weights[count] = weights[k]
            if typed:
                types[count] = types[k]
            count += 1
        indptr[row] = first
        start = end
    indptr[len(indptr) - 1] = count
    return count
