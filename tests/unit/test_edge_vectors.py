"""Vectors of pairs of nodes and of sub-graphs."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import cge
from cge.errors import InputError, UnknownNodeError
from cge.estimators.baselines import LabelPropagation
from cge.models import edge_features

IDS = ["ann", "bob", "cy", "dan"]


def model_with_ids(dim: int = 3, dtype: Any = np.float32) -> Any:
    vectors = np.random.default_rng(0).normal(size=(4, dim)).astype(dtype)
    return SimpleNamespace(node_ids_=np.array(IDS, object), embedding_=vectors)


# ---------------------------------------------------------------------- pairs

FORMULAS = {
    "hadamard": lambda a, b: [x * y for x, y in zip(a, b, strict=True)],
    "average": lambda a, b: [0.5 * x + 0.5 * y for x, y in zip(a, b, strict=True)],
    "l1": lambda a, b: [max(x, y) - min(x, y) for x, y in zip(a, b, strict=True)],
    "l2": lambda a, b: [x * x - 2 * x * y + y * y for x, y in zip(a, b, strict=True)],
    "concat": lambda a, b: [*a, *b],
}


@pytest.mark.parametrize("how", FORMULAS)
@pytest.mark.parametrize("batch", [2, 100])
def test_every_operator_by_its_formula(how: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_features, "_BATCH", batch)
    model = model_with_ids(dtype=np.float64)
    pairs = [("bob", "dan"), ("dan", "bob"), ("cy", "cy"), ("ann", "cy"), ("ann", "bob")]
    rows = dict(zip(IDS, model.embedding_.tolist(), strict=True))
    vectors = cge.edge_vectors(model, pairs, how)
    assert np.allclose(vectors, [FORMULAS[how](rows[u], rows[v]) for u, v in pairs], rtol=1e-12, atol=1e-12)
    assert vectors.shape == (5, 6 if how == "concat" else 3)
    assert np.array_equal(vectors, cge.edge_vectors(model, np.array(pairs), how))
    assert np.array_equal(vectors[0], vectors[1]) == (how != "concat")


def test_trained_models_have_vectors_of_pairs() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "z"), ("z", "x")])
    walks = cge.DeepWalk(dim=4, walks_per_node=1, walk_length=4, window=2).fit(graph)
    paths = cge.CGE(weighting="degree", classifier="mlp", dim=4, training={"max_epochs": 3}).fit(
        graph, {"a": 0, "b": 0, "x": 1, "y": 1}
    )
    for model in (walks, paths):
        c, z = model.transform(["c", "z"])
        vectors = cge.edge_vectors(model, [("c", "z")])
        assert vectors.dtype == np.float32
        assert np.array_equal(vectors[0], c * z)
    assert cge.edge_vectors(walks, []).shape == (0, 4)


@pytest.mark.parametrize(
    ("pairs", "how", "message"),
    [
        ([("ann", "bob")], "sum", "how must be one of 'hadamard', 'average', 'l1', 'l2', 'concat', found 'sum'"),
        (
            [("ann", "eve"), ("zoe", "ann")],
            "l1",
            "node 'zoe' in pairs is not in the graph (ids look like 'ann', 'bob')",
        ),
        ([("ann", "bob", "cy")], "l1", "pair 0 must be a pair of node ids, found ('ann', 'bob', 'cy')"),
        (np.zeros((2, 3)), "l1", "pairs must have shape (pairs, 2), found (2, 3)"),
        (["ab"], "l1", "pair 0 must be a pair of node ids, found 'ab'"),
    ],
)
def test_wrong_pairs(pairs: Any, how: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        cge.edge_vectors(model_with_ids(), pairs, how)
    assert str(caught.value) == message


def test_models_without_vectors_raise() -> None:
    for model in (cge.CGE(), LabelPropagation()):
        with pytest.raises(NotFittedError, match=f"this {type(model).__name__} has no node vectors; train a model"):
            cge.edge_vectors(model, [(0, 1)])
        with pytest.raises(NotFittedError, match="has no node vectors"):
            cge.subgraph_vectors(model, [[0, 1]])


# ---------------------------------------------------------------------- sub-graphs

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4), (4, 5), (5, 6), (6, 4), (6, 7)]
LABELS = {0: "a", 1: "a", 2: "a", 4: "b", 5: "b", 6: "b", 7: "b"}
GROUPS = {"star": [0, 1, 2, 3], "line": [3, 4, 5], "apart": [1, 6, 7], "alone": [2]}


def mean_over_paths(model: cge.CGE, nodes: list[int], weigh: Any) -> Any:
    """Return the weighted mean of vectors, by enumerating every path within `nodes`."""
    adjacent = {node: {node, *model.graph_.neighbors(node)} for node in range(8)}
    every = [path for steps in range(model.hops + 1) for path in product(nodes, repeat=steps + 1)]
    paths = [path for path in every if all(v in adjacent[u] for u, v in pairwise(path))]
    weight = dict.fromkeys(nodes, 0.0)
    for path, path_weight in zip(paths, weigh(paths, adjacent), strict=True):
        weight[path[-1]] += path_weight
    vectors = model.embedding_.astype(np.float64)
    return sum(weight[node] * vectors[node] for node in nodes) / sum(weight.values())


def test_nodes_are_weighted_by_the_paths_within_the_subgraph() -> None:
    """With weighting "degree" an edge u → v has weight 1 / √(d_u d_v), d with the self-loop, and each hop 1 / 4."""
    model = cge.CGE(weighting="degree", classifier="mlp", hops=3, training={"max_epochs": 5}).fit(
        cge.Graph.from_edges(EDGES), LABELS
    )

    def weigh(paths: Any, adjacent: Any) -> Any:
        degree = {node: len(adjacent[node]) for node in adjacent}
        return [np.prod([(degree[u] * degree[v]) ** -0.5 for u, v in pairwise(path)]) / 4 for path in paths]

    vectors = cge.subgraph_vectors(model, GROUPS)
    assert np.allclose(
        vectors, [mean_over_paths(model, nodes, weigh) for nodes in GROUPS.values()], rtol=1e-5, atol=1e-6
    )
    assert not np.allclose(vectors[0], model.embedding_[:4].mean(0), rtol=1e-3)  # not the unweighted mean
    assert np.array_equal(vectors[3], model.embedding_[2])
    assert np.array_equal(vectors, cge.subgraph_vectors(model, list(GROUPS.values())))
    assert np.array_equal(vectors[:1], cge.subgraph_vectors(model, [[3, 2, 2, 1, 0, 0]]))


def test_learned_edge_and_hop_weights_are_used() -> None:
    """`path_weights` times the probability of the random walk are |h| Π s, up to a common factor."""
    graph = cge.Graph.from_edges(EDGES)
    model = cge.CGE(weighting="degree", classifier="mlp", hops=3, training={"max_epochs": 5}).fit(graph, LABELS)
    module = model.fitted_.selection.weighting.module  # with values as training may learn them
    for name, values in (
        ("coefficients", [0.7, -0.4, 0.2, 0.5]),
        ("self_loop", -0.3),
        ("normalization", 0.2),
        ("hop_weights", [2, -3, 1, 1]),
    ):
        setattr(module, name, np.array(values, np.float32))

    def weigh(paths: Any, adjacent: Any) -> Any:
        probabilities = [np.prod([1 / len(adjacent[u]) for u in path[:-1]]) for path in paths]
        return np.abs(model.path_weights(paths)).astype(np.float64) * probabilities

    expected = [mean_over_paths(model, nodes, weigh) for nodes in GROUPS.values()]
    assert np.allclose(cge.subgraph_vectors(model, GROUPS), expected, rtol=1e-4, atol=1e-5)


def test_without_edge_weights_it_is_the_mean() -> None:
    graph = cge.Graph.from_edges([(f"n{u}", f"n{v}") for u, v in EDGES])
    model = cge.DeepWalk(dim=4, walks_per_node=1, walk_length=4, window=2).fit(graph)
    means = cge.subgraph_vectors(model, {"pair": ["n5", "n0"], "single": ["n7"]})
    vectors = model.transform(["n5", "n0", "n7"]).astype(np.float64)
    assert np.allclose(means, [(vectors[0] + vectors[1]) / 2, vectors[2]], rtol=1e-6)
    assert cge.subgraph_vectors(model, {}).shape == (0, 4)


def test_wrong_subgraphs() -> None:
    with pytest.raises(UnknownNodeError) as caught:
        cge.subgraph_vectors(model_with_ids(), {"left": ["ann"], "right": ["bob", "eve"]})
    assert str(caught.value) == "node 'eve' in sub-graph 'right' is not in the graph (ids look like 'ann', 'bob')"
    with pytest.raises(InputError, match="sub-graph 1 has no nodes, so it has no vector"):
        cge.subgraph_vectors(model_with_ids(), [["ann"], []])
    with pytest.raises(InputError, match="expected a sequence of node ids, found the single id 'ann'; put it in a"):
        cge.subgraph_vectors(model_with_ids(), ["ann"])
