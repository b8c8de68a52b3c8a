"""The factorization of walks against the dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cge.graph import Graph
from cge.training import walk_embedding
from cge.training.walk_embedding import factorize_edges, factorize_walks, leading_eigenvectors
from tests.fixtures import two_groups

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_products_are_the_positive_part_of_the_matrix(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_embedding, "_BLOCK", 7)
    graph = two_groups(features=False)
    adjacency = graph.to_scipy().toarray().astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = np.sqrt(np.outer(degrees, degrees))
    summed = sum(np.linalg.matrix_power(adjacency / scale, power) for power in range(1, window + 1)) / window
    values, vectors = np.linalg.eigh(summed)
    nonnegative = (vectors * np.maximum(values, 0)) @ vectors.T  # without negative eigenvalues
    expected = np.log(np.maximum(nonnegative / scale * degrees.sum(), 1))
    embedding = factorize_walks(graph, 40, window).astype(np.float64)
    values, vectors = np.linalg.eigh(expected)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(embedding @ embedding.T, positive, atol=2e-4)


def test_columns_are_in_order_of_eigenvalue() -> None:
    graph = two_groups(features=False)
    whole, few = factorize_walks(graph, 40), factorize_walks(graph, 3)
    assert few.shape == (40, 3)
    norms = np.linalg.norm(whole, axis=0)
    assert (np.diff(norms) <= 1e-5).all()
    np.testing.assert_allclose(few[:, :2] @ few[:, :2].T, whole[:, :2] @ whole[:, :2].T, atol=1e-3)
    unit = few[:, :2] / np.linalg.norm(few[:, :2], axis=1, keepdims=True)
    same_group = np.arange(40)[:, None] // 20 == np.arange(40) // 20
    assert np.array_equal(unit @ unit.T > 0.5, same_group)  # two columns separate the groups


def test_nodes_without_edges_directions_and_threads() -> None:
    edges = [(0, 1), (1, 2), (2, 0), (3, 4)]
    graph = Graph.from_edges(edges, num_nodes=6, directed=True)
    undirected = Graph.from_edges(edges, num_nodes=6)
    embedding, reference = factorize_walks(graph, 4), factorize_walks(undirected, 4)
    assert np.isfinite(embedding).all()
    assert not embedding[5].any()
    np.testing.assert_allclose(embedding @ embedding.T, reference @ reference.T, atol=1e-4)
    assert factorize_walks(undirected, 4, n_jobs=1).tobytes() == factorize_walks(undirected, 4, n_jobs=2).tobytes()
    assert factorize_walks(undirected, 8).shape == (6, 8)  # more dimensions than nodes


@pytest.mark.parametrize("directed", [True, False])
def test_edges_are_factorized_as_their_dense_matrix(directed: bool) -> None:
    edges = np.transpose(two_groups(features=False).to_scipy().nonzero())
    graph = Graph.from_edges(edges[edges[:, 0] < edges[:, 1]], num_nodes=41, directed=directed)  # one without edges
    adjacency = graph.to_scipy().toarray()
    adjacency = adjacency + adjacency.T if directed else adjacency
    steps = adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)
    frequency = steps.sum(axis=0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(np.maximum(np.nan_to_num(steps / (frequency / frequency.sum())), 1))
    u, values, _ = np.linalg.svd(expected)
    embedding = factorize_edges(graph, 41).astype(np.float64)
    np.testing.assert_allclose(embedding @ embedding.T, (u * values) @ u.T, atol=2e-3)
    assert not embedding[40].any()
    assert factorize_edges(graph, 4, n_jobs=1).tobytes() == factorize_edges(graph, 4, n_jobs=2).tobytes()
    assert factorize_edges(graph, 50).shape == (41, 50)


def test_eigenvectors_of_equal_eigenvalues_do_not_depend_on_rounding() -> None:
    cycle = Graph.from_edges([(node, (node + 1) % 12) for node in range(12)]).to_scipy().toarray()
    noise = np.random.default_rng(1).standard_normal((12, 12)) * 1e-12
    results = []
    for matrix in (cycle, cycle + noise + noise.T):
        shifted = torch.from_numpy(matrix + 2 * np.eye(12))
        values, vectors = leading_eigenvectors(shifted.matmul, 12, 5, 200, np.random.default_rng(0))
        np.testing.assert_allclose(shifted @ vectors, vectors * values, atol=1e-9)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-9)
        results.append(vectors)
    np.testing.assert_allclose(*results, atol=1e-8)
