"""The strongest paths of many nodes are those that single explanations tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cge.report.strongest_paths import strongest_of
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features


@pytest.mark.parametrize("settings", [{}, {"classifier": "sparse"}, {"weighting": "lstm", "classifier": "mlp"}])
def test_paths_are_those_of_single_explanations(settings: dict[str, Any]) -> None:
    graph = with_sparse_features(two_groups())
    given: dict[str, Any] = {"weighting": "cosine", "classifier": "consistency", "label_propagation": "no"} | settings
    model = quick_cge(**given).fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    nodes = np.array([3, 21, 30])
    for node, mine in zip(nodes.tolist(), strongest_of(model, nodes, 3), strict=True):
        expected = model.explain(node, top=3)
        assert [path for path, _, _ in mine] == [list(one.path) for one in expected]
        assert [weight for _, weight, _ in mine] == pytest.approx([one.weight for one in expected], rel=1e-5)
        assert [brings for _, _, brings in mine] == pytest.approx([one.contribution for one in expected])
