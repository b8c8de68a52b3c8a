"""The inputs of the classifiers of a path encoder for some nodes: projected propagated inputs and label scores.

Class scores and vectors are functions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from cge.arrays import Array
from cge.csr import entries_of
from cge.graph import Graph
from cge.models.propagation import propagate_rows, propagated_lengths
from cge.models.sparse_products import input_product, unit_rows
from cge.randomness import generator
from cge.targets import Target
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import Selection, TrainedClassifier

_Propagation = Callable[[Array], Array]
Classifiers = Sequence[TrainedClassifier]
NEIGHBORHOOD_DIM = 64  # of the random projection of propagated inputs in vectors
_NEIGHBORHOOD_SCALE = 0.35  # its length, relative to the rest; chosen on validation nodes (docs/results.md)
_INPUT_SCALE = 0.25  # how much inputs vary beside propagated labels, relative to the class coordinates; chosen likewise


@dataclass(frozen=True, eq=False)
class ClassifierInputs:
    """The inputs of the classifiers for some nodes: projected propagated inputs and label scores.

    `projected` has an array `(k, d)` for each classifier: the propagated inputs after its projection. `label_scores
    (k, c)` are the propagated training labels, None where they are not used. `reach_inputs` returns from which nodes a
    path reaches an input other than zero, `(k,)`; `neighborhoods` returns random projections of the propagated inputs,
    `(k, r)`.
    """

    projected: tuple[Array, ...]
    label_scores: Array | None
    reach_inputs: Callable[[], npt.NDArray[np.bool_]]
    neighborhoods: Callable[[], Array]

    @cached_property
    def reached(self) -> npt.NDArray[np.bool_]:
        """From which nodes a path reaches an input other than zero, `(k,)`."""
        return self.reach_inputs()

    @cached_property
    def neighborhood_rows(self) -> Array:
        """Random projections of the propagated inputs, `(k, r)`."""
        return self.neighborhoods()

    def take(self, rows: Array) -> ClassifierInputs:
        """Return the inputs for some of the nodes, by their positions."""
        label_scores = None if self.label_scores is None else self.label_scores[rows]
        lazy = (lambda: self.reached[rows]), (lambda: self.neighborhood_rows[rows])
        return ClassifierInputs(tuple(part[rows] for part in self.projected), label_scores, *lazy)

    @cached_property
    def has_information(self) -> npt.NDArray[np.bool_]:
        """False for nodes whose paths reach no training label and only inputs of zeros, `(k,)`."""
        return self.reached if self.label_scores is None else self.reached | self.label_scores.any(axis=1)

    def class_scores(self, classifiers: Classifiers) -> list[Array]:
        """Return the class scores of each classifier, `(k, c)`."""
        scores = [trained.classifier.scores(part) for trained, part in zip(classifiers, self.projected, strict=True)]
        if self.label_scores is None:
            return scores
        weights = [trained.classifier.label_weight for trained in classifiers]
        return [part + weight * self.label_scores for part, weight in zip(scores, weights, strict=True)]

    def scales(self, classifiers: Classifiers, target: Target) -> list[float]:
        """Return the factor of each part of `vectors`.

        A part varies between nodes as much as its class scores do; where labels are propagated, all parts together
        vary `_INPUT_SCALE` times as much as the class coordinates.
        """
        spreads = [_spread(part) for part in self.projected]
        if self.label_scores is None:
            pairs = zip(classifiers, self.projected, strict=True)
            wanted = [_spread(trained.classifier.scores(part)) for trained, part in pairs]
        else:
            coordinates = _spread(self._class_coordinates(classifiers, target))
            wanted = [_INPUT_SCALE * coordinates / np.sqrt(len(spreads))] * len(spreads)
        return [float(wish / spread) if spread > 0 else 1.0 for wish, spread in zip(wanted, spreads, strict=True)]

    def _class_coordinates(self, classifiers: Classifiers, target: Target) -> Array:
        weights = [trained.weight for trained in classifiers]
        mean = np.average(self.class_scores(classifiers), axis=0, weights=weights)
        return target.class_coordinates(mean.astype(np.float32))

    def vectors(self, scales: Sequence[float], classifiers: Classifiers, target: Target) -> Array:
        """Return the vectors, `(k, d)`: the scaled parts and, where labels are propagated, the class coordinates.

        These are all that predictions depend on. Class coordinates contain the label scores, and at training nodes,
        whose own label is left out of these, what the classifiers have learned from it. Nodes that the classifiers do
        not distinguish are told apart by what follows, a random projection of their propagated inputs, of
        `_NEIGHBORHOOD_SCALE` times the length of the rest.
        """
        parts = [scale * part for scale, part in zip(scales, self.projected, strict=True)]
        if self.label_scores is not None:
            parts.append(self._class_coordinates(classifiers, target))
        used = np.concatenate(parts, axis=1)
        lengths = np.linalg.norm(used, axis=1, keepdims=True)
        return np.concatenate([used, _NEIGHBORHOOD_SCALE * lengths * unit_rows(self.neighborhood_rows)], axis=1)


def _spread(rows: Array) -> float:
    """Return the root mean square distance of rows from their mean."""
    return float(np.sqrt(np.square(rows - rows.mean(axis=0), dtype=np.float64).sum(axis=1).mean()))


def classifier_inputs(
    data: EncoderData,
    selection: Selection,
    classifiers: Classifiers,
    labels: tuple[Array, Array] | None,
    target: Target,
    rows: Array,
) -> ClassifierInputs:
    """Return the inputs of classifiers for some nodes; `labels` are nodes whose labels are propagated, and a matrix."""
    weightings, label_scores = {each.weighting.name: each.weighting for each in classifiers}, None
    propagations = {name: weighting.propagation(data) for name, weighting in weightings.items()}
    if selection.label_propagation and labels is not None:
        label_scores = selection.weighting.propagate_labels(data, *labels, target, rows)[rows]
    projected = tuple(_projected(data, each, propagations[each.weighting.name], rows) for each in classifiers)
    reach_inputs = partial(_reach_inputs, data, [*weightings.values()], [*propagations.values()], rows)
    neighborhoods = partial(_neighborhoods, data, propagations[classifiers[0].weighting.name], rows)
    return ClassifierInputs(projected, label_scores, reach_inputs, neighborhoods)


def _neighborhoods(data: EncoderData, propagation: Callable[[Array], Array], rows: Array) -> Array:
    """Return random projections of the propagated inputs of some nodes, `(k, r)`; of few inputs, these themselves."""
    projected = input_product(data.inputs("l2"), neighborhood_matrix(data.input_dim))
    return propagate_rows(propagation, projected, rows)


def neighborhood_matrix(dim: int) -> Array:
    """Return the matrix of the random projection of inputs of `dim` columns, `(dim, r)`."""
    if dim <= NEIGHBORHOOD_DIM:
        return np.eye(dim, dtype=np.float32)
    return np.asarray(generator(0, "neighborhoods").standard_normal((dim, NEIGHBORHOOD_DIM), np.float32))


def _projected(data: EncoderData, trained: TrainedClassifier, propagation: _Propagation, rows: Array) -> Array:
    """Return the propagated inputs of some nodes after the projection of a classifier, `(k, d)`."""
    inputs = data.inputs(CLASSIFIERS[trained.name].row_norm)
    propagated = propagate_rows(propagation, trained.classifier.project(inputs), rows)
    if CLASSIFIERS[trained.name].unit_rows:
        propagated = propagated / propagated_lengths(propagation, inputs, rows)[:, None]
    return np.asarray(propagated + trained.classifier.offset)


def _reach_inputs(
    data: EncoderData, weightings: Sequence[NamedWeighting], propagations: Sequence[_Propagation], nodes: Array
) -> npt.NDArray[np.bool_]:
    """Return from which nodes a path reaches an input other than zero, `(k,)`, except their own learned input."""
    has_inputs, reached = data.has_inputs.astype(np.float32)[:, None], np.zeros(len(nodes), bool)
    for propagation in propagations:
        reached |= propagate_rows(propagation, has_inputs, nodes)[:, 0] != 0
    if data.uses_features or data.walk_vectors is not None:
        return reached
    hop_weights = [weighting.edge_weighting.used_hop_weights() for weighting in weightings]
    return reached & have_neighbors(data.graph, nodes) & any(len(each) > 1 for each in hop_weights)


def have_neighbors(graph: Graph, nodes: Array) -> npt.NDArray[np.bool_]:
    """Return which of some nodes have an edge to another node, `(k,)`."""
    entries, rows = entries_of(graph.indptr, nodes), np.repeat(np.arange(len(nodes)), graph.degrees[nodes])
    return np.bincount(rows, graph.indices[entries] != nodes[rows], minlength=len(nodes)) > 0
