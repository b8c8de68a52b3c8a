"""Leave-one-out label propagation: the labels at the ends of all weighted paths from a node, without its own label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cge.arrays import Array
from cge.models.sparse_products import sparse_product
from cge.models.transitions import TransitionMatrix

_BATCH = 64  # nodes whose closed walks are summed at once


def symmetric_weights(transitions: TransitionMatrix, raw_weights: Array, normalization: float) -> tuple[Array, Array]:
    """Return the edge weights of an undirected graph, `(m,)` float64, and a symmetric form of them.

    For M = z^(b−1) G z^(−b) with a symmetric G, the matrix S = z^(−½) G z^(−½) is symmetric and has closed walks of the
    same weight: (S^k)_ii = (M^k)_ii. Raw weights are symmetric but for rounding, which is averaged out.
    """
    symmetric = (raw_weights + transitions.transposed(raw_weights).data) / 2
    total = np.bincount(transitions.rows, symmetric, minlength=transitions.num_nodes)
    start, end = total[transitions.rows], total[transitions.indices]
    return symmetric * start ** (normalization - 1) * end**-normalization, symmetric / np.sqrt(start * end)


def closed_walk_weights(
    transitions: TransitionMatrix,
    values: Array,
    hops: Sequence[float],
    nodes: Array,
    symmetric: Array | None = None,
) -> Array:
    """Return Σ_k h_k (M^k)_ii for some nodes i, `(k,)`: the weight of all paths that end where they start.

    With the `symmetric` form S of M half of the products are enough: (S^(a+b))_ii = ⟨S^a e_i, S^b e_i⟩.
    """
    matrix = transitions.matrix(np.asarray(values if symmetric is None else symmetric, np.float64))
    weights = np.zeros(len(nodes))
    for first in range(0, len(nodes), _BATCH):
        batch = nodes[first : first + _BATCH]
        column = np.arange(len(batch))
        reached = np.zeros((transitions.num_nodes, len(batch)))
        reached[batch, column] = 1
        total = np.full(len(batch), hops[0])
        for hop in range(1, len(hops), 1 if symmetric is None else 2):
            before, reached = reached, sparse_product(matrix, reached, transitions.n_jobs)
            if symmetric is None:
                total += hops[hop] * reached[batch, column]
                continue
            total += hops[hop] * np.einsum("ij,ij->j", before, reached)
            if hop + 1 < len(hops):
                total += hops[hop + 1] * np.einsum("ij,ij->j", reached, reached)
        weights[first : first + _BATCH] = total
    return weights


def label_propagation(
    transitions: TransitionMatrix,
    values: Array,
    hops: Sequence[float],
    nodes: Array,
    labels: Array,
    targets: Array | None = None,
    symmetric: Array | None = None,
    closed_walks: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Return weighted sums of the labels at the ends of all paths from a node, `(n, c)`, and their weights, `(n, 1)`.

    The label of a node does not contribute to its own score, neither directly nor through paths that return to it.
    The third result, `(n, 1)`, is whether a path ends at a label at all.

    Parameters
    ----------
    nodes : (k,), labels : (k, c)
        The labeled nodes, and their labels.
    targets : optional
        Nodes whose own label must be left out, which costs far more than the propagation; by default all nodes.
    symmetric : (m,), optional
        The symmetric form of `values`, which makes it cheaper; see `symmetric_weights`.
    closed_walks : (k,), optional
        `closed_walk_weights` of the labeled nodes, where they are known.
    """
    inputs = np.zeros((transitions.num_nodes, labels.shape[1] + 1))
    inputs[nodes, :-1] = labels
    inputs[nodes, -1] = 1  # counts labels
    matrix = transitions.matrix(values.astype(np.float64))  # leaving labels out takes differences of large sums
    total, reached = hops[0] * inputs, inputs
    for weight in hops[1:]:
        reached = sparse_product(matrix, reached, transitions.n_jobs)
        total += weight * reached
    with_own = total[:, -1:].copy()
    if closed_walks is None:
        nodes = nodes if targets is None else nodes[np.isin(nodes, targets)]
        closed_walks = closed_walk_weights(transitions, values, hops, nodes, symmetric)
    total[nodes] -= closed_walks[:, None] * inputs[nodes]
    count = total[:, -1:]
    reachable = count > 1e-9 * with_own  # less is what rounding left of a node's own label
    return total[:, :-1], count, reachable
