"""The paper's five analyses: against NumPy and SciPy, by hand, and on counted and repeated paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from cge.errors import InputError
from cge.sampling import PathTable, subpaths
from studies.analyses import (
    against_diversity,
    against_length,
    class_relevance,
    correlation,
    distribution,
    group_means,
    path_relevance,
    visits,
)

Array = npt.NDArray[Any]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


def walks_of(random: np.random.Generator, number: int = 60, length: int = 6, nodes: int = 9) -> Array:
    walks = random.integers(0, nodes, (number, length))
    walks[::7, 4:] = -1  # some end early
    return walks


# ---------------------------------------------------------------------- distribution


def test_distribution_is_numpys(random: np.random.Generator) -> None:
    weights, counts = random.beta(2, 5, 400), random.integers(1, 5, 400)
    every = np.repeat(weights, counts)
    summary = distribution(weights, counts, bins=20)
    expected, edges = np.histogram(every, 20, (0, 1))
    np.testing.assert_allclose(summary.shares, expected / len(every), rtol=1e-12)
    np.testing.assert_array_equal(summary.edges, edges)
    assert summary.shares.sum() == pytest.approx(1)
    assert summary.mean == pytest.approx(every.mean())
    assert summary.sd == pytest.approx(every.std())
    assert summary.effective == pytest.approx(every.sum() ** 2 / (every**2).sum() / len(every))
    for share, weight in summary.quantiles.items():
        assert weight == np.quantile(every, share, method="inverted_cdf")


def test_equal_weights_are_one_bin_and_all_effective() -> None:
    summary = distribution(np.full(7, 0.4), bins=10)
    assert (summary.effective, summary.sd) == (pytest.approx(1), pytest.approx(0))
    assert set(summary.quantiles.values()) == {0.4}
    assert np.count_nonzero(summary.shares) == 1
    assert distribution(np.zeros(3)).effective == 1.0


@pytest.mark.parametrize(
    ("weights", "counts", "message"),
    [
        ([0.5, 1.5], None, "from 0 to 1, found 0.5 to 1.5"),
        ([], None, "at least one path"),
        ([0.5, np.nan], None, "finite"),
        ([0.5, 0.6], [1], "a weight and a count"),
        ([0.5, 0.6], [1, 0], "counts at least 1"),
    ],
)
def test_what_is_no_weight_is_refused(weights: list[float], counts: list[int] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        distribution(np.array(weights), None if counts is None else np.array(counts))


# ---------------------------------------------------------------------- groups of paths


def test_visits_and_means_are_those_of_a_loop(random: np.random.Generator) -> None:
    paths = subpaths(walks_of(random), 3)
    weights, labels = random.random(len(paths)), random.integers(-1, 3, 9)
    result = class_relevance(paths.nodes, weights, labels, 3)
    for code in range(3):
        inside = [
            weight
            for nodes, weight in zip(paths.nodes.tolist(), weights, strict=True)
            if any(node >= 0 and labels[node] == code for node in nodes)
        ]
        assert result.means[code] == pytest.approx(np.mean(inside))
        assert result.paths[code] == len(inside)


def test_padding_is_not_the_last_node() -> None:
    assert visits(np.array([[0, -1], [0, 2]]), np.array([False, False, True])).tolist() == [False, True]


def test_an_empty_group_has_no_mean() -> None:
    result = group_means(np.array([0.5]), np.array([[False, True]]))
    assert np.isnan(result.means[0])
    assert result.means[1] == 0.5
    assert result.paths.tolist() == [0, 1]


def test_members_need_a_row_for_each_path() -> None:
    with pytest.raises(InputError, match="each of 2 paths"):
        group_means(np.array([0.5, 0.6]), np.array([[True]]))


def test_path_relevance_by_hand() -> None:
    nodes = np.array([[0, 3], [3, 1], [0, 1], [3, -1], [2, 3]])
    weights, counts = np.array([0.9, 0.5, 0.7, 0.2, 0.4]), np.array([1, 1, 2, 1, 3])
    result = path_relevance(nodes, weights, np.array([0]), np.array([1]), counts)
    assert result.with_label == pytest.approx((0.9 + 2 * 0.7) / 3)
    assert result.without_label == pytest.approx((0.5 + 0.2 + 3 * 0.4) / 5)
    assert result.seen == pytest.approx(0.9)
    assert result.masked == pytest.approx(0.5)
    assert result.neither == pytest.approx((0.2 + 3 * 0.4) / 4)
    assert result.paths == {"with_label": 3, "without_label": 5, "seen": 1, "masked": 1, "neither": 4}


def test_a_label_that_no_path_has() -> None:
    result = path_relevance(np.array([[0, 1]]), np.array([0.5]), np.array([7]), np.array([], int))
    assert np.isnan(result.with_label)
    assert (result.without_label, result.neither) == (0.5, 0.5)


def test_a_label_is_not_both() -> None:
    with pytest.raises(InputError, match="either seen or masked"):
        path_relevance(np.array([[0, 1]]), np.array([0.5]), np.array([1]), np.array([1]))


# ---------------------------------------------------------------------- trends


def test_correlation_is_scipys(random: np.random.Generator) -> None:
    x, counts = random.normal(size=50), random.integers(1, 6, 50)
    y = 0.3 * x + random.normal(size=50)
    assert correlation(x, y) == pytest.approx(stats.pearsonr(x, y).statistic)
    repeated = stats.pearsonr(np.repeat(x, counts), np.repeat(y, counts)).statistic
    assert correlation(x, y, counts) == pytest.approx(repeated)


def test_no_correlation_of_two_points_or_of_what_is_constant() -> None:
    assert correlation(np.array([1, 2]), np.array([0.1, 0.9])) is None
    assert correlation(np.array([1, 2, 3]), np.array([0.3, 0.3, 0.3])) is None
    rounded = np.float32(0.3) * (1 + np.array([0, 1, -1]) * 1e-7)
    assert correlation(np.array([1, 2, 3]), rounded) is None
    assert correlation(np.array([1, 2, 3]), np.array([1e-9, 2e-9, 3e-9])) == pytest.approx(1)  # small is not constant


def test_length_by_hand() -> None:
    length, weights = np.array([2, 2, 3, 4]), np.array([0.8, 0.6, 0.5, 0.1])
    result = against_length(length, weights)
    assert result.values.tolist() == [2, 3, 4]
    assert result.means == pytest.approx([0.7, 0.5, 0.1])
    assert result.paths.tolist() == [2, 1, 1]
    assert result.r == pytest.approx(stats.pearsonr([2, 3, 4], [0.7, 0.5, 0.1]).statistic)
    assert result.r_paths == pytest.approx(stats.pearsonr(length, weights).statistic)
    assert result.r_within is None


def test_diversity_counts_distinct_nodes() -> None:
    nodes = np.array([[5, 6, 5], [5, 6, 7], [5, -1, -1], [0, 0, 0]])
    result = against_diversity(nodes, np.array([3, 3, 1, 3]), np.array([0.2, 0.3, 0.1, 0.5]))
    assert result.values.tolist() == [1, 2, 3]
    assert result.means == pytest.approx([0.3, 0.2, 0.3])
    assert result.paths.tolist() == [2, 1, 1]


def test_counted_paths_are_repeated_paths(random: np.random.Generator) -> None:
    walks = walks_of(random, nodes=3)
    table = PathTable(4)
    numbers = table.add(walks)
    weights, paths = random.random(len(table)), table.paths
    assert table.counts.max() > 1
    every = subpaths(walks, 4)
    pairs = [
        (against_length(paths.length, weights, table.counts), against_length(every.length, weights[numbers])),
        (
            against_diversity(paths.nodes, paths.length, weights, table.counts),
            against_diversity(every.nodes, every.length, weights[numbers]),
        ),
    ]
    for counted, repeated in pairs:
        np.testing.assert_array_equal(counted.paths, repeated.paths)
        np.testing.assert_allclose(counted.means, repeated.means, rtol=1e-12)
        assert counted.r == pytest.approx(repeated.r)
        assert counted.r_paths == pytest.approx(repeated.r_paths)
    assert pairs[1][0].r_within == pytest.approx(pairs[1][1].r_within)


def test_within_a_length_is_the_correlation_without_the_means_of_lengths(random: np.random.Generator) -> None:
    paths = subpaths(walks_of(random, nodes=4), 5)
    # Longer paths have lower weights, and among those of one length the diverse ones have higher weights.
    weights = 0.5 - 0.08 * paths.length + 0.03 * paths.distinct_nodes + 0.01 * random.random(len(paths))
    result = against_diversity(paths.nodes, paths.length, weights)
    sides = [np.asarray(side, float) for side in (paths.distinct_nodes, weights)]
    for length in np.unique(paths.length):
        group = paths.length == length
        for side in sides:
            side[group] -= side[group].mean()
    assert result.r_within == pytest.approx(stats.pearsonr(*sides).statistic)
    assert result.r_within > 0.9
    assert result.r_paths is not None
    assert result.r_paths < 0


def test_weights_that_depend_on_length_alone_have_no_correlation_within_lengths(random: np.random.Generator) -> None:
    paths = subpaths(walks_of(random), 5)
    result = against_diversity(paths.nodes, paths.length, 1 / (1 + paths.length))
    assert result.r_within is None
    assert result.r is not None
    assert result.r < -0.8
