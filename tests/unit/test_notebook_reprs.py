"""What notebooks show of graphs, models and explanations: complete, escaped, and without scripts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import cge
from tests.fixtures import TRAIN_NODES, VALIDATION_NODES, labels_at, multilabel_targets, quick_cge, two_groups


def parsed(html: str) -> ET.Element:
    assert "<script" not in html
    return ET.fromstring(f"<div>{html}</div>")


@pytest.fixture(scope="module")
def model() -> cge.CGE:
    graph = two_groups()
    names = [f"<n{k}>" for k in range(40)]
    graph = cge.Graph.from_edges(
        [(names[u], names[v]) for u in range(40) for v in graph.indices[graph.indptr[u] : graph.indptr[u + 1]]],
        graph.features,
        names,
    )
    classes = {0: "<b>left</b>", 1: "right"}
    parts = [{names[k]: classes[k // 20] for k in nodes} for nodes in (TRAIN_NODES, VALIDATION_NODES)]
    return quick_cge("degree", classifier="mlp").fit(graph, *parts)


def test_a_trained_model_says_what_it_is(model: cge.CGE) -> None:
    correct = (model.predict(model.node_ids_[VALIDATION_NODES]) == np.repeat(["<b>left</b>", "right"], 5)).mean()
    assert repr(model).startswith("CGE(")
    description = (
        f": graph 40 nodes, {model.graph_.num_edges} edges; labels 10 training, 10 validation; weighting degree; "
        f"classifiers mlp; classes 2; validation accuracy {correct:.1%}"
    )
    assert repr(model).endswith(description)
    html = parsed(model._repr_html_())
    assert len(html.findall(".//circle")) == 40
    assert "●" in "".join(html.itertext())
    assert "<b>left</b>" in "".join(html.itertext())
    assert not parsed(quick_cge("degree")._repr_html_()).findall(".//td")


def test_a_multilabel_model_has_no_map() -> None:
    labels = labels_at(TRAIN_NODES, multilabel_targets()[:, :3])
    model = quick_cge("degree", classifier="mlp").fit(two_groups(), labels)
    assert not parsed(model._repr_html_()).findall(".//circle")
    assert re.search(r"validation micro-F1 \d\.\d+", repr(model))


def test_a_graph_and_an_explanation(model: cge.CGE, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(parsed(model.graph_._repr_html_()).itertext())
    assert text.startswith(repr(model.graph_))
    assert "components" in text
    monkeypatch.setattr("cge.graph_summary._LARGE", 1)
    assert "components" not in model.graph_._repr_html_()
    explanation = model.explain("<n3>", top=3)
    html = parsed(explanation._repr_html_())
    cells = ["".join(cell.itertext()) for cell in html.findall(".//td")]
    assert [path for path in explanation.table()["path"] if path in cells] == explanation.table()["path"]
    assert len(html.findall(".//table")) == 3
