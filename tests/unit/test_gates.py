"""Weights of single steps, against plain loops in double precision and against walking every path by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.models.edge_features import cosines
from cge.models.edge_weighting import EdgeInputs, EdgePropagation, EdgeScale, EdgeWeighting, make_edge_inputs
from cge.models.propagation import FixedPropagation, propagate, sparse_matmul
from cge.models.transitions import SparsityPattern, TransitionMatrix
from tests.fixtures import neighborhood_cosines

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3), (4, 4)]  # node 5 is alone, node 4 has a loop
WEIGHTS = [2.0, 0.5, 1.5, 3.0, 0.25, 4.0, 7.0]
TYPES = ["cites", "cites", "knows", "knows", "cites", "knows", "cites"]
GATE = [0.8, -0.5, 0.3, 0.2, -0.4, 0.9, -1.1]  # five inputs, two types


def words() -> np.ndarray:
    random = np.random.default_rng(0)
    found = random.random((6, 9)) * (random.random((6, 9)) > 0.5)
    found[3] = 0
    return found


def small(directed: bool = False, **changed: Any) -> cge.Graph:
    given = {"features": sp.csr_array(words()), "weights": WEIGHTS, "edge_types": TYPES} | changed
    return cge.Graph.from_edges(EDGES, num_nodes=6, directed=directed, self_loops=True, **given)


def plain_inputs(graph: cge.Graph, features: np.ndarray, idf: np.ndarray) -> dict[tuple[int, int], list[float]]:
    """Return the five inputs of each step that moves, as they are before any scale."""
    rows = [graph.indices[graph.indptr[u] : graph.indptr[u + 1]].astype(int).tolist() for u in range(graph.num_nodes)]
    cosine, found = neighborhood_cosines(graph, features * idf), {}
    for u, near in enumerate(rows):
        for v in near:
            if u == v:
                continue
            shared = len(set(near) & set(rows[v]))
            a, b = max(len(near), 1), max(len(rows[v]), 1)
            all_a, all_b = (len(rows[w]) + graph.directed * sum(one.count(w) for one in rows) for w in (u, v))
            union = max(a + b - shared, 1)
            found[u, v] = [
                cosine[u, v],
                np.log(1 + shared),
                shared / union,
                np.log(all_a * all_b),
                abs(np.log(all_a / all_b)),
            ]
    return found


def own_rarity(features: np.ndarray) -> np.ndarray:
    return np.log(1 + len(features) / np.maximum((features != 0).sum(0), 1))


def places(steps: TransitionMatrix) -> dict[tuple[int, int], int]:
    return {(int(u), int(v)): k for k, (u, v) in enumerate(zip(steps.rows, steps.indices, strict=True))}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_inputs_are_scaled_over_the_steps_that_move(directed: bool, sparse: bool) -> None:
    graph = small(directed, features=sp.csr_array(words()) if sparse else words(), edge_types=None)
    steps = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, steps)
    idf = own_rarity(words()) if sparse else np.ones(9)
    expected = plain_inputs(graph, words(), idf)
    table = np.array(list(expected.values()))
    assert scale.names == ("cosine", "common neighbors", "jaccard", "degrees", "degree difference")
    np.testing.assert_allclose(scale.mean, table.mean(0), rtol=1e-6)
    np.testing.assert_allclose(scale.spread, table.std(0), rtol=1e-6)
    np.testing.assert_allclose(scale.idf, idf if sparse else [], rtol=1e-12)
    for (u, v), place in places(steps).items():
        assert float(edge_inputs.self_loops[place]) == (u == v)
        scaled = np.zeros(5) if u == v else (np.array(expected[u, v]) - table.mean(0)) / table.std(0)
        np.testing.assert_allclose(edge_inputs.values[place], scaled, atol=2e-6)


def test_steps_have_the_weights_of_edges_and_new_ones_to_oneself_the_mean() -> None:
    graph = small(directed=True)
    steps = TransitionMatrix(graph)
    found = make_edge_inputs(graph, steps)[0].weights
    expected = dict(zip(EDGES, WEIGHTS, strict=True)) | {(u, u): np.mean(WEIGHTS) for u in (0, 1, 2, 3, 5)}
    assert {step: float(found[place]) for step, place in places(steps).items()} == pytest.approx(expected)
    plain = small(directed=True, weights=None)
    assert make_edge_inputs(plain, TransitionMatrix(plain))[0].weights.tolist() == [1.0] * 12


@pytest.mark.parametrize("size", [1e-38, 1e-25, 1e20, 1e35])
def test_cosines_do_not_ask_how_large_weights_are(size: float) -> None:
    found = []
    for factor in (1.0, size):
        graph = small(weights=[factor * one for one in WEIGHTS])
        found.append(cosines(graph, graph.features))
    assert found[0].std() > 0.01
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


def test_types_are_marked_on_steps_that_move() -> None:
    graph = small(directed=True)
    steps = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, steps)
    assert scale.names[5:] == ("type cites", "type knows")
    assert len(scale.mean) == len(scale.spread) == 5
    kinds = dict(zip(EDGES, TYPES, strict=True))
    for (u, v), place in places(steps).items():
        mark = [0.0, 0.0] if u == v else [float(kinds[u, v] == "cites"), float(kinds[u, v] == "knows")]
        assert edge_inputs.values[place, 5:].tolist() == mark


def test_another_graph_is_seen_with_the_scale_of_the_trained_one() -> None:
    trained = small()
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    features = np.random.default_rng(5).random((4, 9))
    edges, kinds = [(0, 1), (1, 2), (2, 3)], ["knows", "new", "cites"]
    graph = cge.Graph.from_edges(
        edges, num_nodes=4, features=sp.csr_array(features), edge_types=kinds, directed=True, weights=[1, 2, 3]
    )
    steps = TransitionMatrix(graph)
    edge_inputs, same = make_edge_inputs(graph, steps, scale)
    assert same is scale
    expected = plain_inputs(graph, features, own_rarity(words()))
    marks = {(0, 1): [0, 1], (1, 2): [0, 0], (2, 3): [1, 0]}
    for step in edges:
        scaled = (np.array(expected[step]) - scale.mean) / scale.spread
        np.testing.assert_allclose(edge_inputs.values[places(steps)[step]], [*scaled, *marks[step]], atol=5e-6)


def test_where_features_are_gone_all_are_as_similar_as_ever() -> None:
    trained = small()
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    graph = small(features=None)
    steps = TransitionMatrix(graph)
    with_features, without = make_edge_inputs(trained, steps, scale)[0], make_edge_inputs(graph, steps, scale)[0]
    moves = without.self_loops == 0
    assert not without.values[moves, 0].any()
    assert torch.equal(without.values[:, 1:], with_features.values[:, 1:])


@pytest.mark.parametrize("before", [None, words()])
def test_sparse_features_that_were_not_there_in_training(before: np.ndarray | None) -> None:
    trained = small(features=before)
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    edge_inputs, _ = make_edge_inputs(small(), TransitionMatrix(small()), scale)
    assert torch.isfinite(edge_inputs.values).all()


def test_without_edges_there_is_nothing_to_scale() -> None:
    graph = cge.Graph.from_edges(np.empty((0, 2), int), num_nodes=3)
    edge_inputs, scale = make_edge_inputs(graph, TransitionMatrix(graph))
    assert edge_inputs.values.tolist() == [[0.0] * 4] * 3
    assert edge_inputs.self_loops.tolist() == edge_inputs.weights.tolist() == [1.0] * 3
    assert scale.spread.tolist() == [1.0] * 4


def test_what_is_the_same_everywhere_says_nothing() -> None:
    ring = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
    edge_inputs, scale = make_edge_inputs(ring, TransitionMatrix(ring))
    assert scale.spread.tolist() == [1.0] * 4
    np.testing.assert_allclose(edge_inputs.values, 0, atol=1e-7)
    draw = np.random.default_rng(0)
    alike = cge.Graph.from_edges(draw.integers(0, 50, (200, 2)), np.full((50, 7), 0.1), num_nodes=50)
    edge_inputs, scale = make_edge_inputs(alike, TransitionMatrix(alike))
    assert scale.names[0] == "cosine"
    np.testing.assert_allclose(edge_inputs.values[:, 0], 0, atol=1e-5)  # all cosines are 1 but for rounding


def plain_values(graph: cge.Graph, weighting: EdgeWeighting) -> dict[tuple[int, int], float]:
    """Return s of each step, by the formula."""
    steps = TransitionMatrix(graph)
    edge_inputs, _ = make_edge_inputs(graph, steps)
    theta, b = weighting.coefficients.detach().double().numpy(), weighting.normalization.item()
    gates = {}
    for (u, v), place in places(steps).items():
        exponent = weighting.self_loop.item() if u == v else edge_inputs.values[place].double().numpy() @ theta
        gates[u, v] = float(edge_inputs.weights[place]) * np.exp(exponent)
    z = np.zeros(graph.num_nodes)
    for (u, _), gate in gates.items():
        z[u] += gate
    return {(u, v): gate / (z[u] ** (1 - b) * z[v] ** b) for (u, v), gate in gates.items()}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("normalization", [0.0, 0.3, 0.5, 1.0])
def test_step_values_by_the_formula(directed: bool, normalization: float) -> None:
    graph, weighting = small(directed), EdgeWeighting(GATE, -0.6, normalization, [1.0])
    steps = TransitionMatrix(graph)
    found = weighting.edge_weights(steps, make_edge_inputs(graph, steps)[0]).detach()
    expected = plain_values(graph, weighting)
    assert list(places(steps)) == list(expected)
    np.testing.assert_allclose(found, list(expected.values()), rtol=2e-5)


def test_a_node_alone_stays_with_certainty_and_a_dead_end_too() -> None:
    graph = cge.Graph.from_edges([(0, 1)], num_nodes=3, directed=True, weights=[5.0])
    steps = TransitionMatrix(graph)
    values = EdgeWeighting([0.0] * 4, 1.3, 0.5, [1.0]).edge_weights(steps, make_edge_inputs(graph, steps)[0])
    found = {step: values[place].item() for step, place in places(steps).items()}
    assert found[1, 1] == pytest.approx(1.0)
    assert found[2, 2] == pytest.approx(1.0)
    assert found[0, 1] == pytest.approx(5 / np.sqrt((5 + 5 * np.exp(1.3)) * 5 * np.exp(1.3)))


def test_no_gate_is_beyond_twenty_powers_of_e() -> None:
    graph = cge.Graph.from_edges([(0, 1), (0, 2)], directed=True, edge_types=["far", "near"])
    steps = TransitionMatrix(graph)
    weighting = EdgeWeighting([0.0, 0.0, 0.0, 0.0, -1e4, 1e4], 0.0, 0.0, [1.0])
    values = weighting.edge_weights(steps, make_edge_inputs(graph, steps)[0])
    total = 1 + np.exp(-20.0) + np.exp(20.0)
    found = {step: values[place].item() for step, place in places(steps).items()}
    assert found[0, 1] == pytest.approx(np.exp(-20.0) / total)
    assert found[0, 2] == pytest.approx(np.exp(20.0) / total)


def test_absolute_hop_weights_sum_to_one() -> None:
    weighting = EdgeWeighting([], 0.0, 0.0, [1.0, -2.0, 0.0, 5.0])
    np.testing.assert_allclose(weighting.hop_weights().detach(), [0.125, -0.25, 0.0, 0.625])
    assert EdgeWeighting([], 0.0, 0.0, [0.0, 0.0]).hop_weights().tolist() == [0.0, 0.0]


def every_path(values: dict[tuple[int, int], float], hops: Any, inputs: np.ndarray) -> np.ndarray:
    expected = np.zeros(inputs.shape)
    for start in range(len(inputs)):
        paths = [((start,), 1.0)]
        for hop in hops:
            for path, weight in paths:
                expected[start] += hop * weight * inputs[path[-1]]
            paths = [
                ((*path, v), weight * s) for path, weight in paths for (u, v), s in values.items() if u == path[-1]
            ]
    return expected


@pytest.mark.parametrize("hops", [[2.0], [1.0, -2.0, 0.5, 3.0], [1.0, 1.0, 0.0, 0.0]])
@pytest.mark.parametrize("directed", [False, True])
def test_pooling_weighs_every_path(directed: bool, hops: list[float]) -> None:
    graph, weighting = small(directed), EdgeWeighting(GATE, 0.7, 0.4, hops)
    steps = TransitionMatrix(graph)
    weighted = EdgePropagation(steps, make_edge_inputs(graph, steps)[0], weighting)
    inputs = np.random.default_rng(2).normal(size=(6, 2))
    shares = np.array(hops) / np.abs(hops).sum()
    expected = every_path(plain_values(graph, weighting), shares, inputs)
    given = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(weighted.propagation()(given).detach(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weighted.fixed()(given), expected, rtol=1e-4, atol=1e-5)


def test_hops_end_with_the_last_that_counts() -> None:
    graph = small()
    steps = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, steps)[0]

    def hops(given: list[float]) -> list[float]:
        return EdgePropagation(steps, edge_inputs, EdgeWeighting(GATE, 0.0, 0.0, given)).hops()

    assert hops([0.0, 1.0, 0.0, 3.0, 0.0, 0.0]) == [0.0, 0.25, 0.0, 0.75]
    assert hops([0.0, 0.0]) == [0.0]


def test_every_number_has_the_gradient_of_finite_differences() -> None:
    graph = small(directed=True)
    steps = TransitionMatrix(graph)
    told = make_edge_inputs(graph, steps)[0]
    edge_inputs = EdgeInputs(told.values.double(), told.self_loops.double(), told.weights.double())
    weighting = EdgeWeighting(GATE, -0.2, 0.3, [1.0, -0.5, 2.0]).double()
    weighted = EdgePropagation(steps, edge_inputs, weighting)
    random = np.random.default_rng(3)
    inputs, aim = (torch.from_numpy(random.normal(size=(6, 2))) for _ in range(2))

    def loss() -> torch.Tensor:
        return (weighted.propagation()(inputs) * aim).sum()

    parameters = weighted.parameters()
    assert [tuple(one.shape) for one in parameters] == [(7,), (), (), (3,)]
    gradients = torch.autograd.grad(loss(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        for place in range(parameter.numel()):
            with torch.no_grad():
                flat = parameter.view(-1)
                flat[place] += 1e-6
                above = float(loss())
                flat[place] -= 2e-6
                below = float(loss())
                flat[place] += 1e-6
            assert float(gradient.reshape(-1)[place]) == pytest.approx((above - below) / 2e-6, rel=1e-5, abs=1e-8)


def test_the_prior_is_where_weights_began() -> None:
    graph = small()
    steps = TransitionMatrix(graph)
    weighted = EdgePropagation(steps, make_edge_inputs(graph, steps)[0], EdgeWeighting(GATE, 1.0, 0.5, [1.0, 2.0]))
    with torch.no_grad():
        for one in weighted.parameters():
            one.add_(1.0)
    assert [one.tolist() for one in weighted.initial_parameters()] == [pytest.approx(GATE), 1.0, 0.5, [1.0, 2.0]]


@pytest.mark.parametrize("hops", [[0.7], [0.0], [0.3, -0.7, 1.1, 0.5], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])
@pytest.mark.parametrize("directed", [False, True])
def test_fixed_pooling_and_its_gradient_are_those_of_pool(directed: bool, hops: list[float]) -> None:
    steps = TransitionMatrix(small(directed))
    random = np.random.default_rng(0)
    values = torch.from_numpy(random.random(len(steps)) + 0.1)
    inputs, aim = (torch.from_numpy(random.normal(size=(6, 3))) for _ in range(2))
    found, gradients = [], []
    for propagation in (FixedPropagation(steps, values, hops), lambda x: propagate(steps, values, x, hops)):
        given = inputs.clone().requires_grad_()
        found.append(propagation(given))
        gradients.append(torch.autograd.grad((found[-1] * aim).sum(), given)[0])
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-14)
    dense = steps.matrix(values.numpy()).toarray()
    operator = sum(hop * np.linalg.matrix_power(dense, k) for k, hop in enumerate(hops))
    np.testing.assert_allclose(found[0].detach(), operator @ inputs.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients[0], operator.T @ aim.numpy(), rtol=1e-10, atol=1e-12)


def test_fixed_pooling_takes_gradients_and_payloads_of_any_layout() -> None:
    steps = TransitionMatrix(small(directed=True))
    values = torch.from_numpy(np.random.default_rng(0).random(len(steps)))
    inputs = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 6))).T.requires_grad_()
    propagation = FixedPropagation(steps, values, [0.2, 0.3, 0.5])
    propagated = propagation(inputs)
    torch.testing.assert_close(propagated, propagation(inputs.detach().contiguous()))
    dense = steps.matrix(values.numpy()).toarray()
    operator = 0.2 * np.eye(6) + 0.3 * dense + 0.5 * dense @ dense
    found = torch.autograd.grad(propagated.sum(), inputs)[0]
    np.testing.assert_allclose(found, operator.T @ np.ones((6, 3)), rtol=1e-12)


def test_a_pattern_adds_up_entries_at_the_same_place() -> None:
    rows, columns = np.array([0, 0, 0, 2, 2]), np.array([1, 1, 2, 0, 0])
    pattern = SparsityPattern(rows, columns, 4)
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64, requires_grad=True)
    dense = np.zeros((4, 4))
    np.add.at(dense, (rows, columns), values.detach().numpy())
    assert len(pattern) == 5
    np.testing.assert_array_equal(pattern.matrix(values.detach().numpy()).toarray(), dense)
    np.testing.assert_array_equal(pattern.transposed(values.detach().numpy()).toarray(), dense.T)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 2))).requires_grad_()
    found = sparse_matmul(pattern, values, x)
    np.testing.assert_allclose(found.detach(), dense @ x.detach().numpy(), rtol=1e-12)
    assert torch.autograd.gradcheck(lambda v, y: sparse_matmul(pattern, v, y), (values, x))


def test_scales_hold_what_they_are_given() -> None:
    scale = EdgeScale(("degrees", "jaccard"), np.array([1.0, 0.5]), np.array([2.0, 0.25]), np.empty(0))
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    steps = TransitionMatrix(graph)
    found = make_edge_inputs(graph, steps, scale)[0].values[places(steps)[0, 2]]
    np.testing.assert_allclose(found, [(np.log(2 * 3) - 1) / 2, (1 / 4 - 0.5) / 0.25], rtol=1e-6)
