"""Weights of many paths at once, where paths share beginnings: an LSTM takes one step for each distinct path.

A path extends another one (its *parent*) by one node. Paths of one first node form a tree, and the state of an LSTM at
a path follows from the state at its parent, so a path costs one step however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.parallel import float_kernel, run_blocks

__all__ = ["PathTree", "lstm_scores"]

Array = npt.NDArray[Any]

_BLOCK = 16_384  # paths given to a thread at once, about


@dataclass(frozen=True, eq=False)
class PathTree:
    """Distinct paths, grouped by first node, each after its parent.

    `nodes (b, window)` and `length (b,)` are the paths by number; `order (b,)` are their numbers by group; `parent
    (b,)` is the place *in that order* of the path without its last node, −1 where that is no path of its own; `pointer
    (g+1,)` tells where the groups begin.
    """

    nodes: Array
    length: Array
    order: Array
    parent: Array
    pointer: Array

    @classmethod
    def grow(cls, nodes: Array, length: Array, parents: Array) -> PathTree:
        """Group paths; `parents (b,)` are numbers of paths or −1, and a path has a larger number than its parent."""
        order = np.argsort(nodes[:, 0], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        parent = np.where(parents[order] < 0, -1, place[parents[order]]) if len(order) else place
        starts = nodes[order, 0]
        pointer = np.flatnonzero(np.r_[True, starts[1:] != starts[:-1], True]) if len(order) else np.zeros(1, np.int64)
        return cls(nodes, length, order, parent, pointer)

    def __len__(self) -> int:
        return len(self.order)


def lstm_scores(
    tree: PathTree, projected: Array, bias: Array, recurrent: Array, last: Array, n_jobs: int | None
) -> Array:
    """Return the number that an LSTM and a linear layer give each path, `(b,)` float32.

    `projected (n, 4h)` is the input half of the gates for each node, `bias (4h,)` and `recurrent (4h, h)` the rest of
    the cell in the order of `torch.nn.LSTMCell`, `last (h,)` the weights of the layer (its bias is left to the caller).
    """
    scores = np.empty(len(tree), np.float32)
    run = _kernel(recurrent.shape[1])
    turned = np.ascontiguousarray(recurrent.T)
    # Whole groups, about _BLOCK paths in each block.
    cuts = np.searchsorted(tree.pointer, np.arange(0, len(tree) + _BLOCK, _BLOCK))
    cuts = np.unique(np.minimum(cuts, len(tree.pointer) - 1))

    def block(first: int, stop: int) -> None:
        pointer = tree.pointer[first : stop + 1]
        run(tree.nodes, tree.length, tree.order, tree.parent, pointer, projected, bias, turned, last, scores)

    run_blocks(block, list(pairwise(cuts.tolist())), n_jobs)
    return scores


@float_kernel
def _tanh(x: Any) -> Any:
    """Return tanh x within 2e-7: a continued fraction at x/4, then tanh 2y = 2 tanh y / (1 + tanh² y) twice."""
    y = min(max(x, np.float32(-10)), np.float32(10)) * np.float32(0.25)
    s = y * y
    above = y * (np.float32(135135) + s * (np.float32(17325) + s * (np.float32(378) + s)))
    below = np.float32(135135) + s * (np.float32(62370) + s * (np.float32(3150) + s * np.float32(28)))
    t = above / below
    t = np.float32(2) * t / (np.float32(1) + t * t)
    return np.float32(2) * t / (np.float32(1) + t * t)


@cache
def _kernel(hidden: int) -> Any:
    """Compile the kernel of a block for a cell of `hidden` numbers."""

    @float_kernel
    def run(
        nodes: Array,
        length: Array,
        order: Array,
        parent: Array,
        pointer: Array,
        projected: Array,
        bias: Array,
        recurrent: Array,
        last: Array,
        scores: Array,
    ) -> None:
        widest = 1
        for group in range(len(pointer) - 1):
            widest = max(widest, pointer[group + 1] - pointer[group])
        states = np.empty((widest, hidden), np.float32)
        memories = np.empty((widest, hidden), np.float32)
        gates = np.empty(4 * hidden, np.float32)
        half, one = np.float32(0.5), np.float32(1)
        for group in range(len(pointer) - 1):
            begin = pointer[group]
            for place in range(begin, pointer[group + 1]):
                number = order[place]
                state, memory = states[place - begin], memories[place - begin]
                above = parent[place]
                first = length[number] - 1
                if above < 0:
                    first = 0
                    for k in range(hidden):
                        state[k] = 0
                        memory[k] = 0
                else:
                    for k in range(hidden):
                        state[k] = states[above - begin, k]
                        memory[k] = memories[above - begin, k]
                for step in range(first, length[number]):
                    row = projected[nodes[number, step]]
                    for j in range(4 * hidden):
                        gates[j] = row[j] + bias[j]
                    for k in range(hidden):
                        factor = state[k]
                        column = recurrent[k]
                        for j in range(4 * hidden):
                            gates[j] += factor * column[j]
                    # Sigmoid x = (1 + tanh x/2) / 2 for the gates that enter, forget and leave.
                    for k in range(hidden):
                        enter = half + half * _tanh(half * gates[k])
                        forget = half + half * _tanh(half * gates[hidden + k])
                        memory[k] = forget * memory[k] + enter * _tanh(gates[2 * hidden + k])
                    for k in range(hidden):
                        leave = half * (one + _tanh(half * gates[3 * hidden + k]))
                        state[k] = leave * _tanh(memory[k])
                total = np.float32(0)
                for k in range(hidden):
                    total += last[k] * state[k]
                scores[number] = total

    return run
