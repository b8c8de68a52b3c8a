"""A fit of `CGE` on labeled rows: how large graphs are fitted, in memory or out of core, with the same result.

Which graphs are large depends on their size alone, so that a model does not depend on the memory of a machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from cge.arrays import Array
from cge.errors import Message
from cge.estimators.classifier import TaskLabels
from cge.estimators.encoder_fit import EncoderFit
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.fitted_model import LabeledNodes, ValidationNodes
from cge.estimators.path_estimator import Callback
from cge.estimators.persistence import Checkpoints
from cge.graph import Graph
from cge.targets import Task
from cge.training.candidate_evaluation import CandidateEvaluator
from cge.training.encoder_data import EncoderData
from cge.training.labeled_rows import (
    NO_EDGE_INPUTS,
    LabeledCrossFitEvaluator,
    LabeledData,
    LabeledEvaluator,
    LabeledSearch,
    hop_rows,
    is_walk_weighting,
    reads_labeled_rows,
)
from cge.training.model_search import ModelSearch
from cge.training.slab_columns import GraphSlabs

if TYPE_CHECKING:
    from cge.estimators.cge import CGE

_CELLS, _BYTES = 50_000_000, 8e9  # feature values, and bytes of a fit on all nodes, above which a graph is large
_BASE_MEMORY, _ENTRY_BYTES, _CELL_BYTES = 560e6, 260, 78  # of a fit on all nodes, in memory


def in_memory_bytes(nodes: int, entries: int, features: int) -> float:
    """Return about how many bytes a fit on all nodes needs."""
    return _BASE_MEMORY + _ENTRY_BYTES * (entries + nodes) + _CELL_BYTES * nodes * max(features, 1)


def is_large_size(nodes: int, entries: int, features: int) -> bool:
    """Return whether a graph with dense features is fitted on labeled rows."""
    return nodes * features > _CELLS or in_memory_bytes(nodes, entries, features) > _BYTES


def needs_all_nodes(model: CGE) -> Message | None:
    """Return the setting that a fit on labeled rows does not have, in words; None where there is none."""
    if model.weighting != "auto" and not (isinstance(model.weighting, str) and is_walk_weighting(model.weighting)):
        return Message.of("{weighting}", weighting=model.weighting if isinstance(model.weighting, str) else "custom")
    if model.classifier != "auto" and not reads_labeled_rows(model.classifier):
        return Message.of("{classifier}", classifier=model.classifier)
    if model.label_propagation is True:
        return Message.of("{label_propagation}", label_propagation=True)
    if model.inputs not in ("auto", "features"):
        return Message.of("{inputs}", inputs=model.inputs)
    return None


def fits_labeled_rows(model: CGE, graph: Graph) -> bool:
    """Return whether a fit in memory is one on labeled rows: the graph is large, and no setting needs all nodes."""
    if graph.features is None or sp.issparse(graph.features) or needs_all_nodes(model) is not None:
        return False
    return is_large_size(graph.num_nodes, len(graph.indices), int(graph.features.shape[1]))


def fit_large(
    model: CGE, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback
) -> EncoderModel:
    """Fit on the labeled rows of a graph in memory."""
    nodes, kept = np.union1d(labels.train, labels.validation), hop_rows(str(model.weighting), model.hops)
    slabs = GraphSlabs(graph, model.n_jobs)
    rows = slabs.labeled_rows(kept, nodes)
    part = labels.part(nodes)

    def rows_of_hop(b: float, hop: int) -> Array:
        return np.asarray(rows[kept.places[b, hop]])

    scale, loop_weight = slabs.dense_scale, slabs.matrix.loop_weight
    labeled = labeled_graph(graph.node_ids[nodes], graph.directed, rows_of_hop(kept.hops[0][0], 0))
    data = LabeledData(labeled, rows_of_hop, scale, loop_weight, model.n_jobs)
    fitted = with_nodes(LabeledFit(model, data, part, checkpoints, callback).run(), nodes)
    whole = EncoderData(graph, "features", model.n_jobs, edge_scale=NO_EDGE_INPUTS, dense_scale=scale)
    whole.self_loop_weight = loop_weight
    return replace(fitted, data=whole)


def labeled_graph(ids: Array, directed: bool, inputs: Array, names: tuple[str, ...] = ()) -> Graph:
    """Return a graph of labeled nodes without edges, with their inputs as features."""
    graph = Graph(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.int64), ids, directed)
    return replace(graph, features=inputs, feature_names=names)


def with_nodes(model: EncoderModel, nodes: Array) -> EncoderModel:
    """Return a model whose labeled nodes are those of the whole graph."""
    train, validation = model.train, model.validation
    model.train = LabeledNodes(nodes[train.nodes], train.matrix)
    model.validation = ValidationNodes(nodes[validation.nodes], validation.matrix, validation.probabilities)
    return model


class LabeledFit(EncoderFit):
    """The steps of a fit, on rows of labeled nodes."""

    data: LabeledData

    def __init__(
        self, model: CGE, data: LabeledData, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback
    ) -> None:
        super().__init__(model, data, labels, checkpoints, callback)
        self.settings = replace(self.settings, label_propagation=False)

    def _evaluator(self, train_idx: Array, validation_idx: Array, cv_folds: Any = ()) -> CandidateEvaluator:
        train, validation = (torch.from_numpy(np.ascontiguousarray(part)) for part in (train_idx, validation_idx))
        labels = torch.from_numpy(self.labels.codes)
        task = Task(self.graph, None, labels, self.labels.target, train, validation, [])
        arguments = task, self.data, self.settings, self._class_weights(train_idx), self._train
        if cv_folds:
            return LabeledCrossFitEvaluator(*arguments, folds=cv_folds)
        return LabeledEvaluator(*arguments, class_scores=self._class_scores())

    def _search(self, evaluator: CandidateEvaluator) -> ModelSearch:
        return LabeledSearch(evaluator)

    def _temperatures(self, *_: Any) -> dict[str, float]:
        """Return none: those of nodes without features or edges would need all nodes."""
        return {}
