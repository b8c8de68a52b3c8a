"""Links held out, negatives, scorers, and the protocol of link prediction."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import cge
from cge.data.link_split import Links, LinkSplit, hold_out_links
from cge.errors import InputError
from cge.estimators.baselines import CommonNeighbors
from cge.estimators.methods import make, methods_for
from cge.evaluation.protocol import link_summary, run_links
from cge.models import edge_features


def random_graph(nodes: int = 30, edges: int = 60, seed: int = 0, **more: Any) -> cge.Graph:
    every = np.array(list(combinations(range(nodes), 2)))
    chosen = np.random.default_rng(seed).choice(len(every), edges, replace=False)
    return cge.Graph.from_edges(every[chosen], num_nodes=nodes, **more)


def joined(graph: cge.Graph) -> set[tuple[int, int]]:
    dense = graph.to_scipy().toarray() != 0
    return {(int(u), int(v)) for u, v in np.argwhere(dense | dense.T) if u < v}


def pairs_of(links: Links, linked: bool) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in links.pairs[links.linked == linked]]


def check(graph: cge.Graph, split: LinkSplit, counts: tuple[int, int, int]) -> None:
    """Nothing leaks: edges and negatives of all parts are apart, and pairs that score a model are in no graph."""
    parts, whole = (split.train, split.validation, split.test), joined(graph)
    positive = [pairs_of(part, True) for part in parts]
    negative = [pairs_of(part, False) for part in parts]
    assert tuple(map(len, positive)) == tuple(map(len, negative)) == counts
    everything = [pair for part in (*positive, *negative) for pair in part]
    assert len(everything) == len(set(everything))
    assert all(u < v for u, v in everything)
    assert {pair for part in positive for pair in part} <= whole
    assert not {pair for part in negative for pair in part} & whole
    assert joined(split.graph) == whole - set(positive[1]) - set(positive[2])
    assert set(positive[0]) <= joined(split.graph)
    assert split.graph.num_nodes == graph.num_nodes


@pytest.mark.parametrize("seed", range(4))
def test_nothing_leaks(seed: int) -> None:
    graph = random_graph(seed=seed)
    split = hold_out_links(graph, seed=seed)
    check(graph, split, (51, 3, 6))
    assert split.edges == {"train": 51, "validation": 3, "test": 6}
    assert not split.graph.directed
    again, other = hold_out_links(graph, seed=seed), hold_out_links(graph, seed=seed + 10)
    assert np.array_equal(split.test.pairs, again.test.pairs)
    assert pairs_of(split.test, True) != pairs_of(other.test, True)
    assert pairs_of(split.test, False) != pairs_of(other.test, False)


@given(st.integers(8, 14), st.integers(20, 28), st.integers(0, 99))
def test_nothing_leaks_in_dense_graphs(nodes: int, edges: int, seed: int) -> None:
    """Where few pairs are no edges they are listed; elsewhere they are drawn."""
    graph, free = random_graph(nodes, edges, seed), nodes * (nodes - 1) // 2 - edges
    if free < edges:
        with pytest.raises(InputError, match=f"only {free} pairs of nodes are not edges, but {edges} are needed"):
            hold_out_links(graph, seed=seed)
        return
    held = round(0.1 * edges), round(0.05 * edges)
    check(graph, hold_out_links(graph, seed=seed), (edges - sum(held), held[1], held[0]))


@pytest.mark.parametrize("nodes", [10, 40])
def test_negatives_are_uniform(nodes: int) -> None:
    """By chi-square, listed (10 nodes) and drawn (40): every pair that is no edge is as likely."""
    graph = random_graph(nodes, 20)
    drawn = [pair for seed in range(600) for pair in pairs_of(hold_out_links(graph, seed=seed).test, False)]
    counts = np.unique([u * nodes + v for u, v in drawn], return_counts=True)[1]
    free = nodes * (nodes - 1) // 2 - 20
    expected = len(drawn) / free
    chi = ((counts - expected) ** 2).sum() / expected + (free - len(counts)) * expected
    assert abs(chi - free) < 5 * np.sqrt(2 * free)


def test_an_edge_is_held_out_in_both_directions_and_all_types() -> None:
    edges = [(u, v) for u in range(12) for v in ((u + 1) % 12, (u + 2) % 12)]
    back, loops = [(v, u) for u, v in edges[:12]], [(3, 3), (5, 5)]
    kinds = ["a"] * 24 + ["b"] * 12 + ["c"] * 2
    graph = cge.Graph.from_edges(
        [*edges, *back, *loops], directed=True, edge_types=kinds, weights=np.arange(1.0, 39.0), self_loops=True
    )
    split = hold_out_links(graph, seed=1)
    check(graph, split, (21, 1, 2))
    assert split.graph.directed
    dense, remaining = graph.to_scipy().toarray(), split.graph.to_scipy().toarray()
    for u, v in pairs_of(split.test, True) + pairs_of(split.validation, True):
        dense[u, v] = dense[v, u] = 0
    assert np.array_equal(remaining, dense)  # weights came along, and nothing else went
    assert remaining[3, 3] > 0
    assert split.graph.edge_types is not None
    assert len(split.graph.edge_types) == len(split.graph.indices)


def test_training_pairs_are_limited() -> None:
    graph = random_graph()
    split = hold_out_links(graph, max_train=10)
    assert (len(split.train), split.edges["train"]) == (20, 51)
    assert split.graph.num_edges == 51


def test_too_few_edges() -> None:
    with pytest.raises(InputError) as caught:
        hold_out_links(random_graph(edges=19))
    assert str(caught.value) == "the graph has 19 edges, too few to hold some out; 20 are needed"


# ---------------------------------------------------------------------- scores of neighbors


@pytest.mark.parametrize("batch", [3, 1000])
@pytest.mark.parametrize("directed", [False, True])
def test_common_neighbors_by_counting(batch: int, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_features, "_BATCH", batch)
    graph = random_graph(15, 40, directed=directed)
    neighbors = {node: {v for pair in joined(graph) for v in pair if node in pair and v != node} for node in range(15)}
    pairs = list(combinations(range(15), 2))
    scores = CommonNeighbors().fit(graph).link_scores(pairs)
    common = [neighbors[u] & neighbors[v] for u, v in pairs]
    assert scores["common neighbors"].tolist() == [len(nodes) for nodes in common]
    expected = [sum(1 / np.log(len(neighbors[w])) for w in nodes) for nodes in common]
    assert np.allclose(scores["Adamic-Adar"], expected, rtol=1e-12)


# ---------------------------------------------------------------------- one run


class Spy:
    """Has vectors of a kind, and keeps what it is given."""

    def __init__(self, vectors: Any) -> None:
        self.embedding_ = np.asarray(vectors, np.float32)

    def fit(self, *given: Any) -> None:
        self.given = given


def planted() -> tuple[Any, LinkSplit]:
    """Edges are inside of two groups; the vectors know the group, turned so that dot and cosine are blind."""
    group = np.arange(40) % 2
    inside = [(u, v) for u, v in combinations(range(40), 2) if group[u] == group[v] and (u + v) % 5 != 0]
    split = hold_out_links(cge.Graph.from_edges(inside, num_nodes=40), seed=3)
    return group, split


def test_the_scorer_is_selected_on_validation_pairs() -> None:
    group, split = planted()
    vectors = np.stack([group, np.random.default_rng(0).normal(size=40)], axis=1)
    spy = Spy(vectors)
    row = run_links(spy, split)
    assert spy.given == (split.graph,)
    how, _, strength = row["scorer"].partition(", C = ")
    assert how in ("l1", "l2")
    assert strength in ("0.01", "1", "100")
    apart = np.array([group[u] != group[v] for u, v in split.test.pairs])
    blind = float(roc_auc_score(split.test.linked, ~apart))
    assert row["metrics"]["auc"] == pytest.approx(blind, abs=0.1)
    assert row["metrics"]["auc"] > 0.6
    assert row["n_test"] == len(split.test)
    assert row["labels"] == {"train": 0, "outer": 0, "validation": 0}
    assert row["edges"] == split.edges
    summary = link_summary("planted", "spy", {}, [row, row])
    assert summary["auc"]["per_seed"] == [row["metrics"]["auc"]] * 2
    assert list(summary["ap"]) == ["per_seed", "mean", "std", "ci95"]
    assert summary["scorers"] == [row["scorer"]] * 2
    json.dumps(summary)


def test_the_selection_does_not_depend_on_test_pairs() -> None:
    """With other answers for the test pairs the same scorer is chosen."""
    _, split = planted()
    spy = Spy(np.random.default_rng(0).normal(size=(40, 3)))
    other = LinkSplit(split.graph, split.train, split.validation, Links(split.test.pairs, ~split.test.linked), {})
    first, second = run_links(spy, split), run_links(spy, other)
    assert first["scorer"] == second["scorer"]
    assert first["metrics"]["auc"] == pytest.approx(1 - second["metrics"]["auc"])


def test_simple_scores_are_preferred_if_equally_good() -> None:
    """Vectors whose inner product is the graph itself: dot is right everywhere, and asked first."""
    graph = random_graph(20, 40)
    dense = graph.to_scipy().toarray() + 20 * np.eye(20)
    row = run_links(Spy(np.linalg.cholesky(dense)), hold_out_links(graph))
    assert row["scorer"] == "dot"
    hits = row["metrics"].pop("hits_at_100")
    assert row["metrics"] == {"auc": pytest.approx(1), "ap": pytest.approx(1)}
    assert 0 < hits <= 4 / 60  # four test edges


def test_labels_are_passed_to_classifiers() -> None:
    _, split = planted()
    spy = Spy(np.zeros((40, 2)))
    run_links(spy, split, ("y", "validation"))
    assert spy.given == (split.graph, "y", "validation")


def test_methods_for_links() -> None:
    assert list(methods_for("links"))[:4] == ["link-predictor", "common-neighbors", "deepwalk", "node2vec"]
    assert {"cge", "cge-uniform", "planetoid-t", "cge-t-lstm"} <= set(methods_for("links"))
    assert not {"gcn", "sgc", "features"} & set(methods_for("links"))
    estimator = make("node2vec", 3, 1, "links", dim=8)
    assert isinstance(estimator, cge.Node2Vec)
    assert (estimator.dim, estimator.q, estimator.random_state, estimator.n_jobs) == (8, 0.5, 3, 1)
    assert type(make("node2vec", 3)).__name__ == "WalkClassifier"
    assert "common-neighbors" not in methods_for()
