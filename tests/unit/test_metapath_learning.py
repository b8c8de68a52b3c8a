"""Learned weights of metapaths: the held-out loss against ridge regression in NumPy, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.models.edge_weighting import make_edge_inputs
from cge.models.metapath_weighting import MetapathWeighting, list_metapaths
from cge.models.propagation import TransitionMatrix
from cge.targets import Task
from cge.training.metapath_learning import held_out_loss, learn_metapath_weights, propagated_rows
from tests.fixtures import make_task
from tests.unit.test_relation_weights import random_graph
from tests.unit.test_typed_baselines import relation_means, typed_classes


def weighting_of(graph: cge.Graph, starts: np.ndarray, hops: int) -> tuple[MetapathWeighting, Any]:
    inputs, _ = make_edge_inputs(graph, TransitionMatrix(graph))
    metapaths = list_metapaths(inputs, starts, hops)
    return MetapathWeighting(metapaths, [1 / len(metapaths)] * len(metapaths), 0.0), inputs


def test_rows_are_propagated_along_each_metapath() -> None:
    graph, x = random_graph(), np.random.default_rng(0).normal(size=(21, 3))
    nodes = np.array([0, 3, 7])
    weighting, inputs = weighting_of(graph, nodes, 2)
    place = {name: code for code, name in enumerate(inputs.relations.names)}
    means, rows = relation_means(graph), propagated_rows(weighting, inputs, x, nodes)
    for metapath, propagated in zip(weighting.metapaths, rows, strict=True):
        expected = x
        for name in reversed(metapath):
            expected = means[place[name]] @ expected
        np.testing.assert_allclose(propagated, expected[nodes], atol=1e-6)


def paper_task(noise: float = 0.0) -> tuple[Task, cge.Graph]:
    """Return papers whose class depends on the venue, but for a share of random labels."""
    graph, labels = typed_classes()
    random, codes = np.random.default_rng(4), np.full(len(graph), -1)
    for name, label in labels.items():
        is_random = random.random() < noise
        codes[graph.indices_of([name])] = random.integers(2) if is_random else int(label == "odd")
    papers = torch.from_numpy(graph.nodes_of_type("paper")[:20])
    task = make_task(
        graph,
        torch.from_numpy(codes),
        train=papers,
        validation=papers[:0],
        folds=[papers[:7], papers[7:14], papers[14:]],
    )
    return task, graph


def test_the_held_out_loss_is_that_of_ridge_regression() -> None:
    task, _ = paper_task()
    random = np.random.default_rng(1)
    rows, train = random.normal(size=(2, 20, 4)), task.train.numpy()
    a, log_ridge, log_scale, bias = np.array([0.3, -0.2]), -1.0, 0.5, np.array([0.1, -0.1])
    weights = np.exp(a) / np.exp(a).sum()
    z = np.einsum("m,mkf->kf", weights, rows)
    z /= np.sqrt((z**2).sum(axis=1).mean())  # K has a mean diagonal of 1
    labels = task.labels.numpy()[train]
    y = np.eye(2)[labels] - np.eye(2)[labels].mean(axis=0)
    total = 0.0
    for fold in task.folds:
        held = np.isin(train, fold.numpy())
        gram = z[~held].T @ z[~held] + np.exp(log_ridge) * np.eye(4)  # the primal form
        scores = np.exp(log_scale) * z[held] @ np.linalg.solve(gram, z[~held].T @ y[~held]) + bias
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(held.sum()), labels[held]]
        total += losses.sum() / len(train)
    parts = [torch.tensor(part, dtype=torch.float64) for part in (a, log_ridge, log_scale, bias)]
    folds = [torch.from_numpy(np.isin(train, fold.numpy())) for fold in task.folds]
    loss = held_out_loss(torch.from_numpy(rows), task, task.train, folds, parts, None)
    assert loss.item() == pytest.approx(total, rel=1e-10)


def test_metapaths_through_the_informative_type_get_the_weight() -> None:
    task, graph = paper_task(noise=0.3)
    weighting, inputs = weighting_of(graph, task.train.numpy(), 1)
    outcome = learn_metapath_weights(task, inputs, np.eye(len(graph), dtype=np.float32), weighting, 0)
    assert outcome.better_than_prior
    assert outcome.after < 0.9 * outcome.before
    learned = dict(zip(weighting.metapaths, weighting.normalized_weights().tolist(), strict=True))
    weights = {metapath[0].split()[-1]: weight for metapath, weight in learned.items() if metapath}
    assert weights["venue"] > 1.3 * weights["author"]


def test_labels_without_a_pattern_leave_the_weights_as_they_are() -> None:
    task, graph = paper_task(noise=1.0)
    weighting, inputs = weighting_of(graph, task.train.numpy(), 1)
    one_hot = np.eye(len(graph), dtype=np.float32)
    assert not learn_metapath_weights(task, inputs, one_hot, weighting, 0).better_than_prior
    assert weighting.weights == pytest.approx(1 / len(weighting.metapaths))
