"""Contributions and weights by metapath, against an enumeration of all paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run
from cge.errors import InputError
from cge.explain import metapaths as metapaths_module
from cge.explain.metapaths import along_metapath, metapath_sums
from cge.report.contents import report_contents
from tests.unit.test_relation_weights import random_graph

HOPS = 3


@pytest.fixture(scope="module")
def model() -> cge.CGE:
    graph, labels = random_graph(), {f"p{k}": f"v{k % 3}" for k in range(9)}
    validation = {f"p{k}": f"v{k % 3}" for k in range(9, 12)}
    settings: Any = {"classifier": "mlp", "hops": HOPS, "label_propagation": False, "training": {"max_epochs": 5}}
    return cge.CGE("relation-degree", dim=4, **settings).fit(graph, labels, validation)


def enumerated(model: cge.CGE, node: int) -> dict[tuple[int, ...], np.ndarray]:
    """Return the sum over all paths from a node of coefficient × input of the endpoint, path by path, by metapath."""
    explainer: Any = model.explainer()
    source, codes, inputs = explainer.paths, explainer.relations.codes, explainer.score_function.inputs
    sums: dict[tuple[int, ...], np.ndarray] = {}

    def visit(at: int, product: float, hops: int, metapath: tuple[int, ...]) -> None:
        sums[metapath] = sums.get(metapath, 0.0) + source.hop_weights[hops] * product * inputs[at]
        if hops < HOPS:
            for edge in range(source.transitions.indptr[at], source.transitions.indptr[at + 1]):
                further = (*metapath, int(codes[edge])) if codes[edge] >= 0 else metapath
                visit(int(source.indices[edge]), product * source.values[edge], hops + 1, further)

    visit(node, 1.0, 0, ())
    return sums


def test_sums_by_metapath_are_those_of_all_paths(model: cge.CGE) -> None:
    explainer: Any = model.explainer()
    inputs, gradient = explainer.score_function.inputs, np.random.default_rng(0).normal(size=(2, 4))
    first, second = enumerated(model, 0), enumerated(model, 3)
    single, rest = metapath_sums(explainer.paths, explainer.relations, np.array([0]), gradient[:1], inputs)
    assert rest == pytest.approx(0, abs=1e-12)
    assert single == pytest.approx({key: float(value @ gradient[0]) for key, value in first.items()}, abs=1e-12)
    both, _ = metapath_sums(explainer.paths, explainer.relations, np.array([0, 3]), gradient, inputs)
    assert set(both) == {*first, *second}
    for key, value in both.items():
        expected = first.get(key, np.zeros(4)) @ gradient[0] + second.get(key, np.zeros(4)) @ gradient[1]
        assert value == pytest.approx(expected, abs=1e-12)
    for key, value in first.items():
        assert along_metapath(explainer.paths, explainer.relations, key, inputs)[0] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("name", "limit"), [("_MAX_METAPATHS", 2), ("_MAX_BYTES", 400)])
def test_what_is_not_followed_is_the_rest(
    model: cge.CGE, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    explainer: Any = model.explainer()
    arguments = explainer.paths, explainer.relations, np.array([0]), np.ones((1, 4)), explainer.score_function.inputs
    total = sum(metapath_sums(*arguments)[0].values())
    monkeypatch.setattr(metapaths_module, name, limit)
    sums, rest = metapath_sums(*arguments)
    assert abs(rest) > 1e-6
    assert sum(sums.values()) + rest == pytest.approx(total, abs=1e-12)


def test_explanations_by_metapath_add_up_to_those_by_hop(model: cge.CGE) -> None:
    explanation = model.explain("p0", top=100)
    table = explanation.by_metapath
    assert table.total == pytest.approx(explanation.by_hop.sum(0)[explanation.target_index], abs=1e-6)
    assert {"paper", "paper–author", "paper–author–paper", "paper–venue–paper"} <= {row.name for row in table}
    by_class = model.explain_class(model.predict(["p0"])[0], top=100)
    assert by_class.by_metapath.total == pytest.approx(by_class.by_hop.sum(0)[by_class.target_index], abs=1e-6)
    assert by_class.num_nodes <= 12  # papers only
    assert not cge.CGE("degree").fit(cge.Graph.from_edges([(0, 1), (1, 2)]), {0: 0, 2: 1}).explain(1).by_metapath.size


def test_metapaths_of_a_model(model: cge.CGE, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = model.metapaths(top=100)
    assert sum(row.weight for row in rows) == pytest.approx(1)
    assert sum(row.uniform_weight for row in rows) == pytest.approx(1)
    assert sum(abs(row.contribution) for row in rows) == pytest.approx(1)
    weights = {row.metapath: row for row in rows}
    explainer: Any = model.explainer()
    nodes, classes = model.fitted_.validation.nodes, model.fitted_.validation.matrix.argmax(1)
    function, codes = explainer.score_function, {name: key for key, name in enumerate(explainer.relations.names)}
    key = (codes["paper", "in", "venue"],)
    vectors = function.vectors_at(nodes, explainer.paths.by_hop(nodes, function.inputs).sum(0))
    without = vectors - np.array([enumerated(model, node)[key] for node in nodes.tolist()])
    accuracies = [(function.scores(nodes, each).argmax(1) == classes).mean() for each in (vectors, without)]
    assert weights["paper–venue"].accuracy_change == pytest.approx(accuracies[1] - accuracies[0])
    assert weights["paper–author"].weight < weights["paper–author"].uniform_weight  # two authors, one venue
    model.save(tmp_path / "model")
    assert run(["explain", str(tmp_path / "model"), "--by", "metapath", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["metapaths"]
    assert printed[0] == rows[0].to_dict()
    assert run(["explain", str(tmp_path / "model"), "--by", "metapath", "--top", "3"]) == 0
    assert "uniform weight" in capsys.readouterr().out
    assert run(["explain", str(tmp_path / "model"), "--node", "p0", "--by", "metapath"]) == 0
    assert model.explain("p0").by_metapath[0].name in capsys.readouterr().out


def test_reports_show_metapaths(model: cge.CGE) -> None:
    rows = report_contents(model)["metapaths"]
    assert rows == [row.to_dict() for row in model.metapaths(8)]


def test_graphs_without_types_have_no_metapaths() -> None:
    plain = cge.CGE("degree").fit(cge.Graph.from_edges([(0, 1), (1, 2)]), {0: 0, 2: 1})
    with pytest.raises(InputError, match="the graph has no node or edge types, so there are no metapaths"):
        plain.metapaths()
    assert report_contents(plain)["metapaths"] == []
