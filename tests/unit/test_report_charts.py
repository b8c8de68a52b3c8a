"""What the charts of a report show, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cge.report.charts import histogram_of, lengths_of, relevance_of
from cge.report.sentences import signs_of

WEIGHED = [([0, 1], 1.0), ([0, 2], -4.0), ([1, 1, 2], -10.0), ([1, 2, 0], -1000.0), ([2], 0.0)]


def test_the_size_of_a_weight_counts_whatever_its_sign() -> None:
    histogram = histogram_of(WEIGHED)
    assert histogram == histogram_of([(path, abs(weight)) for path, weight in WEIGHED])
    assert histogram is not None
    assert sum(histogram["count"]) == 2  # the least and the largest are beyond the quantiles, zero has no logarithm
    steps, distinct = lengths_of(WEIGHED)
    assert (steps["x"], steps["y"]) == ([1, 2], pytest.approx([2, 100]))
    assert (distinct["x"], distinct["y"]) == ([2], pytest.approx([40 ** (1 / 3)]))  # of 1, 4 and 10; 3 is met once


def test_classes_on_paths_are_counted_whatever_the_sign_of_weights() -> None:
    labels = np.array([[1, 0], [0, 1], [0, 0]], bool)
    said = np.array([[1, 0], [0, 1], [1, 0]], bool)
    assert relevance_of(WEIGHED, said, labels) == [[None, 1000.0], [1.0, 10.0]]


def test_every_class_of_a_node_is_counted() -> None:
    labels = np.array([[0, 0], [1, 1], [0, 0]], bool)
    said = np.array([[1, 1], [0, 0], [0, 0]], bool)
    assert relevance_of(WEIGHED, said, labels) == [[1.0, 1.0], [1.0, 1.0]]
    assert relevance_of(WEIGHED, said, np.zeros((3, 2), bool)) is None


def test_negative_weights_are_told() -> None:
    assert signs_of([1.0, 2.0]) == ""
    assert signs_of([1.0, -2.0, -3.0, 0.0]).startswith("2 of these 4 paths weigh less than nothing (50 %)")
