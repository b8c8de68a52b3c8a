"""Exact nearest rows: products of blocks in float32 find the candidates, sums in float64 decide among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["inner_products", "lengths", "nearest_rows"]

Array = npt.NDArray[Any]

_ROWS, _QUERIES = 16_384, 256  # of a block of products, which takes 16 MB
_TINY = float(np.finfo(np.float64).tiny)


def lengths(vectors: Array) -> Array:
    """Return the length of each vector, `(n,)` float64, block by block.

    >>> lengths(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [5.0, 0.0]
    """
    found = np.empty(len(vectors))
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, len(vectors), _ROWS):
            wide = vectors[begin : begin + _ROWS].astype(np.float64)
            found[begin : begin + _ROWS] = np.sqrt((wide * wide).sum(axis=1))
    return found


def inner_products(vectors: Array, row: int, others: Array, sizes: Array | None = None) -> Array:
    """Return the inner products of a row with others, `(k,)` float64; cosines where the rows' lengths are given.

    Each is one sum in one order: equal rows have equal products wherever they stand, and any block gives the same.
    """
    products: Array = (vectors[others].astype(np.float64) * vectors[row].astype(np.float64)).sum(axis=1)
    return products if sizes is None else products / np.maximum(sizes[others] * sizes[row], _TINY)


def nearest_rows(vectors: Array, queries: Array, top: int, sizes: Array, *, cosine: bool = True) -> tuple[Array, Array]:
    """Return for each of `queries (k,)`, row numbers, the `top` other rows with the highest scores, and the scores.

    Parameters
    ----------
    vectors : (n, d) float32
    queries : (k,) int
    top : int
        From 1 to n − 1.
    sizes : (n,)
        The vectors' `lengths`.
    cosine : bool
        Whether scores are cosines, else inner products. A row of zeros has cosine 0 with every other.

    Whatever comes within rounding errors of the best is scored again, by `inner_products`; so the result is exact, and
    equal scores stand in the order of rows. Memory is that of a block, whatever n and k are.
    """
    longest = max(float(sizes.max(initial=0)), _TINY)
    scale = sizes if cosine else np.full(len(sizes), longest)  # so that no product is beyond −1 to 1
    # γ_d bounds the error of a sum of d products in any order. Twice that covers the rounding of the scaled rows, too.
    doubt = 2 * (vectors.shape[1] + 8) * float(np.finfo(np.float32).eps)
    places, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
    for begin in range(0, len(queries), _QUERIES):
        some = queries[begin : begin + _QUERIES]
        asked = _scaled(vectors[some], sizes[some])
        unit = np.ones(len(some)) if cosine else np.maximum(sizes[some] * longest, _TINY)  # of a score, in products
        best = [(np.empty(0, np.int64), np.empty(0)) for _ in some]
        for first in range(0, len(vectors), _ROWS):
            rows = slice(first, first + _ROWS)
            products = asked @ _scaled(vectors[rows], scale[rows]).T  # (queries, rows)
            for place, query in enumerate(some.tolist()):
                near = first + _candidates(products[place], query - first, top, best[place][1] / unit[place], doubt)
                found = inner_products(vectors, query, near, sizes if cosine else None)
                best[place] = _merged(*best[place], near, found, top)
        for place, (kept, values) in enumerate(best):
            places[begin + place], scores[begin + place] = kept, values
    return places, scores


def _scaled(vectors: Array, scale: Array) -> Array:
    """Return rows divided by numbers, which may be too small for float32."""
    found: Array = (vectors / np.maximum(scale, _TINY)[:, None]).astype(np.float32)
    return found


def _candidates(products: Array, itself: int, top: int, best: Array, doubt: float) -> Array:
    """Return which rows of a block may be among the best, given the best scores before it, in falling order."""
    if 0 <= itself < len(products):
        products[itself] = -np.inf
    least = -np.inf
    if len(best) == top:
        least = best[-1]
    elif top < len(products):
        least = np.partition(products, len(products) - top)[len(products) - top]
    return np.flatnonzero((products >= least - doubt) & (products > -np.inf))


def _merged(places: Array, scores: Array, more: Array, values: Array, top: int) -> tuple[Array, Array]:
    """Return the `top` best of two lists, the best first, equal ones by place."""
    if not len(more):
        return places, scores
    places, scores = np.concatenate([places, more]), np.concatenate([scores, values])
    order = np.lexsort((places, -scores))[:top]
    return places[order], scores[order]
