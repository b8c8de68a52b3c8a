"""Comparison of candidates on the validation labels, with standard errors.

Candidates are trained for some epochs each. A more complicated one replaces a simpler one only where its accuracy is
higher by more than a standard error of the paired difference, or equal with a clearly lower log loss. So a weighting
that does not help is not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cge.arrays import Array
from cge.training.classifier_training import ClassifierTrainer


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """Scores on the validation labels: accuracy, and of each label whether it is `correct` and its log loss, `(k,)`.

    With several labels per node, accuracy is micro-F1 and `correct` the share of a node's classes that are predicted.
    Log losses are taken at the temperature that suits the candidate best, since calibration follows anyway.
    """

    accuracy: float
    correct: Array
    log_losses: Array


def score_candidate(trainer: ClassifierTrainer) -> CandidateScore:
    """Return the scores of a trainer's best epoch on its validation labels."""
    nodes = trainer.task.validation
    scores, labels = trainer.best_scores(nodes).numpy(), trainer.task.labels[nodes].numpy()
    target = trainer.task.target
    return CandidateScore(
        target.score(scores, labels), target.node_scores(scores, labels), target.node_losses(scores, labels)
    )


def is_better(candidate: CandidateScore, incumbent: CandidateScore, margin: float = 1.0, extra_labels: int = 0) -> bool:
    """Return whether a candidate is better than chance explains.

    Its accuracy is higher by more than `margin` standard errors of the paired difference and `extra_labels`
    besides, or it is not lower and the log loss is lower by more than twice the margin. `extra_labels` matters where
    two candidates differ on few labels: one label gained and none lost is one standard error.
    """
    gain, error = accuracy_gain(candidate, incumbent)
    if gain > margin * error + extra_labels / max(len(incumbent.correct), 1):
        return True
    loss_gain, error = log_loss_gain(candidate, incumbent)
    return gain >= 0 and loss_gain > 2 * margin * error


def not_worse(scores: Mapping[str, CandidateScore]) -> list[str]:
    """Return the name of the most accurate candidate, and those that it is not better than."""
    best = max(scores, key=lambda name: scores[name].accuracy)
    return [best, *(name for name in scores if name != best and not is_better(scores[best], scores[name]))]


def accuracy_gain(candidate: CandidateScore, incumbent: CandidateScore) -> tuple[float, float]:
    """Return the gain in accuracy over the incumbent, and its standard error."""
    return _mean_and_error(candidate.correct - incumbent.correct)


def log_loss_gain(candidate: CandidateScore, incumbent: CandidateScore) -> tuple[float, float]:
    """Return by how much the log loss is lower than that of the incumbent, and its standard error."""
    return _mean_and_error(incumbent.log_losses - candidate.log_losses)


def _mean_and_error(differences: Array) -> tuple[float, float]:
    if len(differences) < 2:
        return 0.0, float("inf")
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))
