"""Vectors and scores of pairs of nodes: binary operators on node vectors, cosines, common neighbors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array

_BATCH = 16_384  # pairs

PAIR_OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "hadamard": lambda a, b: a * b,
    "average": lambda a, b: (a + b) / 2,
    "l1": lambda a, b: np.abs(a - b),
    "l2": lambda a, b: (a - b) ** 2,
    "concat": lambda a, b: np.concatenate([a, b], axis=1),
}


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
