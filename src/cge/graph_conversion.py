"""Graphs of NetworkX, SciPy and PyTorch Geometric as arrays; neither NetworkX nor PyTorch is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.checks import checked_weights, to_numpy
from cge.csr import Rows, build_rows, check_rows
from cge.errors import InputError, Message


def scipy_rows(
    adjacency: Any, *, directed: bool | None, weighted: bool | None, self_loops: bool
) -> tuple[Rows, int, bool]:
    """Return the rows of a square sparse matrix, the number of nodes, and whether the graph is directed."""
    matrix = sp.csr_array(adjacency, copy=True)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"an adjacency matrix must be square, found shape {matrix.shape}")
    size = matrix.shape[0]
    check_rows(matrix.indptr, matrix.indices, size)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    values = checked_weights(matrix.data, matrix.nnz)
    transposed = sp.csr_array(matrix.T)
    transposed.sort_indices()
    symmetric = all(
        np.array_equal(getattr(matrix, part), getattr(transposed, part)) for part in ("indptr", "indices", "data")
    )
    if directed is False and not symmetric:
        raise InputError(
            "the adjacency matrix is not symmetric",
            hint=Message.of("pass {directed}, or add the transpose for an undirected graph", directed=True),
        )
    if weighted is None:
        weighted = bool(len(values)) and not np.all(values == values[0])
    source = np.repeat(np.arange(size), np.diff(matrix.indptr))
    weights = values if weighted else None
    rows = build_rows(size, source, matrix.indices, weights, directed=True, self_loops=self_loops)
    return rows, size, not symmetric if directed is None else directed


def networkx_edges(graph: Any, weight: str | None) -> tuple[list[Any], list[Any], list[Any] | None, bool]:
    """Return the edges and nodes of a NetworkX graph, its weights or None, and whether it is directed."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"from_networkx takes a NetworkX graph, found a {type(graph).__name__}")
    triples = list(graph.edges(data=weight, default=None)) if weight else [(u, v, None) for u, v in graph.edges()]
    values = [value for _, _, value in triples]
    weights = None if all(value is None for value in values) else [1.0 if value is None else value for value in values]
    return [(u, v) for u, v, _ in triples], list(graph.nodes), weights, bool(graph.is_directed())


def pyg_adjacency(data: Any) -> tuple[sp.csr_array, bool]:
    """Return the adjacency matrix of a PyTorch Geometric `Data`, and whether it has weights."""
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"from_pyg takes an object with edge_index, found a {type(data).__name__} without")
    edge_index = to_numpy(data.edge_index)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise InputError(f"edge_index must have shape (2, edges), found {edge_index.shape}")
    count = edge_index.shape[1]
    values, attributes = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if values is None and attributes is not None and to_numpy(attributes).size == count:
        values = to_numpy(attributes).reshape(-1)
    size = int(getattr(data, "num_nodes", None) or (edge_index.max() + 1 if count else 0))
    weights = np.ones(count) if values is None else checked_weights(to_numpy(values), count)
    wrong = edge_index[(edge_index < 0) | (edge_index >= size)]
    if len(wrong):
        raise InputError(f"edge_index contains {int(wrong[0])}, but the graph has {size:,} nodes")
    matrix = sp.csr_array(sp.coo_array((weights, (edge_index[0], edge_index[1])), shape=(size, size)))
    if values is None:
        matrix.data[:] = 1
    return matrix, values is not None
