"""Link prediction: edges held out of a graph, and pairs of nodes that are not edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.graph import Graph
from cge.randomness import generator

_MIN_EDGES = 20  # so that there are one validation and two test edges
_MAX_LISTED_RATIO = 5  # pairs for each edge, up to which all pairs are listed; beyond, they are sampled


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of node indices `(k, 2)`, the smaller first, and whether each is an edge, `linked (k,)`."""

    pairs: Array
    linked: Array

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A graph without the held-out edges, and training, validation and test pairs, half of which are edges.

    `edges` are the numbers of training, validation and test edges.
    """

    graph: Graph
    train: Links
    validation: Links
    test: Links
    edges: dict[str, int]


def hold_out_links(
    graph: Graph, test: float = 0.1, validation: float = 0.05, seed: int = 0, *, max_train: int = 10_000
) -> LinkSplit:
    """Hold out fractions of the edges of a graph, which keeps all its nodes.

    An edge is a pair of two nodes: it is held out with its other direction and its other types; self-loops stay.
    Negative pairs are sampled uniformly, each once, from those that the whole graph connects in neither direction. Of
    the training edges at most `max_train` are among the training pairs.

    >>> graph = Graph.from_edges([(node, (node + step) % 20) for node in range(20) for step in (1, 2)])
    >>> split = hold_out_links(graph)
    >>> split.graph.num_edges, len(split.validation), len(split.test)
    (34, 4, 8)
    """
    size = graph.num_nodes
    source = np.repeat(np.arange(size, dtype=np.int64), np.diff(graph.indptr))
    target = graph.indices.astype(np.int64)
    entry = np.where(source == target, -1, np.minimum(source, target) * size + np.maximum(source, target))
    edges = np.unique(entry[entry >= 0])
    if len(edges) < _MIN_EDGES:
        raise InputError(f"the graph has {len(edges):,} edges, too few to hold some out; {_MIN_EDGES} are needed")
    n_test, n_validation = round(test * len(edges)), round(validation * len(edges))
    n_held_out = n_test + n_validation
    shuffled = generator(seed, "links", "edges").permutation(edges)
    positive = np.split(shuffled, [n_test, n_held_out])
    positive[2] = positive[2][:max_train]
    sizes = [len(part) for part in positive]
    negative = np.split(_sample_negatives(edges, size, sum(sizes), seed), np.cumsum(sizes)[:-1])
    test_links, validation_links, train_links = (_links(*both, size) for both in zip(positive, negative, strict=True))
    in_train = ~np.isin(entry, shuffled[:n_held_out])
    counts = {"train": len(edges) - n_held_out, "validation": n_validation, "test": n_test}
    return LinkSplit(_with_entries(graph, source, in_train), train_links, validation_links, test_links, counts)


def _sample_negatives(edges: Array, size: int, count: int, seed: int) -> Array:
    """Return pairs that are not edges, encoded like `edges`, in random order."""
    random, n_pairs = generator(seed, "links", "none"), size * (size - 1) // 2
    if n_pairs - len(edges) < count:
        free = f"only {n_pairs - len(edges):,} pairs of nodes are not edges"
        raise InputError(f"{free}, but {count:,} are needed beside the edges")
    if n_pairs <= _MAX_LISTED_RATIO * len(edges):
        low, high = np.triu_indices(size, 1)
        return random.permutation(np.setdiff1d(low * np.int64(size) + high, edges, assume_unique=True))[:count]
    negatives = np.empty(0, np.int64)
    while len(negatives) < count:
        pairs = random.integers(0, size, (2 * (count - len(negatives)) + 16, 2))
        pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        codes = pairs[:, 0] * size + pairs[:, 1]
        negatives = np.concatenate([negatives, codes[~np.isin(codes, edges)]])
        negatives = negatives[np.sort(np.unique(negatives, return_index=True)[1])]  # each once, in the order drawn
    return negatives[:count]


def _links(positive: Array, negative: Array, size: int) -> Links:
    codes = np.concatenate([positive, negative])
    return Links(np.stack(np.divmod(codes, size), axis=1), np.arange(len(codes)) < len(positive))


def _with_entries(graph: Graph, source: Array, mask: Array) -> Graph:
    """Return the graph with a subset of the entries of its rows."""
    indptr = np.r_[0, np.cumsum(np.bincount(source[mask], minlength=graph.num_nodes))].astype(graph.indptr.dtype)
    parts: dict[str, Any] = {name: None if part is None else part[mask] for name, part in graph.edge_arrays()}
    return replace(graph, indptr=indptr, indices=graph.indices[mask], **parts)
