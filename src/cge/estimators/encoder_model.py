"""A trained path encoder: predictions for its graph and for others, explanations, and its stored form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.cached_values import is_cached
from cge.data.graph_update import check_same_features
from cge.estimators.calibration import Calibration, ensemble_scores
from cge.estimators.classifier_inputs import ClassifierInputs, classifier_inputs
from cge.estimators.encoder_explainer import encoder_explainer
from cge.estimators.fitted_model import SELECTED, FittedModel
from cge.estimators.stored_selection import selection_arrays, selection_metadata
from cge.explain.explainer import Explainer
from cge.explain.path_sources import AllPaths
from cge.graph import Graph
from cge.models.edge_weighting import EdgeWeighting
from cge.models.updated_rows import UpdatedRows
from cge.training.encoder_data import EncoderData
from cge.training.selection import Selection, TrainedClassifier


@dataclass(eq=False, kw_only=True)
class EncoderModel(FittedModel):
    """A trained path encoder.

    `selection` holds the weighting and what else the search selected, `ensemble` the classifiers whose probabilities
    are averaged. The vector of a node is all that its prediction depends on (`ClassifierInputs.vectors`). `updated` are
    the nodes whose edges or features changed since training (`cge.estimators.model_update`).
    """

    data: EncoderData
    selection: Selection
    ensemble: tuple[TrainedClassifier, ...]
    calibration: Calibration
    weighting_selected: bool
    stored_scales: tuple[float, ...] = ()  # of vectors, where they are known; see `vector_scales`
    updated: Array = field(default_factory=lambda: np.empty(0, np.int64))
    vector_rows: UpdatedRows | Array | None = None  # the vectors after an update, until they are needed as one array

    inductive = True
    exact = True

    def __post_init__(self) -> None:
        self.graph, self.label_propagation = self.data.graph, self.selection.label_propagation
        self.weighting_name, self.gain_over_uniform = self.selection.weighting.name, self.selection.gain_over_uniform
        self._last: tuple[Graph, EncoderData] | None = None

    @property
    def temperature(self) -> float:
        """The temperature of the calibrated probabilities."""
        return self.calibration.temperature

    @property
    def weight_parameters(self) -> dict[str, Any]:
        """The parameters of an edge weighting; empty for networks and weights of metapaths."""
        module = self.selection.weighting.module
        if not isinstance(module, EdgeWeighting):
            return {}
        return {
            "coefficients": dict(zip(self.data.edge_scale.names, module.coefficients.tolist(), strict=True)),
            "self_loop": module.self_loop.item(),
            "normalization": module.normalization.item(),
            "hop_weights": module.normalized_hop_weights().tolist(),
        }

    @property
    def selected(self) -> dict[str, Any]:
        """What the model search selected, and its results."""
        results = [asdict(result) for result in self.selection.results]
        settings = self.label_propagation, self.calibration.prior_corrected
        return dict(
            zip(SELECTED, (self.weight_parameters, self.registered_classifiers, *settings, results), strict=True)
        )

    def warm_up(self) -> None:
        """Compute the inputs of the classifiers for all nodes."""
        _ = self.own_inputs.has_information

    def data_of(self, graph: Graph | None) -> EncoderData:
        """Return a graph, by default that of training, with inputs scaled as in training; the last one is kept."""
        if graph is None:
            return self.data
        if self._last is None or self._last[0] is not graph:
            if self.data.uses_features:
                check_same_features(self.graph, graph)
            self._last = (
                graph,
                EncoderData(graph, n_jobs=self.data.n_jobs, training_data=self.data.training_data_or_self),
            )
        return self._last[1]

    def inputs(self, graph: Graph | None, rows: Array, labels: tuple[Array, Array] | None = None) -> ClassifierInputs:
        """Return the inputs of the classifiers for some nodes of a graph: projected propagated inputs and label scores.

        `labels` are the training labels in it, where they are known.
        """
        if graph is None and is_cached(self, "own_inputs"):
            return self.own_inputs.take(rows)
        return self.computed_inputs(graph, rows, labels)

    def computed_inputs(
        self, graph: Graph | None, rows: Array, labels: tuple[Array, Array] | None = None
    ) -> ClassifierInputs:
        """Return the same, computed even if `own_inputs` has them."""
        labels = self._labels_in(graph) if labels is None else labels
        return classifier_inputs(self.data_of(graph), self.selection, self.ensemble, labels, self.target, rows)

    @cached_property
    def own_inputs(self) -> ClassifierInputs:
        """The inputs of the classifiers for all nodes of the model's graph; then predictions are computed from them."""
        return self.computed_inputs(None, np.arange(len(self.graph)))

    @cached_property
    def own_vectors(self) -> Array:
        """The vectors of all nodes of the model's graph."""
        if self.vector_rows is not None:
            return self.vector_rows.array() if isinstance(self.vector_rows, UpdatedRows) else self.vector_rows
        return self.own_inputs.vectors(self.vector_scales, self.ensemble, self.target)

    @cached_property
    def vector_scales(self) -> list[float]:
        """The factor of each classifier's part of the vectors."""
        return list(self.stored_scales) or self.own_inputs.scales(self.ensemble, self.target)

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, d)`."""
        if graph is None:
            return self.own_vectors
        return self.inputs(graph, np.arange(len(graph))).vectors(self.vector_scales, self.ensemble, self.target)

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""
        return self.probabilities_from(self.inputs(graph, rows), self.temperature)

    def probabilities_from(self, inputs: ClassifierInputs, temperature: float | Array) -> Array:
        """Return them from the inputs of the classifiers, and a temperature or one for each node."""
        outputs = self.target.scale(ensemble_scores(inputs, self.ensemble).mean_outputs(self.target), temperature)
        outputs[~inputs.has_information] = self.class_prior
        return outputs.astype(np.float32)

    @property
    def class_prior(self) -> Array:
        """The class frequencies that predictions assume, `(c,)`; a node of which nothing is known has them.

        Those of the training labels, or of the validation labels after a prior correction; in regression the mean.
        """
        prior: Array = (self.validation if self.calibration.prior_corrected else self.train).matrix.mean(axis=0)
        return prior

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return the weights of paths of node indices, `(k,)`; 0 for a sequence that is not a path of the graph."""
        return self.selection.weighting.path_weights(self.data, paths)

    def classifier_names(self) -> list[str]:
        """Return the names of the classifiers of the ensemble."""
        return [each.name for each in self.ensemble]

    @property
    def registered_classifiers(self) -> list[str]:
        """Their names, each once."""
        return list(dict.fromkeys(self.classifier_names()))

    def weighting_names(self) -> list[str]:
        """Return the names of the weightings of the ensemble, each once."""
        return list(dict.fromkeys(each.weighting.name for each in self.ensemble))

    def explainer(
        self,
        classifier: int,
        seed: int,  # noqa: ARG002 - all paths
        graph: Graph | None = None,
        rows: Array | None = None,
    ) -> Explainer:
        """Return what explains the predictions of one classifier of the ensemble, for some nodes of a graph, or all."""
        return encoder_explainer(self, classifier, graph, rows)

    def uniform_paths(self) -> AllPaths:
        """Return all paths of the training graph with uniform weights."""
        weights, count = self.data.uniform_weights(), len(self.selection.weighting.edge_weighting.hop_weights)
        return AllPaths(self.data.transitions, weights, [1 / count] * count, weights)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a model folder."""
        return self.log.metadata() | {
            "by_features": self.data.uses_features,
            "trained_nodes": len(self.data.training_data_or_self.graph),
            "self_loop_weight": self.data.self_loop_weight,
            "calibration": asdict(self.calibration),
            "edge_inputs": list(self.data.edge_scale.names),
            "ensemble": [[each.name, each.weighting.name, each.weight] for each in self.ensemble],
            "selection": selection_metadata(self.selection),
            "target": self.target.metadata(),
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a model folder, by name."""
        scale, dense, table = self.data.edge_scale, self.data.dense_scale, self.data.walk_vectors
        arrays: dict[str, Array] = {} if table is None else {"walks.vectors": table}
        arrays |= {"scale.mean": scale.mean, "scale.spread": scale.spread, "scale.idf": scale.idf}
        arrays |= {"dense.center": dense[0], "dense.spread": dense[1]}
        arrays |= {} if self.data.components is None else {"dense.components": self.data.components}
        arrays |= {"vectors.scales": np.array(self.vector_scales), "updated.nodes": self.updated}
        arrays |= {"trained.learned_nodes": self.data.learned_nodes}
        arrays |= self.train.arrays("train") | self.validation.arrays("validation")
        closed_walks = self.data.closed_walks.get(self.weighting_name)
        if self.label_propagation and closed_walks is not None and np.array_equal(closed_walks[0], self.train.nodes):
            arrays["train.closed_walks"] = closed_walks[1]
        for index, each in enumerate(self.ensemble):
            arrays |= {f"ensemble.{index}.{part}": array for part, array in each.classifier.arrays().items()}
        return arrays | selection_arrays(self.selection)
