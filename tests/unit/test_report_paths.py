"""The strongest paths of many nodes: none is missed."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import cge
from cge.models.pooling import StepRows
from cge.report.paths import _searched, strongest_of
from tests.unit.test_cge import TRUE, some
from tests.unit.test_path_fit import paths, words
from tests.unit.test_trainer import two_groups


@pytest.mark.parametrize("hops", [[0.2, 0.3, 0.5], [0.0, -0.7, 0.1, 0.2], [1.0]])
@pytest.mark.parametrize("top", [1, 4, 200])
def test_the_search_finds_what_trying_all_paths_finds(hops: list[float], top: int) -> None:
    random = np.random.default_rng(0)
    steps = StepRows(cge.Graph.from_edges(random.integers(0, 7, (12, 2)), num_nodes=8), threads=1)
    values, ends, slope = random.random(len(steps)), random.normal(size=(8, 3)), random.normal(size=(8, 3))
    weight = {(int(u), int(v)): float(s) for u, v, s in zip(steps.rows, steps.indices, values, strict=True)}
    found = _searched(steps, values, hops, ends, slope, np.arange(8), top)
    for node in range(8):
        every = {}
        for length, hop in enumerate(hops):
            for rest in product(range(8), repeat=length):
                path = (node, *rest)
                if all(step in weight for step in pairwise(path)):
                    every[path] = (
                        hop * np.prod([weight[step] for step in pairwise(path)]) * (ends[path[-1]] @ slope[node])
                    )
        best = sorted((abs(one) for one in every.values()), reverse=True)[:top]
        np.testing.assert_allclose([abs(one) for _, one in found[node]], best, rtol=1e-12)
        for path, brings in found[node]:
            assert every[tuple(path)] == pytest.approx(brings, rel=1e-12)


@pytest.mark.parametrize("settings", [{}, {"reader": "sparse"}, {"weighting": "lstm", "reader": "plain"}])
def test_routes_are_those_of_single_explanations(settings: dict[str, Any]) -> None:
    graph = words(two_groups())
    given: dict[str, Any] = {"weighting": "cosine", "reader": "deep", "label_votes": "no"} | settings
    model = paths(**given).fit(graph, some(), some(TRUE, 4))
    told = np.searchsorted(model.classes_, model.predict())
    nodes = np.array([3, 21, 30])
    for node, mine in zip(nodes.tolist(), strongest_of(model._fitted, nodes, told[nodes], 3), strict=True):
        assert len(mine) == 3
        for route, weight, brings in mine:
            assert route[0] == node
            assert all(a != b for a, b in pairwise(route))
            assert weight == pytest.approx(float(model.path_weights([route])[0]), rel=1e-5)
            assert brings
