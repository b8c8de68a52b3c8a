"""Metrics against scikit-learn, closed forms and values worked by hand, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax
from sklearn import metrics as sklearn_metrics

from cge import metrics

CLASSES = 4


def random_probabilities(n: int = 50, seed: int = 0) -> Any:
    return softmax(2 * np.random.default_rng(seed).normal(size=(n, CLASSES)), axis=1)


def random_labels(n: int = 50, seed: int = 0, multilabel: bool = False) -> Any:
    random = np.random.default_rng(seed + 100)
    return random.integers(0, 2, (n, CLASSES)) if multilabel else random.integers(0, CLASSES, n)


# ---------------------------------------------------------------------- accuracy and F1


def test_accuracy_by_hand() -> None:
    probabilities = np.array([[0.2, 0.8, 0.0], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
    labels = np.array([1, 0, 0, 1])  # the last is a tie, which goes to the first class
    assert metrics.classification_metrics(probabilities, labels) == {"accuracy": 0.5}
    assert metrics.accuracy_or_f1(probabilities, labels) == 0.5
    assert metrics.node_accuracy(probabilities, labels).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert math.isnan(metrics.accuracy(np.array([]), np.array([])))


def test_f1_by_hand() -> None:
    """Predicted {0, 1}, {2}, {0}: one false positive of class 0, one false negative of class 2."""
    probabilities = np.array([[0.9, 0.2, 0.1], [0.1, 0.2, 0.3], [0.5, 0.4, 0.3]])
    scores = metrics.classification_metrics(probabilities, np.array([[1, 1, 0], [0, 0, 1], [0, 0, 1]]))
    assert scores == {
        "micro_f1": pytest.approx(2 * 3 / (4 + 4)),
        "macro_f1": pytest.approx((2 / 3 + 1 + 2 / 3) / 3),
        "micro_f1_above_half": pytest.approx(2 * 1 / (1 + 4)),  # only class 0 of the first node is predicted
        "macro_f1_above_half": pytest.approx((1 + 0 + 0) / 3),
    }


@pytest.mark.parametrize("seed", range(6))
def test_f1_is_that_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = (random.random((30, 6)) < 0.3).astype(int)
    labels[:, 5] = 0  # a class without positives counts 0 in the macro mean
    probabilities = random.integers(0, 4, (30, 6)) / 4  # with ties
    top_k = np.zeros_like(labels)
    for row, (scores, true) in enumerate(zip(probabilities, labels, strict=True)):
        ranked = sorted(range(6), key=lambda place: (-scores[place], place))
        top_k[row, ranked[: int(true.sum())]] = 1
    expected = {
        f"{kind}_f1{suffix}": sklearn_metrics.f1_score(labels, predicted, average=kind, zero_division=0.0)
        for suffix, predicted in (("", top_k), ("_above_half", (probabilities > 0.5).astype(int)))
        for kind in ("micro", "macro")
    }
    assert metrics.classification_metrics(probabilities, labels) == expected  # to the last bit
    assert metrics.accuracy_or_f1(probabilities - 100, labels) == expected["micro_f1"]  # only the order counts
    node_f1 = [sklearn_metrics.f1_score(*pair, zero_division=0.0) for pair in zip(labels, top_k, strict=True)]
    np.testing.assert_allclose(metrics.node_f1(top_k, labels), node_f1, rtol=1e-15)


def test_no_positives_have_an_f1_of_zero() -> None:
    nothing = np.zeros((2, 2), bool)
    assert metrics.micro_f1(nothing, nothing) == metrics.macro_f1(nothing, nothing) == 0
    assert metrics.node_accuracy(np.ones((2, 2)), nothing).tolist() == [1.0, 1.0]


def test_one_label_per_node_predicts_one_class() -> None:
    probabilities = random_probabilities()
    predicted = metrics.predicted_indicators(probabilities, multilabel=False)
    assert (predicted.sum(1) == 1).all()
    assert np.array_equal(predicted.argmax(1), probabilities.argmax(1))


# ---------------------------------------------------------------------- log loss


@pytest.mark.parametrize("multilabel", [False, True])
def test_log_loss_is_that_of_scikit_learn(multilabel: bool) -> None:
    probabilities, labels = random_probabilities(), random_labels(multilabel=multilabel)
    if multilabel:
        expected = np.mean([sklearn_metrics.log_loss(labels[:, c], probabilities[:, c]) for c in range(CLASSES)])
    else:
        expected = sklearn_metrics.log_loss(labels, probabilities, labels=range(CLASSES))
    assert metrics.log_loss(probabilities, labels) == pytest.approx(expected, rel=1e-12)
    assert metrics.log_losses(probabilities, labels).shape == (50,)


@pytest.mark.parametrize("multilabel", [False, True])
def test_log_losses_of_logits_are_those_of_their_probabilities(multilabel: bool) -> None:
    logits, labels = 3 * np.random.default_rng(0).normal(size=(50, CLASSES)), random_labels(multilabel=multilabel)
    probabilities = expit(logits) if multilabel else softmax(logits, axis=1)
    losses = metrics.logit_log_losses(logits, labels)
    np.testing.assert_allclose(losses, metrics.log_losses(probabilities, labels), rtol=1e-10)
    huge = metrics.logit_log_losses(np.array([[0.0, 5000.0]]), np.array([[0, 0]] if multilabel else [0]))
    assert huge[0] == pytest.approx((5000 + math.log(2)) / 2 if multilabel else 5000)


def test_calibrated_log_losses_do_not_depend_on_the_scale_of_logits() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(50, 3)), random.integers(0, 3, 50)
    logits[np.arange(50), labels] += 1.5
    losses = metrics.calibrated_log_losses(logits, labels)
    np.testing.assert_allclose(metrics.calibrated_log_losses(2 * logits, labels), losses, rtol=1e-9)
    grid = [-log_softmax(logits / t, axis=1)[np.arange(50), labels] for t in (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4)]
    np.testing.assert_allclose(losses, min(grid, key=np.mean), rtol=1e-12)


# ---------------------------------------------------------------------- calibration


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0, 2.0, 5.0])
def test_temperature_divides_the_logits(temperature: float) -> None:
    probabilities = random_probabilities()
    scaled = metrics.scale_probabilities(probabilities, temperature)
    np.testing.assert_allclose(scaled, softmax(np.log(probabilities) / temperature, axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        metrics.scale_probabilities(probabilities, temperature, multilabel=True),
        expit(logit(probabilities) / temperature),
        rtol=1e-10,
    )
    if temperature > 0.5:  # below, some probabilities are too small to be recovered
        np.testing.assert_allclose(metrics.scale_probabilities(scaled, 1 / temperature), probabilities, rtol=1e-9)


def test_each_node_may_have_its_own_temperature() -> None:
    probabilities, temperatures = random_probabilities(3), np.array([0.5, 1.0, 3.0])
    scaled = metrics.scale_probabilities(probabilities, temperatures)
    for row, temperature in enumerate(temperatures.tolist()):
        expected = metrics.scale_probabilities(probabilities[[row]], temperature)[0]
        np.testing.assert_allclose(scaled[row], expected, rtol=1e-12)


def test_probabilities_of_zero_and_one_stay_finite() -> None:
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    for multilabel in (False, True):
        scaled = metrics.scale_probabilities(certain, 5.0, multilabel)
        assert np.isfinite(scaled).all()
        assert scaled.argmax(axis=1).tolist() == [0, 1]
    assert metrics.log_loss(certain, np.array([1, 1])) == pytest.approx(-np.log(1e-12) / 2)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("count", [5, 50, 500])
def test_the_fitted_temperature_minimizes_penalized_log_loss(count: int, multilabel: bool) -> None:
    random, probabilities = np.random.default_rng(count), random_probabilities(count)
    at_two = metrics.scale_probabilities(probabilities, 2.0, multilabel)
    labels: Any = np.array([random.choice(CLASSES, p=row) for row in at_two / at_two.sum(1, keepdims=True)])
    if multilabel:
        labels = (random.random((count, CLASSES)) < at_two).astype(int)

    def objective(log_t: float) -> float:
        scaled = metrics.scale_probabilities(probabilities, math.exp(log_t), multilabel)
        return metrics.log_loss(scaled, labels) + 2 * log_t**2 / count

    fitted = math.log(metrics.fit_temperature(probabilities, labels))
    exact = minimize_scalar(objective, bounds=(math.log(0.2), math.log(5)), method="bounded").x
    assert fitted == pytest.approx(exact, abs=2 * math.log(5) / 80)
    if count == 500:
        assert math.exp(fitted) == pytest.approx(2.0, abs=0.35)  # the temperature that the labels were drawn at


@pytest.mark.parametrize("multilabel", [False, True])
def test_the_search_in_two_steps_finds_the_best_of_all_temperatures(multilabel: bool) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        logits = random.normal(size=(30, CLASSES)) * 10 ** random.uniform(-1, 1)
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        labels: Any = random.integers(0, CLASSES, 30)
        if multilabel:
            labels = np.eye(CLASSES, dtype=int)[labels]
        scaled = [metrics.scale_probabilities(probabilities, each, multilabel) for each in metrics._TEMPERATURES]
        losses = [metrics.log_loss(each, labels) for each in scaled]
        best = np.argmin(np.array(losses) + 2 * np.log(metrics._TEMPERATURES) ** 2 / 30)
        assert metrics.fit_temperature(probabilities, labels) == metrics._TEMPERATURES[best]


def test_few_labels_keep_the_temperature_near_one() -> None:
    overconfident = np.array([[0.99, 0.01], [0.99, 0.01]])
    few = metrics.fit_temperature(overconfident, np.array([0, 1]))
    many = metrics.fit_temperature(np.repeat(overconfident, 200, axis=0), np.repeat([0, 1], 200))
    assert 1 < few < many == pytest.approx(5.0)
    assert metrics.fit_temperature(np.full((3, 2), 0.5), np.array([0, 1, 1])) == pytest.approx(1.0)  # no gain possible


def test_class_prior_ratios_by_counting() -> None:
    labels, train = random_labels(), np.array([5, 0, 2, 9])
    ratio = metrics.class_prior_ratio(np.bincount(labels, minlength=CLASSES), train)
    priors = [(np.count_nonzero(labels == c) + 1) / (50 + CLASSES) for c in range(CLASSES)]
    np.testing.assert_allclose(ratio, np.log(priors / ((train + 1) / (16 + CLASSES))), rtol=1e-12)


def test_reliability_by_hand() -> None:
    probabilities = np.array([[0.95, 0.05], [0.05, 0.95], [0.62, 0.38], [0.66, 0.34]])
    diagram = metrics.reliability(probabilities, np.array([0, 0, 0, 1]))
    assert diagram.count.tolist() == [2, 2]
    assert diagram.confidence.tolist() == pytest.approx([0.64, 0.95])
    assert diagram.accuracy.tolist() == [0.5, 0.5]
    assert diagram.error == pytest.approx((0.14 + 0.45) / 2)
    multilabel = metrics.reliability(np.array([[1.0, 0.2], [0.0, 0.3]]), np.array([[1, 0], [1, 1]]))
    assert multilabel.count.tolist() == [1, 1, 1, 1]
    assert multilabel.error == pytest.approx((1.0 + 0.2 + 0.7 + 0.0) / 4)


def test_calibrated_predictions_have_no_calibration_error() -> None:
    probabilities = np.repeat([[0.75, 0.25]], 8, axis=0)
    assert metrics.reliability(probabilities, np.array([0, 0, 0, 1] * 2)).error == pytest.approx(0, abs=1e-15)
