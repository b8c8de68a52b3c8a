"""Intervals and paired tests, against the formulas and printed tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gamma

from cge.errors import InputError
from cge.evaluation.significance import (
    Interval,
    McNemar,
    PairedTest,
    holm,
    mcnemar,
    mean_interval,
    paired_t_test,
    stars,
)
from cge.targets.score_intervals import f1_interval, wilson_interval


def two_sided(t: float, freedom: int) -> float:
    """Integrate Student's density beyond ±t."""
    scale = gamma((freedom + 1) / 2) / (np.sqrt(freedom * np.pi) * gamma(freedom / 2))
    inside = quad(lambda x: scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2), -abs(t), abs(t))[0]
    return 1 - inside


@pytest.mark.parametrize(
    ("values", "quantile"),
    [([0.8, 0.82, 0.84], 4.30265), ([1.0, 2.0], 12.7062), ([3.0, 1.0, 4.0, 1.0, 5.0], 2.77645)],
)
def test_intervals_by_the_table_of_students_t(values: list[float], quantile: float) -> None:
    interval = mean_interval(values)
    mean = sum(values) / len(values)
    sd = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    half = quantile * sd / len(values) ** 0.5
    assert interval.mean == pytest.approx(mean)
    assert interval.sd == pytest.approx(sd)
    assert interval.low == pytest.approx(mean - half, rel=1e-5)
    assert interval.high == pytest.approx(mean + half, rel=1e-5)
    assert interval.runs == len(values)


def test_a_single_run_has_no_interval_and_none_has_no_mean() -> None:
    assert mean_interval([0.7]) == Interval(0.7, None, None, None, 1)
    with pytest.raises(InputError, match="at least one run"):
        mean_interval([])


def test_equal_runs_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.5, 0.5, 0.5]) == Interval(0.5, 0.0, 0.5, 0.5, 3)


@pytest.mark.parametrize("shift", [0.0, 0.05, -0.3])
def test_paired_differences_by_the_formula(shift: float) -> None:
    random = np.random.default_rng(0)
    baseline = random.random(7)
    method = baseline + shift + 0.1 * random.normal(size=7)
    gains = method - baseline
    t = gains.mean() / (gains.std(ddof=1) / np.sqrt(7))
    test = paired_t_test(method.tolist(), baseline.tolist())
    assert test.gain == pytest.approx(gains.mean())
    assert test.p == pytest.approx(two_sided(t, 6), rel=1e-6)
    assert test.runs == 7
    overlapping = gains.mean() / (gains.std(ddof=1) * np.sqrt(1 / 7 + 0.4))
    assert paired_t_test(method.tolist(), baseline.tolist(), overlap=0.4).p == pytest.approx(
        two_sided(overlapping, 6), rel=1e-6
    )
    swapped = paired_t_test(baseline.tolist(), method.tolist())
    assert (swapped.gain, swapped.p) == pytest.approx((-test.gain, test.p))


def test_pairs_count_not_the_two_groups() -> None:
    method, baseline = [0.51, 0.62, 0.72, 0.83], [0.50, 0.60, 0.71, 0.81]
    shuffled = [0.81, 0.50, 0.60, 0.71]
    assert paired_t_test(method, baseline).gain == pytest.approx(paired_t_test(method, shuffled).gain)
    paired, unpaired = paired_t_test(method, baseline).p, paired_t_test(method, shuffled).p
    assert paired is not None
    assert unpaired is not None
    assert paired < 0.02 < 0.5 < unpaired


def test_p_is_none_where_the_test_is_undefined() -> None:
    assert paired_t_test([], []) == PairedTest(0.0, None, 0)
    assert paired_t_test([0.75], [0.5]) == PairedTest(0.25, None, 1)
    assert paired_t_test([0.5, 0.25], [0.5, 0.25]) == PairedTest(0.0, None, 2)
    assert paired_t_test([0.75, 0.5], [0.5, 0.25]) == PairedTest(0.25, None, 2)


