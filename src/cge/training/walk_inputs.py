"""Vectors of random walks as node inputs (`inputs="walks"`): factorizations of walks or, in large graphs, of edges."""

from __future__ import annotations

import numpy as np

from cge.arrays import Array
from cge.graph import Graph
from cge.models.sparse_products import unit_rows
from cge.training.data_size import WALK_DIM
from cge.training.encoder_settings import MAX_FACTORIZED_NODES
from cge.training.walk_embedding import factorize_edges, factorize_walks

_ROUNDING = 1e-3  # absolute values up to this are rounding of zero


def walk_inputs(graph: Graph, seed: int, n_jobs: int | None) -> Array:
    """Return a vector of unit length for each node, `(n, d)`; zeros for nodes without an edge to another node."""
    vectors = np.zeros((len(graph), WALK_DIM), np.float32)
    if len(graph) <= MAX_FACTORIZED_NODES:
        vectors = factorize_walks(graph, WALK_DIM, seed=seed, n_jobs=n_jobs)
    if not (np.abs(vectors) > _ROUNDING).any():  # too large, or the NetMF matrix is zero (a cycle of 4)
        vectors = factorize_edges(graph, WALK_DIM, seed=seed, n_jobs=n_jobs)
    vectors[~_has_neighbors(graph)] = 0
    unit: Array = unit_rows(vectors)
    return unit


def _has_neighbors(graph: Graph) -> Array:
    """Return which nodes have an edge to or from another node, `(n,)`."""
    rows = np.repeat(np.arange(len(graph)), graph.degrees)
    other, result = rows != graph.indices, np.zeros(len(graph), bool)
    result[rows[other]] = result[graph.indices[other]] = True
    return result
