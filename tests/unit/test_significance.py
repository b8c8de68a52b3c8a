"""Intervals and paired tests, against the formulas and printed tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma

from cge.errors import InputError
from cge.evaluation.significance import Interval, Paired, mean_interval, paired


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
    found = mean_interval(values)
    mean = sum(values) / len(values)
    sd = (sum((one - mean) ** 2 for one in values) / (len(values) - 1)) ** 0.5
    half = quantile * sd / len(values) ** 0.5
    assert found.mean == pytest.approx(mean)
    assert found.sd == pytest.approx(sd)
    assert found.low == pytest.approx(mean - half, rel=1e-5)
    assert found.high == pytest.approx(mean + half, rel=1e-5)
    assert found.runs == len(values)


def test_a_single_run_has_no_interval_and_none_has_no_mean() -> None:
    assert mean_interval([0.7]) == Interval(0.7, None, None, None, 1)
    with pytest.raises(InputError, match="at least one run"):
        mean_interval([])


def test_equal_runs_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.5, 0.5, 0.5]) == Interval(0.5, 0.0, 0.5, 0.5, 3)


@pytest.mark.parametrize("shift", [0.0, 0.05, -0.3])
def test_paired_differences_by_the_formula(shift: float) -> None:
    random = np.random.default_rng(0)
    other = random.random(7)
    one = other + shift + 0.1 * random.normal(size=7)
    apart = one - other
    t = apart.mean() / (apart.std(ddof=1) / np.sqrt(7))
    found = paired(one.tolist(), other.tolist())
    assert found.gain == pytest.approx(apart.mean())
    assert found.p == pytest.approx(two_sided(t, 6), rel=1e-6)
    assert found.runs == 7
    overlapping = apart.mean() / (apart.std(ddof=1) * np.sqrt(1 / 7 + 0.4))
    assert paired(one.tolist(), other.tolist(), overlap=0.4).p == pytest.approx(two_sided(overlapping, 6), rel=1e-6)
    turned = paired(other.tolist(), one.tolist())
    assert (turned.gain, turned.p) == pytest.approx((-found.gain, found.p))


def test_pairs_count_not_the_two_groups() -> None:
    one, other = [0.51, 0.62, 0.72, 0.83], [0.50, 0.60, 0.71, 0.81]
    mixed = [0.81, 0.50, 0.60, 0.71]
    assert paired(one, other).gain == pytest.approx(paired(one, mixed).gain)
    together, apart = paired(one, other).p, paired(one, mixed).p
    assert together is not None
    assert apart is not None
    assert together < 0.02 < 0.5 < apart


def test_where_there_is_no_test_there_is_no_p() -> None:
    assert paired([], []) == Paired(0.0, None, 0)
    assert paired([0.75], [0.5]) == Paired(0.25, None, 1)
    assert paired([0.5, 0.25], [0.5, 0.25]) == Paired(0.0, None, 2)
    assert paired([0.75, 0.5], [0.5, 0.25]) == Paired(0.25, None, 2)


def test_rounding_is_no_evidence() -> None:
    found = paired([0.81, 0.82, 0.83], [0.80, 0.81, 0.82])
    assert found.gain == pytest.approx(0.01)
    assert found.p is None


def test_runs_without_a_partner_are_refused() -> None:
    with pytest.raises(InputError, match="found 2 and 1"):
        paired([0.1, 0.2], [0.1])
