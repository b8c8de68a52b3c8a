"""Updates of a trained path encoder: its graph changes, its parameters stay, and only what they reach is recomputed.

A changed node changes the propagated inputs of nodes within K hops, and of two hops more where edge weights depend on
the neighbors of both ends (edge inputs). These *affected* nodes are recomputed in the part of the graph around them;
every row is the same to the last bit as if all nodes were recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.cached_values import is_cached, set_cached
from cge.csr import nodes_within
from cge.data.graph_update import ExtendedGraph, GraphUpdate
from cge.errors import InputError
from cge.estimators.classifier_inputs import NEIGHBORHOOD_DIM, ClassifierInputs, classifier_inputs
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.fitted_model import LabeledNodes
from cge.graph import Graph
from cge.models.edge_features import num_column_blocks
from cge.models.edge_weighting import EdgeWeighting
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.propagation import COLUMNS, closed_walk_weights
from cge.models.sparse_products import is_small
from cge.models.updated_rows import with_rows
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import LABEL_HOP_WEIGHTS, LABEL_PROPAGATION_HOPS, NamedWeighting

if TYPE_CHECKING:
    from cge.estimators.cge import CGE

_MAX_PART = 0.5  # share of the nodes above which the whole graph is used instead of a part
_EDGE_INPUT_HOPS = 2  # an edge input depends on the neighbors of both ends, a degree on all edges of a node
_MAX_CHANGED = 0.2  # share of nodes changed since training above which a new fit is suggested
_MAX_FALL = 0.05  # of the mean confidence of affected nodes
_MIN_NODES = 20  # changed or affected nodes, below which shares and means say little


@dataclass(frozen=True)
class UpdateSummary:
    """What an update changed.

    `changed_nodes` have other edges or features, or are new (`new_nodes`); `affected_nodes` were recomputed, of which
    `changed_predictions` existed before and have another prediction. `confidence` is their mean confidence before and
    after. `changed_since_fit` is the share of nodes changed by this and earlier updates. `label_score` is the score of
    the predictions before the update for the new labels, `validation_score` that of the validation labels; None where
    there are none. `advice` says why a new fit is suggested, and is empty otherwise.
    """

    nodes: int
    new_nodes: int
    changed_nodes: int
    affected_nodes: int
    changed_predictions: int
    confidence: tuple[float, float] | None
    changed_since_fit: float
    label_score: float | None
    validation_score: float | None
    advice: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, as values of JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def update_estimator(estimator: CGE, update: GraphUpdate, y: Any = None) -> UpdateSummary:
    """Change the graph of a trained estimator, and its training labels; see `CGE.update`."""
    from cge.estimators.predictions import extended_graph

    model: EncoderModel = estimator.fitted_  # type: ignore[assignment]
    for weighting in _weightings(model):
        if not isinstance(weighting.module, EdgeWeighting | MetapathWeighting):
            problem = f"the paths of the weighting '{weighting.name}' are sampled from the graph of training"
            raise InputError(f"{problem}, so the model cannot be updated", hint="fit again on the new graph")
    grown = extended_graph(estimator, update, replace_features=True)
    train, labeled, label_score = model.train, np.empty(0, np.int64), None
    if y is not None:
        codes = model.target.encode(grown.graph, y, "y")
        labeled = np.flatnonzero(model.target.labeled(codes))
        matrix = model.target.matrix(codes[labeled])
        train, label_score = _with_labels(train, labeled, matrix), _label_score(model, labeled, matrix)
        if not model.label_propagation and len(labeled):
            grown.notes.append("the model does not propagate labels, so new labels do not change its predictions")
    updated, affected = updated_model(model, grown, train, labeled)
    summary = _summary(model, updated, grown, affected, label_score)
    estimator._set_model(updated)
    return summary


def updated_model(
    model: EncoderModel, grown: ExtendedGraph, train: LabeledNodes, labeled: Array
) -> tuple[EncoderModel, Array]:
    """Return the model of a changed graph, with the same parameters, and the nodes that are affected, ascending.

    `labeled` are the nodes whose labels changed. What was computed for all nodes before is kept for the others.
    """
    scales, trained = tuple(model.vector_scales), model.data.training_data_or_self
    if trained is model.data:
        trained = trained.without_edges()
    data = EncoderData(grown.graph, n_jobs=trained.n_jobs, training_data=trained)
    nodes = np.union1d(model.updated, grown.changed)
    updated = replace(model, data=data, train=train, stored_scales=scales, updated=nodes, vector_rows=None)
    affected = np.arange(len(grown.graph))
    if _same_arithmetic(model, model.graph, grown.graph):
        seeds = np.union1d(grown.changed, labeled) if model.label_propagation else grown.changed
        affected = nodes_within(*_adjacency(grown.graph), seeds, _hops(model) + _edge_hops(model))
    _update_closed_walks(model, updated, affected)
    if is_cached(model, "own_inputs"):
        inputs = inputs_of(updated, affected)
        set_cached(updated, "own_inputs", _merged(model.own_inputs, updated, affected, inputs))
        vectors = model.own_vectors if is_cached(model, "own_vectors") else model.vector_rows
        if vectors is not None:
            rows = inputs.vectors(updated.vector_scales, updated.ensemble, updated.target)
            updated.vector_rows = with_rows(vectors, len(grown.graph), affected, rows)
    return updated, affected


def inputs_of(model: EncoderModel, rows: Array) -> ClassifierInputs:
    """Return the inputs of the classifiers for some nodes of the model's graph, computed in the part around them."""
    data, nodes = _part_around(model, rows)
    if nodes is None:
        return model.computed_inputs(None, rows)
    place, labeled = _positions(nodes, model.train.nodes)
    cached = model.data.closed_walks.get(model.weighting_name)
    if cached is not None and np.array_equal(cached[0], model.train.nodes):
        data.closed_walks[model.weighting_name] = place, cached[1][labeled]
    labels, local_rows = (place, model.train.matrix[labeled]), np.searchsorted(nodes, rows)
    return classifier_inputs(data, model.selection, model.ensemble, labels, model.target, local_rows)


