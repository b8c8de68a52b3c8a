"""Calibration on the validation labels: temperatures, and class scores shifted to the class frequencies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge import metrics
from cge.estimators.calibration import EnsembleScores, _is_accepted, _training_gain, calibrate, comparable_scores
from cge.graph import Graph
from cge.targets import SingleLabel
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

TARGET = SingleLabel(np.arange(2))
NO_SEARCH: dict[str, Any] = {"classifier": "mlp", "label_propagation": False}


def test_probabilities_are_calibrated_on_the_validation_labels() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="consistency").fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
    nodes = model.fitted_.validation.nodes
    assert nodes.tolist() == np.setdiff1d(np.arange(0, 40, 4), np.arange(0, 40, 3)).tolist()
    calibrated = model.predict_proba(nodes).astype(float)
    np.testing.assert_allclose(calibrated, model.fitted_.validation.probabilities, atol=1e-6)
    raw = metrics.scale_probabilities(calibrated, 1 / model.fitted_.temperature)
    best = metrics.log_loss(calibrated, TRUE_LABELS[nodes])
    assert best < metrics.log_loss(raw, TRUE_LABELS[nodes]) - 1e-3
    assert np.array_equal(calibrated.argmax(1), raw.argmax(1))


def test_test_nodes_are_better_calibrated_on_cora() -> None:
    data = cge.load_dataset("cora")
    assert data.split is not None
    model = quick_cge("degree", **NO_SEARCH, max_epochs=100, dim=32)
    model.fit(data.graph, data.labels_of(data.split.train), data.labels_of(data.split.validation))
    labels = data.labels[data.split.test]
    calibrated = model.predict_proba()[data.split.test].astype(float)
    raw = metrics.scale_probabilities(calibrated, 1 / model.fitted_.temperature)
    error, raw_error = (metrics.reliability(probabilities, labels).error for probabilities in (calibrated, raw))
    assert model.fitted_.temperature < 0.9  # 100 epochs with weight decay and dropout leave a classifier underconfident
    assert error < 0.06 < raw_error - 0.05


# ---------------------------------------------------------------------- class frequencies


def overlapping_classes(common: int, rare: int, seed: int) -> tuple[Graph, np.ndarray]:
    """Return a graph with a single edge, and labels of two classes whose features overlap."""
    labels = np.repeat([0, 1], [common, rare])
    features = np.random.default_rng(seed).normal(labels[:, None] * 1.5, 1.0, (len(labels), 2))
    return Graph.from_edges([(0, 1)], num_nodes=len(labels), features=features.astype(np.float32)), labels


def balanced_training() -> tuple[Graph, np.ndarray, Any, Any]:
    """Return a graph, all labels, training labels with as many of each class, and 500 random validation labels."""
    graph, labels = overlapping_classes(900, 300, 0)
    random = np.random.default_rng(1)
    y, validation = np.full(1200, -1), np.full(1200, -1)
    for number in (0, 1):
        y[random.choice(np.flatnonzero(labels == number), 50, replace=False)] = number
    validation_idx = random.choice(np.flatnonzero(y < 0), 500, replace=False)
    validation[validation_idx] = labels[validation_idx]
    return graph, labels, y, validation


def test_class_scores_are_shifted_to_the_frequencies_of_validation_labels(tmp_path: Path) -> None:
    graph, labels, y, validation = balanced_training()
    validation_idx, test_idx = np.flatnonzero(validation >= 0), np.flatnonzero((y < 0) & (validation < 0))
    settings = NO_SEARCH | {"random_state": 1}
    model = quick_cge("uniform", **settings).fit(graph, y, validation)
    plain = quick_cge("uniform", prior_correction=False, **settings).fit(graph, y, validation)
    assert (model.prior_correction_, plain.prior_correction_) == (True, False)
    assert model.score(test_idx, labels[test_idx]) > plain.score(test_idx, labels[test_idx]) + 0.02
    # With one classifier it is Bayes' rule: probabilities times the ratio of class frequencies, at a new temperature.
    ratio = (np.bincount(labels[validation_idx]) + 1) / (502 * 51 / 102)
    expected = plain.predict_proba().astype(np.float64) * ratio
    expected = metrics.scale_probabilities(
        expected / expected.sum(1, keepdims=True), model.fitted_.temperature / plain.fitted_.temperature
    )
    np.testing.assert_allclose(model.predict_proba(), expected, atol=2e-4)
    losses = [metrics.log_loss(each.predict_proba(test_idx), labels[test_idx]) for each in (model, plain)]
    assert losses[0] < losses[1] - 0.02
    node = int(test_idx[0])
    assert model.explain(node).scores.argmax() == model.predict_proba([node]).argmax()
    model.save(tmp_path / "m")
    again = cge.load(tmp_path / "m")
    assert again.prior_correction_
    assert np.array_equal(again.predict_proba(), model.predict_proba())


def test_the_prior_correction_can_be_required() -> None:
    graph, labels, y, validation = balanced_training()
    balanced = np.full(1200, -1)
    for number in (0, 1):  # as in training, so nothing is gained
        balanced[np.flatnonzero((labels == number) & (y < 0))[:100]] = number
    choices = ("auto", True)
    models = [quick_cge("uniform", prior_correction=choice, **NO_SEARCH).fit(graph, y, balanced) for choice in choices]
    assert [model.prior_correction_ for model in models] == [False, True]
    few = np.where(np.cumsum(validation >= 0) <= 49, validation, -1)
    for options, passed in (({}, few), ({}, None), ({"class_weight": "balanced"}, validation)):
        with pytest.raises(
            cge.CgeError, match="prior_correction needs a single-label task, no class_weight and 50 labels"
        ):
            quick_cge("uniform", prior_correction=True, **NO_SEARCH, **options).fit(graph, y, passed)
    with pytest.raises(cge.CgeError, match="prior_correction must be one of 'auto', True, False, found 'no'"):
        quick_cge(prior_correction="no").fit(graph, y)


def skewed_scores(seed: int, rare: float, count: int = 400) -> tuple[Any, Any, Any]:
    """Return scores `(count, 2)` of a model trained on as many of each class, labels of which a share is rare, and 40
    balanced training labels with their scores."""
    random = np.random.default_rng(seed)
    labels = (random.random(count + 40) < rare).astype(np.int64)
    labels[:40] = np.arange(40) % 2
    scores = np.stack([np.zeros(len(labels)), 3 * random.normal(1.5 * (labels - 0.5), 1.0)], axis=1)
    return scores[40:], labels[40:], (EnsembleScores([scores[:40]]), labels[:40])


def calibrated(scores: list[Any], labels: Any, train: Any) -> tuple[Any, float, Any]:
    return calibrate(EnsembleScores(scores, [1.0] * len(scores)), labels, TARGET, train)


def test_each_validation_label_is_scored_with_what_is_fitted_on_other_folds() -> None:
    scores, labels, train = skewed_scores(0, 0.25)
    other = scores + np.random.default_rng(1).normal(0, 0.5, (440, 2))[40:]
    probabilities, temperature, shift = calibrated([scores, other], labels, train)
    assert shift is not None
    _, plain_temperature, no_shift = calibrated([scores, other], labels, None)
    assert no_shift is None
    counts = np.bincount(labels)
    np.testing.assert_allclose(shift, plain_temperature * np.log((counts + 1) / 402 / 0.5), rtol=1e-6)

    def softmax_mean(rows: Any, added: Any) -> Any:
        exponentials = [np.exp(part[rows] + added) for part in (scores, other)]
        return np.mean([part / part.sum(1, keepdims=True) for part in exponentials], axis=0)

    assert temperature == metrics.fit_temperature(softmax_mean(np.arange(400), shift), labels)
    for row in (0, 1, 17, 399):
        rest = np.flatnonzero(np.arange(400) % 5 != row % 5)
        first = metrics.fit_temperature(softmax_mean(rest, 0), labels[rest])
        moved = first * np.log((np.bincount(labels[rest]) + 1) / 322 / 0.5)
        second = metrics.fit_temperature(softmax_mean(rest, moved), labels[rest])
        scaled = softmax_mean([row], moved)[0] ** (1 / second)
        np.testing.assert_allclose(probabilities[row], scaled / scaled.sum(), rtol=1e-6)


def test_labels_that_the_scores_do_not_predict_shift_nothing() -> None:
    scores, labels, train = skewed_scores(0, 0.25)
    assert calibrated([scores], labels, train)[2] is not None
    for seed in range(20):
        permuted = np.random.default_rng(seed).permutation(labels)
        assert calibrated([scores], permuted, train)[2] is None


def test_a_shift_that_harms_training_nodes_is_refused() -> None:
    scores, labels, (_, train_labels) = skewed_scores(0, 0.25)
    weak = np.stack([np.zeros(40), 0.1 * (2 * train_labels - 1)], axis=1)  # all correct, by less than the shift
    assert calibrated([scores], labels, (EnsembleScores([weak]), train_labels))[2] is None
    assert calibrated([scores], labels, (EnsembleScores([100 * weak]), train_labels))[2] is not None


def test_training_accuracy_is_weighted_to_the_validation_frequencies() -> None:
    scores = np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 1.0], [2.0, 0.0]])
    shift, log_ratio = np.array([2.0, 0.0]), np.log([1.5, 0.5])
    gain, error = _training_gain(EnsembleScores([scores]), np.array([0, 1, 1, 0]), TARGET, shift, log_ratio)
    differences = [1.5, 0.0, -0.5, 0.0]  # the shift corrects the first node and mistakes the third
    assert gain == pytest.approx(np.mean(differences))
    assert error == pytest.approx(np.std(differences, ddof=1) / 2)


def test_training_accuracy_may_fall_by_what_validation_accuracy_gains() -> None:
    labels = np.repeat([0, 1], [75, 25])
    plain, corrected = np.full((100, 2), 0.5), np.full((100, 2), 0.5)
    plain[:, 1] += np.where(np.arange(100) < 20, 0.1, -0.1) + np.where(labels == 1, 0.2, 0)  # 20 mistakes
    corrected[:, 1] += np.where(labels == 1, 0.2, -0.2)
    constant = np.tile([1.0, 0.0], (100, 1))
    for fall, accepted in ((0.1, True), (0.19, True), (0.21, False)):
        assert _is_accepted(corrected, plain, constant, labels, (-fall, 0.05)) is accepted
    assert not _is_accepted(
        corrected, plain, np.eye(2)[labels], labels, (0.0, 0.0)
    )  # not better than a constant prediction
    assert not _is_accepted(plain, corrected, constant, labels, (0.0, 0.0))


def test_frequencies_that_chance_explains_shift_nothing() -> None:
    for seed, rare, count in ((3, 0.1, 40), (4, 1.0, 45), (5, 1.0, 400)):  # few labels, only one class
        scores, labels, train = skewed_scores(seed, rare, count)
        assert calibrated([scores], labels, train)[2] is None
    shifts = [calibrated([scores], labels, train)[2] for scores, labels, train in map(slightly_skewed, range(10))]
    assert sum(shift is not None for shift in shifts) <= 1  # mostly below three standard errors of the log loss


def slightly_skewed(seed: int) -> tuple[Any, Any, Any]:
    return skewed_scores(seed, 0.42)


def test_permuted_validation_labels_do_not_shift_the_classes() -> None:
    graph, _, y, validation = balanced_training()
    permuted, validation_idx = validation.copy(), np.flatnonzero(validation >= 0)
    permuted[validation_idx] = np.random.default_rng(0).permutation(validation[validation_idx])
    corrected, plain = (
        quick_cge("uniform", **NO_SEARCH, prior_correction=mode).fit(graph, y, permuted) for mode in ("auto", False)
    )
    assert not corrected.prior_correction_
    assert np.array_equal(corrected.predict(), plain.predict())


@pytest.mark.slow
def test_permuted_validation_labels_of_cora_do_not_shift_the_classes() -> None:
    data = cge.load_dataset("cora")
    assert data.split is not None
    test_idx, random = data.split.test, np.random.default_rng(0)
    permuted = data.labels_of(data.split.validation)
    permuted[data.split.validation] = random.permutation(data.labels[data.split.validation])
    model = cge.CGE("degree", classifier="mlp", random_state=0, n_jobs=1)
    model.fit(data.graph, data.labels_of(data.split.train), permuted)
    assert not model.prior_correction_
    assert model.score(test_idx, data.labels[test_idx]) > 0.75  # 0.82 with the true validation labels


def test_frequencies_of_training_labels_stay_where_validation_labels_do_not_differ() -> None:
    graph, labels, balanced, validation = balanced_training()
    y, few = np.full(1200, -1), np.full(1200, -1)
    test_idx = np.flatnonzero((balanced < 0) & (validation < 0))
    same = [test_idx[labels[test_idx] == number][:count] for number, count in ((0, 151), (1, 49))]
    y[np.concatenate(same)] = labels[np.concatenate(same)]
    few[100:104] = 0
    for settings, *split in (
        ({}, y, validation),  # 377 and 123 labels: the same frequencies
        ({}, balanced, None),  # held-out labels have those of the training labels
        ({}, balanced, few),  # four validation labels prove nothing
        ({"class_weight": "balanced"}, balanced, validation),  # each class shall count alike
    ):
        assert not quick_cge("uniform", **NO_SEARCH, **settings).fit(graph, *split).prior_correction_


# ---------------------------------------------------------------------- candidates


def candidate(scores: np.ndarray, labels: np.ndarray, n_train: int) -> Any:
    nodes = torch.arange(len(labels)).split([n_train, len(labels) - n_train])
    task = SimpleNamespace(train=nodes[0], validation=nodes[1], labels=torch.from_numpy(labels), target=TARGET)
    return SimpleNamespace(task=task, best_scores=lambda rows: torch.from_numpy(scores)[rows])


def test_candidates_are_compared_after_the_prior_correction() -> None:
    """Bayes' rule makes a candidate that is blind to class frequencies as good as one that has them."""
    random = np.random.default_rng(0)
    labels = np.concatenate([np.repeat([0, 1], 40), (random.random(600) < 0.1).astype(np.int64)])
    feature = random.normal(1.5 * labels, 1.0)
    log_odds = 1.5 * feature - 1.5**2 / 2  # with as many of each class
    scores = np.stack([np.zeros(len(labels)), log_odds], axis=1)
    plain, corrected = scores[80:], comparable_scores(candidate(scores, labels, 80))
    shift = np.log(labels[80:].mean() / (1 - labels[80:].mean()))
    expected = log_odds[80:] + shift > 0
    assert (corrected.argmax(1) == expected).mean() > 0.97  # folds differ a little
    accuracy, before = ((each.argmax(1) == labels[80:]).mean() for each in (corrected, plain))
    assert accuracy > before + 0.08
    np.testing.assert_allclose(np.exp(corrected).sum(1), 1, atol=1e-9)


def test_scores_that_are_not_corrected_stay_as_they_are() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    scores = random.normal(size=(200, 2)) + 2 * np.eye(2)[labels]
    assert np.array_equal(comparable_scores(candidate(scores, labels, 80)), scores[80:])
    assert not np.array_equal(comparable_scores(candidate(scores, labels, 80), always=True), scores[80:])


def test_the_search_compares_corrected_accuracies() -> None:
    graph, _, y, validation = balanced_training()
    options: dict[str, Any] = {"classifier": "mlp", "random_state": 1, "max_epochs": 60}
    models = [
        quick_cge("uniform", prior_correction=each, **options).fit(graph, y, validation) for each in (True, False)
    ]
    corrected, plain = (
        next(row["accuracy"] for row in model.search_results_ if not row["label_propagation"]) for model in models
    )
    assert corrected > plain + 0.01
