"""What is known of a single step u → v, from which its weight is made: how similar and how connected its ends are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.graph import Graph
from cge.parallel import float_kernel, kernel, run_blocks

__all__ = ["common_neighbors", "cosines", "rarities"]

Array = npt.NDArray[Any]

_BLOCK = 4096  # nodes given to a thread at once


def common_neighbors(graph: Graph, threads: int | None = None) -> Array:
    """Return for each entry (u, v) of the graph's rows how many neighbors u and v share, `(m,)` int32."""
    found = np.zeros(len(graph.indices), np.int32)
    _by_blocks(graph.num_nodes, threads, lambda a, b: _common(graph.indptr, graph.indices, a, b, found))
    return found


def rarities(features: Any) -> Array:
    """Return the logarithm of each sparse feature's rarity, `(f,)`; dense features have none, `(0,)`."""
    if not sp.issparse(features):
        return np.empty(0)
    present = np.maximum(np.bincount(features.indices, minlength=features.shape[1]), 1)
    found: Array = np.log1p(features.shape[0] / present)
    return found


def cosines(graph: Graph, features: Any, threads: int | None = None, rarity: Array | None = None) -> Array:
    """Return for each entry (u, v) of the graph's rows the cosine of the features of u and v, `(m,)` float32.

    Sparse features are weighed by `rarity (f,)` first (by default their own: TF-IDF): shared rare words say more.
    """
    found = np.zeros(len(graph.indices), np.float32)
    if sp.issparse(features):
        rows = sp.csr_array(features, dtype=np.float32, copy=True)
        rows.sort_indices()
        rarity = rarities(features) if rarity is None else rarity
        rows.data *= rarity.astype(np.float32)[rows.indices]
        norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        rows.data /= np.repeat(np.maximum(norms, 1e-12).astype(np.float32), np.diff(rows.indptr))
        parts = (rows.indptr, rows.indices, rows.data)
        _by_blocks(
            graph.num_nodes, threads, lambda a, b: _sparse_dots(graph.indptr, graph.indices, *parts, a, b, found)
        )
        return found
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    unit = np.ascontiguousarray(unit, np.float32)
    _by_blocks(graph.num_nodes, threads, lambda a, b: _dense_dots(graph.indptr, graph.indices, unit, a, b, found))
    return found


def _by_blocks(nodes: int, threads: int | None, work: Any) -> None:
    run_blocks(work, [(b, min(b + _BLOCK, nodes)) for b in range(0, nodes, _BLOCK)], threads)


@kernel
def _common(indptr: Array, indices: Array, first: int, stop: int, found: Array) -> None:
    """Look the neighbors of the end with fewer up among those of the other, so that hubs cost little."""
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            few, many = u, v
            if indptr[v + 1] - indptr[v] < indptr[u + 1] - indptr[u]:
                few, many = v, u
            for place in range(indptr[few], indptr[few + 1]):
                wanted = indices[place]
                if place > indptr[few] and indices[place - 1] == wanted:
                    continue  # edges of several types count once
                low, high = indptr[many], indptr[many + 1]
                while low < high:
                    middle = (low + high) // 2
                    if indices[middle] < wanted:
                        low = middle + 1
                    else:
                        high = middle
                found[entry] += low < indptr[many + 1] and indices[low] == wanted


@float_kernel
def _sparse_dots(
    indptr: Array, indices: Array, rows: Array, columns: Array, values: Array, first: int, stop: int, found: Array
) -> None:
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            a, b, total = rows[u], rows[v], np.float32(0)
            while a < rows[u + 1] and b < rows[v + 1]:
                x, y = columns[a], columns[b]
                if x == y:
                    total += values[a] * values[b]
                a += x <= y
                b += y <= x
            found[entry] = total


@float_kernel
def _dense_dots(indptr: Array, indices: Array, unit: Array, first: int, stop: int, found: Array) -> None:
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            total = np.float32(0)
            for d in range(unit.shape[1]):
                total += unit[u, d] * unit[v, d]
            found[entry] = total
