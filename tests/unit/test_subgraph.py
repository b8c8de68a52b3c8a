"""Subgraphs: rows and columns of the matrix, with ids, weights, types and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.errors import InputError


def any_graph(directed: bool, weighted: bool, typed: bool, features: str) -> cge.Graph:
    random = np.random.default_rng(5)
    edges = random.integers(0, 9, (30, 2))
    x = random.random((9, 3)).round(1)
    return cge.Graph.from_edges(
        edges,
        features={"none": None, "dense": x, "sparse": sp.csr_array(x * (x > 0.5))}[features],
        node_ids=None if features != "none" else [*range(9)],
        weights=random.random(30) if weighted else None,
        edge_types=["ab"[code] for code in random.integers(0, 2, 30)] if typed else None,
        directed=directed,
        self_loops=True,
    )


def by_type(graph: cge.Graph) -> Any:
    """Return a dense matrix for each type of edges, `(types, n, n)`."""
    matrices = np.zeros((max(len(graph.edge_type_names), 1), len(graph), len(graph)))
    source = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    types = np.zeros(len(source), int) if graph.edge_types is None else graph.edge_types
    np.add.at(matrices, (types, source, graph.indices), 1 if graph.weights is None else graph.weights)
    return matrices


@pytest.mark.parametrize("features", ["none", "dense", "sparse"])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_a_subgraph_is_rows_and_columns_of_the_matrix(
    directed: bool, weighted: bool, typed: bool, features: str
) -> None:
    graph = any_graph(directed, weighted, typed, features)
    for nodes in ([0, 2, 3, 7, 8], [4], list(range(9)), []):
        part = graph.subgraph(np.array(nodes[::-1] + nodes[:1]))  # any order, and one twice
        assert part.node_ids.tolist() == nodes
        assert np.array_equal(by_type(part), by_type(graph)[:, nodes][:, :, nodes])
        assert (part.directed, part.edge_type_names) == (directed, graph.edge_type_names)
        assert (part.weights is None, part.edge_types is None) == (not weighted, not typed)
        for name in ("indptr", "indices", "weights", "edge_types"):
            array, whole = getattr(part, name), getattr(graph, name)
            assert array is whole or array.dtype == whole.dtype  # both may be None
        for row in range(len(part)):
            assert np.all(np.diff(part.indices[part.indptr[row] : part.indptr[row + 1]]) >= 0)
        if features == "none":
            assert part.features is None
        else:
            features_of_part, whole = (
                np.asarray(x.todense() if sp.issparse(x) else x) for x in (part.features, graph.features)
            )
            assert np.array_equal(features_of_part, whole[nodes])
            assert sp.issparse(part.features) == (features == "sparse")


def test_a_subgraph_keeps_the_ids_of_its_user() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")], node_ids=["d", "c", "b", "a"])
    part = graph.subgraph([3, 1, 0])
    assert part.node_ids.tolist() == ["d", "c", "a"]
    assert part.neighbors("c") == ["d", "a"]
    assert part.num_edges == 2
    assert "b" not in part
    assert graph.num_edges == 4  # the whole stays what it was


@pytest.mark.parametrize(
    ("nodes", "actual"),
    [([-1, 2], "-1"), ([0, 3], "3"), ([True, False, True], "False"), ([0.5], "0.5"), (["a"], "'a'")],
)
def test_a_subgraph_takes_numbers_of_nodes(nodes: Any, actual: str) -> None:
    with pytest.raises(InputError) as caught:
        cge.Graph.from_edges([("a", "b"), ("b", "c")]).subgraph(nodes)
    assert str(caught.value) == f"a subgraph takes node indices from 0 to 2, found {actual}"
