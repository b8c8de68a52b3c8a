"""Scores of candidates on validation labels, and when one is better than another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cge.targets import MultiLabel, SingleLabel
from cge.training.candidate_evaluation import CandidateScore, is_better, score_candidate, ties_with_best


def score(correct: list[float], log_losses: list[float] | None = None) -> CandidateScore:
    losses = [1.0] * len(correct) if log_losses is None else log_losses
    return CandidateScore(float(np.mean(correct)), np.array(correct, float), np.array(losses, float))


def trained(scores: torch.Tensor, labels: torch.Tensor, validation: list[int], scale: float = 1.0) -> Any:
    target = (MultiLabel if labels.ndim == 2 else SingleLabel)(np.arange(scores.shape[1]))
    task = SimpleNamespace(validation=torch.tensor(validation), labels=labels, target=target)
    return SimpleNamespace(task=task, best_scores=lambda nodes: scale * scores[nodes])


def test_a_gain_and_its_standard_error_by_hand() -> None:
    gain, error = score([1, 1, 1, 0]).accuracy_gain(score([1, 0, 0, 1]))  # differences 0, 1, 1, −1
    assert gain == pytest.approx(0.25)
    assert error == pytest.approx(np.sqrt((0.0625 + 2 * 0.5625 + 1.5625) / 3 / 4))
    assert score([1]).accuracy_gain(score([0])) == (0.0, float("inf"))
    assert score([1, 0.5]).accuracy_gain(score([0.5, 0.0])) == (0.5, 0.0)


def test_better_is_more_accurate_by_a_margin_of_standard_errors() -> None:
    candidate, incumbent = score([1] * 5 + [0, 1, 0]), score([0] * 3 + [1] * 3 + [1, 0])  # 3 gained, 1 lost, of 8
    gain, error = candidate.accuracy_gain(incumbent)
    assert gain == pytest.approx(0.25)
    assert error == np.sqrt((3 * 0.75**2 + 1.25**2 + 4 * 0.25**2) / 7 / 8) == 0.25
    assert is_better(candidate, incumbent, margin=0.99 * gain / error)
    assert not is_better(candidate, incumbent, margin=1.01 * gain / error)
    assert not is_better(candidate, incumbent)  # by exactly one standard error, which is not more
    assert not is_better(incumbent, candidate, margin=0.0)
    assert not is_better(incumbent, incumbent)
    assert not is_better(score([1]), score([0]))
    assert ties_with_best({"a": candidate, "b": incumbent}) == ["a", "b"]


def test_candidates_that_are_not_worse_are_ordered_by_accuracy() -> None:
    two, four, nothing = score([1, 1, *[0] * 98]), score([1, 1, 1, 1, *[0] * 96]), score([0] * 100)
    assert ties_with_best({"nothing": nothing, "two": two}) == ["two"]
    assert ties_with_best({"nothing": nothing, "two": two, "four": four}, 2.0) == ["four", "two"]
    assert ties_with_best({"nothing": nothing, "two": two, "four": four}, 3.0) == ["four", "two", "nothing"]


def test_better_has_a_lower_log_loss_by_twice_the_margin() -> None:
    correct = [1, 0, 1, 0]
    candidate, incumbent = score(correct, [0.5, 0.75, 0.25, 1.0]), score(correct, [1.0, 1.0, 1.0, 0.75])
    differences = np.array([0.5, 0.25, 0.75, -0.25])
    limit = differences.mean() / (2 * differences.std(ddof=1) / 2)  # of four labels
    assert is_better(candidate, incumbent, margin=0.99 * limit)
    assert not is_better(candidate, incumbent, margin=1.01 * limit)
    assert not is_better(incumbent, candidate, margin=0.0)
    assert not is_better(score([1], [0.0]), score([1], [9.0]))


def test_a_lower_log_loss_does_not_make_up_for_accuracy() -> None:
    incumbent = score([1, 1, 0, 1], [2.0] * 4)
    assert is_better(score([1, 1, 1, 0], [1.0] * 4), incumbent)  # as accurate
    assert not is_better(score([1, 1, 0, 0], [1.0] * 4), incumbent)


def test_candidates_are_scored_on_validation_labels_only() -> None:
    scores, labels = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([1, 1, 0, 0])
    result = score_candidate(trained(scores, labels, [3, 1, 2]))
    assert result.correct.tolist() == [1.0, 1.0, 0.0]
    assert result.accuracy == pytest.approx(2 / 3)
    np.testing.assert_allclose(result.log_losses, np.log1p(np.exp(np.array([-1.0, -1.0, 3.0]) / 4)), rtol=1e-6)


def test_log_losses_do_not_depend_on_the_scale_of_scores() -> None:
    random = np.random.default_rng(0)
    scores, labels = torch.from_numpy(random.normal(size=(50, 3))), torch.from_numpy(random.integers(0, 3, 50))
    scores[torch.arange(50), labels] += 1.5
    plain, doubled, tiny = (score_candidate(trained(scores, labels, [*range(50)], scale)) for scale in (1.0, 2.0, 1e-9))
    np.testing.assert_allclose(doubled.log_losses, plain.log_losses, rtol=1e-9)
    np.testing.assert_allclose(tiny.log_losses, np.log(3), rtol=1e-6)
    assert plain.log_losses.mean() < 0.9 * np.log(3)


def test_multilabel_candidates_are_scored_by_f1() -> None:
    scores = torch.tensor([[2.0, -1.0], [-3.0, 1.0], [9.0, 9.0], [-1.0, -1.0]])
    labels = torch.tensor([[1, 0], [1, 0], [0, 0], [0, 0]])
    result = score_candidate(trained(scores, labels, [0, 1, 3]))
    np.testing.assert_allclose(result.correct, [1.0, 0.0, 1.0], atol=1e-6)  # top k of each node; all of no classes
    assert result.accuracy == pytest.approx(2 * 1 / (2 + 2))  # micro-F1
    temperatures = np.array([0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4])[:, None, None]
    negative_logits = np.array([[-2.0, -1.0], [3.0, 1.0], [-1.0, -1.0]])
    losses = np.log1p(np.exp(negative_logits / temperatures)).mean(2)
    np.testing.assert_allclose(result.log_losses, losses[losses.mean(1).argmin()], rtol=1e-6)