def _part_around(model: EncoderModel, rows: Array) -> tuple[EncoderData, Array | None]:
    """Return the part of the graph on which sums at some nodes depend, and its nodes; all data and None if it is large.

    The outermost nodes complete the rows of those inside: of edges at the ends of paths, and for edge inputs.
    """
    hops = _hops(model) + (2 if _edge_hops(model) else 1)
    if not _same_arithmetic(model, model.graph, model.graph):
        return model.data, None
    nodes = nodes_within(*_adjacency(model.graph), rows, hops)
    if len(nodes) > _MAX_PART * len(model.graph):
        return model.data, None
    part, trained = model.graph.subgraph(nodes), model.data.training_data_or_self
    return EncoderData(part, n_jobs=trained.n_jobs, training_data=trained, part_of=model.graph), nodes


def _positions(nodes: Array, wanted: Array) -> tuple[Array, Array]:
    """Return the positions in ascending `nodes` of those of `wanted` that are there, and which these are."""
    place = np.minimum(np.searchsorted(nodes, wanted), len(nodes) - 1)
    present = np.flatnonzero(nodes[place] == wanted) if len(nodes) else np.empty(0, np.int64)
    return place[present], present


def _weightings(model: EncoderModel) -> list[NamedWeighting]:
    return [model.selection.weighting, *(each.weighting for each in model.ensemble)]


def _hops(model: EncoderModel) -> int:
    """Return the most hops of a path that contributes to a prediction."""
    hops = [len(each.edge_weighting.hop_weights) - 1 for each in _weightings(model)]
    return max([*hops, *([LABEL_PROPAGATION_HOPS] if model.label_propagation else [])])


def _edge_hops(model: EncoderModel) -> int:
    """Return by how many hops more an edge weight depends on other edges than through degrees."""
    return _EDGE_INPUT_HOPS if any(each.edge_weighting.coefficients.any() for each in _weightings(model)) else 0


def _same_arithmetic(model: EncoderModel, before: Graph, after: Graph) -> bool:
    """Return whether each row is computed in the same way in two graphs, and in parts of them.

    Not with weights of metapaths, and where the size of the graph decides otherwise how sums are computed.
    """
    if not all(isinstance(each.module, EdgeWeighting) for each in _weightings(model)):
        return False
    widths = {len(each.classifier.offset) for each in model.ensemble} | {min(NEIGHBORHOOD_DIM, model.data.input_dim)}
    entries = [(len(graph.indices) + len(graph), _num_inputs(graph)) for graph in (before, after)]
    widths |= {len(model.target.classes) + 1, COLUMNS, model.data.input_dim % COLUMNS}
    if any(
        is_small(first, width) != is_small(second, width)
        for first, second in zip(*entries, strict=True)
        for width in widths
    ):
        return False
    sparse = _edge_hops(model) > 0 and sp.issparse(before.features)
    return not sparse or all(num_column_blocks(graph.features, graph.indices) == 1 for graph in (before, after))


def _num_inputs(graph: Graph) -> int:
    return len(graph) + (graph.features.nnz if sp.issparse(graph.features) else 0)  # type: ignore[union-attr]


def _adjacency(graph: Graph) -> tuple[Array, Array]:
    """Return the rows of neighbors in either direction."""
    if not graph.directed:
        return graph.indptr, graph.indices
    ones = sp.csr_array((np.ones(len(graph.indices), np.int8), graph.indices, graph.indptr), shape=(len(graph),) * 2)
    both = sp.csr_array(ones + ones.T)
    return both.indptr, both.indices


