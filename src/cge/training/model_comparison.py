"""The guard: which weights of paths are used is decided by labels that did not train them.

Candidates are trained for some epochs each. A more complicated one takes the place of a simpler one only where it is
right on more of the selection labels by more than one standard error of the difference, or clearly less surprised by
them. So weights that do not help step aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.models.edge_weighting import EdgeWeighting
from cge.training.classifier_training import ClassifierTrainer

__all__ = [
    "CandidateScore",
    "accuracy_gain",
    "closed_form_weightings",
    "hop_profiles",
    "is_better",
    "level",
    "log_loss_gain",
    "score_candidate",
]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """How a candidate does on the selection labels: accuracy, which were right, `(k,)`, and how surprising they were.

    With several labels per node, what counts as right is the F1 of its classes. `log_loss (k,)` is −log of the chance
    given to the label, at the temperature that suits the candidate best: chances tell more than hits, and temperature
    is no merit of weights.
    """

    accuracy: float
    right: Array
    log_loss: Array


def closed_form_weightings(names: Sequence[str], hops: int) -> dict[str, EdgeWeighting]:
    """Return the weights that need no learning, by name, for the inputs called `names` and paths of up to `hops` steps.

    "uniform" is A ≡ 1; "degree" discounts ends of high degree; "cosine" follows steps between similar nodes.
    """
    nothing, equal = [0.0] * len(names), [1.0] * (hops + 1)
    found = {
        "uniform": EdgeWeighting(nothing, 0.0, 0.0, equal),
        "degree": EdgeWeighting(nothing, 0.0, 0.5, equal),
    }
    if "cosine" in names:
        alike = [1.0 if name == "cosine" else 0.0 for name in names]
        found["cosine"] = EdgeWeighting(alike, 1.0, 0.5, equal)
    return found


def hop_profiles(names: Sequence[str], hops: int) -> dict[str, EdgeWeighting]:
    """Return weights that favor some hops: a node's own payload, its neighbors', and those two steps away."""
    nothing = [0.0] * len(names)
    shapes = {"own": (1, 0, 0), "neighbors": (0, 1, 0), "two steps": (0, 0, 1), "own and two steps": (1, 0, 1)}
    found = {}
    for name, shape in shapes.items():
        if any(shape[hops + 1 :]):  # it needs more steps than there are
            continue
        profile = [float(one) for one in shape[: hops + 1]] + [0.0] * (hops - 2)
        for normalization in (0.5,) if name == "own" else (0.0, 0.5, 1.0):
            label = name if name == "own" else f"{name}, b = {normalization:g}"
            found[label] = EdgeWeighting(nothing, 0.0, normalization, profile)
    return found


def score_candidate(trainer: ClassifierTrainer) -> CandidateScore:
    """Return how the best epoch of a trainer does on its validation labels."""
    nodes = trainer.task.validation
    scores, labels = trainer.best_scores(nodes).numpy(), trainer.task.labels[nodes].numpy()
    target = trainer.task.target
    return CandidateScore(
        target.score(scores, labels), target.node_scores(scores, labels), target.node_losses(scores, labels)
    )


def is_better(candidate: CandidateScore, incumbent: CandidateScore, errors: float = 1.0, more: int = 0) -> bool:
    """Say whether a challenger is better than chance explains.

    It is right more often by more than `errors` standard errors of the paired difference and `more` labels besides, or
    as often at least and less surprised by more than twice as many. Where two differ on a few labels only, the standard
    error is too small to go by: one label won and none lost is one standard error.
    """
    gain, error = accuracy_gain(candidate, incumbent)
    if gain > errors * error + more / max(len(incumbent.right), 1):
        return True
    saved, error = log_loss_gain(candidate, incumbent)
    return gain >= 0 and saved > 2 * errors * error


def level(judged: Mapping[str, CandidateScore]) -> list[str]:
    """Return the most accurate, and those that it is not better than."""
    best = max(judged, key=lambda name: judged[name].accuracy)
    return [best, *(name for name in judged if name != best and not is_better(judged[best], judged[name]))]


def accuracy_gain(one: CandidateScore, other: CandidateScore) -> tuple[float, float]:
    """Return by how much one is right more often than the other, and the standard error of that."""
    return _mean_and_error(one.right - other.right)


def log_loss_gain(one: CandidateScore, other: CandidateScore) -> tuple[float, float]:
    """Return by how much less the labels surprise one than the other, and the standard error of that."""
    return _mean_and_error(other.log_loss - one.log_loss)


def _mean_and_error(apart: Array) -> tuple[float, float]:
    if len(apart) < 2:
        return 0.0, float("inf")
    return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))
