"""How sure to be of new nodes that lack features, or edges: selection labels are asked, robbed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.estimators.encoder_model import uncalibrated_probabilities
from cge.estimators.label_roles import ValidationLabels
from cge.graph import Graph
from cge.metrics import fit_temperature
from cge.models.classifiers import PathClassifier
from cge.training.encoder_data import EncoderData
from cge.training.model_search import Selection

__all__ = ["missing_input_temperatures"]

Array = npt.NDArray[Any]


def missing_input_temperatures(
    data: EncoderData,
    plan: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    known: tuple[Array, Array],
    chosen: ValidationLabels,
    several: bool,
) -> dict[str, float]:
    """Return the heats at which labels that chose surprise least, of nodes with "edges only" and "features only".

    `known` are the nodes whose labels vote and their classes. Nodes that carry themselves and no features are nothing
    without edges.
    """
    labels = chosen.matrix if several else chosen.matrix.argmax(axis=1)

    def temperature(there: EncoderData, known: tuple[Array, Array] | None, rows: Array) -> float:
        return fit_temperature(uncalibrated_probabilities(there, plan, classifiers, known, several, rows), labels)

    bare = EncoderData(_bare(data, chosen.nodes), n_jobs=data.n_jobs, training_data=data, transitions=data.transitions)
    found = {"edges only": temperature(bare, known, chosen.nodes)}
    if data.uses_features:
        alone = EncoderData(_alone(data.graph, chosen.nodes), n_jobs=data.n_jobs, training_data=data)
        found["features only"] = temperature(alone, None, np.arange(len(chosen.nodes)))
    return found


def _bare(data: EncoderData, nodes: Array) -> Graph:
    """Return the graph in which some nodes carry nothing of their own."""
    graph, features = data.graph, cast(Any, data.graph.features)
    if not data.uses_features:  # they are known by their ids
        ids = graph.node_ids.astype(object)
        ids[nodes] = [object() for _ in nodes]
        return replace(graph, node_ids=ids)
    if sp.issparse(features):
        kept = np.ones((len(graph), 1), np.float32)
        kept[nodes] = 0
        return replace(graph, features=sp.csr_array(features.multiply(kept)))
    dense = np.array(features)
    dense[nodes] = data.dense_scale[0]
    return replace(graph, features=dense)


def _alone(graph: Graph, nodes: Array) -> Graph:
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
