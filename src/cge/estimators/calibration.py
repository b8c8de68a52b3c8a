"""Calibration on the validation labels: temperature scaling, and the correction of class priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.metrics import class_prior_ratio, log_losses
from cge.targets import Target
from cge.training.candidate_evaluation import CandidateScore
from cge.training.candidates import MIN_VALIDATION

_MIN_STANDARD_ERRORS = 3.0  # by which the prior correction has to lower the log loss
_MIN_LABELS = 50  # validation labels: fewer cannot estimate class frequencies


@dataclass(frozen=True)
class Calibration:
    """The temperature of the probabilities, and whether class scores were shifted to the validation priors.

    `by_evidence` has other temperatures for new nodes, by the evidence there is for them ("edges", "features").
    """

    temperature: float = 1.0
    prior_corrected: bool = False
    by_evidence: dict[str, float] = field(default_factory=dict)


def mean_outputs(scores: Sequence[Tensor], target: Target) -> Array:
    """Return the mean outputs of the scores of an ensemble, `(k, c)`: probabilities, or values."""
    outputs: Array = torch.stack([target.outputs(part) for part in scores]).double().mean(0).numpy()
    return outputs


def calibrate(
    scores: Sequence[Tensor], labels: Array, target: Target, train_counts: Array | None
) -> tuple[Array, float, Array | None]:
    """Return calibrated probabilities of the validation labels, the temperature, and the shift of class scores.

    Training labels are often drawn so that every class has the same number; nodes are not. With `train_counts (c,)`,
    the training labels of each class, class scores may be shifted by the log ratio of class frequencies in validation
    and training labels. Each validation label is scored with frequencies estimated from the others, and the shift is
    accepted only where it lowers the log loss by more than chance explains.

    Parameters
    ----------
    scores : sequence of (k, c) tensors
        Class scores of the ensemble for the validation nodes.
    labels : (k, …)
        The validation labels of the target.
    train_counts : (c,), optional
        None does not consider a shift.
    """
    probabilities = mean_outputs(scores, target)
    if len(labels) < MIN_VALIDATION:
        return probabilities, 1.0, None
    temperature = target.fit_temperature(probabilities, labels)
    plain = target.scale(probabilities, temperature)
    if train_counts is None or len(labels) < _MIN_LABELS:
        return plain, temperature, None
    shift, shift_from_others = class_prior_ratio(labels, train_counts)
    shifts = temperature * torch.from_numpy(shift_from_others)
    shifted = mean_outputs([part + shifts for part in scores], target)
    shifted_temperature = target.fit_temperature(shifted, labels)
    corrected = target.scale(shifted, shifted_temperature)
    candidate, incumbent = _score(corrected, labels), _score(plain, labels)
    saved, saved_error = candidate.log_loss_gain(incumbent)
    gain, gain_error = candidate.accuracy_gain(incumbent)
    if saved <= _MIN_STANDARD_ERRORS * saved_error or gain < -gain_error:
        return plain, temperature, None
    return corrected, shifted_temperature, temperature * shift


def _score(probabilities: Array, labels: Array) -> CandidateScore:
    correct = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    return CandidateScore(float(correct.mean()), correct, log_losses(probabilities, labels))