def _update_closed_walks(model: EncoderModel, updated: EncoderModel, affected: Array) -> None:
    """Keep the weights of closed walks, where they are known, and compute those of affected nodes with a label."""
    cached = model.data.closed_walks.get(model.weighting_name)
    if not model.label_propagation or cached is None or not np.array_equal(cached[0], model.train.nodes):
        return
    nodes, size = updated.train.nodes, len(updated.graph)
    values = np.zeros(size)
    values[cached[0]] = cached[1]
    wanted = np.union1d(np.intersect1d(nodes, affected), np.setdiff1d(nodes, cached[0]))
    if len(wanted):
        data, part = _part_around(updated, wanted)
        weights, symmetric = updated.selection.weighting.label_weights(data)
        local = wanted if part is None else np.searchsorted(part, wanted)
        values[wanted] = closed_walk_weights(data.transitions, weights, LABEL_HOP_WEIGHTS, local, symmetric)
    updated.data.closed_walks[model.weighting_name] = nodes, values[nodes]


def _merged(before: ClassifierInputs, model: EncoderModel, rows: Array, new: ClassifierInputs) -> ClassifierInputs:
    """Return the inputs of the classifiers for all nodes, with some rows replaced; the others are not copied."""
    size = len(model.graph)

    def merged(values: Any, new_values: Array) -> Any:
        return with_rows(values, size, rows, new_values)

    projected = tuple(merged(*pair) for pair in zip(before.projected, new.projected, strict=True))
    scores = None
    if before.label_scores is not None and new.label_scores is not None:
        scores = merged(before.label_scores, new.label_scores)

    def neighborhoods() -> Array:
        return model.computed_inputs(None, np.arange(size)).neighborhood_rows

    inputs = ClassifierInputs(projected, scores, partial(merged, before.reached, new.reached), neighborhoods)
    if is_cached(before, "neighborhood_rows"):
        set_cached(inputs, "neighborhood_rows", merged(before.neighborhood_rows, new.neighborhood_rows))
    return inputs


def _with_labels(train: LabeledNodes, nodes: Array, matrix: Array) -> LabeledNodes:
    """Return training labels, with some added or replaced."""
    kept = ~np.isin(train.nodes, nodes)
    joined = np.concatenate([train.matrix[kept], matrix.astype(train.matrix.dtype)])
    return LabeledNodes(np.concatenate([train.nodes[kept], nodes]), joined)


def _label_score(model: EncoderModel, nodes: Array, matrix: Array) -> float | None:
    """Return the score of the predictions for new labels, before the model has them."""
    unseen = (nodes < len(model.graph)) & ~np.isin(nodes, np.union1d(model.train.nodes, model.validation.nodes))
    if not unseen.any():
        return None
    outputs = model.probabilities_from(_cached_inputs(model, nodes[unseen]), model.temperature)
    return model.target.score_outputs(outputs, matrix[unseen])


def _cached_inputs(model: EncoderModel, rows: Array) -> ClassifierInputs:
    return model.own_inputs.take(rows) if is_cached(model, "own_inputs") else inputs_of(model, rows)


def _summary(
    model: EncoderModel, updated: EncoderModel, grown: ExtendedGraph, affected: Array, label_score: float | None
) -> UpdateSummary:
    """Compare predictions of the affected nodes before and after an update."""
    size, target = len(updated.graph), model.target
    existing = affected[affected < grown.num_existing_nodes]
    existing = np.intersect1d(existing, updated.default_rows(updated.graph))
    outputs = [each.probabilities_from(_cached_inputs(each, existing), each.temperature) for each in (model, updated)]
    before, after = map(target.predict, outputs)
    differ = np.atleast_2d((before != after).T).any(axis=0)  # a node may have several classes
    confidence = None
    if len(existing) and target.has_probabilities:
        confidence = tuple(float(target.confidence(each).mean()) for each in outputs)
    count = len(updated.updated)
    share = count / size
    scores = label_score, model.validation_score
    return UpdateSummary(
        nodes=size,
        new_nodes=size - grown.num_existing_nodes,
        changed_nodes=len(grown.changed),
        affected_nodes=len(affected),
        changed_predictions=int(np.count_nonzero(differ)),
        confidence=confidence,  # type: ignore[arg-type]
        changed_since_fit=share,
        label_score=label_score,
        validation_score=model.validation_score,
        advice=tuple(_advice(share, confidence, (count, len(existing)), scores, target.metric)),
        notes=tuple(grown.notes),
    )


def _advice(
    share: float,
    confidence: Sequence[float] | None,
    counts: tuple[int, int],
    scores: tuple[float | None, ...],
    metric: str,
) -> list[str]:
    """Return why a new fit is suggested; `counts` are the changed and the affected existing nodes."""
    reasons = []
    if share > _MAX_CHANGED and counts[0] >= _MIN_NODES:
        reasons.append(f"{share:.0%} of the nodes have changed since training")
    if confidence is not None and counts[1] >= _MIN_NODES and confidence[0] - confidence[1] > _MAX_FALL:
        reasons.append(f"the mean confidence of affected nodes fell from {confidence[0]:.2f} to {confidence[1]:.2f}")
    label_score, validation_score = scores
    if label_score is not None and validation_score is not None and validation_score - label_score > _MAX_FALL:
        reasons.append(
            f"the {metric} for new labels is {label_score:.2f}, for validation labels {validation_score:.2f}"
        )
    return reasons
