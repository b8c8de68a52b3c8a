"""The data of charts, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cge.report.captions import sign_caption
from cge.report.charts import weight_by_class_matrix, weight_histogram, weights_by_length

WEIGHTS = [([0, 1], 1.0), ([0, 2], -4.0), ([1, 1, 2], -10.0), ([1, 2, 0], -1000.0), ([2], 0.0)]


def test_the_sign_of_a_weight_does_not_count() -> None:
    histogram = weight_histogram(WEIGHTS)
    assert histogram == weight_histogram([(path, abs(weight)) for path, weight in WEIGHTS])
    assert histogram is not None
    assert sum(histogram["count"]) == 2  # the extremes are beyond the quantiles, and zero has no logarithm
    hops, distinct = weights_by_length(WEIGHTS)
    assert (hops["x"], hops["y"]) == ([1, 2], pytest.approx([2, 100]))
    assert (distinct["x"], distinct["y"]) == (
        [2],
        pytest.approx([40 ** (1 / 3)]),
    )  # of 1, 4 and 10


def test_classes_on_paths_are_counted() -> None:
    labels = np.array([[1, 0], [0, 1], [0, 0]], bool)
    predicted = np.array([[1, 0], [0, 1], [1, 0]], bool)
    assert weight_by_class_matrix(WEIGHTS, predicted, labels) == [[None, 1000.0], [1.0, 10.0]]


def test_every_class_of_a_node_is_counted() -> None:
    labels = np.array([[0, 0], [1, 1], [0, 0]], bool)
    predicted = np.array([[1, 1], [0, 0], [0, 0]], bool)
    assert weight_by_class_matrix(WEIGHTS, predicted, labels) == [[1.0, 1.0], [1.0, 1.0]]
    assert weight_by_class_matrix(WEIGHTS, predicted, np.zeros((3, 2), bool)) is None


def test_negative_weights_are_counted() -> None:
    assert sign_caption([1.0, 2.0]) == ""
    assert sign_caption([1.0, -2.0, -3.0, 0.0]).startswith("2 of these 4 paths (50 %) have a negative weight")
