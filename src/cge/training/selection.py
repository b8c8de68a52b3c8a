"""What a model search selects: its results, the selected model, and the trained classifiers of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cge.arrays import Array
from cge.errors import Message
from cge.models.fixed_classifier import FixedClassifier
from cge.models.weightings import is_learned
from cge.training.named_weighting import NamedWeighting

_ENSEMBLE_STEPS = 20


@dataclass(frozen=True)
class SearchResult:
    """A candidate of the search with its validation accuracy and its gain over the candidate it was compared with.

    `stage` is the stage of the search, see `cge.training.candidates`. `accuracy_gain`, `log_loss_gain` (positive where
    the log loss is lower), their standard errors (`…_se`) and `compared_with`, the name of the other candidate, are
    None for a candidate that others were compared with.
    """

    stage: str
    weighting: str
    classifier: str
    label_propagation: bool
    accuracy: float
    accuracy_gain: float | None
    accuracy_gain_se: float | None
    log_loss_gain: float | None
    log_loss_gain_se: float | None
    compared_with: str | None


class TrainedClassifier(NamedTuple):
    """A classifier of an ensemble, with its name, the path weights that it is trained with, and its weight.

    The weight is its share in the mean of probabilities.
    """

    name: str
    classifier: FixedClassifier
    weighting: NamedWeighting
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected weighting and classifier, and whether labels are propagated.

    `gain_over_uniform` is the gain in validation accuracy over uniform weights with its standard error; None where they
    were not compared. `notices` are for the user. `averaged` are further weightings with their classifiers, whose
    probabilities are averaged with those of the selected model.
    """

    weighting: NamedWeighting
    classifier: str
    label_propagation: bool
    results: tuple[SearchResult, ...] = ()
    gain_over_uniform: tuple[float, float] | None = None
    notices: tuple[Message, ...] = ()
    averaged: tuple[tuple[NamedWeighting, str], ...] = ()

    @property
    def any_learned(self) -> bool:
        """Whether a weighting was learned from labels, selected or not."""
        return any(is_learned(name) for name in (self.weighting.name, *(result.weighting for result in self.results)))


def mean_and_error(differences: Array) -> tuple[float, float]:
    """Return the mean of paired differences `(k,)` and its standard error."""
    if len(differences) < 2:
        return 0.0, float("inf")
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def ensemble_weights(outputs: Sequence[Array], losses: Callable[[Array], Array]) -> Array:
    """Return the weights with which the outputs `(k, c)` of candidates are averaged, `(m,)`; they sum to 1.

    The first candidate has at least half of the weight. The rest is distributed by ensemble selection (Caruana et al.
    2004): step by step to the candidate, the first included, that makes the loss of the mean smallest. `losses` returns
    the loss of each node.
    """
    half = _ENSEMBLE_STEPS // 2
    counts, total = np.zeros(len(outputs), np.int64), half * np.asarray(outputs[0], np.float64)
    counts[0] = half
    for step in range(half, _ENSEMBLE_STEPS):
        best = int(np.argmin([losses((total + each) / (step + 1)).mean() for each in outputs]))
        counts[best] += 1
        total = total + outputs[best]
    return counts / _ENSEMBLE_STEPS
