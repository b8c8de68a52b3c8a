"""Sums over paths and the best of them, against all paths written down one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cge
from cge.explain.all_paths import AllPaths
from cge.explain.edge_types import NO_STEP, STAYS, EdgeTypes
from cge.explain.path_search import Found, best_paths
from cge.explain.sampled_paths import SampledPaths
from cge.models.transitions import TransitionMatrix

Array = npt.NDArray[Any]

# Ann and bob both work together and are friends: two edges of different types between the same two nodes.
EDGES = [(0, 1), (0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 4)]
TYPES = ["work", "friend", "work", "friend", "friend", "work", "friend"]
GRAPH = cge.Graph.from_edges(EDGES, edge_types=TYPES, self_loops=True)
HOPS = [0.1, -0.4, 0.3, 0.0, 0.2]


def some_paths(seed: int = 0, hops: list[float] = HOPS) -> AllPaths:
    steps, random = TransitionMatrix(GRAPH, 1), np.random.default_rng(seed)
    walk = np.full(len(steps), 0.25)
    return AllPaths(steps, random.random(len(steps)) + 0.1, hops, walk, EdgeTypes.of(GRAPH, steps))


def one_by_one(paths: AllPaths, start: int) -> Iterator[tuple[list[int], float, int]]:
    """Yield every path from a node: its steps, its share, its end."""
    steps, last = paths.steps, [([], 1.0, start)]
    for share in paths.hop_weights:
        yield from ((trail, share * product, end) for trail, product, end in last)
        last = [
            ([*trail, entry], product * paths.values[entry], int(steps.indices[entry]))
            for trail, product, end in last
            for entry in np.flatnonzero(steps.rows == end).tolist()
        ]


def as_found(paths: list[tuple[int, list[int], float]], hops: int) -> Found:
    steps = np.full((len(paths), hops), -1)
    for row, (_, trail, _) in enumerate(paths):
        steps[row, : len(trail)] = trail
    start, length = np.array([one[0] for one in paths]), np.array([len(one[1]) + 1 for one in paths])
    return Found(start, steps, length, np.array([one[2] for one in paths]))


def sampled_like(paths: AllPaths) -> SampledPaths:
    """Return the same paths as a list."""

    def of(nodes: Array) -> Found:
        format_list = [
            (node, trail, share) for node in nodes.tolist() for trail, share, _ in one_by_one(paths, node) if share
        ]
        return as_found(format_list, paths.hops)

    def weigh(format_list: list[Array]) -> Array:
        return np.array([len(one) for one in format_list])

    return SampledPaths(of, paths.hops, paths.indices, paths.steps.num_nodes, weigh, paths.types)


CARRIED = np.random.default_rng(1).normal(size=(5, 3))


@pytest.mark.parametrize("format_list", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_sums_by_hop_are_those_over_single_paths(nodes: list[int], format_list: bool) -> None:
    paths = some_paths()
    expected = np.zeros((5, len(nodes), 3))
    for place, node in enumerate(nodes):
        for trail, share, end in one_by_one(paths, node):
            expected[len(trail), place] += share * CARRIED[end]
    found = (sampled_like(paths) if format_list else paths).by_hop(np.array(nodes), CARRIED)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("format_list", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_a_path_counts_for_the_types_of_its_steps_in_equal_parts(nodes: list[int], format_list: bool) -> None:
    paths = some_paths()
    assert paths.types is not None
    assert paths.types.names == ("work", "friend", STAYS, NO_STEP)
    expected = np.zeros((4, len(nodes), 3))
    for place, node in enumerate(nodes):
        for trail, share, end in one_by_one(paths, node):
            for kind in paths.types.of_step[trail].tolist() if trail else [3]:
                expected[kind, place] += share * CARRIED[end] / max(len(trail), 1)
    source = sampled_like(paths) if format_list else paths
    found = source.by_type(np.array(nodes), CARRIED)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(found.sum(0), source.by_hop(np.array(nodes), CARRIED).sum(0), atol=1e-13)


def test_types_of_steps_are_those_of_edges() -> None:
    steps = TransitionMatrix(GRAPH)
    types = EdgeTypes.of(GRAPH, steps)
    assert types is not None
    kinds = {(int(u), int(v), types.names[k]) for u, v, k in zip(steps.rows, steps.indices, types.of_step, strict=True)}
    assert {(0, 1, "work"), (0, 1, "friend"), (1, 0, "work"), (2, 3, "friend"), (4, 4, STAYS), (0, 0, STAYS)} <= kinds
    assert (2, 3, "work") not in kinds
    assert EdgeTypes.of(cge.Graph.from_edges([(0, 1)]), TransitionMatrix(cge.Graph.from_edges([(0, 1)]))) is None
    assert some_paths().by_type(np.array([1]), CARRIED).shape == (4, 1, 3)
    plain = AllPaths(steps, np.ones(len(steps)), HOPS, np.ones(len(steps)))
    assert plain.by_type(np.array([1]), CARRIED).shape == (0, 1, 3)


def told(found: Found, paths: Any) -> list[tuple[Any, ...]]:
    ends = found.end(paths.indices)
    rows = zip(found.start.tolist(), found.steps.tolist(), found.share.tolist(), ends.tolist(), strict=True)
    return [(start, *(one for one in steps if one >= 0), round(share, 12), end) for start, steps, share, end in rows]


@pytest.mark.parametrize("format_list", [False, True])
@pytest.mark.parametrize("top", [1, 7, 100_000])
@pytest.mark.parametrize("hop", [None, 0, 2])
def test_the_strongest_paths_are_those_of_all_paths(top: int, hop: int | None, format_list: bool) -> None:
    paths, worth, reads = some_paths(3), CARRIED[:, 0], np.eye(3)[:1]
    every = [
        (2, trail, share, end) for trail, share, end in one_by_one(paths, 2) if share and hop in (None, len(trail))
    ]
    every.sort(key=lambda one: -abs(one[2] * worth[one[3]]))
    source = sampled_like(paths) if format_list else paths
    found = source.strongest(np.array([2]), reads, CARRIED, top, hop)
    known = {(2, *trail, round(float(share), 12), end) for _, trail, share, end in every}
    assert len(set(told(found, paths))) == len(found) == min(top, len(every))
    assert set(told(found, paths)) <= known
    brings = np.abs(found.share * worth[found.end(paths.indices)])
    np.testing.assert_allclose(brings, [abs(share * worth[end]) for *_, share, end in every[:top]])
    heavy = source.heaviest(2, top)
    sizes = sorted((abs(share) for _, share, _ in one_by_one(paths, 2) if share), reverse=True)
    if not format_list:  # a sample has no negative shares
        np.testing.assert_allclose(np.abs(heavy.share), sizes[:top])
    between = paths.between(2, 4, top, hop)
    there = sorted((abs(one[2]) for one in every if one[3] == 4), reverse=True)[:top]
    np.testing.assert_allclose(np.abs(between.share), there)
    assert set(between.end(paths.indices)) <= {4}


@pytest.mark.parametrize("format_list", [False, True])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("top", [1, 5, 100_000])
def test_the_paths_that_speak_loudest_are_those_of_all_paths(top: int, alike: bool, format_list: bool) -> None:
    nodes, paths = np.array([0, 2, 3]), some_paths(5)
    slopes = np.random.default_rng(7).normal(size=(3, 3)) * (np.random.default_rng(8).random((3, 3)) < 0.6)
    slopes = slopes[[0, 0, 0]] if alike else slopes
    every = []
    for place, node in enumerate(nodes.tolist()):
        for _, share, end in one_by_one(paths, node):
            every.append(share * float(slopes[place] @ CARRIED[end]))
    expected = sorted((one for one in every if one > 0), reverse=True)[:top]
    found = (sampled_like(paths) if format_list else paths).speaking(nodes, slopes, CARRIED, top)
    places, ends = np.searchsorted(nodes, found.start), found.end(paths.indices)
    np.testing.assert_allclose(found.share * (slopes[places] * CARRIED[ends]).sum(1), expected, atol=1e-14)


@pytest.mark.parametrize("format_list", [False, True])
@pytest.mark.parametrize("hops", [HOPS, [0.2, 0.3, 0.5], [1.0]])
@pytest.mark.parametrize("top", [1, 4, 1000])
def test_many_nodes_are_many_single_ones(top: int, hops: list[float], format_list: bool) -> None:
    paths, nodes, slopes = some_paths(4, hops), np.arange(5), np.random.default_rng(6).normal(size=(5, 3))
    source = sampled_like(paths) if format_list else paths
    found = source.strongest(nodes, slopes, CARRIED, top)
    brings = np.abs(found.share * (slopes[found.start] * CARRIED[found.end(paths.indices)]).sum(1))
    assert (np.diff(found.start) >= 0).all()
    for node in nodes.tolist():
        every = [abs(share * float(slopes[node] @ CARRIED[end])) for _, share, end in one_by_one(paths, node) if share]
        np.testing.assert_allclose(brings[found.start == node], sorted(every, reverse=True)[:top])
        alone = source.strongest(np.array([node]), slopes[[node]], CARRIED, top)
        assert told(alone, paths) == told(found.take(np.flatnonzero(found.start == node)), paths)


def test_the_search_does_not_depend_on_threads_and_ends_where_it_has_to() -> None:
    paths, random = some_paths(9), np.random.default_rng(2)
    rows, nodes, slopes = (paths.steps.indptr, paths.indices, paths.values), np.arange(5), random.normal(size=(5, 3))
    given: tuple[Any, ...] = (*rows, HOPS, np.tile(nodes, 20), CARRIED, np.tile(slopes, (20, 1)), 3)
    one, three = best_paths(*given, n_jobs=1), best_paths(*given, n_jobs=3)
    assert told(one, paths) == told(three, paths)
    assert len(one) == 300
    assert len(best_paths(*rows, [0.0, 0.0], nodes, CARRIED, slopes, 6)) == 0
    assert len(best_paths(*rows, HOPS, nodes[:0], CARRIED, slopes[:0], 6)) == 0
    assert len(best_paths(*rows, HOPS, nodes[:0], CARRIED, slopes[:0], 6, together=True)) == 0
    assert len(best_paths(*rows, HOPS, nodes, 0 * CARRIED, slopes, 6)) == 0
    few = best_paths(*rows, HOPS, nodes, CARRIED, slopes, 50, together=True, most=30)
    assert 0 < len(few) < 50  # there was no room to look further


def test_weights_are_relative_to_the_random_walk() -> None:
    paths = some_paths()
    found = paths.strongest(np.array([2]), np.eye(3)[:1], CARRIED, 50)
    expected = [
        HOPS[length - 1] * 5 * np.prod([paths.values[one] / 0.25 for one in steps if one >= 0])
        for length, steps in zip(found.length.tolist(), found.steps.tolist(), strict=True)
    ]
    np.testing.assert_allclose(paths.weights(found), expected)
    format_list = sampled_like(paths)
    assert format_list.weights(found).tolist() == found.length.tolist()  # asks for nodes, without what fills rows up
