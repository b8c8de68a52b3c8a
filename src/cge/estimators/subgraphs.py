"""Vectors of sub-graphs: means of their nodes' vectors, weighted by the paths within the sub-graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.errors import InputError, format_value
from cge.estimators.edge_vectors import vectors_of
from cge.estimators.encoder_model import EncoderModel
from cge.ids import IdIndex, find_nodes, id_sequence
from cge.models.edge_weighting import EdgePropagation


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
    ids, vectors = vectors_of(model)
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
