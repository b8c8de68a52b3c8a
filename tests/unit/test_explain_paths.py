"""Sums over paths and the best of them, against all paths written down one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cge
from cge.explain.exact import AllPaths
from cge.explain.sampled import SampledPaths
from cge.explain.search import Found, best_paths
from cge.explain.types import NO_STEP, STAYS, StepTypes
from cge.models.pooling import StepRows

Array = npt.NDArray[Any]

# Ann and bob both work together and are friends: two edges of different types between the same two nodes.
EDGES = [(0, 1), (0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 4)]
TYPES = ["work", "friend", "work", "friend", "friend", "work", "friend"]
GRAPH = cge.Graph.from_edges(EDGES, edge_types=TYPES, self_loops=True)
HOPS = [0.1, -0.4, 0.3, 0.0, 0.2]


def some_paths(seed: int = 0, hops: list[float] = HOPS) -> AllPaths:
    steps, random = StepRows(GRAPH, 1), np.random.default_rng(seed)
    walk = np.full(len(steps), 0.25)
    return AllPaths(steps, random.random(len(steps)) + 0.1, hops, walk, StepTypes.of(GRAPH, steps))


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
        listed = [
            (node, trail, share) for node in nodes.tolist() for trail, share, _ in one_by_one(paths, node) if share
        ]
        return as_found(listed, paths.hops)

    def weigh(listed: list[Array]) -> Array:
        return np.array([len(one) for one in listed])

    return SampledPaths(of, paths.hops, paths.indices, paths.steps.nodes, weigh, paths.types)


CARRIED = np.random.default_rng(1).normal(size=(5, 3))


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_sums_by_hop_are_those_over_single_paths(nodes: list[int], listed: bool) -> None:
    paths = some_paths()
    expected = np.zeros((5, len(nodes), 3))
    for place, node in enumerate(nodes):
        for trail, share, end in one_by_one(paths, node):
            expected[len(trail), place] += share * CARRIED[end]
    found = (sampled_like(paths) if listed else paths).by_hop(np.array(nodes), CARRIED)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("nodes", [[2], [0, 2, 4]])
def test_a_path_counts_for_the_types_of_its_steps_in_equal_parts(nodes: list[int], listed: bool) -> None:
    paths = some_paths()
    assert paths.types is not None
    assert paths.types.names == ("work", "friend", STAYS, NO_STEP)
    expected = np.zeros((4, len(nodes), 3))
    for place, node in enumerate(nodes):
        for trail, share, end in one_by_one(paths, node):
            for kind in paths.types.of_step[trail].tolist() if trail else [3]:
                expected[kind, place] += share * CARRIED[end] / max(len(trail), 1)
    source = sampled_like(paths) if listed else paths
    found = source.by_type(np.array(nodes), CARRIED)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(found.sum(0), source.by_hop(np.array(nodes), CARRIED).sum(0), atol=1e-13)


def test_types_of_steps_are_those_of_edges() -> None:
    steps = StepRows(GRAPH)
    types = StepTypes.of(GRAPH, steps)
    assert types is not None
    kinds = {(int(u), int(v), types.names[k]) for u, v, k in zip(steps.rows, steps.indices, types.of_step, strict=True)}
    assert {(0, 1, "work"), (0, 1, "friend"), (1, 0, "work"), (2, 3, "friend"), (4, 4, STAYS), (0, 0, STAYS)} <= kinds
    assert (2, 3, "work") not in kinds
    assert StepTypes.of(cge.Graph.from_edges([(0, 1)]), StepRows(cge.Graph.from_edges([(0, 1)]))) is None
    assert some_paths().by_type(np.array([1]), CARRIED).shape == (4, 1, 3)
    plain = AllPaths(steps, np.ones(len(steps)), HOPS, np.ones(len(steps)))
    assert plain.by_type(np.array([1]), CARRIED).shape == (0, 1, 3)


def told(found: Found, paths: Any) -> list[tuple[Any, ...]]:
    ends = found.end(paths.indices)
    rows = zip(found.start.tolist(), found.steps.tolist(), found.share.tolist(), ends.tolist(), strict=True)
    return [(start, *(one for one in steps if one >= 0), round(share, 12), end) for start, steps, share, end in rows]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("top", [1, 7, 100_000])
@pytest.mark.parametrize("hop", [None, 0, 2])
def test_the_strongest_paths_are_those_of_all_paths(top: int, hop: int | None, listed: bool) -> None:
    paths, worth = some_paths(3), CARRIED[:, 0]
    every = [
        (2, trail, share, end) for trail, share, end in one_by_one(paths, 2) if share and hop in (None, len(trail))
    ]
    every.sort(key=lambda one: -abs(one[2] * worth[one[3]]))
    source = sampled_like(paths) if listed else paths
    found = source.strongest(2, worth, top, hop)
    known = {(2, *trail, round(float(share), 12), end) for _, trail, share, end in every}
    assert len(set(told(found, paths))) == len(found) == min(top, len(every))
    assert set(told(found, paths)) <= known
    brings = np.abs(found.share * worth[found.end(paths.indices)])
    np.testing.assert_allclose(brings, [abs(share * worth[end]) for *_, share, end in every[:top]])
    heavy = source.heaviest(2, top)
    sizes = sorted((abs(share) for _, share, _ in one_by_one(paths, 2) if share), reverse=True)
    if not listed:  # a sample has no negative shares
        np.testing.assert_allclose(np.abs(heavy.share), sizes[:top])
    between = paths.between(2, 4, top, hop)
    there = sorted((abs(one[2]) for one in every if one[3] == 4), reverse=True)[:top]
    np.testing.assert_allclose(np.abs(between.share), there)
    assert set(between.end(paths.indices)) <= {4}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("top", [1, 5, 100_000])
def test_the_paths_that_speak_loudest_are_those_of_all_paths(top: int, alike: bool, listed: bool) -> None:
    nodes, paths = np.array([0, 2, 3]), some_paths(5)
    slopes = np.random.default_rng(7).normal(size=(3, 3)) * (np.random.default_rng(8).random((3, 3)) < 0.6)
    slopes = slopes[[0, 0, 0]] if alike else slopes
    every = []
    for place, node in enumerate(nodes.tolist()):
        for _, share, end in one_by_one(paths, node):
            every.append(share * float(slopes[place] @ CARRIED[end]))
    expected = sorted((one for one in every if one > 0), reverse=True)[:top]
    found = (sampled_like(paths) if listed else paths).speaking(nodes, slopes, CARRIED, top)
    places, ends = np.searchsorted(nodes, found.start), found.end(paths.indices)
    np.testing.assert_allclose(found.share * (slopes[places] * CARRIED[ends]).sum(1), expected, atol=1e-14)


def test_bounds_that_are_too_high_cost_time_and_not_paths() -> None:
    paths, worth = some_paths(9), np.abs(CARRIED[:, 1])
    rows = (paths.steps.indptr, paths.indices, paths.values)
    high = worth + 0.5
    exact = best_paths(*rows, HOPS, np.array([0, 1]), (worth, worth), 6)
    told_so: dict[str, Any] = {"worth": lambda place, end: worth[end], "width": 100_000}
    positive = [max(one, 0.0) for one in HOPS]
    found = best_paths(*rows, positive, np.array([0, 1]), (high, high), 6, **told_so)
    expected = best_paths(*rows, positive, np.array([0, 1]), (worth, worth), 6)
    assert told(found, paths) == told(expected, paths)
    assert len(best_paths(*rows, HOPS, np.array([0, 1]), (worth, worth), 6, floor=1e9)) == 0
    assert len(best_paths(*rows, [0.0, 0.0], np.array([0]), (worth, worth), 6)) == 0
    few = best_paths(*rows, positive, np.array([0, 1]), (high, high), 6, room=3, **told_so)
    assert len(few) < len(exact) or told(few, paths) != told(expected, paths)  # there was no room to look


def test_weights_are_relative_to_the_random_walk() -> None:
    paths = some_paths()
    found = paths.strongest(2, CARRIED[:, 0], 50)
    expected = [
        HOPS[length - 1] * 5 * np.prod([paths.values[one] / 0.25 for one in steps if one >= 0])
        for length, steps in zip(found.length.tolist(), found.steps.tolist(), strict=True)
    ]
    np.testing.assert_allclose(paths.weights(found), expected)
    listed = sampled_like(paths)
    assert listed.weights(found).tolist() == found.length.tolist()  # asks for nodes, without what fills rows up
