"""The strongest paths of many nodes are those of single explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cge.report.charts import strongest_paths
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features


@pytest.mark.parametrize("settings", [{}, {"classifier": "sparse"}, {"weighting": "lstm", "classifier": "mlp"}])
def test_paths_are_those_of_single_explanations(settings: dict[str, Any]) -> None:
    graph = with_sparse_features(two_groups())
    arguments: dict[str, Any] = {
        "weighting": "cosine",
        "classifier": "consistency",
        "label_propagation": False,
    } | settings
    model = quick_cge(**arguments).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    nodes = np.array([3, 21, 30])
    for node, paths in zip(nodes.tolist(), strongest_paths(model.explainer(), nodes, 3), strict=True):
        expected = model.explain(node, top=3)
        assert [path for path, _, _ in paths] == [list(row.path) for row in expected]
        assert [weight for _, weight, _ in paths] == pytest.approx([row.weight for row in expected], rel=1e-5)
        contributions = [contribution for _, _, contribution in paths]
        assert contributions == pytest.approx([row.contribution for row in expected])
