"""Known labels at the ends of paths: how all weighted paths from a node vote, its own label excluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.models.pooling import StepRows
from cge.models.products import sparse_product

__all__ = ["label_votes", "returning"]

Array = npt.NDArray[Any]

_AT_ONCE = 64  # nodes whose returning paths are summed at once
_DOUBT = 0.05  # share of the votes given to all classes alike, so that no class is impossible


def returning(steps: StepRows, values: Array, hops: Sequence[float], nodes: Array) -> Array:
    """Return Σ_k h_k (M^k)_ii for some nodes i, `(k,)`: the weight of all paths that end where they start."""
    matrix = steps.matrix(values.astype(np.float64))
    found = np.zeros(len(nodes))
    for begin in range(0, len(nodes), _AT_ONCE):
        some = nodes[begin : begin + _AT_ONCE]
        column = np.arange(len(some))
        reached = np.zeros((steps.nodes, len(some)))
        reached[some, column] = 1
        total = hops[0] * reached[some, column]
        for weight in hops[1:]:
            reached = sparse_product(matrix, reached, steps.threads)
            total = total + weight * reached[some, column]
        found[begin : begin + _AT_ONCE] = total
    return found


def label_votes(
    steps: StepRows,
    values: Array,
    hops: Sequence[float],
    known: Array,
    members: Array,
    several: bool,
    asked: Array | None = None,
) -> Array:
    """Return log-votes of all weighted paths for each class, `(n, c)` float32; zero where no path meets a label.

    `known (k,)` are node numbers, `members (k, c)` their classes as zeros and ones. A known node's own label is no
    vote for itself, neither at once nor through a path that returns: what others say of it is all that counts.
    With one label per node a row is the logarithm of a posterior; with `several` it is log-odds against "no".
    Leaving labels out costs far more than the votes: where only some nodes are `asked`, the rows of other known ones
    may hold their own.
    """
    carried = np.zeros((steps.nodes, members.shape[1] + 1))
    carried[known, :-1] = members
    carried[known, -1] = 1  # how many labels are met at all
    matrix = steps.matrix(values.astype(np.float64))  # a node's own label is a difference of large sums
    total, reached = hops[0] * carried, carried
    for weight in hops[1:]:
        reached = sparse_product(matrix, reached, steps.threads)
        total += weight * reached
    everyone = total[:, -1:].copy()
    known = known if asked is None else known[np.isin(known, asked)]
    total[known] -= returning(steps, values, hops, known)[:, None] * carried[known]
    votes, met = np.maximum(total[:, :-1], 0), total[:, -1:]
    heard = met > 1e-9 * everyone  # less is what rounding left of a node's own label
    if several:
        share = np.clip(np.where(heard, votes / np.maximum(met, 1e-12), 0.5), 0, 1)
        share = (1 - _DOUBT) * share + _DOUBT / 2
        return np.where(heard, np.log(share) - np.log1p(-share), 0).astype(np.float32)
    classes = votes.shape[1]
    chance = (1 - _DOUBT) * votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-12) + _DOUBT / classes
    return np.where(heard, np.log(chance) + np.log(classes), 0).astype(np.float32)
