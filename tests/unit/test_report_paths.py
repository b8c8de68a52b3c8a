"""The strongest routes of many nodes are those that single explanations tell."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from cge.report.paths import strongest_of
from tests.unit.test_cge import TRUE, some
from tests.unit.test_path_fit import paths, words
from tests.unit.test_trainer import two_groups


@pytest.mark.parametrize("settings", [{}, {"reader": "sparse"}, {"weighting": "lstm", "reader": "plain"}])
def test_routes_are_those_of_single_explanations(settings: dict[str, Any]) -> None:
    graph = words(two_groups())
    given: dict[str, Any] = {"weighting": "cosine", "reader": "deep", "label_votes": "no"} | settings
    model = paths(**given).fit(graph, some(), some(TRUE, 4))
    nodes = np.array([3, 21, 30])
    for node, mine in zip(nodes.tolist(), strongest_of(model, nodes, 3), strict=True):
        routes: dict[tuple[int, ...], float] = {}
        for one in model.explain(node, top=18):
            route = tuple(key for key, _ in groupby(one.path))  # without staying
            routes[route] = routes.get(route, 0.0) + one.contribution
        best = sorted(routes.values(), key=abs, reverse=True)[:3]
        assert [one for _, _, one in mine] == pytest.approx(best)
        for route, weight, brings in mine:
            assert brings == pytest.approx(routes[tuple(route)])
            assert weight == pytest.approx(float(model.path_weights([route])[0]), rel=1e-5)
