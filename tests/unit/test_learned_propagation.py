"""The sum over paths to some nodes has the values and gradients of that to all nodes, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.models.autograd import propagate
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting
from cge.models.learned_propagation import propagate_to
from cge.models.propagation import TransitionMatrix, neighborhood_of
from cge.training.encoder_data import EncoderData


def ring_with_chords(parallel: bool = False) -> cge.Graph:
    edges = [(node, (node + 1) % 60) for node in range(60)] + [(0, 7), (5, 20), (7, 40)]
    types = {"edge_types": ["a"] * len(edges)} if not parallel else {}
    if parallel:
        edges, types = [*edges, (0, 1), (1, 2)], {"edge_types": ["a"] * len(edges) + ["b", "b"]}
    return cge.Graph.from_edges(edges, **types)


@pytest.mark.parametrize("hop_weights", [[0.7], [0.2, -0.5], [0.1, 0.3, 0.4, 0.2], [0.5, 0.0, 0.3, 0.1, 0.1]])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_values_and_gradients_are_those_of_the_whole_graph(
    hop_weights: list[float], parallel: bool, n_jobs: int
) -> None:
    transitions = TransitionMatrix(ring_with_chords(parallel), n_jobs)
    random, seeds = np.random.default_rng(0), np.array([3, 7, 8, 30])
    arrays: Any = random.random(len(transitions)), random.normal(size=(60, 5)), np.array(hop_weights)
    upstream = torch.from_numpy(random.normal(size=(len(seeds), 5)))
    results = []
    for near in (False, True):
        weights, x, hops = (torch.from_numpy(array).requires_grad_() for array in arrays)
        if near:
            neighborhood = neighborhood_of(transitions.matrix(transitions.indices), seeds, len(hop_weights) - 1)
            of_inputs, of_weights = propagate_to(transitions, weights, x, hops, neighborhood)
        else:
            of_inputs = of_weights = propagate(transitions, weights, x, hops)
        total = of_inputs[seeds]
        assert torch.equal(total, of_weights[seeds])
        losses = (total * upstream).sum(), (of_weights[seeds] * upstream.flip(0)).sum()
        gradients = [*torch.autograd.grad(losses[0], [x], retain_graph=True)]
        gradients += torch.autograd.grad(losses[1], [weights, hops], allow_unused=True)
        results.append(
            [total.detach(), *(torch.zeros(1, dtype=torch.float64) if each is None else each for each in gradients)]
        )
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected.expand_as(actual), rtol=1e-12, atol=1e-12)


def test_gradients_by_finite_differences() -> None:
    transitions = TransitionMatrix(ring_with_chords())
    random, seeds = np.random.default_rng(1), np.array([0, 41])
    neighborhood = neighborhood_of(transitions.matrix(transitions.indices), seeds, 3)
    shapes: Any = random.random(len(transitions)), random.normal(size=(60, 2)), random.normal(size=4)
    inputs = tuple(torch.from_numpy(array).requires_grad_() for array in shapes)
    weights, x, hops = inputs

    def of_inputs(x: torch.Tensor) -> torch.Tensor:
        return propagate_to(transitions, weights, x, hops, neighborhood)[0][seeds]

    def of_weights(weights: torch.Tensor, hops: torch.Tensor) -> torch.Tensor:
        return propagate_to(transitions, weights, x, hops, neighborhood)[1][seeds]

    torch.autograd.gradcheck(of_inputs, (x,))
    torch.autograd.gradcheck(of_weights, (weights, hops))


@pytest.mark.parametrize("train_hops", [False, True])
def test_a_learned_weighting_propagates_to_few_nodes_in_the_same_way(train_hops: bool) -> None:
    data = EncoderData(ring_with_chords(), n_jobs=1)
    names = data.edge_scale.names
    weighting = EdgeWeighting([0.3] * len(names), 0.2, 0.4, [0.4, 0.3, 0.2, 0.1])
    x, seeds = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), np.array([2, 50, 2])
    gradients = []
    for nodes in (None, seeds):
        propagation = EdgePropagation(data.transitions, data.edge_inputs, weighting, train_hops=train_hops)
        sums = propagation.propagation(nodes)(x)
        loss = (sums[1] if isinstance(sums, tuple) else sums)[seeds].square().sum()
        gradients.append(torch.autograd.grad(loss, propagation.parameters()))
    for expected, actual in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
