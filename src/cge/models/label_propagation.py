"""Known labels at the ends of paths: how all weighted paths from a node vote, its own label excluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import sparse_product

__all__ = ["closed_walk_weights", "label_propagation", "symmetric_weights"]

Array = npt.NDArray[Any]

_AT_ONCE = 64  # nodes whose returning paths are summed at once
_DOUBT = 0.05  # share of the votes given to all classes alike, so that no class is impossible


def symmetric_weights(steps: TransitionMatrix, gates: Array, normalization: float) -> tuple[Array, Array]:
    """Return the weights of the steps of an undirected graph, `(m,)` float64, and those of a mirror of theirs.

    Of M = z^(b−1) G z^(−b) with a symmetric G, S = z^(−½) G z^(−½) is symmetric and has as many paths that return, each
    of the same weight: (S^k)_ii = (M^k)_ii. Gates are the same both ways but for rounding, which is taken out.
    """
    both = (gates + steps.transposed(gates).data) / 2
    total = np.bincount(steps.rows, both, minlength=steps.num_nodes)
    there, ends = total[steps.rows], total[steps.indices]
    return both * there ** (normalization - 1) * ends**-normalization, both / np.sqrt(there * ends)


def closed_walk_weights(
    steps: TransitionMatrix, values: Array, hops: Sequence[float], nodes: Array, mirror: Array | None = None
) -> Array:
    """Return Σ_k h_k (M^k)_ii for some nodes i, `(k,)`: the weight of all paths that end where they start.

    With the `mirror` S of M half of the products are enough: (S^(a+b))_ii = ⟨S^a e_i, S^b e_i⟩.
    """
    matrix = steps.matrix(np.asarray(values if mirror is None else mirror, np.float64))
    found = np.zeros(len(nodes))
    for begin in range(0, len(nodes), _AT_ONCE):
        some = nodes[begin : begin + _AT_ONCE]
        column = np.arange(len(some))
        reached = np.zeros((steps.num_nodes, len(some)))
        reached[some, column] = 1
        total = np.full(len(some), hops[0])
        for hop in range(1, len(hops), 1 if mirror is None else 2):
            before, reached = reached, sparse_product(matrix, reached, steps.n_jobs)
            if mirror is None:
                total += hops[hop] * reached[some, column]
                continue
            total += hops[hop] * np.einsum("ij,ij->j", before, reached)
            if hop + 1 < len(hops):
                total += hops[hop + 1] * np.einsum("ij,ij->j", reached, reached)
        found[begin : begin + _AT_ONCE] = total
    return found


def label_propagation(
    steps: TransitionMatrix,
    values: Array,
    hops: Sequence[float],
    known: Array,
    members: Array,
    several: bool,
    asked: Array | None = None,
    mirror: Array | None = None,
    own: Array | None = None,
) -> Array:
    """Return log-votes of all weighted paths for each class, `(n, c)` float32; zero where no path meets a label.

    `known (k,)` are node numbers, `members (k, c)` their classes as zeros and ones. A known node's own label is no
    vote for itself, neither at once nor through a path that returns: what others say of it is all that counts.
    With one label per node a row is the logarithm of a posterior; with `several` it is log-odds against "no".
    Leaving labels out costs far more than the votes: where only some nodes are `asked`, the rows of other known ones
    may hold their own. A `mirror` of the steps' weights makes it cheaper, and what was found before is `own (k,)`:
    the weight of all paths `closed_walk_weights` to each known node.
    """
    carried = np.zeros((steps.num_nodes, members.shape[1] + 1))
    carried[known, :-1] = members
    carried[known, -1] = 1  # how many labels are met at all
    matrix = steps.matrix(values.astype(np.float64))  # a node's own label is a difference of large sums
    total, reached = hops[0] * carried, carried
    for weight in hops[1:]:
        reached = sparse_product(matrix, reached, steps.n_jobs)
        total += weight * reached
    everyone = total[:, -1:].copy()
    if own is None:
        known = known if asked is None else known[np.isin(known, asked)]
        own = closed_walk_weights(steps, values, hops, known, mirror)
    total[known] -= own[:, None] * carried[known]
    votes, met = np.maximum(total[:, :-1], 0), total[:, -1:]
    heard = met > 1e-9 * everyone  # less is what rounding left of a node's own label
    if several:
        share = np.clip(np.where(heard, votes / np.maximum(met, 1e-12), 0.5), 0, 1)
        share = (1 - _DOUBT) * share + _DOUBT / 2
        return np.where(heard, np.log(share) - np.log1p(-share), 0).astype(np.float32)
    classes = votes.shape[1]
    chance = (1 - _DOUBT) * votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-12) + _DOUBT / classes
    return np.where(heard, np.log(chance) + np.log(classes), 0).astype(np.float32)
