"""Vectors of pairs of nodes and of sub-graphs, from the vectors of their nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import edge_columns
from cge.errors import InputError, format_value
from cge.estimators.classifier import NotFittedError
from cge.estimators.encoder_model import EncoderModel
from cge.ids import IdIndex, find_nodes, id_sequence
from cge.models.edge_weighting import EdgePropagation
from cge.models.node_pairs import PAIR_OPERATORS, pair_vectors


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
    ids, vectors = _vectors_of(model)
    index = IdIndex(ids)
    first, second = (find_nodes(index, column, "pairs") for column in edge_columns(pairs, "pair"))
    return pair_vectors(vectors, first, second, how)


def subgraph_vectors(model: Any, groups: Mapping[Any, Iterable[Hashable]] | Iterable[Iterable[Hashable]]) -> Array:
    """Return a vector for each sub-graph, `(g, dim)`: the weighted mean of its nodes' vectors.

    The weight of a node v of the sub-graph S is that of all paths within S that end at v,

        r(v) = Σ_k |h_k| Σ_{p: n_0, …, n_k = v, all in S} Π_t s(n_t, n_{t+1}),

    with the edge weights s and the hop weights h of the model: nodes that are central in S get more weight. For a
    weighting network these are the weights of its base weighting; estimators without edge weights give the plain mean.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    groups : {name: node ids} or a sequence of sequences of node ids
        Rows of the result are in this order. Repeated nodes count once.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array(["x", "y"], object), embedding_=np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> subgraph_vectors(model, {"one": ["x"], "both": ["x", "y"]}).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    ids, vectors = _vectors_of(model)
    index, fitted, edge_weights = IdIndex(ids), getattr(model, "fitted_", None), None
    if isinstance(fitted, EncoderModel):
        propagation = EdgePropagation(
            fitted.data.transitions, fitted.data.edge_inputs, fitted.selection.weighting.edge_weighting
        )
        edge_weights = fitted.data.transitions.matrix(propagation.values().numpy().astype(np.float64))
        hops = np.abs(propagation.hops())
    items = groups.items() if isinstance(groups, Mapping) else enumerate(id_sequence(groups))
    named = [(f"sub-graph {format_value(name)}", id_sequence(node_ids)) for name, node_ids in items]
    result = np.empty((len(named), vectors.shape[1]), vectors.dtype)
    for row, (name, node_ids) in enumerate(named):
        nodes = np.unique(find_nodes(index, node_ids, name))
        if not len(nodes):
            raise InputError(f"{name} has no nodes, so it has no vector")
        weight = np.ones(len(nodes)) if edge_weights is None else inner_weight(edge_weights, hops, nodes)
        result[row] = (weight / weight.sum()) @ vectors[nodes].astype(np.float64)
    return result


def inner_weight(edge_weights: sp.csr_array, hops: Array, nodes: Array) -> Array:
    """Return r of each of some nodes, `(k,)`: Σ_k h_k (Mᵀ)^k 1, where M has the edges among these nodes only."""
    rows = edge_weights[nodes]
    position = np.searchsorted(nodes, rows.indices)
    inside = nodes[np.minimum(position, len(nodes) - 1)] == rows.indices
    start, end = np.repeat(np.arange(len(nodes)), np.diff(rows.indptr))[inside], position[inside]
    weights = rows.data[inside]
    reached: Array = np.ones(len(nodes))
    total: Array = hops[0] * reached
    for hop in hops[1:]:
        reached = np.bincount(end, weights * reached[start], minlength=len(nodes))
        total = total + hop * reached
    return total


def _vectors_of(model: Any) -> tuple[Array, Array]:
    """Return the ids `(n,)` and vectors `(n, dim)` of a trained model."""
    if not hasattr(model, "embedding_") or not hasattr(model, "node_ids_"):
        kind = type(model).__name__
        raise NotFittedError(f"this {kind} has no node vectors; train a model that has, such as cge.CGE")
    return model.node_ids_, np.asarray(model.embedding_)
