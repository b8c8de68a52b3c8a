"""Inputs of link prediction: numbers that describe a pair of nodes, and pairs that may be missing links."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.csr import index_dtype
from cge.graph import Graph
from cge.models.edge_features import pair_cosines, shared_neighbors

_BATCH = 16_384  # pairs whose paths are counted at once
_ROWS = 2048  # nodes whose neighbors of neighbors are listed at once
_MAX_DEGREE = 500  # a common neighbor with more says little, and would make a candidate of every pair of its neighbors

PAIR_INPUTS = ("common neighbors", "Adamic-Adar", "resource allocation", "jaccard", "3-hop paths", "degrees")


def neighbor_matrix(graph: Graph) -> sp.csr_array:
    """Return which nodes are joined, in either direction, as a symmetric matrix of ones without a diagonal."""
    matrix = graph.to_scipy()
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data[:] = 1
    return matrix


def pair_inputs(adjacency: sp.csr_array, pairs: Array, vectors: dict[str, Array]) -> tuple[Array, list[str]]:
    """Return numbers that describe pairs of node indices, `(k, q)` float64, and their names.

    Counts are of `neighbor_matrix`, in which the pairs should not be joined: log(1 + common neighbors), Adamic–Adar,
    resource allocation Σ 1/d_w over common neighbors w, Jaccard, log(1 + paths of 3 hops, each divided by the root of
    the degrees between), and log(d_u d_v). For each of `vectors (n, d)` the cosine follows.
    """
    first, second = pairs[:, 0], pairs[:, 1]
    degree = np.maximum(np.diff(adjacency.indptr), 1)
    common, adamic_adar = shared_neighbors(adjacency, first, second)
    by_root = sp.csr_array(adjacency.multiply(1 / np.sqrt(degree)[:, None]).multiply(1 / np.sqrt(degree)[None, :]))
    allocation, paths = np.zeros(len(pairs)), np.zeros(len(pairs))
    for start in range(0, len(pairs), _BATCH):
        rows = slice(start, start + _BATCH)
        of_first, of_second = adjacency[first[rows]], adjacency[second[rows]]
        allocation[rows] = sp.csr_array(of_first.multiply(of_second)) @ (1 / degree)
        paths[rows] = np.asarray((of_first @ by_root).multiply(of_second).sum(axis=1)).ravel()
    jaccard = common / np.maximum(degree[first] + degree[second] - common, 1)
    degrees = np.log(degree[first]) + np.log(degree[second])
    columns = [np.log1p(common), adamic_adar, allocation, jaccard, np.log1p(paths), degrees]
    columns += [pair_cosines(each, first, second)[1] for each in vectors.values()]
    return np.stack(columns, axis=1), [*PAIR_INPUTS, *(f"cosine of {name}" for name in vectors)]


def candidate_pairs(
    adjacency: sp.csr_array, nearest: Array | None = None, per_node: int = 20, nodes: Array | None = None
) -> Array:
    """Return pairs of node indices that are not joined and may be missing links, `(k, 2)`, the smaller index first.

    For each of `nodes`, by default all: the `per_node` nodes with the highest Adamic–Adar index (common neighbors with
    more than 500 neighbors are left out), and those in its row of `nearest (n, m)`. The number of pairs grows with that
    of nodes, not with its square.
    """
    size, degree = adjacency.shape[0], np.diff(adjacency.indptr)
    nodes = np.arange(size) if nodes is None else nodes
    weights = np.where(degree <= _MAX_DEGREE, 1 / np.log(np.maximum(degree, 2)), 0)
    weighted = sp.csr_array(sp.diags_array(weights) @ adjacency)
    codes: list[Array] = []
    for start in range(0, len(nodes), _ROWS):
        block = nodes[start : start + _ROWS]
        near = sp.csr_array(adjacency[block] @ weighted)
        rows = np.repeat(np.arange(len(block)), np.diff(near.indptr))
        order = np.lexsort((near.indices, -near.data, rows))
        place = np.arange(len(order)) - near.indptr[rows[order]]  # rows are consecutive in `order`
        # Joined nodes are dropped below, so a node may have as many more before them.
        chosen = order[place < per_node + degree[block][rows[order]] + 1]
        codes.append(_codes(block[rows[chosen]], near.indices[chosen], size))
        if nearest is not None:
            others = nearest[block].ravel()
            codes.append(_codes(np.repeat(block, nearest.shape[1]), others, size))
    everything = np.unique(np.concatenate([*codes, np.empty(0, np.int64)]))
    rows, columns = adjacency.nonzero()
    free = everything[~np.isin(everything, _codes(rows, columns, size))]
    return np.stack(np.divmod(free, size), axis=1).astype(index_dtype(size))


def _codes(first: Array, second: Array, size: int) -> Array:
    """Return one number for each pair of different nodes, whatever their order."""
    different = first != second
    first, second = first[different].astype(np.int64), second[different].astype(np.int64)
    return np.asarray(np.minimum(first, second) * size + np.maximum(first, second))
