"""Vectors in closed form against the matrix that they factorize, written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cge.graph import Graph
from cge.training import walk_factorization
from cge.training.walk_factorization import factorize_walks
from tests.fixtures import two_groups

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_products_are_the_matrix_as_far_as_its_positive_part_goes(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_factorization, "_BLOCK", 7)
    graph = two_groups(features=False)
    adjacency = graph.to_scipy().toarray().astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = np.sqrt(np.outer(degrees, degrees))
    summed = sum(np.linalg.matrix_power(adjacency / scale, power) for power in range(1, window + 1)) / window
    values, vectors = np.linalg.eigh(summed)
    kept = (vectors * np.maximum(values, 0)) @ vectors.T  # directions in which the sum is negative are left out
    expected = np.log(np.maximum(kept / scale * degrees.sum(), 1))
    found = factorize_walks(graph, 40, window).astype(np.float64)
    values, vectors = np.linalg.eigh(expected)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(found @ found.T, positive, atol=2e-4)


def test_the_largest_directions_come_first() -> None:
    graph = two_groups(features=False)
    whole, few = factorize_walks(graph, 40), factorize_walks(graph, 3)
    assert few.shape == (40, 3)
    length = np.linalg.norm(whole, axis=0)
    assert (np.diff(length) <= 1e-5).all()
    np.testing.assert_allclose(few[:, :2] @ few[:, :2].T, whole[:, :2] @ whole[:, :2].T, atol=1e-3)
    groups = np.where(np.arange(40) < 20, 1, -1)
    second = few[:, 1] * np.sign(few[0, 1])
    assert np.mean(np.sign(second) == groups) > 0.9  # what tells the halves apart is the second direction


def test_nodes_without_edges_directions_and_threads() -> None:
    edges = [(0, 1), (1, 2), (2, 0), (3, 4)]
    graph = Graph.from_edges(edges, num_nodes=6, directed=True)
    both = Graph.from_edges(edges, num_nodes=6)
    found = factorize_walks(graph, 4)
    assert np.isfinite(found).all()
    assert not found[5].any()
    np.testing.assert_allclose(found @ found.T, factorize_walks(both, 4) @ factorize_walks(both, 4).T, atol=1e-4)
    assert factorize_walks(both, 4, n_jobs=1).tobytes() == factorize_walks(both, 4, n_jobs=2).tobytes()
    assert factorize_walks(both, 8).shape == (6, 8)  # more numbers than nodes
