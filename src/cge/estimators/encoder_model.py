"""A trained path encoder: vectors, probabilities and path weights, for its own graph and for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from cge.arrays import Array
from cge.data.graph_update import check_same_features
from cge.estimators.calibration import Calibration, mean_outputs
from cge.estimators.encoder_explainer import encoder_explainer
from cge.estimators.fitted_model import FitLog, LabeledNodes, ValidationNodes
from cge.explain.explainer import Explainer
from cge.graph import Graph
from cge.models.classifiers import PathClassifier
from cge.models.edge_weighting import EdgeWeighting
from cge.models.propagation import propagate_to
from cge.targets import Target
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_data import EncoderData
from cge.training.model_search import Selection


def uncalibrated_probabilities(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    labels: tuple[Array, Array] | None,
    target: Target,
    rows: Array,
) -> Array:
    """Return the probability of each class for some nodes, `(k, c)`, before calibration.

    `labels` are the nodes whose labels are propagated, and the labels as a matrix.
    """
    nodes, propagation, label_scores = torch.from_numpy(rows), selection.weighting.propagation(data), None
    if selection.label_propagation and labels is not None:
        label_scores = torch.from_numpy(selection.weighting.propagate_labels(data, *labels, target, rows))[nodes]
    scores = []
    with torch.no_grad():
        for name, classifier in classifiers:
            inputs = classifier.project(data.inputs(CLASSIFIERS[name].row_norm))
            class_scores = classifier.scores(propagate_to(propagation, inputs, nodes) + classifier.offset())
            scores.append(
                class_scores if label_scores is None else class_scores + classifier.label_weight * label_scores
            )
    return mean_outputs(scores, target)


@dataclass(eq=False, kw_only=True)
class EncoderModel:
    """A trained path encoder; implements `FittedModel`.

    `selection` holds the weighting and what else the search selected, `ensemble` the classifiers whose probabilities
    are averaged, and `embedder` the one that gives the vectors.
    """

    data: EncoderData
    selection: Selection
    ensemble: tuple[tuple[str, PathClassifier], ...]
    embedder: tuple[str, PathClassifier]
    train: LabeledNodes
    validation: ValidationNodes
    target: Target
    calibration: Calibration
    weighting_selected: bool
    log: FitLog

    inductive: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._own_vectors = self._vectors(self.data)
        self._last: tuple[Graph, EncoderData] | None = None

    @property
    def graph(self) -> Graph:
        """The training graph."""
        return self.data.graph

    @property
    def temperature(self) -> float:
        """The temperature of the calibrated probabilities."""
        return self.calibration.temperature

    @property
    def weighting_name(self) -> str:
        """The path weighting in use."""
        return self.selection.weighting.name

    @property
    def classifier_names(self) -> list[str]:
        """The classifiers of the ensemble."""
        return list(dict.fromkeys(name for name, _ in self.ensemble))

    @property
    def label_propagation(self) -> bool:
        """Whether propagated training labels are added to the class scores."""
        return self.selection.label_propagation

    @property
    def search_results(self) -> list[dict[str, Any]]:
        """What the model search compared, as rows."""
        return [asdict(result) for result in self.selection.results]

    @property
    def gain_over_uniform(self) -> tuple[float, float] | None:
        """Validation accuracy of the weighting above that of uniform weights, with its standard error."""
        return self.selection.gain_over_uniform

    @property
    def weight_parameters(self) -> dict[str, Any]:
        """The parameters of an edge weighting; empty for networks."""
        module = self.selection.weighting.module
        if not isinstance(module, EdgeWeighting):
            return {}
        return {
            "coefficients": dict(zip(self.data.edge_scale.names, module.coefficients.tolist(), strict=True)),
            "self_loop": module.self_loop.item(),
            "normalization": module.normalization.item(),
            "hops": module.hop_weights().tolist(),
        }

    def data_of(self, graph: Graph) -> EncoderData:
        """Return another graph with inputs that are scaled as those of training."""
        if self.data.uses_features:
            check_same_features(self.data.graph, graph)
        return EncoderData(graph, n_jobs=self.data.n_jobs, training_data=self.data)

    def _data_of(self, graph: Graph | None) -> EncoderData:
        """Return the data of a graph, by default that of training; the last other one is kept."""
        if graph is None:
            return self.data
        if self._last is None or self._last[0] is not graph:
            self._last = graph, self.data_of(graph)
        return self._last[1]

    def _vectors(self, data: EncoderData) -> Array:
        name, classifier = self.embedder
        with torch.no_grad():
            inputs = classifier.project(data.inputs(CLASSIFIERS[name].row_norm))
            vectors: Array = (self.selection.weighting.propagation(data)(inputs) + classifier.offset()).numpy()
        return vectors

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, dim)`."""
        return self._own_vectors if graph is None else self._vectors(self._data_of(graph))

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""
        labels = self._labels_in(graph) if self.label_propagation else None
        return self.probabilities_in(self._data_of(graph), labels, rows, self.temperature)

    def probabilities_in(
        self, data: EncoderData, labels: tuple[Array, Array] | None, rows: Array, temperature: float | Array
    ) -> Array:
        """Return them from the data of a graph, the labels in it, and a temperature or one for each row."""
        plain = uncalibrated_probabilities(data, self.selection, self.ensemble, labels, self.target, rows)
        return self.target.scale(plain, temperature).astype(np.float32)

    def _labels_in(self, graph: Graph | None) -> tuple[Array, Array]:
        """Return the nodes of a graph that have a training label, and their classes as zeros and ones."""
        if graph is None:
            return self.train.nodes, self.train.matrix
        ids = self.graph.node_ids[self.train.nodes]
        present = graph.contains(ids)
        return graph.indices_of(ids[present]), self.train.matrix[present]

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return the weights of paths of node indices, `(k,)`; 0 for a sequence that is not a path of the graph."""
        return self.selection.weighting.path_weights(self.data, paths)

    def explainer(self, classifier: int, seed: int) -> Explainer:  # noqa: ARG002 - all paths
        """Return what explains the predictions of one classifier of the ensemble."""
        return encoder_explainer(self, classifier)
