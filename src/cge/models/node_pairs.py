"""Vectors and scores of pairs of nodes: how two vectors make one, and how many neighbors two nodes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["PAIR_OPERATORS", "pair_cosines", "pair_vectors", "shared_neighbors"]

Array = npt.NDArray[Any]

_BLOCK = 16_384  # pairs at once

PAIR_OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "hadamard": lambda a, b: a * b,
    "average": lambda a, b: (a + b) / 2,
    "l1": lambda a, b: np.abs(a - b),
    "l2": lambda a, b: (a - b) ** 2,
    "concat": lambda a, b: np.concatenate([a, b], axis=1),
}


def pair_vectors(vectors: Array, first: Array, second: Array, how: str) -> Array:
    """Return the vectors of pairs of rows, `(m, d)`, for "concat" `(m, 2 d)`, of the type of `vectors (n, d)`.

    >>> pair_vectors(np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0]), np.array([1]), "l2").tolist()
    [[4.0, 9.0]]
    """
    width = vectors.shape[1] * (2 if how == "concat" else 1)
    found = np.empty((len(first), width), vectors.dtype)
    for begin in range(0, len(first), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        found[rows] = PAIR_OPERATORS[how](vectors[first[rows]], vectors[second[rows]])
    return found


def pair_cosines(vectors: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return the inner product and the cosine of each pair of rows, `(m,)` float64; a row of zeros has cosine 0."""
    dots, sizes = np.empty(len(first)), np.linalg.norm(vectors.astype(np.float64), axis=1)
    for begin in range(0, len(first), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        dots[rows] = (vectors[first[rows]].astype(np.float64) * vectors[second[rows]]).sum(axis=1)
    return dots, dots / np.maximum(sizes[first] * sizes[second], np.finfo(np.float64).tiny)


def shared_neighbors(adjacency: sp.csr_array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return how many neighbors each pair shares, and the same with each one w weighed by 1 / log(degree of w), `(m,)`.

    The second is the index of Adamic and Adar (2003). `adjacency (n, n)` is symmetric, all its values are one.
    """
    degree = np.diff(adjacency.indptr)
    idf = 1 / np.log(np.maximum(degree, 2))  # a shared neighbor has at least two
    counts, weighed = np.zeros(len(first)), np.zeros(len(first))
    for begin in range(0, len(first), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        shared = sp.csr_array(adjacency[first[rows]].multiply(adjacency[second[rows]]))
        counts[rows], weighed[rows] = shared.sum(axis=1), shared @ idf
    return counts, weighed
