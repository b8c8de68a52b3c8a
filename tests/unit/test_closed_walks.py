"""Weights of closed walks are computed once for each node and matrix."""

from __future__ import annotations

import numpy as np

from cge.models.propagation import closed_walk_weights
from cge.models.weightings import closed_form
from cge.targets.classification import SingleLabel
from cge.training.closed_walks import ClosedWalkCache
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import LABEL_HOP_WEIGHTS, NamedWeighting
from tests.fixtures import two_groups


def test_only_missing_nodes_are_computed() -> None:
    cache, calls = ClosedWalkCache(), list[list[int]]()

    def compute(nodes: np.ndarray) -> np.ndarray:
        calls.append(nodes.tolist())
        return nodes * 10.0

    weights = np.ones(3)
    assert cache.of(np.array([5, 2]), weights, compute).tolist() == [50.0, 20.0]
    assert cache.of(np.array([1, 2, 7]), weights, compute).tolist() == [10.0, 20.0, 70.0]
    assert cache.of(np.array([7, 5]), weights.copy(), compute).tolist() == [70.0, 50.0]
    assert cache.of(np.array([5]), 2 * weights, compute).tolist() == [50.0]
    assert calls == [[2, 5], [1, 7], [5]]


def test_uniform_and_degree_share_their_closed_walks_and_more_labels_add_theirs() -> None:
    data = EncoderData(two_groups(features=False), n_jobs=1)
    target = SingleLabel(np.array([0, 1]))
    names = data.edge_scale.names
    uniform, degree = (NamedWeighting(name, closed_form(name, names, 4)) for name in ("uniform", "degree"))
    few, many = np.arange(0, 40, 3), np.arange(0, 40)
    for weighting, nodes in ((uniform, few), (degree, many), (uniform, many)):
        weighting.propagate_labels(data, nodes, np.eye(2)[nodes % 2], target)
        cached, walks = data.closed_walks[weighting.name]
        assert np.array_equal(cached, nodes)
        own = weighting.label_weights(data)
        alone = closed_walk_weights(data.transitions, own[0], LABEL_HOP_WEIGHTS, nodes, own[1])
        assert walks.tobytes() == alone.tobytes()  # whatever was computed before, and with which other nodes
    assert len(data.closed_walks_by_weights._weights) == 1
