"""The strongest paths of many nodes are those of single explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cge.report.charts import strongest_paths
from cge.report.contents import report_contents
from cge.targets import SingleLabel
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"classifier": "sparse", "label_propagation": True},
        {"weighting": "lstm", "classifier": "mlp"},
        {"inputs": "learned", "label_propagation": True, "classifier": "mlp"},
    ],
)
def test_the_explorer_shows_single_explanations(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = with_sparse_features(two_groups())
    arguments: dict[str, Any] = {
        "weighting": "cosine",
        "classifier": "consistency",
        "label_propagation": False,
    } | settings
    model = quick_cge(**arguments).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    nodes = np.array([3, 21, 30])
    monkeypatch.setattr("cge.report.charts._AT_ONCE", 2)
    for node, shown in zip(nodes.tolist(), strongest_paths(model.explainer(), nodes, 3), strict=True):
        expected = model.explain(node, top=3)
        sizes = [abs(path[2]) for path in shown.paths]
        assert sizes == pytest.approx([abs(row.contribution) for row in expected])  # ties may be in another order
        if len(set(np.round(sizes, 9))) == 3:
            assert [path[0] for path in shown.paths] == [list(row.path) for row in expected]
            assert [path[1] for path in shown.paths] == pytest.approx(
                [row.relative_weight for row in expected], rel=1e-5
            )
            assert [path[3] for path in shown.paths] == [row.ends_at for row in expected]
        assert [end for end, *_ in shown.endpoints] == [row.name for row in expected.by_endpoint]
        parts = [(row.from_inputs, row.from_label) for row in expected.by_endpoint]
        np.testing.assert_allclose([values for _, *values in shown.endpoints], parts, atol=1e-9)
        assert shown.coverage == expected.describe_coverage()
    monkeypatch.setattr("cge.report.charts._MAX_SUMMED", 10)
    for node_paths in strongest_paths(model.explainer(), nodes, 3):
        assert (len(node_paths.paths), node_paths.endpoints, node_paths.coverage) == (3, [], "")


@pytest.mark.parametrize("inputs", ["walks", "learned"])
def test_notes_about_nodes_without_information_are_those_of_explanations(inputs: str) -> None:
    """A node whose listed paths stay at it has information, unless its input is learned."""
    model = quick_cge("degree", classifier="mlp", label_propagation=False, inputs=inputs, hops=0, max_epochs=5)
    contents = report_contents(model.fit(two_groups(features=False), partial_labels()))
    expected = SingleLabel.texts.no_information if inputs == "learned" else "No other path contributes."
    assert contents["notes"] == [expected] * 40
    assert max(len(paths) for paths in contents["paths"]) == 1
    assert model.explain(5).informed == (inputs == "walks")


def test_uniform_weights_have_no_charts_and_the_first_node_has_medium_confidence() -> None:
    graph, labels = with_sparse_features(two_groups()), partial_labels()
    settings: dict[str, Any] = {"classifier": "mlp", "label_propagation": False, "validation_fraction": 0}
    uniform, other = (quick_cge(name, **settings).fit(graph, labels) for name in ("uniform", "degree"))
    contents = [report_contents(model) for model in (uniform, other)]
    assert [bool(each["histogram"]) for each in contents] == [False, True]
    assert [bool(each["by_length"]) for each in contents] == [False, True]
    assert ["strongest-caption" in each["captions"] for each in contents] == [False, True]
    model, first = other, contents[1]["first_node"]
    train = np.isin(np.arange(40), model.fitted_.train.nodes)
    assert not train[first]
    confidence = model.predict_proba().max(axis=1)
    suitable = ~train & (graph.degrees >= 3)
    medium = (confidence[suitable].min() + confidence[suitable].max()) / 2
    assert abs(confidence[first] - medium) == pytest.approx(np.abs(confidence[suitable] - medium).min())
