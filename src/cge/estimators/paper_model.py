"""A trained model of the paper's algorithm: vectors, probabilities and path weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from cge.arrays import Array
from cge.data.graph_update import check_same_features
from cge.errors import InputError
from cge.estimators.fitted_model import FitLog, LabeledNodes, ValidationNodes
from cge.estimators.paper_explainer import paper_explainer
from cge.explain.explainer import Explainer
from cge.graph import Graph
from cge.models.sparse_products import NodeFeatures, SparseFeatures, unit_rows
from cge.targets import Target
from cge.training.paper_parameters import Parameters

_BATCH = 65_536  # nodes predicted at once


@dataclass(eq=False, kw_only=True)
class PaperModel:
    """A trained model of the paper's algorithm; implements `FittedModel`."""

    graph: Graph
    features: NodeFeatures | None
    parameters: Parameters
    train: LabeledNodes
    validation: ValidationNodes
    target: Target
    log: FitLog
    window: int
    n_jobs: int | None
    temperature: float = 1.0

    exact: ClassVar[bool] = False
    weighting_selected: ClassVar[bool] = False
    gain_over_uniform: ClassVar[None] = None

    def __post_init__(self) -> None:
        self._own_vectors: Array = self.parameters.vectors(self.features).numpy().copy()

    @property
    def inductive(self) -> bool:
        """Whether nodes of other graphs can be predicted."""
        return self.parameters.shape.setting == "inductive"

    @property
    def weighting_name(self) -> str:
        """The path weighting in use."""
        kind = self.parameters.shape.weighting
        return kind if isinstance(kind, str) else "custom"

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, dim)`."""
        if graph is None:
            return self._own_vectors
        vectors: Array = self.parameters.vectors(self._features_of(graph)).numpy()
        return vectors

    def _features_of(self, graph: Graph) -> NodeFeatures | None:
        if not self.inductive:
            raise InputError(
                "setting='transductive' has vectors only for the nodes of the training graph; use CGE or "
                "setting='inductive' for new ones"
            )
        check_same_features(self.graph, graph)
        return normalized_features(graph.features)

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""
        features = self.features if graph is None else self._features_of(graph)
        result = np.empty((len(rows), self.parameters.shape.classes), np.float32)
        for start in range(0, len(rows), _BATCH):
            batch = torch.from_numpy(rows[start : start + _BATCH])
            scores = self.parameters.scores(features, batch)
            outputs = self.target.outputs(scores).numpy()
            result[start : start + _BATCH] = self.target.scale(outputs, self.temperature)
        return result

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return the weights of paths of node indices, `(k,)`."""
        network = self.parameters.network
        if network is None or not paths:
            return np.ones(len(paths), np.float32)
        length = np.array([len(path) for path in paths])
        nodes = np.full((len(paths), length.max()), -1, np.int64)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate(paths)
        with torch.no_grad():
            weights = network(torch.from_numpy(self._own_vectors), torch.from_numpy(nodes), torch.from_numpy(length))
        result: Array = weights.numpy()
        return result

    def explainer(self, classifier: int, seed: int) -> Explainer:
        """Return what attributes predictions to paths."""
        return paper_explainer(self, classifier, seed)


def normalized_features(features: Any, n_jobs: int | None = None) -> NodeFeatures | None:
    """Return features with rows of unit length (rows of zeros stay)."""
    if features is None:
        return None
    if sp.issparse(features):
        norms = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
        scaled = sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ features).astype(np.float32)
        return SparseFeatures(scaled, n_jobs)
    return torch.from_numpy(unit_rows(features))
