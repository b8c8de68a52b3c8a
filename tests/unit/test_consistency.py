"""Training of the path encoder: what it reaches on a plain task, what it repeats, what it restores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from cge.models.pooling import StepRows, step_weights
from cge.models.products import SparseFeatures
from cge.training.consistency import ConsistencySettings, ConsistencyTrainer, sharpened
from cge.training.trainer import accuracy_of
from tests.unit.test_trainer import task_of, two_groups

SMALL = ConsistencySettings(dim=8, passes=2, epochs=60, patience=60, feature_drop=0.2, rate=0.05)


def trainer(settings: ConsistencySettings = SMALL, sparse: bool = True, threads: int = 1, **task: Any) -> Any:
    graph = two_groups(features=False)
    told = np.random.default_rng(0).random((40, 6)) + np.repeat(np.eye(2, 6), 20, axis=0)
    graph = graph.with_features(told - told.mean(0))
    steps = StepRows(graph, threads)
    values = step_weights(steps, torch.ones(len(steps)), 0.5)
    payload = SparseFeatures(sp.csr_array(graph.features), threads) if sparse else torch.tensor(graph.features)
    return ConsistencyTrainer(task_of(graph, **task), payload, steps, values, [0.25] * 4, settings)


@pytest.mark.parametrize("sparse", [True, False])
def test_it_learns_the_groups_and_restores_the_best_epoch(sparse: bool) -> None:
    one = trainer(sparse=sparse)
    one.run()
    accuracies = [epoch.validation_accuracy for epoch in one.epochs]
    assert max(accuracies) >= 0.9
    assert one.epochs[one.best_epoch - 1].validation_accuracy == max(accuracies)
    scores = one.model.scores(one.vectors()).detach().numpy()
    nodes = one.task.validation.numpy()
    assert accuracy_of(scores[nodes], one.task.labels.numpy()[nodes]) == max(accuracies)


def test_the_same_bytes_on_any_threads_and_no_trace_in_torch() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = []
    for threads in (1, 2):
        one = trainer(replace(SMALL, epochs=5), threads=threads)
        one.run()
        found.append({name: array.tobytes() for name, array in one.best.items()})
    assert found[0] == found[1]
    assert torch.equal(torch.rand(2), expected)
    other = trainer(replace(SMALL, epochs=5, seed=1))
    other.run()
    assert other.best["model.weight"].tobytes() != found[0]["model.weight"]


def test_consistency_pulls_predictions_together() -> None:
    losses = []
    for weight in (0.0, 5.0):
        one = trainer(replace(SMALL, consistency=weight))
        one.run()
        losses.append(np.mean([epoch.consistency_loss for epoch in one.epochs[-10:]]))
    assert losses[1] < losses[0]


def test_patience_ends_and_without_validation_the_last_epoch_counts() -> None:
    one = trainer(replace(SMALL, patience=5))
    one.run()
    assert one.waited() == 5 or len(one.epochs) == 60
    last = trainer(replace(SMALL, epochs=7, patience=2), validation=torch.empty(0, dtype=torch.int64))
    last.run()
    assert last.best_epoch == 7


def test_nothing_dropped_is_nothing_disturbed() -> None:
    one = trainer(replace(SMALL, node_drop=0.0, feature_drop=0.0, hidden_drop=0.0))
    scores = one._disturbed(0)
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], one.model.scores(one.vectors()))


def test_what_is_dropped_keeps_its_mean() -> None:
    one = trainer(replace(SMALL, hidden_drop=0.0, passes=4000, node_drop=0.5, feature_drop=0.5, dim=1))
    with torch.no_grad():
        one.model.score.weight.fill_(1.0)
        one.model.bias.fill_(50.0)  # ReLU lets everything through
        mean = torch.stack(one._disturbed(0)).mean(0)
        expected = one.model.scores(one.vectors())
    torch.testing.assert_close(mean, expected, rtol=0.02, atol=0.05)


def test_sharpened_chances() -> None:
    chances = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(sharpened(chances, 0.5, False), chances**2 / (0.36 + 0.09 + 0.01))
    torch.testing.assert_close(sharpened(chances, 1.0, False), chances)
    several = sharpened(chances, 0.5, True)
    torch.testing.assert_close(several, chances**2 / (chances**2 + (1 - chances) ** 2))


def test_several_labels_per_node() -> None:
    matrix = torch.tensor([[1, 0, 1]] * 20 + [[0, 1, 1]] * 20)
    one = trainer(labels=matrix, classes=3)
    one.run()
    assert max(epoch.validation_accuracy for epoch in one.epochs) > 0.9
