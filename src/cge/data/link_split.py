"""Links held out of a graph: pairs of nodes that are edges which nobody has seen, and pairs that are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import InputError
from cge.graph import Graph
from cge.randomness import generator

__all__ = ["LinkSplit", "Links", "hold_out_links"]

Array = npt.NDArray[Any]

_FEWEST = 20  # edges, so that one of them chooses and two are judged by
_DENSE = 5  # pairs for each edge, up to which all pairs are listed; beyond, they are drawn


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of node numbers `(k, 2)`, the smaller number first, and whether each is an edge, `linked (k,)`."""

    pairs: Array
    linked: Array

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A graph without some of its edges, and pairs that train, choose and judge: half of each are edges.

    `edges` counts the edges that were left, that choose and that judge.
    """

    graph: Graph
    train: Links
    validation: Links
    test: Links
    edges: dict[str, int]


def hold_out_links(
    graph: Graph, test: float = 0.1, validation: float = 0.05, seed: int = 0, *, most: int = 10_000
) -> LinkSplit:
    """Take shares of the edges out of a graph, which keeps all its nodes.

    An edge is a pair of two nodes: if one is held out, so are its other direction and its other types; self-loops stay.
    Pairs that are none are drawn evenly from those that the whole graph does not join in either direction, each once.
    Of the edges that are left at most `most` are among the pairs that train.

    >>> graph = Graph.from_edges([(one, (one + step) % 20) for one in range(20) for step in (1, 2)])
    >>> split = hold_out_links(graph)
    >>> split.graph.num_edges, len(split.validation), len(split.test)
    (34, 4, 8)
    """
    size = graph.num_nodes
    source = np.repeat(np.arange(size, dtype=np.int64), np.diff(graph.indptr))
    target = graph.indices.astype(np.int64)
    entry = np.where(source == target, -1, np.minimum(source, target) * size + np.maximum(source, target))
    edges = np.unique(entry[entry >= 0])
    if len(edges) < _FEWEST:
        raise InputError(f"the graph has {len(edges):,} edges, too few to hold some out; {_FEWEST} are needed")
    judging, choosing = round(test * len(edges)), round(validation * len(edges))
    shuffled = generator(seed, "links", "edges").permutation(edges)
    there = np.split(shuffled, [judging, judging + choosing])
    there[2], left = there[2][:most], len(there[2])
    sizes = [len(part) for part in there]
    absent = np.split(_no_edges(edges, size, sum(sizes), seed), np.cumsum(sizes)[:-1])
    judge, choose, train = (_links(*both, size) for both in zip(there, absent, strict=True))
    stays = ~np.isin(entry, shuffled[: judging + choosing])
    counts = {"train": left, "validation": choosing, "test": judging}
    return LinkSplit(_with_entries(graph, source, stays), train, choose, judge, counts)


def _no_edges(edges: Array, size: int, wanted: int, seed: int) -> Array:
    """Return pairs that are no edges, as numbers like those of `edges`, in random order."""
    random, every = generator(seed, "links", "none"), size * (size - 1) // 2
    if every - len(edges) < wanted:
        raise InputError(
            f"only {every - len(edges):,} pairs of nodes are no edges, but {wanted:,} are needed beside the edges"
        )
    if every <= _DENSE * len(edges):
        low, high = np.triu_indices(size, 1)
        return random.permutation(np.setdiff1d(low * np.int64(size) + high, edges, assume_unique=True))[:wanted]
    found = np.empty(0, np.int64)
    while len(found) < wanted:
        ends = random.integers(0, size, (2 * (wanted - len(found)) + 16, 2))
        ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
        more = ends[:, 0] * size + ends[:, 1]
        found = np.concatenate([found, more[~np.isin(more, edges)]])
        found = found[np.sort(np.unique(found, return_index=True)[1])]  # each once, in the order drawn
    return found[:wanted]


def _links(there: Array, absent: Array, size: int) -> Links:
    numbers = np.concatenate([there, absent])
    return Links(np.stack(np.divmod(numbers, size), axis=1), np.arange(len(numbers)) < len(there))


def _with_entries(graph: Graph, source: Array, stays: Array) -> Graph:
    """Return the graph with some of the entries of its rows."""
    sizes = np.bincount(source[stays], minlength=graph.num_nodes)
    return replace(
        graph,
        indptr=np.r_[0, np.cumsum(sizes)].astype(graph.indptr.dtype),
        indices=graph.indices[stays],
        weights=None if graph.weights is None else graph.weights[stays],
        edge_types=None if graph.edge_types is None else graph.edge_types[stays],
    )
