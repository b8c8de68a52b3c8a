"""Nodes whose vectors are most alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cge.checks import checked_integer
from cge.errors import InputError, Message, MissingDataError, format_value
from cge.estimators.nearest import inner_products, lengths, nearest_rows
from cge.ids import IdIndex, find_nodes, id_sequence

__all__ = ["METHODS", "METRICS", "Similar", "SimilarNodes", "similar_nodes"]

Array = npt.NDArray[Any]

METRICS = ("cosine", "dot")
METHODS = ("auto", "exact", "approximate")

_MANY = 100_000  # nodes asked for at once; for fewer, building an index takes longer than it saves
_AT_ONCE = 1024  # queries to the index
_SPARE = 16  # candidates beyond those wanted: the node itself, and ties
_EFFORT = 128  # nodes the index looks at for a query, at least
_TINY = float(np.finfo(np.float64).tiny)


class Similar(NamedTuple):
    """A node, and how much its vector is like another's."""

    node: Any
    score: float


def similar_nodes(
    model: Any, node: Hashable, top: int = 10, metric: str = "cosine", *, method: str = "auto"
) -> list[Similar]:
    """Return the nodes whose vectors are most like a node's, the most similar first, without the node itself.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    node
        An id.
    top : int
        How many; fewer where the graph is smaller.
    metric : {"cosine", "dot"}
        The cosine of two vectors, or their inner product.
    method : {"auto", "exact", "approximate"}
        See `SimilarNodes`, which answers for many nodes. For a single one "auto" is exact.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array([5, 6, 7]), embedding_=np.array([[1, 0], [3, 4], [2, 0]]))
    >>> similar_nodes(model, 5)
    [Similar(node=7, score=1.0), Similar(node=6, score=0.6)]
    """
    return SimilarNodes(model.node_ids_, model.embedding_, metric, method=method).of(node, top)


class SimilarNodes:
    """Finds similar nodes among `vectors (n, d)`, a row for each of `ids (n,)`.

    Scores are sums in float64, the same for any number of threads. Equal ones stand in the order of `ids`.

    Parameters
    ----------
    ids, vectors : arrays
        As `node_ids_` and `embedding_` of an estimator.
    metric : {"cosine", "dot"}
        A vector of zeros has cosine 0 with every other.
    method : {"auto", "exact", "approximate"}
        "approximate" builds an index of the library usearch, once, which has to be installed: some of the most similar
        nodes may be missed, but scores and order of those found are exact. "auto" does so where 100,000 nodes or more
        are asked for at once and the library is there.

    >>> similar = SimilarNodes(np.array(["a", "b", "c"], object), np.array([[1.0, 0], [1, 1], [1, 1]]))
    >>> places, scores = similar.among(["a", "c"], top=1)
    >>> similar.ids[places].tolist(), scores.round(3).tolist()
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
        self._numbers = IdIndex(ids)
        self._index: Any = None
        self._sizes = lengths(vectors)
        if not np.isfinite(self._sizes).all():
            wrong = ids[~np.isfinite(self._sizes)][:1].tolist()[0]
            raise InputError(f"the vector of {format_value(wrong)} holds numbers that are not finite")
        if method == "approximate":
            _usearch()  # what is missing is said at once

    def of(self, node: Hashable, top: int = 10) -> list[Similar]:
        """Return the nodes most similar to one."""
        places, scores = self.among([node], top)
        return [Similar(*one) for one in zip(self.ids[places[0]].tolist(), scores[0].tolist(), strict=True)]

    def among(self, nodes: Iterable[Hashable] | None = None, top: int = 10) -> tuple[Array, Array]:
        """Return for each of `nodes`, by default all, the places of the most similar in `ids`, and their scores.

        Both are `(k, min(top, n − 1))`.
        """
        wanted = min(checked_integer("top", top, 1), max(len(self.ids) - 1, 0))
        queries = np.arange(len(self.ids))
        if nodes is not None:
            queries = find_nodes(self._numbers, id_sequence(nodes), "")
            if len(queries) == 1 and not self._sizes[queries[0]]:
                name = format_value(self.ids[queries].tolist()[0])
                raise InputError(f"the vector of {name} is zero, so nothing is similar to it; choose a node with edges")
        if not wanted or not len(queries):
            return np.empty((len(queries), wanted), np.int64), np.empty((len(queries), wanted))
        if self.used(len(queries)) == "approximate":
            return self._approximate(queries, wanted)
        return nearest_rows(self.vectors, queries, wanted, self._sizes, cosine=self.metric == "cosine")

    def used(self, queries: int) -> str:
        """Return the method that answers so many queries: "exact" or "approximate"."""
        if self.method != "auto" or queries < _MANY:
            return "approximate" if self.method == "approximate" else "exact"
        try:
            _usearch()
        except MissingDataError:
            return "exact"
        return "approximate"

    def _approximate(self, queries: Array, top: int) -> tuple[Array, Array]:
        """Let the index find candidates; score and sort them as the exact search does."""
        cosine, count = self.metric == "cosine", min(top + _SPARE, len(self.ids))
        if self._index is None:
            rows = self._indexed(np.arange(len(self.ids)))
            made = _usearch().Index(ndim=rows.shape[1], metric="ip", dtype="f32")
            made.add(np.arange(len(rows)), rows, threads=1)  # by several threads it would be another one each time
            self._index = made
        self._index.expansion_search = max(_EFFORT, 2 * count)
        places, scores = np.empty((len(queries), top), np.int64), np.empty((len(queries), top))
        for begin in range(0, len(queries), _AT_ONCE):
            some = queries[begin : begin + _AT_ONCE]
            asked = self._indexed(some)
            if not cosine:
                asked[:, -1] = 0
            found = self._index.search(asked, count)
            keys = np.atleast_2d(found.keys)
            counts = getattr(found, "counts", [keys.shape[1]])  # a single query has none
            for place, query in enumerate(some.tolist(), begin):
                near = np.unique(keys[place - begin, : counts[place - begin]].astype(np.int64))
                near = near[near != query]
                if len(near) < top:  # an index may lose nodes where many are alike
                    exact = nearest_rows(self.vectors, np.array([query]), top, self._sizes, cosine=cosine)
                    places[place], scores[place] = exact[0][0], exact[1][0]
                    continue
                values = inner_products(self.vectors, query, near, self._sizes if cosine else None)
                order = np.lexsort((near, -values))[:top]
                places[place], scores[place] = near[order], values[order]
        return places, scores

    def _indexed(self, rows: Array) -> Array:
        """Return some vectors as the index has them: of length one, with inner products in the order of the scores.

        Where scores are inner products, one number more makes all vectors equally long; for a query it is zero.
        """
        vectors, sizes = self.vectors[rows], self._sizes[rows]
        if self.metric == "cosine":
            found: Array = (vectors / np.maximum(sizes, _TINY)[:, None]).astype(np.float32)
            return found
        longest = max(float(self._sizes.max()), _TINY)
        rest = np.sqrt(np.maximum(1 - (sizes / longest) ** 2, 0))
        return np.column_stack([vectors / longest, rest]).astype(np.float32)


def _usearch() -> Any:
    try:
        return import_module("usearch.index")
    except ImportError:
        raise MissingDataError(
            "the approximate search needs the package usearch, which is not installed",
            hint=Message.of("run 'pip install usearch', or use {method}", method="exact"),
        ) from None
