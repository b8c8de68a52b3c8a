"""Sampled paths from every node, and their weighted sum, for weights that look at a path as a whole.

Walks start at each node and step as a prior weighs steps, staying included; every beginning of a walk is a path, and
distinct ones are counted once. A network weighs the sequence of a path's steps: what is known of each step, and of the
node it leads to. So a path weighs prior(p) · network(p), and learning starts where the prior ends. What paths bring to
a node is their weighted mean, so that weights only say what matters more:

    e_i = Σ_p c_p A(p) payload(end of p) / Σ_p c_p A(p)

c is how often a path was met, times what the prior's degree discount leaves of its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cge.graph import Graph
from cge.models.edge_weighting import EdgeInputs
from cge.models.path_networks import PathWeighting
from cge.models.path_tree import PathTree
from cge.models.propagation import SparsityPattern, TransitionMatrix, sparse_matmul
from cge.randomness import generator

__all__ = ["PrefixPropagation", "Prefixes", "make_token_vectors", "sample_prefixes"]

Array = npt.NDArray[Any]

_PROJECTED = 8  # numbers that stand for a node's features in a step


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Distinct beginnings of walks, sorted by first node.

    `start`, `end` and `count (b,)`, which need not be whole; `items (b, K+1)` is the sequence that a network reads,
    filled up with −1: first m + start, then the number of each step; `length (b,)` its length; `parents (b,)` the path
    without its last step.
    """

    start: Array
    end: Array
    count: Array
    items: Array
    length: Array
    parents: Array

    def __len__(self) -> int:
        return len(self.start)

    def of(self, nodes: Array, size: int) -> Prefixes:
        """Return the paths that start at some nodes, of `size` in all."""
        wanted = np.zeros(size, bool)
        wanted[nodes] = True
        kept = np.flatnonzero(wanted[self.start])
        place = np.full(len(self) + 1, -1)
        place[kept] = np.arange(len(kept))
        start, end, count, items, length = (
            part[kept] for part in (self.start, self.end, self.count, self.items, self.length)
        )
        return Prefixes(start, end, count, items, length, place[self.parents[kept]])


def sample_prefixes(walks: Array, steps: TransitionMatrix) -> Prefixes:
    """Return the distinct beginnings of `walks (b, K+1)`; −1 ends a walk."""
    nodes, longest = steps.num_nodes, walks.shape[1]
    keys = steps.rows.astype(np.int64) * nodes + steps.indices
    order = np.argsort(walks[:, 0], kind="stable")
    walks = walks[order].astype(np.int64)
    found: list[tuple[Array, ...]] = []
    above = np.full(len(walks), -1)  # number of the path that each walk has made so far
    alive, used, previous = np.arange(len(walks)), 0, np.empty((0, longest), np.int64)
    for hop in range(longest):
        alive = alive[walks[alive, hop] >= 0]
        if not len(alive):
            break
        at = walks[alive, hop]
        mark = at if hop == 0 else above[alive] * nodes + at
        distinct, first, inverse, count = np.unique(mark, return_index=True, return_inverse=True, return_counts=True)
        start, end, parents = walks[alive[first], 0], at[first], above[alive[first]]
        items = np.full((len(distinct), longest), -1)
        if hop == 0:
            items[:, 0] = len(steps) + start
        else:
            items[:, :hop] = previous[parents - (used - len(previous))][:, :hop]
            step = walks[alive[first], hop - 1] * nodes + end
            items[:, hop] = np.searchsorted(keys, step)
        found.append((start, end, count, items, np.full(len(distinct), hop + 1), parents))
        above[alive] = used + inverse
        previous, used = items, used + len(distinct)
    start, end, count, items, length, parents = (np.concatenate(parts) for parts in zip(*found, strict=True))
    by_start = np.lexsort((length, start))
    place = np.empty(len(by_start) + 1, np.int64)
    place[by_start], place[-1] = np.arange(len(by_start)), -1
    start, end, count, items, length = (part[by_start] for part in (start, end, count, items, length))
    return Prefixes(start, end, count, items, length, place[parents[by_start]])


def make_token_vectors(
    graph: Graph, steps: TransitionMatrix, edge_inputs: EdgeInputs, inputs: Any, seed: int, degrees: Array | None = None
) -> Tensor:
    """Return what a network reads, `(m + n, q)`: a row for each step and, after them, one for each node as a start.

    A row holds the step's inputs, the logarithm of the degree of the node it leads to, and a random projection of that
    node's `inputs`, features of unit length or None. `degrees` are those that give the scale, by default the graph's.
    """
    usual = np.log1p(graph.degrees if degrees is None else degrees)
    degree = (np.log1p(graph.degrees) - usual.mean()) / max(float(usual.std()), 1e-6)
    about = [degree.astype(np.float32)[:, None]]
    if inputs is not None:
        random = generator(seed, "item projection").standard_normal((inputs.shape[1], _PROJECTED), np.float32)
        seen = inputs.product(random) if hasattr(inputs, "product") else inputs.numpy() @ random
        about.append(seen.astype(np.float32))
    node = torch.from_numpy(np.concatenate(about, axis=1))
    ends = torch.cat([node[torch.from_numpy(steps.indices)], node])
    known = torch.cat([edge_inputs.values, torch.zeros(steps.num_nodes, edge_inputs.values.shape[1])])
    return torch.cat([known, ends], dim=1)


class PrefixPropagation:
    """The weighted mean over sampled paths, with the weights of a network."""

    def __init__(self, prefixes: Prefixes, vectors: Tensor, network: PathWeighting, steps: TransitionMatrix) -> None:
        self.prefixes, self.vectors, self.network, self.steps = prefixes, vectors, network, steps
        self.pattern = SparsityPattern(prefixes.start, prefixes.end, steps.num_nodes, steps.n_jobs)
        self._count = torch.from_numpy(prefixes.count.astype(np.float32))
        self._prior = [one.detach().clone() for one in network.parameters()]

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the network."""
        return list(self.network.parameters())

    def prior(self) -> list[Tensor]:
        """Return what they were at the beginning."""
        return self._prior

    def propagation(self, nodes: Array | None = None) -> Callable[[Tensor], Tensor]:
        """Return the pooling with the weights as they are now, differentiable in them; of some nodes, if told so."""
        if nodes is not None:
            some = self.prefixes.of(nodes, self.steps.num_nodes)
            return PrefixPropagation(some, self.vectors, self.network, self.steps).propagation()
        items, length = torch.from_numpy(self.prefixes.items), torch.from_numpy(self.prefixes.length)
        return self._mean(self.network(self.vectors, items, length))

    def fixed(self) -> Callable[[Tensor], Tensor]:
        """Return the pooling with the weights as they are now, which learn no more."""
        return self._mean(torch.from_numpy(self.weights()))

    def weights(self) -> Array:
        """Return A of each path, `(b,)`."""
        tree = PathTree.grow(self.prefixes.items, self.prefixes.length, self.prefixes.parents)
        return self.network.weigh(self.vectors, tree, self.pattern.n_jobs)

    def _mean(self, weights: Tensor) -> Callable[[Tensor], Tensor]:
        values = self._count * weights
        rows = torch.from_numpy(self.pattern.rows)
        total = torch.zeros(self.pattern.num_nodes).index_add(0, rows, values).clamp(min=1e-12)
        values = values / total[rows]
        return lambda inputs: sparse_matmul(self.pattern, values, inputs)
