"""Search for nodes with similar vectors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import InputError, Message, MissingDataError, format_value
from cge.estimators.nearest import inner_products, nearest_rows, row_norms
from cge.ids import IdIndex, find_nodes, id_sequence

METRICS = ("cosine", "dot")
METHODS = ("auto", "exact", "approximate")

_MANY = 100_000  # queries at once; for fewer, building an index takes longer than it saves
_BATCH = 1024  # queries to the index at once
_SPARE = 16  # candidates beyond `top`: the node itself, and ties
_EXPANSION = 128  # least number of nodes that the index visits for a query
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
            unit: Array = (vectors / np.maximum(norms, _TINY)[:, None]).astype(np.float32)
            return unit
        largest = max(float(self._norms.max()), _TINY)
        additional = np.sqrt(np.maximum(1 - (norms / largest) ** 2, 0))
        return np.column_stack([vectors / largest, additional]).astype(np.float32)


def _usearch() -> Any:
    try:
        return import_module("usearch.index")
    except ImportError:
        raise MissingDataError(
            "the approximate search needs the package usearch, which is not installed",
            hint=Message.of("run 'pip install usearch', or use {method}", method="exact"),
        ) from None
