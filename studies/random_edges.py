"""Graphs with added random edges."""

from __future__ import annotations

import numpy as np

from cge.graph import Graph
from cge.randomness import generator

__all__ = ["with_random_edges"]


def with_random_edges(graph: Graph, share: float, seed: int) -> tuple[Graph, set[tuple[int, int]]]:
    """Return a graph with `share` times as many random edges added as it has, and the new edges as pairs (u < v)."""
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edges = np.stack([source, graph.indices], axis=1)
    edges = edges[edges[:, 0] <= edges[:, 1]]
    existing = set(map(tuple, edges.tolist()))
    draws = generator(seed, "random edges").integers(0, graph.num_nodes, (round(share * len(edges)), 2))
    added = {(int(min(a, b)), int(max(a, b))) for a, b in draws if a != b} - existing
    edges = np.concatenate([edges, np.array(sorted(added), np.int64).reshape(-1, 2)])
    return Graph.from_edges(edges, features=graph.features, num_nodes=graph.num_nodes), added
