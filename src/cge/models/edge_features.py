"""Features of edges and of other pairs of nodes: their similarity and connectedness, and vectors of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.models.sparse_products import entry_dots, unit_rows
from cge.parallel import float_kernel, kernel, run_blocks, split_blocks

_BLOCK = 4096  # nodes that a thread computes at once
_OWN = 2.0  # weight of a node's own features beside the sum over its neighbors
_MIN_SQUARE = 1e-6  # a smaller squared length is rounding
_ENTRIES = 50_000_000  # numbers that sums over neighbors hold at once
_BATCH = 16_384  # pairs that are computed at once

PAIR_OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "hadamard": lambda a, b: a * b,
    "average": lambda a, b: (a + b) / 2,
    "l1": lambda a, b: np.abs(a - b),
    "l2": lambda a, b: (a - b) ** 2,
    "concat": lambda a, b: np.concatenate([a, b], axis=1),
}


def common_neighbors(graph: Graph, n_jobs: int | None = None) -> Array:
    """Return for each entry (u, v) of the graph's rows how many neighbors u and v share, `(m,)` int32."""
    counts = np.zeros(len(graph.indices), np.int32)
    blocks = split_blocks(graph.num_nodes, _BLOCK)
    run_blocks(lambda first, stop: _common(graph.indptr, graph.indices, first, stop, counts), blocks, n_jobs)
    return counts


def inverse_document_frequencies(features: Any) -> Array:
    """Return log(1 + nodes / nodes with the feature) of each sparse feature, `(f,)`; `(0,)` for dense features."""
    if not sp.issparse(features):
        return np.empty(0)
    present = np.maximum(np.bincount(features.indices, minlength=features.shape[1]), 1)
    return np.asarray(np.log1p(features.shape[0] / present))


def cosines(graph: Graph, features: Any, n_jobs: int | None = None, idf: Array | None = None) -> Array:
    """Return for each entry (u, v) of the graph's rows the similarity of u and v with their neighbors, `(m,)` float32.

        cos(m_u − η_uv x_v, m_v − η_vu x_u),   m_u = 2 x_u + Σ_t η_ut x_t,   η_ut = w_ut / (Σ_s w_us²)^½

    x are the features in rows of unit length and w the edge weights. Adding the neighbors helps where a node has few
    features; the other node is left out of the sum, so that the edge itself does not make its nodes similar.
    Sparse features are multiplied by `idf (f,)` first, by default their own (TF-IDF). The similarity is 0 where a node
    and its neighbors have no features.
    """
    adjacency = _edge_weights(graph)
    row_lengths = np.sqrt(np.asarray(adjacency.multiply(adjacency).sum(axis=1)).ravel())
    adjacency.data /= np.repeat(row_lengths, np.diff(adjacency.indptr))
    source, target = np.repeat(np.arange(len(graph)), np.diff(adjacency.indptr)), adjacency.indices
    weights = adjacency.data  # η_uv of each entry (u, v)
    reverse_weights = adjacency[target, source]  # η_vu, 0 if there is none
    dot, square_u, square_v = (np.zeros(len(adjacency.data), np.float32) for _ in range(3))
    for x in _column_blocks(_unit_tf_idf(features, idf), adjacency):
        m = adjacency @ x + _OWN * x
        products = (_edge_dots(adjacency, *pair, n_jobs) for pair in ((m, m), (m, x), (x, m), (x, x)))
        edge_mm, edge_mx, edge_xm, edge_xx = products
        node_mm, node_mx, node_xx = (_row_dots(*pair) for pair in ((m, m), (m, x), (x, x)))
        cross_terms = edge_mm - weights * node_mx[target] - reverse_weights * node_mx[source]
        dot += cross_terms + weights * reverse_weights * edge_xx
        square_u += node_mm[source] - 2 * weights * edge_mx + weights**2 * node_xx[target]
        square_v += node_mm[target] - 2 * reverse_weights * edge_xm + reverse_weights**2 * node_xx[source]
    defined = np.minimum(square_u, square_v) > _MIN_SQUARE
    cosine = np.where(defined, dot / np.sqrt(np.where(defined, square_u * square_v, 1)), np.float32(0))
    if len(cosine) == len(graph.indices):
        return cosine
    keys = np.repeat(np.arange(len(graph)), np.diff(graph.indptr)) * len(graph) + graph.indices
    return cosine[np.unique(keys, return_inverse=True)[1]]  # edges of several types have the same