def test_rounding_is_no_evidence() -> None:
    test = paired_t_test([0.81, 0.82, 0.83], [0.80, 0.81, 0.82])
    assert test.gain == pytest.approx(0.01)
    assert test.p is None


def test_runs_without_a_partner_are_refused() -> None:
    with pytest.raises(InputError, match="found 2 and 1"):
        paired_t_test([0.1, 0.2], [0.1])


@pytest.mark.parametrize(("first", "second"), [(0, 0), (9, 1), (1, 9), (5, 5), (12, 3), (0, 6), (40, 20), (1, 0)])
def test_mcnemar_by_the_binomial_formula(first: int, second: int) -> None:
    correct = [True] * first + [False] * second + [True] * 5 + [False] * 4
    other = [False] * first + [True] * second + [True] * 5 + [False] * 4
    total = first + second
    tail = sum(math.comb(total, k) for k in range(min(first, second) + 1)) / 2**total
    test = mcnemar(correct, other)
    assert (test.only_first, test.only_second) == (first, second)
    assert test.p == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(other, correct) == McNemar(second, first, test.p)


def test_mcnemar_needs_the_same_nodes() -> None:
    with pytest.raises(InputError) as caught:
        mcnemar([True, False], [True])
    assert str(caught.value) == "both methods need the same nodes, found 2 and 1"
    assert mcnemar([], []) == McNemar(0, 0, 1.0)


@pytest.mark.parametrize(
    ("p", "mark"), [(None, ""), (1.0, ""), (0.05, ""), (0.0499, "*"), (0.01, "*"), (0.00999, "**"), (0.0, "**")]
)
def test_stars(p: float | None, mark: str) -> None:
    assert stars(p) == mark


@pytest.mark.parametrize(("correct", "n"), [(850, 1000), (3, 7), (0, 12), (9, 9)])
def test_wilsons_interval_contains_the_accuracies_that_are_not_rejected(correct: int, n: int) -> None:
    """Its bounds are the accuracies p from which the observed one is 1.96 of their own standard errors away."""
    low, high = wilson_interval(correct, n)
    accuracy = correct / n

    def away(p: float) -> float:
        return (accuracy - p) ** 2 - 1.959963985**2 * p * (1 - p) / n

    assert low == pytest.approx(brentq(away, 1e-12, accuracy - 1e-9) if correct else 0, abs=1e-7)
    assert high == pytest.approx(brentq(away, accuracy + 1e-9, 1 - 1e-12) if correct < n else 1, abs=1e-7)
    with pytest.raises(InputError, match="an accuracy needs 0 to n correct of n ≥ 1, found 3 of 2"):
        wilson_interval(3, 2)


def test_the_interval_of_f1_contains_it_and_narrows_with_nodes() -> None:
    random = np.random.default_rng(0)
    true = random.random((400, 5)) < 0.4
    predicted = np.where(random.random((400, 5)) < 0.2, ~true, true)
    wide, narrow = (f1_interval(predicted[:n], true[:n]) for n in (25, 400))
    f1 = 2 * (predicted & true).sum() / (predicted.sum() + true.sum())
    assert narrow[0] < f1 < narrow[1]
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])
    assert f1_interval(predicted, true) == narrow


def test_holms_correction_rejects_what_the_sequential_procedure_rejects() -> None:
    """Holm 1979: from the smallest p-value on, reject while p_(i) ≤ α / (m − i + 1)."""
    random = np.random.default_rng(0)
    for _ in range(20):
        p = (random.random(12) ** 4).tolist()
        corrected = holm(p)
        for alpha in (0.01, 0.05, 0.2):
            rejected = set()
            for rank, index in enumerate(np.argsort(p)):
                if p[index] > alpha / (len(p) - rank):
                    break
                rejected.add(int(index))
            assert {index for index, value in enumerate(corrected) if value is not None and value <= alpha} == rejected
    assert holm([None, None]) == [None, None]
    assert holm([]) == []
