"""Nodes with similar vectors: products of blocks in float32, or an index, give candidates; float64 ranks them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import InputError, Message, MissingDataError, format_value
from cge.ids import IdIndex, find_nodes, id_sequence

METRICS = ("cosine", "dot")
METHODS = ("auto", "exact", "approximate")

_MANY = 100_000  # queries at once; for fewer, building an index takes longer than it saves
_BATCH = 1024  # queries to the index at once
_SPARE = 16  # candidates beyond `top`: the node itself, and ties
_EXPANSION = 128  # least number of nodes that the index visits for a query
_ROWS, _QUERIES = 16_384, 256  # rows and queries of a block of products, of 16 MB
_TINY = float(np.finfo(np.float64).tiny)


class Similar(NamedTuple):
    """A node, and the similarity of its vector to that of the query."""

    node: Any
    score: float


def similar_nodes(
    model: Any, node: Hashable, top: int = 10, metric: str = "cosine", *, method: str = "auto"
) -> list[Similar]:
    """Return the nodes whose vectors are most similar to that of a node, the most similar first.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    node
        A node id.
    top : int
        How many nodes to return; all others in a smaller graph.
    metric : {"cosine", "dot"}
        The cosine of two vectors, or their inner product.
    method : {"auto", "exact", "approximate"}
        See `SimilarNodes`, which searches for many nodes at once. For a single node "auto" is exact.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array([5, 6, 7]), embedding_=np.array([[1, 0], [3, 4], [2, 0]]))
    >>> similar_nodes(model, 5)
    [Similar(node=7, score=1.0), Similar(node=6, score=0.6)]
    """
    return SimilarNodes(model.node_ids_, model.embedding_, metric, method=method).of(node, top)


class SimilarNodes:
    """Searches for similar nodes in `vectors (n, d)`, a row for each of `ids (n,)`.

    Scores are computed in float64 and do not depend on the number of threads. Ties are in the order of `ids`.

    Parameters
    ----------
    ids, vectors : arrays
        As `node_ids_` and `embedding_` of an estimator.
    metric : {"cosine", "dot"}
        A zero vector has cosine 0 with every other.
    method : {"auto", "exact", "approximate"}
        "approximate" builds an index with the package usearch, which has to be installed: it may miss some of the most
        similar nodes, but the scores and the order of those it returns are exact. "auto" does so for 100,000 or more
        queries at once, where the package is installed.

    >>> similar = SimilarNodes(np.array(["a", "b", "c"], object), np.array([[1.0, 0], [1, 1], [1, 1]]))
    >>> rows, scores = similar.nearest(["a", "c"], top=1)
    >>> similar.ids[rows].tolist(), scores.round(3).tolist()
    ([['b'], ['b']], [[0.707], [1.0]])
    """

    def __init__(self, ids: Array, vectors: Array, metric: str = "cosine", *, method: str = "auto") -> None:
        for name, value, legal in (("metric", metric, METRICS), ("method", method, METHODS)):
            if value not in legal:
                raise InputError(parameter=name, expected=f"one of {', '.join(map(repr, legal))}", found=value)
        vectors = np.ascontiguousarray(vectors, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(ids):
            raise InputError(f"there must be a vector for each of {len(ids):,} ids, found shape {vectors.shape}")
        self.ids, self.vectors, self.metric, self.method = ids, vectors, metric, method
        self._id_index = IdIndex(ids)
        self._index: Any = None
        self._norms = row_norms(vectors)
        if not np.isfinite(self._norms).all():
            wrong = ids[~np.isfinite(self._norms)][:1].tolist()[0]
            raise InputError(f"the vector of {format_value(wrong)} contains numbers that are not finite")
        if method == "approximate":
            _usearch()  # raises at once where it is missing

    def of(self, node: Hashable, top: int = 10) -> list[Similar]:
        """Return the nodes most similar to a node."""
        rows, scores = self.nearest([node], top)
        return [Similar(*pair) for pair in zip(self.ids[rows[0]].tolist(), scores[0].tolist(), strict=True)]

    def nearest(self, nodes: Iterable[Hashable] | None = None, top: int = 10) -> tuple[Array, Array]:
        """Return for each of `nodes`, by default all, the row numbers of the most similar nodes, and their scores.

        Both are `(k, min(top, n − 1))`; row numbers are positions in `ids`.
        """
        count = min(checked_integer("top", top, 1), max(len(self.ids) - 1, 0))
        queries = np.arange(len(self.ids))
        if nodes is not None:
            queries = find_nodes(self._id_index, id_sequence(nodes), "")
            if len(queries) == 1 and not self._norms[queries[0]]:
                name = format_value(self.ids[queries].tolist()[0])
                raise InputError(f"the vector of {name} is zero, so nothing is similar to it; choose a node with edges")
        if not count or not len(queries):
            return np.empty((len(queries), count), np.int64), np.empty((len(queries), count))
        if self.method_for(len(queries)) == "approximate":
            return self._approximate(queries, count)
        return nearest_rows(self.vectors, queries, count, self._norms, cosine=self.metric == "cosine")

    def method_for(self, n_queries: int) -> str:
        """Return the method that is used for so many queries: "exact" or "approximate"."""
        if self.method != "auto" or n_queries < _MANY:
            return "approximate" if self.method == "approximate" else "exact"
        try:
            _usearch()
        except MissingDataError:
            return "exact"
        return "approximate"

    def _approximate(self, queries: Array, top: int) -> tuple[Array, Array]:
        """Return the best of the candidates from the index, scored and sorted as in the exact search."""
        cosine, count = self.metric == "cosine", min(top + _SPARE, len(self.ids))
        if self._index is None:
            rows = self._indexed(np.arange(len(self.ids)))
            index = _usearch().Index(ndim=rows.shape[1], metric="ip", dtype="f32")
            index.add(np.arange(len(rows)), rows, threads=1)  # with several threads it is not reproducible
            self._index = index
        self._index.expansion_search = max(_EXPANSION, 2 * count)
        rows, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            query_vectors = self._indexed(batch)
            if not cosine:
                query_vectors[:, -1] = 0
            matches = self._index.search(query_vectors, count)
            keys = np.atleast_2d(matches.keys)
            counts = getattr(matches, "counts", [keys.shape[1]])  # a single query has none
            for number, query in enumerate(batch.tolist()):
                candidates = np.unique(keys[number, : counts[number]].astype(np.int64))
                candidates = candidates[candidates != query]
                if len(candidates) < top:  # an index may lose nodes where many vectors are equal
                    exact = nearest_rows(self.vectors, np.array([query]), top, self._norms, cosine=cosine)
                    rows[start + number], scores[start + number] = exact[0][0], exact[1][0]
                    continue
                values = inner_products(self.vectors, query, candidates, self._norms if cosine else None)
                order = np.lexsort((candidates, -values))[:top]
                rows[start + number], scores[start + number] = candidates[order], values[order]
        return rows, scores

    def _indexed(self, rows: Array) -> Array:
        """Return unit vectors for the index, whose inner products have the order of the scores.

        Where scores are inner products, an additional coordinate makes all norms equal; in queries it is zero.
        """
        vectors, norms = self.vectors[rows], self._norms[rows]
        if self.metric == "cosine":
            return _scaled(vectors, norms)
        largest = max(float(self._norms.max()), _TINY)
        additional = np.sqrt(np.maximum(1 - (norms / largest) ** 2, 0))
        return np.column_stack([vectors / largest, additional]).astype(np.float32)


def _usearch() -> Any:
    try:
        return import_module("usearch.index")
    except ImportError:
        problem = "the approximate search needs the package usearch, which is not installed"
        hint = Message.of("run 'pip install usearch', or use {method}", method="exact")
        raise MissingDataError(problem, hint=hint) from None


def row_norms(vectors: Array) -> Array:
    """Return the Euclidean norm of each vector, `(n,)` float64, block by block."""
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

    `queries` are row numbers, `top` is from 1 to n − 1, and `norms` are the `row_norms` of the vectors. Scores are
    cosines, else inner products; a row of zeros has cosine 0 with every other. All rows within rounding errors of the
    best are scored again by `inner_products`, so that the result is exact and ties are in the order of rows. Only one
    block of products is in memory at a time.
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
