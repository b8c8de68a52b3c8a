"""Pairs of nodes with the same label, and negative samples."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import InputError
from cge.graph import Graph
from cge.parallel import kernel
from cge.randomness import STEP, below, generator, key, mix
from cge.sampling.walk_kernels import LOW, alias_table

_LARGEST_POWER = 8


def label_pairs(labels: Any, count: int, seed: int = 0, *, stream: Sequence[str | int] = ()) -> Array:
    """Draw `count` pairs of different nodes that share a label, `(count, 2)`.

    The first node is uniform over the nodes that share a label with another node. Its label is uniform over those it
    shares (with multilabel targets). The second node is uniform over the other nodes with that label.

    Parameters
    ----------
    labels : (n,) int, −1 for unknown; or (n, c) of zeros and ones
        Training labels only.
    count : int
    seed, stream
        Select the random stream.

    Examples
    --------
    >>> sorted(label_pairs(np.array([0, 1, 0, -1]), 1)[0].tolist())
    [0, 2]
    """
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "iub":
        raise InputError(f"labels must be integers, (n,) or (n, classes), found {labels.shape} of {labels.dtype}")
    count = checked_integer("count", count, 0)
    if labels.ndim == 1:
        nodes = np.flatnonzero(labels >= 0)
        classes = np.unique(labels[nodes], return_inverse=True)[1]
    elif labels.size and (labels.min() < 0 or labels.max() > 1):
        raise InputError(f"labels (n, classes) must be zeros and ones, found {labels[(labels < 0) | (labels > 1)][0]}")
    else:
        nodes, classes = np.nonzero(labels)
    class_sizes = np.bincount(classes)
    paired = class_sizes[classes] > 1 if len(classes) else np.zeros(0, bool)
    nodes, classes = nodes[paired], classes[paired]
    if not len(nodes):
        raise InputError("no two labeled nodes share a label, so there are no same-label pairs")
    order = np.argsort(classes, kind="stable")  # (k,) memberships (node, class) grouped by class
    nodes, classes = nodes[order], classes[order]
    class_start = np.searchsorted(classes, classes, side="left")
    size = np.searchsorted(classes, classes, side="right") - class_start
    by_node = np.argsort(nodes, kind="stable")
    distinct, first, times = np.unique(nodes[by_node], return_index=True, return_counts=True)
    random = generator(seed, "label pairs", *stream)
    chosen = random.integers(len(distinct), size=count)
    membership = by_node[first[chosen] + random.integers(times[chosen])]  # node and class through which to pair
    other = class_start[membership] + random.integers(size[membership] - 1)
    other += other >= membership  # skip the node itself
    return np.column_stack([nodes[membership], nodes[other]])


class NegativeSampler:
    """Draws nodes with probability proportional to degree^power, from an alias table.

    Draw c of a stream is a hash of (seed, stream, c): it does not depend on how many were drawn before.

    Parameters
    ----------
    graph : Graph
        In-degrees in a directed graph; isolated nodes are never drawn.
    power : float
        0.75, as in word2vec (Mikolov et al. 2013).

    Examples
    --------
    >>> sampler = NegativeSampler(Graph.from_edges([(0, 1)], num_nodes=3), seed=0)
    >>> set(sampler.draw(0, 100).tolist())
    {0, 1}
    """

    def __init__(self, graph: Graph, power: float = 0.75, *, seed: int = 0, stream: Sequence[str | int] = ()) -> None:
        if not isinstance(power, int | float | np.number) or not 0 <= power <= _LARGEST_POWER:
            raise InputError(parameter="power", expected=f"a number from 0 to {_LARGEST_POWER}", found=power)
        degrees = np.bincount(graph.indices, minlength=graph.num_nodes).astype(np.float64)
        if not degrees.any():
            raise InputError("the graph has no edges, so negatives cannot be drawn")
        self.probability = np.where(degrees > 0, degrees ** float(power), 0.0)
        self.probability /= self.probability.sum()
        self.seed, self.key = seed, key(seed, "negatives", *stream)
        self.threshold, self.alias = alias_table(self.probability)

    def stream(self, *names: str | int) -> NegativeSampler:
        """Return a sampler of the same distribution that draws from another stream."""
        other = copy(self)
        other.key = key(self.seed, "negatives", *names)
        return other

    def draw(self, first: int, count: int) -> Array:
        """Return draws `first` to `first + count - 1` of the stream, `(count,)` node numbers."""
        out = np.empty(count, np.int64)
        _draw(self.threshold, self.alias, self.key, first, out)
        return out


@kernel
def _draw(threshold: Array, alias: Array, key: np.uint64, first: int, out: Array) -> None:
    for k in range(len(out)):
        random = mix(key + np.uint64(first + k) * STEP)
        slot = below(random, len(threshold))
        out[k] = slot if (random & LOW) < np.uint64(threshold[slot]) else alias[slot]
