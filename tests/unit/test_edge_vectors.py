"""Vectors of pairs of nodes and of sub-graphs."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import cge
from cge.errors import InputError, UnknownNodeError
from cge.estimators.baselines import LabelPropagation
from cge.models import node_pairs as pairs_module

IDS = ["ann", "bob", "cy", "dan"]


def named(dim: int = 3, kind: Any = np.float32) -> Any:
    vectors = np.random.default_rng(0).normal(size=(4, dim)).astype(kind)
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
@pytest.mark.parametrize("block", [2, 100])
def test_every_way_by_its_formula(how: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "_BLOCK", block)
    model = named(kind=np.float64)
    wanted = [("bob", "dan"), ("dan", "bob"), ("cy", "cy"), ("ann", "cy"), ("ann", "bob")]
    rows = dict(zip(IDS, model.embedding_.tolist(), strict=True))
    found = cge.edge_vectors(model, wanted, how)
    assert np.allclose(found, [FORMULAS[how](rows[u], rows[v]) for u, v in wanted], rtol=1e-12, atol=1e-12)
    assert found.shape == (5, 6 if how == "concat" else 3)
    assert np.array_equal(found, cge.edge_vectors(model, np.array(wanted), how))
    assert np.array_equal(found[0], found[1]) == (how != "concat")


def test_trained_models_have_vectors_of_pairs() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "z"), ("z", "x")])
    walks = cge.DeepWalk(dim=4, walks_per_node=1, walk_length=4, window=2).fit(graph)
    paths = cge.CGE(weighting="degree", classifier="mlp", dim=4, training={"max_epochs": 3}).fit(
        graph, {"a": 0, "b": 0, "x": 1, "y": 1}
    )
    for model in (walks, paths):
        one, other = model.transform(["c"])[0], model.transform(["z"])[0]
        found = cge.edge_vectors(model, [("c", "z")])
        assert found.dtype == np.float32
        assert np.array_equal(found[0], one * other)
    assert cge.edge_vectors(walks, []).shape == (0, 4)


@pytest.mark.parametrize(
    ("wanted", "how", "sentence"),
    [
        ([("ann", "bob")], "sum", "how must be one of 'hadamard', 'average', 'l1', 'l2', 'concat', found 'sum'"),
        ([("ann", "eve"), ("zoe", "ann")], "l1", "1 node in pairs is not in the graph: 'zoe'"),
        ([("ann", "bob", "cy")], "l1", "pair 0 must be a pair of node ids, found ('ann', 'bob', 'cy')"),
        (np.zeros((2, 3)), "l1", "pairs must have shape (pairs, 2), found (2, 3)"),
        (["ab"], "l1", "pair 0 must be a pair of node ids, found 'ab'"),
    ],
)
def test_wrong_pairs(wanted: Any, how: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        cge.edge_vectors(named(), wanted, how)
    assert str(caught.value) == sentence


def test_who_has_no_vectors_is_told() -> None:
    for model in (cge.CGE(), LabelPropagation()):
        with pytest.raises(NotFittedError, match=f"this {type(model).__name__} has no vectors of nodes; train a model"):
            cge.edge_vectors(model, [(0, 1)])
        with pytest.raises(NotFittedError, match="has no vectors of nodes"):
            cge.subgraph_vectors(model, [[0, 1]])


# ---------------------------------------------------------------------- sub-graphs

EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4), (4, 5), (5, 6), (6, 4), (6, 7)]
LABELS = {0: "a", 1: "a", 2: "a", 4: "b", 5: "b", 6: "b", 7: "b"}
GROUPS = {"star": [0, 1, 2, 3], "line": [3, 4, 5], "apart": [1, 6, 7], "alone": [2]}


def inside(model: cge.CGE, nodes: list[int], weigh: Any) -> Any:
    """Return the weighted mean of vectors, by walking every single path that stays among some nodes."""
    beside = {node: {node, *model.graph_.neighbors(node)} for node in range(8)}
    every = [path for steps in range(model.hops + 1) for path in product(nodes, repeat=steps + 1)]
    paths = [path for path in every if all(v in beside[u] for u, v in pairwise(path))]
    weight = dict.fromkeys(nodes, 0.0)
    for path, one in zip(paths, weigh(paths, beside), strict=True):
        weight[path[-1]] += one
    vectors = model.embedding_.astype(np.float64)
    return sum(weight[node] * vectors[node] for node in nodes) / sum(weight.values())


def test_nodes_count_by_the_paths_that_stay_inside() -> None:
    """With a degree discount a step u → v weighs 1 / √(d_u d_v), where d counts the step to itself, and hops 1 / 4."""
    model = cge.CGE(weighting="degree", classifier="mlp", hops=3, training={"max_epochs": 5}).fit(
        cge.Graph.from_edges(EDGES), LABELS
    )

    def weigh(paths: Any, beside: Any) -> Any:
        size = {node: len(beside[node]) for node in beside}
        return [np.prod([(size[u] * size[v]) ** -0.5 for u, v in pairwise(path)]) / 4 for path in paths]

    found = cge.subgraph_vectors(model, GROUPS)
    assert np.allclose(found, [inside(model, nodes, weigh) for nodes in GROUPS.values()], rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[0], model.embedding_[:4].mean(0), rtol=1e-3)  # it is no plain mean
    assert np.array_equal(found[3], model.embedding_[2])
    assert np.array_equal(found, cge.subgraph_vectors(model, list(GROUPS.values())))
    assert np.array_equal(found[:1], cge.subgraph_vectors(model, [[3, 2, 2, 1, 0, 0]]))


def test_gates_of_steps_count_and_hops_by_their_size() -> None:
    """`path_weights` are relative to the walk, so that times its chance they are |h| Π s, up to a factor for all."""
    graph = cge.Graph.from_edges(EDGES)
    model = cge.CGE(weighting="degree", classifier="mlp", hops=3, training={"max_epochs": 5}).fit(graph, LABELS)
    module = model._fitted.plan.weighting.module  # with numbers as training may find them
    for name, numbers in (
        ("coefficients", [0.7, -0.4, 0.2, 0.5]),
        ("self_loop", -0.3),
        ("normalization", 0.2),
        ("hops", [2, -3, 1, 1]),
    ):
        getattr(module, name).data = torch.tensor(numbers, dtype=torch.float32)

    def weigh(paths: Any, beside: Any) -> Any:
        probabilities = [np.prod([1 / len(beside[u]) for u in path[:-1]]) for path in paths]
        return np.abs(model.path_weights(paths)).astype(np.float64) * probabilities

    expected = [inside(model, nodes, weigh) for nodes in GROUPS.values()]
    assert np.allclose(cge.subgraph_vectors(model, GROUPS), expected, rtol=1e-4, atol=1e-5)


def test_without_weights_of_steps_it_is_the_mean() -> None:
    graph = cge.Graph.from_edges([(f"n{u}", f"n{v}") for u, v in EDGES])
    model = cge.DeepWalk(dim=4, walks_per_node=1, walk_length=4, window=2).fit(graph)
    found = cge.subgraph_vectors(model, {"one": ["n5", "n0"], "two": ["n7"]})
    vectors = model.transform(["n5", "n0", "n7"]).astype(np.float64)
    assert np.allclose(found, [(vectors[0] + vectors[1]) / 2, vectors[2]], rtol=1e-6)
    assert cge.subgraph_vectors(model, {}).shape == (0, 4)


def test_wrong_sub_graphs() -> None:
    with pytest.raises(UnknownNodeError) as caught:
        cge.subgraph_vectors(named(), {"left": ["ann"], "right": ["bob", "eve"]})
    assert str(caught.value) == "1 node in sub-graph 'right' is not in the graph: 'eve'"
    with pytest.raises(InputError, match="sub-graph 1 has no nodes, so it has no vector"):
        cge.subgraph_vectors(named(), [["ann"], []])
    with pytest.raises(InputError, match="expected a sequence of node ids, found the single id 'ann'; put it in a"):
        cge.subgraph_vectors(named(), ["ann"])
