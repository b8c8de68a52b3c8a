"""Weights of many paths with common prefixes: an LSTM takes one step for each distinct path.

A path extends another one (its *parent*) by one node. Paths with the same first node form a tree, and the LSTM state of
a path is one step from that of its parent, so a path costs one step however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.parallel import float_kernel, run_blocks

_BLOCK = 16_384  # approximate number of paths per block of a thread


@dataclass(frozen=True, eq=False)
class PathTree:
    """Distinct paths, grouped by first node, each after its parent.

    `nodes (b, window)` and `length (b,)` are the paths; `order (b,)` are their indices by group; `parent (b,)` is the
    position *in that order* of the path without its last node, −1 if it is not in the tree; `indptr (g+1,)` are the
    positions at which the groups start.
    """

    nodes: Array
    length: Array
    order: Array
    parent: Array
    indptr: Array

    @classmethod
    def grow(cls, nodes: Array, length: Array, parents: Array) -> PathTree:
        """Group paths; `parents (b,)` are indices of paths or −1, and a path has a larger index than its parent."""
        order = np.argsort(nodes[:, 0], kind="stable")
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        parent = np.where(parents[order] < 0, -1, position[parents[order]]) if len(order) else position
        starts = nodes[order, 0]
        indptr = np.flatnonzero(np.r_[True, starts[1:] != starts[:-1], True]) if len(order) else np.zeros(1, np.int64)
        return cls(nodes, length, order, parent, indptr)

    def __len__(self) -> int:
        return len(self.order)


def lstm_scores(
    tree: PathTree, projected: Array, bias: Array, recurrent: Array, last: Array, n_jobs: int | None
) -> Array:
    """Return the score of each path by an LSTM and a linear layer, `(b,)` float32.

    `projected (n, 4h)` is the input part of the gates for each node, `bias (4h,)` and `recurrent (4h, h)` the rest of
    the cell in the order of `torch.nn.LSTMCell`, `last (h,)` the weights of the layer (the caller adds its bias).
    """
    scores = np.empty(len(tree), np.float32)
    run = _kernel(recurrent.shape[1])
    paths, cell = (tree.nodes, tree.length, tree.order, tree.parent), (projected, bias, recurrent.T.copy(), last)
    # Blocks of whole groups with about _BLOCK paths each.
    cuts = np.searchsorted(tree.indptr, np.arange(0, len(tree) + _BLOCK, _BLOCK))
    cuts = np.unique(np.minimum(cuts, len(tree.indptr) - 1))

    def block(first: int, stop: int) -> None:
        run(paths, tree.indptr[first : stop + 1], cell, scores)

    run_blocks(block, list(pairwise(cuts.tolist())), n_jobs)
    return scores


@float_kernel
def _tanh(x: Any) -> Any:
    """Return tanh x within 2e-7: a continued fraction at x/4, then tanh 2y = 2 tanh y / (1 + tanh² y) twice."""
    y = min(max(x, np.float32(-10)), np.float32(10)) * np.float32(0.25)
    s = y * y
    numerator = y * (np.float32(135135) + s * (np.float32(17325) + s * (np.float32(378) + s)))
    denominator = np.float32(135135) + s * (np.float32(62370) + s * (np.float32(3150) + s * np.float32(28)))
    t = numerator / denominator
    t = np.float32(2) * t / (np.float32(1) + t * t)
    return np.float32(2) * t / (np.float32(1) + t * t)


@cache
def _kernel(hidden: int) -> Any:
    """Compile the kernel of a block for a cell with `hidden` units."""

    @float_kernel
    def run(paths: tuple[Array, ...], indptr: Array, cell: tuple[Array, ...], scores: Array) -> None:
        nodes, length, order, parent = paths
        projected, bias, recurrent, last = cell
        widest = np.diff(indptr).max()
        states, cell_states = np.empty((widest, hidden), np.float32), np.empty((widest, hidden), np.float32)
        gates = np.empty(4 * hidden, np.float32)
        half = np.float32(0.5)
        for group in range(len(indptr) - 1):
            start = indptr[group]
            for position in range(start, indptr[group + 1]):
                path = order[position]
                state, cell_state = states[position - start], cell_states[position - start]
                prefix = parent[position]
                first = length[path] - 1
                if prefix < 0:
                    first = 0
                    state[:] = 0
                    cell_state[:] = 0
                else:
                    state[:] = states[prefix - start]
                    cell_state[:] = cell_states[prefix - start]
                for step in range(first, length[path]):
                    row = projected[nodes[path, step]]
                    for j in range(4 * hidden):
                        gates[j] = row[j] + bias[j]
                    for k in range(hidden):
                        factor = state[k]
                        column = recurrent[k]
                        for j in range(4 * hidden):
                            gates[j] += factor * column[j]
                    # The sigmoid of the input, forget and output gates is (1 + tanh x/2) / 2.
                    for k in range(hidden):
                        input_gate = half + half * _tanh(half * gates[k])
                        forget_gate = half + half * _tanh(half * gates[hidden + k])
                        cell_state[k] = forget_gate * cell_state[k] + input_gate * _tanh(gates[2 * hidden + k])
                    for k in range(hidden):
                        output_gate = half * (np.float32(1) + _tanh(half * gates[3 * hidden + k]))
                        state[k] = output_gate * _tanh(cell_state[k])
                total = np.float32(0)
                for k in range(hidden):
                    total += last[k] * state[k]
                scores[path] = total

    return run