def _edge_weights(graph: Graph) -> sp.csr_array:
    """Return the edge weights, `(n, n)` float32, each row divided by a power of two so that any size fits."""
    weights = np.ones(len(graph.indices)) if graph.weights is None else graph.weights.astype(np.float64)
    adjacency = sp.csr_array((weights, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2, copy=True)
    adjacency.sum_duplicates()  # edges of several types
    _, power = np.frexp(adjacency.max(axis=1).toarray().ravel())
    adjacency.data = np.ldexp(adjacency.data, -np.repeat(power, np.diff(adjacency.indptr))).astype(np.float32)
    return adjacency


def _unit_tf_idf(features: Any, idf: Array | None) -> Any:
    """Return features in rows of unit length, sparse ones multiplied by `idf` before."""
    if not sp.issparse(features):
        return np.ascontiguousarray(unit_rows(features), np.float32)
    rows = sp.csr_array(features, dtype=np.float32, copy=True)
    rows.data *= (inverse_document_frequencies(features) if idf is None else idf).astype(np.float32)[rows.indices]
    return unit_rows(rows)


def _column_blocks(rows: Any, adjacency: sp.csr_array) -> Iterator[Any]:
    """Yield blocks of columns, so that sums over neighbors fit in memory; dense rows in one block."""
    if not sp.issparse(rows):
        yield rows
        return
    count = num_column_blocks(rows, adjacency.indices)
    borders = [block * rows.shape[1] // count for block in range(count + 1)]
    columns = rows.tocsc() if count > 1 else rows
    for low, high in pairwise(borders):
        yield sp.csr_array(columns[:, low:high])


def num_column_blocks(features: sp.csr_array, neighbors: Array) -> int:
    """Return into how many blocks the columns of sparse features are divided, where rows of `neighbors` are summed."""
    entries = int(np.diff(features.indptr)[neighbors].sum()) + features.nnz
    return min(-(-entries // _ENTRIES), features.shape[1]) or 1


def _row_dots(lhs: Any, rhs: Any) -> Array:
    """Return the inner product of each row with the same row of the other matrix, `(n,)` float32."""
    dots = lhs.multiply(rhs).sum(axis=1) if sp.issparse(lhs) else np.einsum("ij,ij->i", lhs, rhs)
    return np.asarray(dots, np.float32).ravel()


def _edge_dots(adjacency: sp.csr_array, lhs: Any, rhs: Any, n_jobs: int | None) -> Array:
    """Return for each entry (u, v) the inner product of row u of one matrix with row v of the other, `(m,)` float32."""
    if not sp.issparse(lhs):
        return entry_dots(adjacency, lhs, rhs, np.float32(0), n_jobs)
    lhs.sort_indices()
    rhs.sort_indices()
    dots = np.zeros(len(adjacency.indices), np.float32)
    lhs_parts, rhs_parts = ((matrix.indptr, matrix.indices, matrix.data) for matrix in (lhs, rhs))

    def block(first: int, stop: int) -> None:
        _sparse_dots(adjacency.indptr, adjacency.indices, lhs_parts, rhs_parts, first, stop, dots)

    run_blocks(block, split_blocks(adjacency.shape[0], _BLOCK), n_jobs)
    return dots


def pair_vectors(vectors: Array, first: Array, second: Array, how: str) -> Array:
    """Return the vectors of pairs of rows of `vectors (n, d)`, `(m, d)`, or `(m, 2 d)` for "concat".

    >>> pair_vectors(np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0]), np.array([1]), "l2").tolist()
    [[4.0, 9.0]]
    """
    width = vectors.shape[1] * (2 if how == "concat" else 1)
    combined = np.empty((len(first), width), vectors.dtype)
    for start in range(0, len(first), _BATCH):
        rows = slice(start, start + _BATCH)
        combined[rows] = PAIR_OPERATORS[how](vectors[first[rows]], vectors[second[rows]])
    return combined


def pair_cosines(vectors: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return the inner product and the cosine of each pair of rows, `(m,)` float64; a row of zeros has cosine 0."""
    dots, norms = np.empty(len(first)), np.linalg.norm(vectors.astype(np.float64), axis=1)
    for start in range(0, len(first), _BATCH):
        rows = slice(start, start + _BATCH)
        dots[rows] = (vectors[first[rows]].astype(np.float64) * vectors[second[rows]]).sum(axis=1)
    return dots, dots / np.maximum(norms[first] * norms[second], np.finfo(np.float64).tiny)


def shared_neighbors(adjacency: sp.csr_array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return the number of common neighbors of each pair, and their Adamic–Adar index Σ 1 / log(degree), `(m,)` each.

    Adamic and Adar 2003, "Friends and neighbors on the web". `adjacency (n, n)` is symmetric with values 1.
    """
    degree = np.diff(adjacency.indptr)
    inverse_log = 1 / np.log(np.maximum(degree, 2))  # a common neighbor has at least degree 2
    counts, adamic_adar = np.zeros(len(first)), np.zeros(len(first))
    for start in range(0, len(first), _BATCH):
        rows = slice(start, start + _BATCH)
        shared = sp.csr_array(adjacency[first[rows]].multiply(adjacency[second[rows]]))
        counts[rows], adamic_adar[rows] = shared.sum(axis=1), shared @ inverse_log
    return counts, adamic_adar


@kernel
def _common(indptr: Array, indices: Array, first: int, stop: int, out: Array) -> None:
    """Look the neighbors of the node with fewer up among those of the other, so that hubs cost little."""
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
                start, end = indptr[many], indptr[many + 1]
                match = start + np.searchsorted(indices[start:end], wanted)
                out[entry] += match < end and indices[match] == wanted


@float_kernel
def _sparse_dots(
    indptr: Array, indices: Array, lhs: tuple[Array, ...], rhs: tuple[Array, ...], first: int, stop: int, out: Array
) -> None:
    """Look the columns of the shorter row up in the rest of the longer one, by galloping search."""
    lhs_rows, lhs_columns, lhs_values = lhs
    rhs_rows, rhs_columns, rhs_values = rhs
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            few, many, few_values, many_values = lhs_columns, rhs_columns, lhs_values, rhs_values
            a, a_end, b, b_end = lhs_rows[u], lhs_rows[u + 1], rhs_rows[v], rhs_rows[v + 1]
            if a_end - a > b_end - b:
                few, many, few_values, many_values = many, few, many_values, few_values
                a, a_end, b, b_end = b, b_end, a, a_end
            total = np.float32(0)
            while a < a_end and b < b_end:
                wanted, stride = few[a], 1
                while b + stride < b_end and many[b + stride] < wanted:
                    stride *= 2
                b += np.searchsorted(many[b : min(b + stride, b_end)], wanted)
                if b < b_end and many[b] == wanted:
                    total += few_values[a] * many_values[b]
                a += 1
            out[entry] = total
