"""What the classifiers of a path encoder know of nodes: the class scores and the vectors are functions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.propagation import Propagation, propagate_rows, propagated_lengths
from cge.targets import Target
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.model_search import Selection, TrainedClassifier

Classifiers = Sequence[TrainedClassifier]


@dataclass(frozen=True, eq=False)
class ClassifierInputs:
    """What an ensemble of classifiers knows of some nodes.

    `projected` has a tensor `(k, d)` for each classifier: the propagated inputs after its projection. `label_scores
    (k, c)` are the propagated training labels, None where they are not used. `informed (k,)` is False for nodes from
    which no path leads to an input or to a training label.
    """

    projected: tuple[Tensor, ...]
    label_scores: Tensor | None
    informed: npt.NDArray[np.bool_]

    def class_scores(self, classifiers: Classifiers) -> list[Tensor]:
        """Return the class scores of each classifier, `(k, c)`."""
        with torch.no_grad():
            scores = [each.classifier.scores(part) for each, part in zip(classifiers, self.projected, strict=True)]
            if self.label_scores is None:
                return scores
            weights = [each.classifier.label_weight for each in classifiers]
            return [part + weight * self.label_scores for part, weight in zip(scores, weights, strict=True)]

    def scales(self, classifiers: Classifiers) -> list[float]:
        """Return the factor of each part of `vectors`: it varies between nodes as much as its class scores do."""
        with torch.no_grad():
            spreads = [
                (_spread(each.classifier.scores(part)), _spread(part))
                for each, part in zip(classifiers, self.projected, strict=True)
            ]
        return [scores / part if part > 0 else 1.0 for scores, part in spreads]

    def vectors(self, scales: Sequence[float], classifiers: Classifiers) -> Array:
        """Return the vectors, `(k, d)`: the scaled parts, and the propagated labels times their (mean) weight."""
        parts = [scale * part for scale, part in zip(scales, self.projected, strict=True)]
        if self.label_scores is not None:
            weights = [float(each.classifier.label_weight.detach()) for each in classifiers]
            parts.append(float(np.mean(weights)) * self.label_scores)
        vectors: Array = torch.cat(parts, dim=1).numpy()
        return vectors


def _spread(rows: Tensor) -> float:
    """Return the root mean square distance of rows from their mean."""
    return float((rows - rows.mean(0)).double().square().sum(1).mean().sqrt())


def classifier_inputs(
    data: EncoderData,
    selection: Selection,
    classifiers: Classifiers,
    labels: tuple[Array, Array] | None,
    target: Target,
    rows: Array,
) -> ClassifierInputs:
    """Return what classifiers know of some nodes; `labels` are the nodes whose labels are propagated, and a matrix."""
    nodes, label_scores = torch.from_numpy(rows), None
    weightings = {each.weighting.name: each.weighting for each in classifiers}
    propagations = {name: weighting.propagation(data) for name, weighting in weightings.items()}
    informed = np.logical_or.reduce([_reach_inputs(data, each, nodes) for each in propagations.values()])
    if selection.label_propagation and labels is not None:
        label_scores = torch.from_numpy(selection.weighting.propagate_labels(data, *labels, target, rows))[nodes]
        informed |= label_scores.any(dim=1).numpy()
    projected = tuple(_projected(data, each, propagations[each.weighting.name], nodes) for each in classifiers)
    return ClassifierInputs(projected, label_scores, informed)


@torch.no_grad()
def _projected(data: EncoderData, trained: TrainedClassifier, propagation: Propagation, nodes: Tensor) -> Tensor:
    """Return the propagated inputs of some nodes after the projection of a classifier, `(k, d)`."""
    inputs = data.inputs(CLASSIFIERS[trained.name].row_norm)
    propagated = propagate_rows(propagation, trained.classifier.project(inputs), nodes)
    if CLASSIFIERS[trained.name].unit_rows:
        propagated = propagated / propagated_lengths(propagation, inputs, nodes)[:, None]
    return propagated + trained.classifier.offset()


def _reach_inputs(data: EncoderData, propagation: Propagation, nodes: Tensor) -> npt.NDArray[np.bool_]:
    """Return from which nodes a path leads to an input, `(k,)`; the learned input of the node itself does not count."""
    has_inputs = torch.from_numpy(data.has_inputs.astype(np.float32))[:, None]
    with torch.no_grad():
        reached = np.asarray(propagate_rows(propagation, has_inputs, nodes)[:, 0] != 0)
    return reached if data.uses_features else reached & (data.graph.degrees[nodes.numpy()] > 0)
