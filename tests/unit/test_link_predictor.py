"""Missing links: inputs of pairs against sums over nodes, candidates, and a predictor that never sees its own edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run
from cge.data.link_split import hold_out_links
from cge.errors import InputError
from cge.estimators import link_predictor
from cge.models.pair_inputs import candidate_pairs, neighbor_matrix, pair_inputs


def rings(features: bool = True) -> cge.Graph:
    """Two rings of 40 nodes with chords; features tell which ring."""
    edges = [(i + s, (i + k) % 40 + s) for s in (0, 40) for i in range(40) for k in (1, 2, 3)]
    x = np.random.default_rng(0).random((80, 4)) + np.repeat(np.eye(2, 4), 40, axis=0)
    return cge.Graph.from_edges(edges, x if features else None, num_nodes=81 if not features else None)


def test_inputs_are_sums_over_nodes() -> None:
    random = np.random.default_rng(1)
    edges = random.integers(0, 14, (30, 2))
    graph = cge.Graph.from_edges(edges[edges[:, 0] != edges[:, 1]], num_nodes=14, directed=True)
    matrix = neighbor_matrix(graph)
    a, degree = matrix.toarray(), np.maximum(matrix.toarray().sum(axis=1), 1)
    pairs = np.array([(u, v) for u in range(14) for v in range(u) if not a[u, v]])
    vectors = random.random((14, 3))
    values, names = pair_inputs(matrix, pairs, {"x": vectors})
    for row, (u, v) in zip(values, pairs.tolist(), strict=True):
        common = [w for w in range(14) if a[u, w] and a[w, v]]
        paths = sum(
            1 / np.sqrt(degree[x] * degree[y]) for x in range(14) for y in range(14) if a[u, x] and a[x, y] and a[y, v]
        )
        expected = {
            "common neighbors": np.log1p(len(common)),
            "Adamic-Adar": sum(1 / np.log(max(degree[w], 2)) for w in common),
            "resource allocation": sum(1 / degree[w] for w in common),
            "jaccard": len(common) / (degree[u] + degree[v] - len(common)),
            "3-hop paths": np.log1p(paths),
            "degrees": np.log(degree[u] * degree[v]),
            "cosine of x": vectors[u] @ vectors[v] / np.linalg.norm(vectors[u]) / np.linalg.norm(vectors[v]),
        }
        assert list(expected) == names
        np.testing.assert_allclose(row, list(expected.values()), atol=1e-9)


def test_candidates_have_common_neighbors_or_are_near_and_no_edge_is_one() -> None:
    matrix = neighbor_matrix(cge.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]))
    assert candidate_pairs(matrix).tolist() == [[0, 2], [1, 3], [2, 4], [3, 5]]
    near = np.array([[5], [0], [1], [3], [4], [0]])
    assert candidate_pairs(matrix, near).tolist() == [[0, 2], [0, 5], [1, 3], [2, 4], [3, 5]]
    assert candidate_pairs(matrix, nodes=np.array([3])).tolist() == [[1, 3], [3, 5]]
    star = neighbor_matrix(cge.Graph.from_edges([(0, i) for i in range(1, 600)]))
    assert len(candidate_pairs(star)) == 0 or len(candidate_pairs(star)) < 600 * 30


def test_removed_edges_are_found_again() -> None:
    graph = rings()
    split = hold_out_links(graph, seed=3)
    model = cge.LinkPredictor().fit(split.graph)
    held = {tuple(pair) for part in (split.test, split.validation) for pair in part.pairs[part.linked].tolist()}
    top = {(link.source, link.target) for link in model.top_links(len(held))}
    assert len(top & held) > len(held) / 5  # by chance about 1 in 80
    near, far = model.edge_probabilities([(0, 1), (0, 60)])
    assert near > far
    again = cge.LinkPredictor(n_jobs=1).fit(split.graph)
    assert again.top_links(30) == model.top_links(30)
    of_node = model.top_links(3, 7)
    assert [link.source for link in of_node] == [7, 7, 7]
    assert all(link.target not in split.graph.neighbors(7) for link in of_node)


def test_training_inputs_are_computed_without_the_held_out_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []
    original = link_predictor.pair_inputs

    def recorded(matrix: Any, pairs: Any, table: Any) -> Any:
        seen.append((matrix, pairs))
        return original(matrix, pairs, table)

    monkeypatch.setattr(link_predictor, "pair_inputs", recorded)
    cge.LinkPredictor().fit(rings())
    for matrix, pairs in seen[:2]:  # of the pairs that train, and that select
        assert not matrix[pairs[:, 0], pairs[:, 1]].any()
        assert len(pairs) >= 24


def test_a_constant_feature_changes_nothing() -> None:
    random = np.random.default_rng(0)
    x = random.random((5000, 4), np.float32)
    x[:, 1] = 0.1  # the mean of 5,000 of them in float32 is another number
    assert x[:, 1].mean() != x[0, 1]
    graph = cge.Graph.from_edges(random.integers(0, 5000, (9000, 2)), x, num_nodes=5000)
    vectors = link_predictor._feature_vectors(graph)
    assert not vectors["features"][:, 1].any()
    without = np.delete(x, 1, axis=1).astype(np.float64)
    scaled = (without - without.mean(axis=0)) / without.std(axis=0)
    expected = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    np.testing.assert_allclose(np.delete(vectors["features"], 1, axis=1), expected, atol=1e-5)
    for table in vectors.values():
        assert not table[:, 1].any()


def test_isolated_nodes_and_wrong_input() -> None:
    model = cge.LinkPredictor().fit(rings(features=False))
    assert model.top_links(5, 80) == []
    with pytest.raises(InputError, match="99"):
        model.top_links(5, 99)
    with pytest.raises(InputError, match="too few to hold some out"):
        cge.LinkPredictor().fit(cge.Graph.from_edges([(0, 1), (1, 2)]))


def test_links_of_a_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = rings()
    model = cge.CGE("degree", classifier="mlp", training={"max_epochs": 3}).fit(
        graph, {0: "a", 5: "a", 50: "b", 60: "b"}
    )
    model.save(tmp_path / "m")
    assert model.links(4) == model.links(4)
    assert [hit.node for hit in model.similar(3, top=2)]
    assert run(["links", str(tmp_path / "m"), "--top", "30", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [tuple(link.values())[:2] for link in content["links"]] == [tuple(link[:2]) for link in model.links(30)]
    assert content["validation_auc"] > 0.5
    assert run(["links", str(tmp_path / "m"), "--node", "3", "--out", str(tmp_path / "links.csv")]) == 0
    assert (tmp_path / "links.csv").read_text().startswith('"source","target","score"\n3,')
    assert run(["links", str(tmp_path / "m"), "--node", "x"]) == 2
    assert "'x'" in capsys.readouterr().err
    (tmp_path / "edges.csv").write_text("".join(f"{u},{v}\n" for u, v in zip(*graph.to_scipy().nonzero(), strict=True)))
    assert run(["evaluate", str(tmp_path / "edges.csv"), "--task", "link", "--seeds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"], result["dataset"]) == ("link-predictor", "edges")
    assert 0 <= result["hits_at_100"]["mean"] <= 1
