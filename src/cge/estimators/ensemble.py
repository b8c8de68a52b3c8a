"""The ensemble of a path encoder: the selected candidate and others, averaged with weights from validation labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
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
    """A training of a classifier, and its temperature and weight in the mean of probabilities.

    `number` counts those of the same classifier with different seeds.
    """

    weighting: NamedWeighting
    classifier: str
    number: int
    trainer: PathTrainer
    weight: float = 1.0
    temperature: float = 1.0

    def scores(self, nodes: Tensor) -> Array:
        """Return the class scores of some nodes, divided by the temperature, `(k, c)`."""
        scores = self.trainer.best_scores(nodes).numpy()
        return scores if self.temperature == 1 else scores / np.float32(self.temperature)


def weighted_ensemble(
    selected: Sequence[EnsemblePart], averaged: Sequence[EnsemblePart], class_scores: ClassScores
) -> list[EnsemblePart]:
    """Return the trainings of the selected candidate and those of others that get a weight, the largest weights first.

    Each has the temperature that is best on the validation nodes, so that scores of different scale can be averaged.
    Weights are found from the calibrated outputs of `class_scores` of these nodes.
    """
    if len(selected) + len(averaged) == 1:
        return [*selected]
    task = selected[0].trainer.task
    target, labels = task.target, task.labels[task.validation].numpy()

    def calibrated(part: EnsemblePart) -> EnsemblePart:
        outputs = target.outputs(part.trainer.best_scores(task.validation).numpy().astype(np.float64))
        return replace(part, temperature=target.fit_temperature(outputs, labels))

    def calibrated_outputs(part: EnsemblePart) -> Array:
        outputs = target.outputs(class_scores(part.trainer).astype(np.float64))
        return target.scale(outputs, target.fit_temperature(outputs, labels))

    if len(labels):
        selected, averaged = ([calibrated(part) for part in parts] for parts in (selected, averaged))
    if not averaged:
        return [replace(part, weight=1 / len(selected)) for part in selected]
    candidates = [np.mean([*map(calibrated_outputs, selected)], axis=0), *map(calibrated_outputs, averaged)]
    weight, *weights = ensemble_weights(candidates, lambda mean: target.output_losses(mean, labels)).tolist()
    used = [replace(part, weight=each) for part, each in zip(averaged, weights, strict=True) if each > 0]
    return [
        *(replace(part, weight=weight / len(selected)) for part in selected),
        *sorted(used, key=lambda part: -part.weight),
    ]


def scores_of(ensemble: Sequence[EnsemblePart], nodes: Tensor) -> EnsembleScores:
    """Return the class scores of some nodes."""
    return EnsembleScores([part.scores(nodes) for part in ensemble], [part.weight for part in ensemble])


def classifiers_of(ensemble: Sequence[EnsemblePart], score_shift: Array | None) -> tuple[TrainedClassifier, ...]:
    """Return the classifiers of an ensemble, with `score_shift (c,)` added to their class scores."""
    classifiers = []
    for part in ensemble:
        classifier = cast(SingleTrainer, part.trainer).best_classifier()  # cross-validated ones were trained again
        if score_shift is not None:
            with torch.no_grad():
                classifier.class_bias().add_(torch.from_numpy(score_shift * part.temperature))
        fixed = classifier.fixed().scaled(1 / part.temperature)
        classifiers.append(TrainedClassifier(part.classifier, fixed, part.weighting, part.weight))
    return tuple(classifiers)
