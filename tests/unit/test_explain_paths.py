"""Sums over paths and the best of them, against all paths written down one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cge
from cge.explain.path_search import PathSet, best_paths
from cge.explain.path_sources import NO_EDGE, SELF_LOOP, AllPaths, EdgeTypes, SampledPaths, count
from cge.models.propagation import TransitionMatrix

Array = npt.NDArray[Any]

# Ann and bob both work together and are friends: two edges of different types between the same two nodes.
EDGES = [(0, 1), (0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 4)]
TYPES = ["work", "friend", "work", "friend", "friend", "work", "friend"]
GRAPH = cge.Graph.from_edges(EDGES, edge_types=TYPES, self_loops=True)
HOPS = [0.1, -0.4, 0.3, 0.0, 0.2]


def some_paths(seed: int = 0, hops: list[float] = HOPS) -> AllPaths:
    transitions, random = TransitionMatrix(GRAPH, 1), np.random.default_rng(seed)
    walk = np.full(len(transitions), 0.25)
    values = random.random(len(transitions)) + 0.1
    return AllPaths(transitions, values, hops, walk, EdgeTypes.of(GRAPH, transitions))


def one_by_one(paths: AllPaths, start: int) -> Iterator[tuple[list[int], float, int]]:
    """Yield every path from a node: its edges, its coefficient, its endpoint."""
    transitions, longest = paths.transitions, [([], 1.0, start)]
    for weight in paths.hop_weights:
        yield from ((edges, weight * product, end) for edges, product, end in longest)
        longest = [
            ([*edges, edge], product * paths.values[edge], int(transitions.indices[edge]))
            for edges, product, end in longest
            for edge in np.flatnonzero(transitions.rows == end).tolist()
        ]


def as_path_set(paths: list[tuple[int, list[int], float]], hops: int) -> PathSet:
    padded = np.full((len(paths), hops), -1)
    for row, (_, edges, _) in enumerate(paths):
        padded[row, : len(edges)] = edges
    length = np.array([len(edges) + 1 for _, edges, _ in paths])
    return PathSet(np.array([start for start, *_ in paths]), padded, length, np.array([path[2] for path in paths]))


def sampled_like(paths: AllPaths) -> SampledPaths:
    """Return the same paths as a sample."""

    def sample(nodes: Array) -> PathSet:
        every = [
            (node, edges, coefficient)
            for node in nodes.tolist()
            for edges, coefficient, _ in one_by_one(paths, node)
            if coefficient
        ]
        return as_path_set(every, paths.hops)

    def weigh(sequences: list[Array]) -> Array:
        return np.array([len(nodes) for nodes in sequences])

    return SampledPaths(sample, paths.hops, paths.indices, paths.transitions.num_nodes, weigh, paths.types)


INPUTS = np.random.default_rng(1).normal(size=(5, 3))


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_sums_by_hop_are_those_over_single_paths(nodes: list[int], sampled: bool) -> None:
    paths = some_paths()
    expected = np.zeros((5, len(nodes), 3))
    for place, node in enumerate(nodes):
        for edges, coefficient, end in one_by_one(paths, node):
            expected[len(edges), place] += coefficient * INPUTS[end]
    sums = (sampled_like(paths) if sampled else paths).by_hop(np.array(nodes), INPUTS)
    np.testing.assert_allclose(sums, expected, atol=1e-14)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_a_path_counts_for_the_types_of_its_edges_in_equal_parts(nodes: list[int], sampled: bool) -> None:
    paths = some_paths()
    assert paths.types is not None
    assert paths.types.names == ("work", "friend", SELF_LOOP, NO_EDGE)
    expected = np.zeros((4, len(nodes), 3))
    for place, node in enumerate(nodes):
        for edges, coefficient, end in one_by_one(paths, node):
            for kind in paths.types.of_edge[edges].tolist() if edges else [3]:
                expected[kind, place] += coefficient * INPUTS[end] / max(len(edges), 1)
    source = sampled_like(paths) if sampled else paths
    sums = source.by_type(np.array(nodes), INPUTS)
    np.testing.assert_allclose(sums, expected, atol=1e-14)
    np.testing.assert_allclose(sums.sum(0), source.by_hop(np.array(nodes), INPUTS).sum(0), atol=1e-13)


def test_types_are_those_of_the_graph() -> None:
    transitions = TransitionMatrix(GRAPH)
    types = EdgeTypes.of(GRAPH, transitions)
    assert types is not None
    entries = zip(transitions.rows, transitions.indices, types.of_edge, strict=True)
    kinds = {(int(u), int(v), types.names[k]) for u, v, k in entries}
    assert {
        (0, 1, "work"),
        (0, 1, "friend"),
        (1, 0, "work"),
        (2, 3, "friend"),
        (4, 4, SELF_LOOP),
        (0, 0, SELF_LOOP),
    } <= kinds
    assert (2, 3, "work") not in kinds
    assert EdgeTypes.of(cge.Graph.from_edges([(0, 1)]), TransitionMatrix(cge.Graph.from_edges([(0, 1)]))) is None
    assert some_paths().by_type(np.array([1]), INPUTS).shape == (4, 1, 3)
    ones = np.ones(len(transitions))
    plain = AllPaths(transitions, ones, HOPS, ones)
    assert plain.by_type(np.array([1]), INPUTS).shape == (0, 1, 3)


def rows_of(paths: PathSet, source: Any) -> list[tuple[Any, ...]]:
    """Return start, edges, coefficient and endpoint of each path."""
    endpoints = paths.endpoints(source.indices).tolist()
    rows = zip(paths.start.tolist(), paths.edges.tolist(), paths.path_weight.round(12).tolist(), endpoints, strict=True)
    return [(start, *(edge for edge in edges if edge >= 0), value, end) for start, edges, value, end in rows]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("top", [1, 7, 100_000])
@pytest.mark.parametrize("hop", [None, 0, 2])
def test_the_strongest_paths_are_those_of_all_paths(top: int, hop: int | None, sampled: bool) -> None:
    paths, values, gradients = some_paths(3), INPUTS[:, 0], np.eye(3)[:1]
    every = [
        (edges, coefficient, end)
        for edges, coefficient, end in one_by_one(paths, 2)
        if coefficient and hop in (None, len(edges))
    ]
    every.sort(key=lambda path: -abs(path[1] * values[path[2]]))
    source = sampled_like(paths) if sampled else paths
    strongest = source.top_by_contribution(np.array([2]), gradients, INPUTS, top, hop)
    expected = {(2, *edges, round(float(coefficient), 12), end) for edges, coefficient, end in every}
    assert len(set(rows_of(strongest, paths))) == len(strongest) == min(top, len(every))
    assert set(rows_of(strongest, paths)) <= expected
    contributions = np.abs(strongest.path_weight * values[strongest.endpoints(paths.indices)])
    np.testing.assert_allclose(contributions, [abs(value * values[end]) for _, value, end in every[:top]])
    heaviest = source.top_by_weight(2, top)
    sizes = sorted((abs(value) for _, value, _ in one_by_one(paths, 2) if value), reverse=True)
    if not sampled:  # a sample has no negative coefficients
        np.testing.assert_allclose(np.abs(heaviest.path_weight), sizes[:top])
    between = paths.top_by_contribution(np.array([2]), np.ones((1, 1)), np.eye(5)[:, [4]], top, hop)
    sizes = sorted((abs(value) for _, value, end in every if end == 4), reverse=True)[:top]
    np.testing.assert_allclose(np.abs(between.path_weight), sizes)
    assert set(between.endpoints(paths.indices)) <= {4}


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("top", [1, 5, 100_000])
def test_the_most_positive_paths_are_those_of_all_paths(top: int, alike: bool, sampled: bool) -> None:
    nodes, paths = np.array([0, 2, 3]), some_paths(5)
    gradients = np.random.default_rng(7).normal(size=(3, 3)) * (np.random.default_rng(8).random((3, 3)) < 0.6)
    gradients = gradients[[0, 0, 0]] if alike else gradients
    every = []
    for row, node in enumerate(nodes.tolist()):
        for _, coefficient, end in one_by_one(paths, node):
            every.append(coefficient * float(gradients[row] @ INPUTS[end]))
    expected = sorted((value for value in every if value > 0), reverse=True)[:top]
    best = (sampled_like(paths) if sampled else paths).top_by_contribution(nodes, gradients, INPUTS, top, positive=True)
    rows, endpoints = np.searchsorted(nodes, best.start), best.endpoints(paths.indices)
    np.testing.assert_allclose(best.path_weight * (gradients[rows] * INPUTS[endpoints]).sum(1), expected, atol=1e-14)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("hops", [HOPS, [0.2, 0.3, 0.5], [1.0]])
@pytest.mark.parametrize("top", [1, 4, 1000])
def test_many_nodes_are_many_single_ones(top: int, hops: list[float], sampled: bool) -> None:
    paths, nodes, gradients = some_paths(4, hops), np.arange(5), np.random.default_rng(6).normal(size=(5, 3))
    source = sampled_like(paths) if sampled else paths
    strongest = source.top_by_contribution(nodes, gradients, INPUTS, top)
    of_end = INPUTS[strongest.endpoints(paths.indices)]
    contributions = np.abs(strongest.path_weight * (gradients[strongest.start] * of_end).sum(1))
    assert (np.diff(strongest.start) >= 0).all()
    for node in nodes.tolist():
        every = [
            abs(value * float(gradients[node] @ INPUTS[end])) for _, value, end in one_by_one(paths, node) if value
        ]
        own = strongest.start == node
        np.testing.assert_allclose(contributions[own], sorted(every, reverse=True)[:top])
        alone = source.top_by_contribution(np.array([node]), gradients[[node]], INPUTS, top)
        assert rows_of(alone, paths) == rows_of(strongest.take(np.flatnonzero(own)), paths)


def test_the_search_does_not_depend_on_threads_and_stops_at_its_limit() -> None:
    paths, random = some_paths(9), np.random.default_rng(2)
    edges, nodes = (paths.transitions.indptr, paths.indices, paths.values), np.arange(5)
    gradients = random.normal(size=(5, 3))
    problem: tuple[Any, ...] = (*edges, np.array(HOPS), np.tile(nodes, 20), INPUTS, np.tile(gradients, (20, 1)), 3)
    serial, parallel = best_paths(*problem, n_jobs=1), best_paths(*problem, n_jobs=3)
    assert rows_of(serial, paths) == rows_of(parallel, paths)
    assert len(serial) == 300
    assert len(best_paths(*edges, np.zeros(2), nodes, INPUTS, gradients, 6)) == 0
    assert len(best_paths(*edges, np.array(HOPS), nodes[:0], INPUTS, gradients[:0], 6)) == 0
    assert len(best_paths(*edges, np.array(HOPS), nodes[:0], INPUTS, gradients[:0], 6, together=True)) == 0
    assert len(best_paths(*edges, np.array(HOPS), nodes, 0 * INPUTS, gradients, 6)) == 0
    few = best_paths(*edges, np.array(HOPS), nodes, INPUTS, gradients, 50, together=True, max_prefixes=30)
    assert 0 < len(few) < 50  # the search stopped at 30 prefixes


def test_weights_are_relative_to_the_random_walk() -> None:
    paths = some_paths()
    strongest = paths.top_by_contribution(np.array([2]), np.eye(3)[:1], INPUTS, 50)
    expected = [
        HOPS[length - 1] * 5 * np.prod([paths.values[edge] / 0.25 for edge in edges if edge >= 0])
        for length, edges in zip(strongest.length.tolist(), strongest.edges.tolist(), strict=True)
    ]
    np.testing.assert_allclose(paths.weights(strongest), expected)
    # Sequences of nodes are passed without padding.
    assert sampled_like(paths).weights(strongest).tolist() == strongest.length.tolist()


@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("of", "reference"), [(np.positive, float), (np.abs, abs), (count, bool)])
def test_sums_by_endpoint_are_those_over_single_paths(nodes: list[int], sampled: bool, of: Any, reference: Any) -> None:
    paths, rows = some_paths(), np.random.default_rng(2).normal(size=(len(nodes), 3))
    expected = np.zeros((5, 3))
    for row, node in zip(rows, nodes, strict=True):
        for _, coefficient, end in one_by_one(paths, node):
            expected[end] += reference(coefficient) * row
    source = sampled_like(paths) if sampled else paths
    np.testing.assert_allclose(source.to_endpoints(np.array(nodes), rows, of), expected, atol=1e-12)


@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_paths_that_return_can_be_left_out(nodes: list[int]) -> None:
    every = some_paths()
    returning = [sum(value for _, value, end in one_by_one(every, node) if end == node) for node in range(5)]
    paths = AllPaths(every.transitions, every.values, HOPS, every._uniform_weights, every.types, np.array(returning))
    rows, expected = np.random.default_rng(2).normal(size=(len(nodes), 1)), np.zeros((5, 1))
    for row, node in zip(rows, nodes, strict=True):
        for _, coefficient, end in one_by_one(every, node):
            expected[end] += coefficient * row * (end != node)
    np.testing.assert_allclose(paths.to_endpoints(np.array(nodes), rows), expected, atol=1e-12)
    inputs = INPUTS[:, [0]]
    strongest = paths.top_by_contribution(np.array(nodes), rows, inputs, 100_000)
    assert not (strongest.start == strongest.endpoints(paths.indices)).any()
    for row, node in zip(rows[:, 0], nodes, strict=True):
        values = [value * inputs[end, 0] * row for _, value, end in one_by_one(every, node) if value and end != node]
        from_node = strongest.take(np.flatnonzero(strongest.start == node))
        ranked = from_node.path_weight * inputs[from_node.endpoints(paths.indices), 0] * row
        np.testing.assert_allclose(np.abs(ranked), sorted(np.abs(values), reverse=True))
    together = paths.top_by_contribution(np.array(nodes), rows, inputs, 100_000, positive=True)
    assert not (together.start == together.endpoints(paths.indices)).any()
    assert len(together) == sum(
        value * inputs[end, 0] * row > 0
        for row, node in zip(rows[:, 0], nodes, strict=True)
        for _, value, end in one_by_one(every, node)
        if end != node
    )
