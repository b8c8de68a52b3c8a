"""Exact nearest rows: products of blocks in float32 give candidates, sums in float64 rank them."""

from __future__ import annotations

import numpy as np

from cge.arrays import Array

_ROWS, _QUERIES = 16_384, 256  # rows and queries of a block of products, of 16 MB
_TINY = float(np.finfo(np.float64).tiny)


def row_norms(vectors: Array) -> Array:
    """Return the Euclidean norm of each vector, `(n,)` float64, block by block.

    >>> row_norms(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [5.0, 0.0]
    """
    norms = np.empty(len(vectors))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vectors), _ROWS):
            block = vectors[start : start + _ROWS].astype(np.float64)
            norms[start : start + _ROWS] = np.sqrt((block * block).sum(axis=1))
    return norms


def inner_products(vectors: Array, row: int, others: Array, norms: Array | None = None) -> Array:
    """Return the inner products of a row with others, `(k,)` float64; with the `norms` of all rows, cosines.

    The order of summation is fixed: equal rows have exactly equal products, in any block.
    """
    products: Array = (vectors[others].astype(np.float64) * vectors[row].astype(np.float64)).sum(axis=1)
    return products if norms is None else products / np.maximum(norms[others] * norms[row], _TINY)


def nearest_rows(vectors: Array, queries: Array, top: int, norms: Array, *, cosine: bool = True) -> tuple[Array, Array]:
    """Return the `top` other rows with the highest scores for each of `queries`, and the scores, `(k, top)` each.

    Parameters
    ----------
    vectors : (n, d) float32
    queries : (k,) int
        Row numbers.
    top : int
        From 1 to n − 1.
    norms : (n,)
        The `row_norms` of the vectors.
    cosine : bool
        Whether scores are cosines, else inner products. A row of zeros has cosine 0 with every other.

    Notes
    -----
    All rows within rounding errors of the best are scored again by `inner_products`, so that the result is exact and
    ties are in the order of rows. Only one block of products is in memory at a time.
    """
    largest = max(float(norms.max(initial=0)), _TINY)
    scale = norms if cosine else np.full(len(norms), largest)  # so that all products are between −1 and 1
    # γ_d bounds the error of a sum of d products in any order. Twice that covers the rounding of the scaled rows, too.
    tolerance = 2 * (vectors.shape[1] + 8) * float(np.finfo(np.float32).eps)
    rows, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
    for start in range(0, len(queries), _QUERIES):
        batch = queries[start : start + _QUERIES]
        query_vectors = _scaled(vectors[batch], norms[batch])
        unit = np.ones(len(batch)) if cosine else np.maximum(norms[batch] * largest, _TINY)  # score / scaled product
        best = [(np.empty(0, np.int64), np.empty(0)) for _ in batch]
        for first in range(0, len(vectors), _ROWS):
            block = slice(first, first + _ROWS)
            products = query_vectors @ _scaled(vectors[block], scale[block]).T  # (queries, rows)
            for number, query in enumerate(batch.tolist()):
                best_scaled = best[number][1] / unit[number]
                near = first + _candidates(products[number], query - first, top, best_scaled, tolerance)
                exact = inner_products(vectors, query, near, norms if cosine else None)
                best[number] = _merge(*best[number], near, exact, top)
        for number, (best_rows, values) in enumerate(best):
            rows[start + number], scores[start + number] = best_rows, values
    return rows, scores


def _scaled(vectors: Array, scale: Array) -> Array:
    """Return rows divided by a scale, which may be too small for float32."""
    scaled: Array = (vectors / np.maximum(scale, _TINY)[:, None]).astype(np.float32)
    return scaled


def _candidates(products: Array, own_row: int, top: int, best: Array, tolerance: float) -> Array:
    """Return which rows of a block may be among the best, given the best scores so far, in descending order."""
    if 0 <= own_row < len(products):
        products[own_row] = -np.inf
    least = -np.inf
    if len(best) == top:
        least = best[-1]
    elif top < len(products):
        least = np.partition(products, len(products) - top)[len(products) - top]
    return np.flatnonzero((products >= least - tolerance) & (products > -np.inf))


def _merge(rows: Array, scores: Array, more: Array, values: Array, top: int) -> tuple[Array, Array]:
    """Return the `top` best of two lists, the best first, ties by row number."""
    if not len(more):
        return rows, scores
    rows, scores = np.concatenate([rows, more]), np.concatenate([scores, values])
    order = np.lexsort((rows, -scores))[:top]
    return rows[order], scores[order]
