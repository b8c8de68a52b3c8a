"""The paths behind a prediction: they add up to its score, and the strongest come first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.explain.paths import strongest_paths
from cge.models.pooling import StepRows
from cge.training.paths import READERS
from tests.unit.test_cge import TRUE, some
from tests.unit.test_path_fit import paths, words
from tests.unit.test_trainer import two_groups


def all_paths(steps: StepRows, start: int, hops: int) -> list[list[int]]:
    found, last = [[start]], [[start]]
    for _ in range(hops):
        last = [[*path, int(v)] for path in last for v in steps.indices[steps.rows == path[-1]]]
        found += last
    return found


def test_the_strongest_paths_are_those_of_all_paths() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    steps = StepRows(graph)
    random = np.random.default_rng(0)
    values, worth, hops = random.random(len(steps)), random.normal(size=4), [0.2, -0.5, 0.3]
    weight = {(int(u), int(v)): s for u, v, s in zip(steps.rows, steps.indices, values, strict=True)}
    expected = {}
    for path in all_paths(steps, 2, 2):
        made = np.prod([weight[step] for step in pairwise(path)])
        expected[tuple(path)] = hops[len(path) - 1] * made * worth[path[-1]]
    found = strongest_paths(steps.indptr, steps.indices, values, hops, worth, 2, top=1000)
    assert {tuple(path): pytest.approx(brings) for path, brings in found} == expected
    order = [abs(brings) for _, brings in found]
    assert order == sorted(order, reverse=True)
    few = strongest_paths(steps.indptr, steps.indices, values, hops, worth, 2, top=3)
    assert few == found[:3]


@pytest.mark.parametrize("weighting", ["degree", "steps", "lstm"])
@pytest.mark.parametrize("reader", ["deep", "sparse"])
def test_all_paths_and_a_constant_add_up_to_the_score(weighting: str, reader: str) -> None:
    model = paths(weighting, reader=reader, hops=2, label_votes="no").fit(words(two_groups()), some(), some(TRUE, 4))
    fitted: Any = model._fitted
    name, one = fitted.leaders[0]
    pooled = fitted.plan.weights.pooling(fitted.data)(one.project(fitted.data.payload(READERS[name].rows)))
    for node in (0, 33):
        vector = pooled[[node]] + one.offset()
        scores = one.scores(vector)[0]
        best = int(model.predict_proba([node])[0].argmax())
        brought = sum(share.contribution for share in model.explain(node, top=100_000))
        still = vector.detach().requires_grad_()
        (slope,) = torch.autograd.grad(one.scores(still)[0, best], still)
        constant = float(scores[best].detach() - (slope[0] * vector[0].detach()).sum())
        constant += float((slope[0] * one.offset().detach()).sum())
        assert brought + constant == pytest.approx(float(scores[best].detach()), abs=1e-4)


def test_explanations_name_paths_of_the_graph_and_their_weights() -> None:
    graph = words(two_groups())
    model = paths("degree").fit(graph, some(), some(TRUE, 4))
    shares = model.explain(7, top=5)
    assert len(shares) == 5
    for share in shares:
        assert share.path[0] == 7
        assert share.weight == pytest.approx(float(model.path_weights([share.path])[0]))
        assert share.weight > 0
    with pytest.raises(cge.CgeError, match="top must be"):
        model.explain(7, top=0)
    with pytest.raises(cge.CgeError, match="99"):
        model.explain(99)
    with pytest.raises(cge.CgeError, match="only encoder='paths' explains"):
        cge.CGE("table", "none", dim=4).fit(graph, some()).explain(7)
