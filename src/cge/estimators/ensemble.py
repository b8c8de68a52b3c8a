"""The ensemble of a path encoder: the selected candidate and others, averaged with weights from validation labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from cge.arrays import Array
from cge.estimators.calibration import EnsembleScores
from cge.training.candidate_evaluation import ClassScores
from cge.training.named_weighting import NamedWeighting
from cge.training.path_trainer import PathTrainer, SingleTrainer
from cge.training.selection import TrainedClassifier, ensemble_weights


@dataclass(frozen=True, eq=False)
class EnsemblePart:
    """A training of a classifier, and its weight in the mean of probabilities.

    `number` counts those of the same classifier with different seeds.
    """

    weighting: NamedWeighting
    classifier: str
    number: int
    trainer: PathTrainer
    weight: float = 1.0


def weighted_ensemble(
    selected: Sequence[EnsemblePart], averaged: Sequence[EnsemblePart], class_scores: ClassScores
) -> list[EnsemblePart]:
    """Return the trainings of the selected candidate and those of others that get a weight, the largest weights first.

    Weights are found from the calibrated outputs of the validation nodes, given their `class_scores`.
    """
    if not averaged:
        return [replace(part, weight=1 / len(selected)) for part in selected]
    task = selected[0].trainer.task
    target, labels = task.target, task.labels[task.validation].numpy()

    def outputs(parts: Sequence[EnsemblePart]) -> Array:
        scores = EnsembleScores([class_scores(part.trainer) for part in parts], [1.0] * len(parts))
        mean = scores.mean_outputs(target)
        return target.scale(mean, target.fit_temperature(mean, labels))

    candidates = [outputs(selected), *(outputs([part]) for part in averaged)]
    weight, *weights = ensemble_weights(candidates, lambda mean: target.output_losses(mean, labels)).tolist()
    used = [replace(part, weight=each) for part, each in zip(averaged, weights, strict=True) if each > 0]
    return [
        *(replace(part, weight=weight / len(selected)) for part in selected),
        *sorted(used, key=lambda part: -part.weight),
    ]


def scores_of(ensemble: Sequence[EnsemblePart], nodes: Tensor) -> EnsembleScores:
    """Return the class scores of some nodes."""
    scores = [part.trainer.best_scores(nodes).numpy() for part in ensemble]
    return EnsembleScores(scores, [part.weight for part in ensemble])


def classifiers_of(ensemble: Sequence[EnsemblePart], score_shift: Array | None) -> tuple[TrainedClassifier, ...]:
    """Return the classifiers of an ensemble, with `score_shift (c,)` added to their class scores."""
    classifiers = []
    for part in ensemble:
        classifier = cast(SingleTrainer, part.trainer).best_classifier()  # cross-validated ones were trained again
        if score_shift is not None:
            with torch.no_grad():
                classifier.class_bias().add_(torch.from_numpy(score_shift))
        classifiers.append(TrainedClassifier(part.classifier, classifier.fixed(), part.weighting, part.weight))
    return tuple(classifiers)
