"""Sampled paths from every node, and their weighted mean, for networks that weigh a path as a whole.

Random walks start at each node and follow the transitions of the initial weighting, self-loops included; every prefix
of a walk is a path, and equal paths are counted once. A network reads a path as a sequence of tokens, one for its start
and one for each transition. Its output r(p) multiplies the weight of the initial weighting, so that training starts
from that. The result for a node is the weighted mean over its paths:

    z_i = Σ_p A(p) x(endpoint of p),   A(p) = μ_p r(p) / Σ_p μ_p r(p)

μ_p is how often path p was sampled, times d_u^-b, the degree normalization of the initial weighting at its endpoint u.
For `relation-degree` this factor is missing, so μ_p is in expectation proportional to the weights of
`relation-uniform`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.graph import Graph
from cge.models.autograd import Propagation, sparse_matmul
from cge.models.edge_weighting import EdgeInputs
from cge.models.path_networks import PathTree, PathWeighting
from cge.models.propagation import FixedPropagation, SparsityPattern, TransitionMatrix
from cge.randomness import generator

_PROJECTED = 8  # dimensions of the random projection of a node's features


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Distinct prefixes of walks, sorted by start node.

    `start`, `endpoint` and `count (b,)`, which need not be integers; `tokens (b, K+1)` is the sequence that a network
    reads, padded with −1: first m + start, then the number of each transition; `length (b,)` is its length;
    `parents (b,)` the path without its last transition.
    """

    start: Array
    endpoint: Array
    count: Array
    tokens: Array
    length: Array
    parents: Array

    def __len__(self) -> int:
        return len(self.start)

    def of(self, nodes: Array, num_nodes: int) -> Prefixes:
        """Return the paths that start at some nodes of a graph of `num_nodes`."""
        wanted = np.zeros(num_nodes, bool)
        wanted[nodes] = True
        return self.take(np.flatnonzero(wanted[self.start]))

    def take(self, order: Array) -> Prefixes:
        """Return some of the paths, in this order, which must contain their parents."""
        place = np.full(len(self) + 1, -1)  # a path without a parent keeps −1
        place[order] = np.arange(len(order))
        parts = (self.start, self.endpoint, self.count, self.tokens, self.length, place[self.parents])
        return Prefixes(*(part[order] for part in parts))


def sample_prefixes(walks: Array, transitions: TransitionMatrix) -> Prefixes:
    """Return the distinct prefixes of `walks (b, K+1)`; −1 ends a walk."""
    nodes, longest = transitions.num_nodes, walks.shape[1]
    keys = transitions.rows.astype(np.int64) * nodes + transitions.indices
    order = np.argsort(walks[:, 0], kind="stable")
    walks = walks[order].astype(np.int64)
    parts: list[tuple[Array, ...]] = []
    path_of_walk = np.full(len(walks), -1)  # the prefix that each walk has reached
    alive, used, previous = np.arange(len(walks)), 0, np.empty((0, longest), np.int64)
    for hop in range(longest):
        alive = alive[walks[alive, hop] >= 0]
        if not len(alive):
            break
        at = walks[alive, hop]
        key = at if hop == 0 else path_of_walk[alive] * nodes + at
        distinct, first, inverse, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        start, endpoint, parents = walks[alive[first], 0], at[first], path_of_walk[alive[first]]
        tokens = np.full((len(distinct), longest), -1)
        if hop == 0:
            tokens[:, 0] = len(transitions) + start
        else:
            tokens[:, :hop] = previous[parents - (used - len(previous))][:, :hop]
            transition = walks[alive[first], hop - 1] * nodes + endpoint
            tokens[:, hop] = np.searchsorted(keys, transition)
        parts.append((start, endpoint, count, tokens, np.full(len(distinct), hop + 1), parents))
        path_of_walk[alive] = used + inverse
        previous, used = tokens, used + len(distinct)
    prefixes = Prefixes(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return prefixes.take(np.lexsort((prefixes.length, prefixes.start)))


def make_step_vectors(
    graph: Graph,
    transitions: TransitionMatrix,
    edge_inputs: EdgeInputs,
    inputs: Any,
    seed: int,
    degrees: Array | None = None,
) -> Tensor:
    """Return the step vectors of paths, `(m + n, q)`: a row per transition, then one per start node.

    A row contains the inputs of the edge, the log degree of the node it leads to, and a random projection of that
    node's `inputs`, features of unit length or None. `degrees` standardize the log degree, by default the graph's.
    """
    reference = np.log1p(graph.degrees if degrees is None else degrees)
    degree = (np.log1p(graph.degrees) - reference.mean()) / max(float(reference.std()), 1e-6)
    columns = [degree.astype(np.float32)[:, None]]
    if inputs is not None:
        random = generator(seed, "item projection").standard_normal((inputs.shape[1], _PROJECTED), np.float32)
        projected = inputs.product(random) if hasattr(inputs, "product") else inputs @ random
        columns.append(projected.astype(np.float32))
    node = torch.from_numpy(np.concatenate(columns, axis=1))
    endpoints = torch.cat([node[torch.from_numpy(transitions.indices)], node])
    values = torch.from_numpy(edge_inputs.values)
    edges = torch.cat([values, torch.zeros(transitions.num_nodes, values.shape[1])])
    return torch.cat([edges, endpoints], dim=1)


class PrefixPropagation:
    """The weighted mean over sampled paths, weighted by a network."""

    def __init__(
        self, prefixes: Prefixes, vectors: Tensor, network: PathWeighting, transitions: TransitionMatrix
    ) -> None:
        self.prefixes, self.vectors, self.network, self.transitions = prefixes, vectors, network, transitions
        self.pattern = SparsityPattern(prefixes.start, prefixes.endpoint, transitions.num_nodes, transitions.n_jobs)
        self._count = torch.from_numpy(prefixes.count.astype(np.float32))
        self._initial = [parameter.detach().clone() for parameter in network.parameters()]

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the network."""
        return list(self.network.parameters())

    def initial_parameters(self) -> list[Tensor]:
        """Return the values of the parameters before training."""
        return self._initial

    def propagation(self, nodes: Array | None = None) -> Propagation:
        """Return the mean with the current weights, differentiable in them; of the paths of some nodes, or of all."""
        if nodes is not None:
            prefixes = self.prefixes.of(nodes, self.transitions.num_nodes)
            return PrefixPropagation(prefixes, self.vectors, self.network, self.transitions).propagation()
        tokens, length = torch.from_numpy(self.prefixes.tokens), torch.from_numpy(self.prefixes.length)
        weights = self._shares(self.network(self.vectors, tokens, length))
        return lambda inputs: sparse_matmul(self.pattern, weights, inputs)

    def fixed(self) -> FixedPropagation:
        """Return the mean with the current weights as constants."""
        return FixedPropagation(self.pattern, self._shares(torch.from_numpy(self.weights())), [0.0, 1.0])

    def weights(self) -> Array:
        """Return the network's weight of each path, `(b,)`."""
        tree = PathTree.grow(self.prefixes.tokens, self.prefixes.length, self.prefixes.parents)
        return self.network.weigh(self.vectors, tree, self.pattern.n_jobs)

    def _shares(self, weights: Tensor) -> Tensor:
        """Return the weight of each path as a share of those of its start."""
        values = self._count * weights
        rows = torch.from_numpy(self.pattern.rows)
        total = torch.zeros(self.pattern.num_nodes).index_add(0, rows, values).clamp(min=1e-12)
        return values / total[rows]
