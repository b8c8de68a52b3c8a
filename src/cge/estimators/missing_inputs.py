"""Temperatures for new nodes without features, or without edges.

They are fitted on the validation nodes with their features (or edges) hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.estimators.encoder_model import uncalibrated_probabilities
from cge.estimators.fitted_model import ValidationNodes
from cge.graph import Graph
from cge.models.classifiers import PathClassifier
from cge.targets import Target
from cge.training.encoder_data import EncoderData
from cge.training.model_search import Selection


def missing_input_temperatures(
    data: EncoderData,
    selection: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    labels: tuple[Array, Array],
    validation: ValidationNodes,
    target: Target,
) -> dict[str, float]:
    """Return the temperatures with the lowest log loss for nodes with "edges" only and with "features" only.

    `labels` are the nodes whose labels are propagated, and their classes. Nodes without features have no inputs when
    they have no edges.
    """
    true = target.from_matrix(validation.matrix)

    def temperature(hidden: EncoderData, labels: tuple[Array, Array] | None, rows: Array) -> float:
        outputs = uncalibrated_probabilities(hidden, selection, classifiers, labels, target, rows)
        return target.fit_temperature(outputs, true)

    options: Any = {"n_jobs": data.n_jobs, "training_data": data}
    edges = EncoderData(_without_inputs(data, validation.nodes), transitions=data.transitions, **options)
    temperatures = {"edges": temperature(edges, labels, validation.nodes)}
    if data.uses_features:
        features = EncoderData(_without_edges(data.graph, validation.nodes), **options)
        temperatures["features"] = temperature(features, None, np.arange(len(validation)))
    return temperatures


def _without_inputs(data: EncoderData, nodes: Array) -> Graph:
    """Return the graph in which some nodes have no inputs of their own."""
    graph, features = data.graph, cast(Any, data.graph.features)
    if not data.uses_features:  # nodes are matched by their ids
        ids = graph.node_ids.astype(object)
        ids[nodes] = [object() for _ in nodes]
        return replace(graph, node_ids=ids)
    if sp.issparse(features):
        visible = np.ones((len(graph), 1), np.float32)
        visible[nodes] = 0
        return replace(graph, features=sp.csr_array(features.multiply(visible)))
    dense = np.array(features)
    dense[nodes] = data.dense_scale[0]
    return replace(graph, features=dense)


def _without_edges(graph: Graph, nodes: Array) -> Graph:
    """Return some nodes of a graph without any edge."""
    edges = {name: getattr(graph, name) for name in ("indices", "weights", "edge_types")}
    none = {name: value[:0] for name, value in edges.items() if value is not None}
    features: Any = graph.features
    return replace(
        graph,
        indptr=np.zeros(len(nodes) + 1, graph.indptr.dtype),
        node_ids=graph.node_ids[nodes],
        features=features[nodes],
        **none,
    )
