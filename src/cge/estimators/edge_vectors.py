"""Vectors of pairs of nodes, from the vectors of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from cge.arrays import Array
from cge.checks import edge_columns
from cge.errors import InputError
from cge.estimators.not_fitted import NotFittedError
from cge.ids import IdIndex, find_nodes
from cge.models.edge_features import PAIR_OPERATORS, pair_vectors


def edge_vectors(model: Any, pairs: Any, how: str = "hadamard") -> Array:
    """Return a vector for each pair of nodes, `(m, dim)`, whether there is an edge between them or not.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    pairs : (m, 2) array or sequence of pairs
        Node ids.
    how : {"hadamard", "average", "l1", "l2", "concat"}
        Elementwise: the product, the mean, the absolute or the squared difference; or the concatenation of both
        vectors, `(m, 2 dim)`, the only one that depends on the order of the pair.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array(["x", "y"], object), embedding_=np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> edge_vectors(model, [("x", "y"), ("y", "y")]).tolist()
    [[3.0, 8.0], [9.0, 16.0]]
    """
    if how not in PAIR_OPERATORS:
        raise InputError(parameter="how", expected=f"one of {', '.join(map(repr, PAIR_OPERATORS))}", found=how)
    ids, vectors = vectors_of(model)
    index = IdIndex(ids)
    first, second = (find_nodes(index, column, "pairs") for column in edge_columns(pairs, "pair"))
    return pair_vectors(vectors, first, second, how)


def vectors_of(model: Any) -> tuple[Array, Array]:
    """Return the ids `(n,)` and vectors `(n, dim)` of a trained model."""
    if not hasattr(model, "embedding_") or not hasattr(model, "node_ids_"):
        kind = type(model).__name__
        raise NotFittedError(f"this {kind} has no node vectors; train a model that has, such as cge.CGE")
    return model.node_ids_, np.asarray(model.embedding_)
