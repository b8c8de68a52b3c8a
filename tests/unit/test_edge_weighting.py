"""Edge weightings, against plain loops in double precision and against enumerating every path."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.models.autograd import propagate, sparse_matmul
from cge.models.edge_features import cosines
from cge.models.edge_weighting import EdgeInputs, EdgePropagation, EdgeScale, EdgeWeighting, make_edge_inputs
from cge.models.propagation import FixedPropagation, SparsityPattern, TransitionMatrix
from tests.fixtures import neighborhood_cosines

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 3), (4, 4)]  # node 5 is isolated, node 4 has a self-loop
WEIGHTS = [2.0, 0.5, 1.5, 3.0, 0.25, 4.0, 7.0]
TYPES = ["cites", "cites", "knows", "knows", "cites", "knows", "cites"]
COEFFICIENTS = [0.8, -0.5, 0.3, 0.2, -0.4, 0.9, -1.1]  # five inputs, two types


def features_of_nodes() -> np.ndarray:
    random = np.random.default_rng(0)
    features = random.random((6, 9)) * (random.random((6, 9)) > 0.5)
    features[3] = 0
    return features


def small(directed: bool = False, **changed: Any) -> cge.Graph:
    options = {"features": sp.csr_array(features_of_nodes()), "weights": WEIGHTS, "edge_types": TYPES} | changed
    return cge.Graph.from_edges(EDGES, num_nodes=6, directed=directed, self_loops=True, **options)


def plain_inputs(graph: cge.Graph, features: np.ndarray, idf: np.ndarray) -> dict[tuple[int, int], list[float]]:
    """Return the five inputs of each edge before they are standardized."""
    rows = [graph.indices[graph.indptr[u] : graph.indptr[u + 1]].astype(int).tolist() for u in range(graph.num_nodes)]
    cosine, result = neighborhood_cosines(graph, features * idf), {}
    for u, near in enumerate(rows):
        for v in near:
            if u == v:
                continue
            shared = len(set(near) & set(rows[v]))
            a, b = max(len(near), 1), max(len(rows[v]), 1)
            all_a, all_b = (len(rows[w]) + graph.directed * sum(row.count(w) for row in rows) for w in (u, v))
            union = max(a + b - shared, 1)
            result[u, v] = [
                cosine[u, v],
                np.log(1 + shared),
                shared / union,
                np.log(all_a * all_b),
                abs(np.log(all_a / all_b)),
            ]
    return result


def idf_of(features: np.ndarray) -> np.ndarray:
    return np.log(1 + len(features) / np.maximum((features != 0).sum(0), 1))


def places(transitions: TransitionMatrix) -> dict[tuple[int, int], int]:
    return {(int(u), int(v)): k for k, (u, v) in enumerate(zip(transitions.rows, transitions.indices, strict=True))}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_inputs_are_standardized_over_edges_without_self_loops(directed: bool, sparse: bool) -> None:
    graph = small(
        directed, features=sp.csr_array(features_of_nodes()) if sparse else features_of_nodes(), edge_types=None
    )
    transitions = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, transitions)
    idf = idf_of(features_of_nodes()) if sparse else np.ones(9)
    expected = plain_inputs(graph, features_of_nodes(), idf)
    table = np.array(list(expected.values()))
    assert scale.names == ("cosine", "common neighbors", "jaccard", "degrees", "degree difference")
    np.testing.assert_allclose(scale.mean, table.mean(0), rtol=1e-6)
    np.testing.assert_allclose(scale.spread, table.std(0), rtol=1e-6)
    np.testing.assert_allclose(scale.idf, idf if sparse else [], rtol=1e-12)
    for (u, v), place in places(transitions).items():
        assert float(edge_inputs.self_loops[place]) == (u == v)
        scaled = np.zeros(5) if u == v else (np.array(expected[u, v]) - table.mean(0)) / table.std(0)
        np.testing.assert_allclose(edge_inputs.values[place], scaled, atol=2e-6)


def test_transitions_have_edge_weights_and_added_self_loops_the_mean() -> None:
    graph = small(directed=True)
    transitions = TransitionMatrix(graph)
    result = make_edge_inputs(graph, transitions)[0].weights
    expected = dict(zip(EDGES, WEIGHTS, strict=True)) | {(u, u): np.mean(WEIGHTS) for u in (0, 1, 2, 3, 5)}
    assert {edge: float(result[place]) for edge, place in places(transitions).items()} == pytest.approx(expected)
    plain = small(directed=True, weights=None)
    assert make_edge_inputs(plain, TransitionMatrix(plain))[0].weights.tolist() == [1.0] * 12


@pytest.mark.parametrize("size", [1e-38, 1e-25, 1e20, 1e35])
def test_cosines_do_not_depend_on_the_scale_of_weights(size: float) -> None:
    result = []
    for factor in (1.0, size):
        graph = small(weights=[factor * weight for weight in WEIGHTS])
        result.append(cosines(graph, graph.features))
    assert result[0].std() > 0.01
    np.testing.assert_allclose(result[1], result[0], atol=1e-5)


def test_edge_types_are_one_hot_without_self_loops() -> None:
    graph = small(directed=True)
    transitions = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, transitions)
    assert scale.names[5:] == ("type cites", "type knows")
    assert len(scale.mean) == len(scale.spread) == 5
    edge_types = dict(zip(EDGES, TYPES, strict=True))
    for (u, v), place in places(transitions).items():
        mark = [0.0, 0.0] if u == v else [float(edge_types[u, v] == "cites"), float(edge_types[u, v] == "knows")]
        assert edge_inputs.values[place, 5:].tolist() == mark


def test_another_graph_uses_the_scale_of_the_training_graph() -> None:
    trained = small()
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    features = np.random.default_rng(5).random((4, 9))
    edges, edge_types = [(0, 1), (1, 2), (2, 3)], ["knows", "new", "cites"]
    graph = cge.Graph.from_edges(
        edges, num_nodes=4, features=sp.csr_array(features), edge_types=edge_types, directed=True, weights=[1, 2, 3]
    )
    transitions = TransitionMatrix(graph)
    edge_inputs, same = make_edge_inputs(graph, transitions, scale)
    assert same is scale
    expected = plain_inputs(graph, features, idf_of(features_of_nodes()))
    marks = {(0, 1): [0, 1], (1, 2): [0, 0], (2, 3): [1, 0]}
    for edge in edges:
        scaled = (np.array(expected[edge]) - scale.mean) / scale.spread
        np.testing.assert_allclose(edge_inputs.values[places(transitions)[edge]], [*scaled, *marks[edge]], atol=5e-6)


def test_missing_features_count_as_average_similarity() -> None:
    trained = small()
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    graph = small(features=None)
    transitions = TransitionMatrix(graph)
    with_features, without = (
        make_edge_inputs(trained, transitions, scale)[0],
        make_edge_inputs(graph, transitions, scale)[0],
    )
    edges = without.self_loops == 0
    assert not without.values[edges, 0].any()
    assert np.array_equal(without.values[:, 1:], with_features.values[:, 1:])


@pytest.mark.parametrize("before", [None, features_of_nodes()])
def test_features_of_another_kind_than_in_training(before: np.ndarray | None) -> None:
    trained = small(features=before)
    scale = make_edge_inputs(trained, TransitionMatrix(trained))[1]
    edge_inputs, _ = make_edge_inputs(small(), TransitionMatrix(small()), scale)
    assert np.isfinite(edge_inputs.values).all()


def test_a_graph_without_edges() -> None:
    graph = cge.Graph.from_edges(np.empty((0, 2), int), num_nodes=3)
    edge_inputs, scale = make_edge_inputs(graph, TransitionMatrix(graph))
    assert edge_inputs.values.tolist() == [[0.0] * 4] * 3
    assert edge_inputs.self_loops.tolist() == edge_inputs.weights.tolist() == [1.0] * 3
    assert scale.spread.tolist() == [1.0] * 4


def test_constant_inputs_are_zero() -> None:
    ring = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
    edge_inputs, scale = make_edge_inputs(ring, TransitionMatrix(ring))
    assert scale.spread.tolist() == [1.0] * 4
    np.testing.assert_allclose(edge_inputs.values, 0, atol=1e-7)
    draw = np.random.default_rng(0)
    same = cge.Graph.from_edges(draw.integers(0, 50, (200, 2)), np.full((50, 7), 0.1), num_nodes=50)
    edge_inputs, scale = make_edge_inputs(same, TransitionMatrix(same))
    assert scale.names[0] == "cosine"
    np.testing.assert_allclose(edge_inputs.values[:, 0], 0, atol=1e-5)  # all cosines are 1 but for rounding


def plain_values(graph: cge.Graph, weighting: EdgeWeighting) -> dict[tuple[int, int], float]:
    """Return s of each transition, by the formula."""
    transitions = TransitionMatrix(graph)
    edge_inputs, _ = make_edge_inputs(graph, transitions)
    theta, b = weighting.coefficients.astype(np.float64), weighting.normalization.item()
    edge_strengths = {}
    for (u, v), place in places(transitions).items():
        exponent = weighting.self_loop.item() if u == v else edge_inputs.values[place].astype(np.float64) @ theta
        edge_strengths[u, v] = float(edge_inputs.weights[place]) * np.exp(exponent)
    z = np.zeros(graph.num_nodes)
    for (u, _), edge_strength in edge_strengths.items():
        z[u] += edge_strength
    return {(u, v): edge_strength / (z[u] ** (1 - b) * z[v] ** b) for (u, v), edge_strength in edge_strengths.items()}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("normalization", [0.0, 0.3, 0.5, 1.0])
def test_edge_weights_by_the_formula(directed: bool, normalization: float) -> None:
    graph, weighting = small(directed), EdgeWeighting(COEFFICIENTS, -0.6, normalization, [1.0])
    transitions = TransitionMatrix(graph)
    edge_inputs = make_edge_inputs(graph, transitions)[0]
    expected = plain_values(graph, weighting)
    assert list(places(transitions)) == list(expected)
    result = weighting.normalized_weights(transitions, edge_inputs)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, list(expected.values()), rtol=2e-5)
    weighted = EdgePropagation(transitions, *in_float64(edge_inputs, weighting))
    np.testing.assert_allclose(weighted.normalized_weights(), list(expected.values()), rtol=1e-12)


@pytest.mark.parametrize("normalization", [0.0, 0.5, 0.8])
def test_arrays_and_tensors_have_the_same_weights(normalization: float) -> None:
    """Predictions compute with NumPy, training with PyTorch."""
    graph, weighting = small(), EdgeWeighting(COEFFICIENTS, 0.4, normalization, [1.0, -2.0, 3.0, 0.0])
    transitions = TransitionMatrix(graph)
    edge_inputs, weighting = in_float64(make_edge_inputs(graph, transitions)[0], weighting)
    weighted = EdgePropagation(transitions, edge_inputs, weighting)
    fixed, trained = weighting.propagation(transitions, edge_inputs), weighted.fixed()
    np.testing.assert_allclose(fixed.matrix.csr.data, trained.matrix.csr.data, rtol=1e-14)
    assert fixed.hop_weights == trained.hop_weights == pytest.approx([1 / 6, -1 / 3, 1 / 2], rel=1e-15)


def in_float64(edge_inputs: EdgeInputs, weighting: EdgeWeighting) -> tuple[EdgeInputs, EdgeWeighting]:
    double = copy(weighting)
    for name, array in weighting.arrays().items():
        setattr(double, name, array.astype(np.float64))
    parts = {name: getattr(edge_inputs, name).astype(np.float64) for name in ("values", "self_loops", "weights")}
    return replace(edge_inputs, **parts), double


def test_isolated_nodes_and_dead_ends_have_only_their_self_loop() -> None:
    graph = cge.Graph.from_edges([(0, 1)], num_nodes=3, directed=True, weights=[5.0])
    transitions = TransitionMatrix(graph)
    values = EdgeWeighting([0.0] * 4, 1.3, 0.5, [1.0]).normalized_weights(
        transitions, make_edge_inputs(graph, transitions)[0]
    )
    result = {edge: values[place].item() for edge, place in places(transitions).items()}
    assert result[1, 1] == pytest.approx(1.0)
    assert result[2, 2] == pytest.approx(1.0)
    assert result[0, 1] == pytest.approx(5 / np.sqrt((5 + 5 * np.exp(1.3)) * 5 * np.exp(1.3)))


def test_exponents_are_clamped() -> None:
    graph = cge.Graph.from_edges([(0, 1), (0, 2)], directed=True, edge_types=["far", "near"])
    transitions = TransitionMatrix(graph)
    weighting = EdgeWeighting([0.0, 0.0, 0.0, 0.0, -1e4, 1e4], 0.0, 0.0, [1.0])
    values = weighting.normalized_weights(transitions, make_edge_inputs(graph, transitions)[0])
    total = 1 + np.exp(-20.0) + np.exp(20.0)
    result = {edge: values[place].item() for edge, place in places(transitions).items()}
    assert result[0, 1] == pytest.approx(np.exp(-20.0) / total)
    assert result[0, 2] == pytest.approx(np.exp(20.0) / total)


def test_absolute_hop_weights_sum_to_one() -> None:
    weighting = EdgeWeighting([], 0.0, 0.0, [1.0, -2.0, 0.0, 5.0])
    np.testing.assert_allclose(weighting.normalized_hop_weights(), [0.125, -0.25, 0.0, 0.625])
    assert EdgeWeighting([], 0.0, 0.0, [0.0, 0.0]).normalized_hop_weights().tolist() == [0.0, 0.0]


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
def test_propagation_sums_over_every_weighted_path(directed: bool, hops: list[float]) -> None:
    graph, weighting = small(directed), EdgeWeighting(COEFFICIENTS, 0.7, 0.4, hops)
    transitions = TransitionMatrix(graph)
    weighted = EdgePropagation(transitions, make_edge_inputs(graph, transitions)[0], weighting)
    inputs = np.random.default_rng(2).normal(size=(6, 2))
    shares = np.array(hops) / np.abs(hops).sum()
    expected = every_path(plain_values(graph, weighting), shares, inputs)
    x = torch.from_numpy(inputs.astype(np.float32))
    np.testing.assert_allclose(weighted.propagation()(x).detach(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weighted.fixed()(x), expected, rtol=1e-4, atol=1e-5)


def test_trailing_zeros_of_hop_weights_are_dropped() -> None:
    def hops(weights: list[float]) -> list[float]:
        return EdgeWeighting(COEFFICIENTS, 0.0, 0.0, weights).used_hop_weights()

    assert hops([0.0, 1.0, 0.0, 3.0, 0.0, 0.0]) == [0.0, 0.25, 0.0, 0.75]
    assert hops([0.0, 0.0]) == [0.0]


def test_gradients_of_all_parameters_by_finite_differences() -> None:
    graph = small(directed=True)
    transitions = TransitionMatrix(graph)
    weighting = EdgeWeighting(COEFFICIENTS, -0.2, 0.3, [1.0, -0.5, 2.0])
    edge_inputs = make_edge_inputs(graph, transitions)[0]
    weighted = EdgePropagation(transitions, *in_float64(edge_inputs, weighting))
    random = np.random.default_rng(3)
    inputs, upstream = (torch.from_numpy(random.normal(size=(6, 2))) for _ in range(2))

    def loss() -> torch.Tensor:
        return (weighted.propagation()(inputs) * upstream).sum()

    parameters = weighted.parameters()
    assert [tuple(parameter.shape) for parameter in parameters] == [(7,), (), (), (3,)]
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


def test_initial_parameters_are_those_before_training() -> None:
    graph = small()
    transitions = TransitionMatrix(graph)
    weighting = EdgeWeighting(COEFFICIENTS, 1.0, 0.5, [1.0, 2.0])
    weighted = EdgePropagation(transitions, make_edge_inputs(graph, transitions)[0], weighting)
    with torch.no_grad():
        for parameter in weighted.parameters():
            parameter.add_(1.0)
    assert weighting.coefficients.tolist() == pytest.approx([value + 1 for value in COEFFICIENTS])  # shared memory
    assert (weighting.self_loop.item(), weighting.normalization.item()) == (2.0, 1.5)
    assert [parameter.tolist() for parameter in weighted.initial_parameters()] == [
        pytest.approx(COEFFICIENTS),
        1.0,
        0.5,
        [1.0, 2.0],
    ]


@pytest.mark.parametrize("hops", [[0.7], [0.0], [0.3, -0.7, 1.1, 0.5], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])
@pytest.mark.parametrize("directed", [False, True])
def test_fixed_propagation_and_its_gradient_are_those_of_propagate(directed: bool, hops: list[float]) -> None:
    transitions = TransitionMatrix(small(directed))
    random = np.random.default_rng(0)
    values = torch.from_numpy(random.random(len(transitions)) + 0.1)
    inputs, upstream = (torch.from_numpy(random.normal(size=(6, 3))) for _ in range(2))
    result, gradients = [], []
    for propagation in (FixedPropagation(transitions, values, hops), lambda x: propagate(transitions, values, x, hops)):
        x = inputs.clone().requires_grad_()
        result.append(propagation(x))
        gradients.append(torch.autograd.grad((result[-1] * upstream).sum(), x)[0])
    torch.testing.assert_close(result[0], result[1], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-14)
    dense = transitions.matrix(values.numpy()).toarray()
    operator = sum(hop * np.linalg.matrix_power(dense, k) for k, hop in enumerate(hops))
    np.testing.assert_allclose(result[0].detach(), operator @ inputs.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients[0], operator.T @ upstream.numpy(), rtol=1e-10, atol=1e-12)


def test_fixed_propagation_takes_any_memory_layout() -> None:
    transitions = TransitionMatrix(small(directed=True))
    values = torch.from_numpy(np.random.default_rng(0).random(len(transitions)))
    inputs = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 6))).T.requires_grad_()
    propagation = FixedPropagation(transitions, values, [0.2, 0.3, 0.5])
    propagated = propagation(inputs)
    torch.testing.assert_close(propagated, propagation(inputs.detach().contiguous()))
    dense = transitions.matrix(values.numpy()).toarray()
    operator = 0.2 * np.eye(6) + 0.3 * dense + 0.5 * dense @ dense
    result = torch.autograd.grad(propagated.sum(), inputs)[0]
    np.testing.assert_allclose(result, operator.T @ np.ones((6, 3)), rtol=1e-12)


def test_entries_of_a_pattern_at_the_same_position_are_added() -> None:
    rows, columns = np.array([0, 0, 0, 2, 2]), np.array([1, 1, 2, 0, 0])
    pattern = SparsityPattern(rows, columns, 4)
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64, requires_grad=True)
    dense = np.zeros((4, 4))
    np.add.at(dense, (rows, columns), values.detach().numpy())
    assert len(pattern) == 5
    np.testing.assert_array_equal(pattern.matrix(values.detach().numpy()).toarray(), dense)
    np.testing.assert_array_equal(pattern.transposed(values.detach().numpy()).toarray(), dense.T)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 2))).requires_grad_()
    result = sparse_matmul(pattern, values, x)
    np.testing.assert_allclose(result.detach(), dense @ x.detach().numpy(), rtol=1e-12)
    assert torch.autograd.gradcheck(lambda v, y: sparse_matmul(pattern, v, y), (values, x))


def test_a_given_scale_is_used() -> None:
    scale = EdgeScale(("degrees", "jaccard"), np.array([1.0, 0.5]), np.array([2.0, 0.25]), np.empty(0))
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    transitions = TransitionMatrix(graph)
    result = make_edge_inputs(graph, transitions, scale)[0].values[places(transitions)[0, 2]]
    np.testing.assert_allclose(result, [(np.log(2 * 3) - 1) / 2, (1 / 4 - 0.5) / 0.25], rtol=1e-6)
