"""Pairs to learn from besides those of walks: nodes of one class, and negatives."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.checks import whole_number
from cge.errors import InputError
from cge.graph import Graph
from cge.parallel import kernel
from cge.randomness import STEP, below, generator, key, mix
from cge.sampling.alias import table

__all__ = ["NegativeSampler", "label_pairs"]

Array = npt.NDArray[Any]

_LOW = np.uint64(0xFFFFFFFF)
_LARGEST_POWER = 8


def label_pairs(labels: Any, count: int, seed: int = 0, *, stream: Sequence[str | int] = ()) -> Array:
    """Draw `count` pairs of different nodes that share a label, `(count, 2)`.

    The first node is uniform over the nodes that have a partner; with several labels, one of those that have a
    partner is picked uniformly; the second node is uniform over the other nodes with that label.

    Parameters
    ----------
    labels : (n,) int, −1 for unknown; or (n, c) of zeros and ones
        Only *training* labels belong here.
    count : int
    seed, stream
        Name the random stream.

    Examples
    --------
    >>> sorted(label_pairs(np.array([0, 1, 0, -1]), 1)[0].tolist())
    [0, 2]
    """
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "iub":
        raise InputError(f"labels must be whole numbers, (n,) or (n, classes), found {labels.shape} of {labels.dtype}")
    count = whole_number("count", count, 0)
    if labels.ndim == 1:
        nodes = np.flatnonzero(labels >= 0)
        classes = np.unique(labels[nodes], return_inverse=True)[1]
    elif labels.size and (labels.min() < 0 or labels.max() > 1):
        raise InputError(f"labels (n, classes) must be zeros and ones, found {labels[(labels < 0) | (labels > 1)][0]}")
    else:
        nodes, classes = np.nonzero(labels)
    members = np.bincount(classes)
    paired = members[classes] > 1 if len(classes) else np.zeros(0, bool)
    nodes, classes = nodes[paired], classes[paired]
    if not len(nodes):
        raise InputError("no two labeled nodes share a label, so there are no same-label pairs")
    order = np.argsort(classes, kind="stable")  # (k,) memberships grouped by class
    nodes, classes = nodes[order], classes[order]
    begin = np.searchsorted(classes, classes, side="left")
    size = np.searchsorted(classes, classes, side="right") - begin
    by_node = np.argsort(nodes, kind="stable")
    distinct, first, times = np.unique(nodes[by_node], return_index=True, return_counts=True)
    random = generator(seed, "label pairs", *stream)
    one = random.integers(len(distinct), size=count)
    own = by_node[first[one] + random.integers(times[one])]  # the membership through which the pair is drawn
    other = begin[own] + random.integers(size[own] - 1)
    other += other >= own  # skip the node itself
    return np.column_stack([nodes[own], nodes[other]])


class NegativeSampler:
    """Draws nodes with chance proportional to degree^power, from an alias table.

    Number c of a stream is a hash of (seed, stream, c): it does not depend on how many were drawn before.

    Parameters
    ----------
    graph : Graph
        Degrees count incoming edges where the graph is directed; isolated nodes are never drawn.
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
            raise InputError("the graph has no edges, so there is nothing to draw negatives from")
        self.power = float(power)
        self.probability = np.where(degrees > 0, degrees**self.power, 0.0)
        self.probability /= self.probability.sum()
        self.seed, self.key = seed, key(seed, "negatives", *stream)
        self.chance, self.alias = table(self.probability)

    def stream(self, *names: str | int) -> NegativeSampler:
        """Return a sampler of the same nodes that draws from the stream with these names."""
        other = copy(self)
        other.key = key(self.seed, "negatives", *names)
        return other

    def draw(self, first: int, count: int) -> Array:
        """Return numbers `first` to `first + count - 1` of the stream, `(count,)` node numbers."""
        out = np.empty(count, np.int64)
        _draw(self.chance, self.alias, self.key, first, out)
        return out


@kernel
def _draw(chance: Array, alias: Array, key: np.uint64, first: int, out: Array) -> None:
    for k in range(len(out)):
        random = mix(key + np.uint64(first + k) * STEP)
        slot = below(random, len(chance))
        out[k] = slot if (random & _LOW) < np.uint64(chance[slot]) else alias[slot]
