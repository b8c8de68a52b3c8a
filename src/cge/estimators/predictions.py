"""What a trained model gives: predictions for known and for new nodes, vectors of pairs and of sub-graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import edge_columns
from cge.data.graph_update import ExtendedGraph, GraphUpdate, extend_graph
from cge.errors import InputError, Message, UnknownNodeError, format_value
from cge.estimators.classifier import BaselineClassifier
from cge.estimators.classifier_inputs import have_neighbors
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.estimator import Estimator, not_fitted
from cge.estimators.fitted_model import FittedModel
from cge.ids import IdIndex, find_nodes, id_sequence
from cge.models.edge_features import PAIR_OPERATORS, pair_vectors
from cge.targets import Target
from cge.targets.presentation import short_floats

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator

EVIDENCE = ("training graph", "features+edges", "features", "edges", "no information")
_TRAINED, _BOTH, _FEATURES, _EDGES, _NONE = range(len(EVIDENCE))


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model for some nodes; in regression the probabilities are values.

    Attributes
    ----------
    nodes : (k,) ids
        The nodes.
    classes : (c,)
        The classes.
    probabilities : (k, c) float32
        The probability of each class.
    evidence : (k,) int
        What each prediction is based on, as numbers into `EVIDENCE`: a node of the training graph, or a new one with
        features and edges, or one of these, that the model uses; or none, if its paths reach no label and only inputs
        of zeros.
    target : Target
        What is predicted.
    """

    nodes: Array
    classes: Array
    probabilities: Array
    evidence: Array
    target: Target

    @cached_property
    def predicted(self) -> list[Any]:
        """The class of each node; in a multilabel task a list of classes."""
        return self.target.predicted_labels(self.probabilities)

    @property
    def confidence(self) -> Array:
        """The probability of the predicted class, `(k,)`; in a multilabel task, that of the least certain decision."""
        return self.target.confidence(self.probabilities)

    def counts(self) -> dict[str, int]:
        """Return how many nodes were predicted from which evidence, in the order of `EVIDENCE`."""
        counts = np.bincount(self.evidence, minlength=len(EVIDENCE)).tolist()
        return {name: count for name, count in zip(EVIDENCE, counts, strict=True) if count}

    def evidence_names(self) -> list[str]:
        """Return what each prediction is based on, by name."""
        return [EVIDENCE[code] for code in self.evidence.tolist()]

    def columns(self) -> dict[str, Any]:
        """Return them as columns of a table: classes are numbers, text, or lists of text; or values."""
        from cge.store.export_formats import checked_texts

        ids = self.nodes if self.nodes.dtype.kind == "i" else checked_texts(self.nodes)
        probabilities = self.target.probability_columns(self.probabilities).items()
        table = {"node": ids, **self.target.prediction_columns(self.probabilities), "evidence": self.evidence_names()}
        return table | {f"probability_{name}": column for name, column in probabilities}

    def rows(self) -> list[dict[str, Any]]:
        """Return them as JSON objects, one for each node."""
        probabilities = self.target.probability_columns(self.probabilities)
        names, columns = list(probabilities), zip(*map(short_floats, probabilities.values()), strict=True)
        values = self.target.prediction_values(self.probabilities)
        table = {"node": self.nodes.tolist(), **values, "evidence": self.evidence_names()}
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        if not probabilities:
            return rows
        return [
            row | {"probabilities": dict(zip(names, own, strict=True))} for row, own in zip(rows, columns, strict=True)
        ]

    def texts(self, count: int) -> dict[str, list[str]]:
        """Return the first of them as columns of text."""
        columns = {"node": list(map(str, self.nodes[:count].tolist()))}
        columns |= self.target.prediction_texts(self.probabilities[:count])
        return columns | {"evidence": self.evidence_names()[:count]}


def predict_nodes(
    model: PathEstimator | BaselineClassifier,
    nodes: Iterable[Hashable] | None = None,
    update: GraphUpdate | None = None,
) -> tuple[Predictions, list[str]]:
    """Return predictions of a trained model, and notes on inputs that were changed or ignored.

    Parameters
    ----------
    model : CGE, or an inductive PaperCGE
        For nodes of the training graph, any node classifier.
    nodes : ids, optional
        By default all nodes of the training graph, or all new ones where there is an update; in a graph with node types
        those of the type of the training labels.
    update : GraphUpdate, optional
        Edges and features that came after training. They are merged with the training graph, so that neighbors in
        it, their features and their labels are used.

    >>> from cge.estimators.cge import CGE
    >>> from cge.graph import Graph
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = CGE().fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> predictions, notes = predict_nodes(model, update=GraphUpdate([(6, 3), (6, 5)]))
    >>> predictions.nodes.tolist(), predictions.predicted, EVIDENCE[predictions.evidence[0]]
    ([6], ['right'], 'edges')
    """
    wanted = None if nodes is None else list(nodes)
    if update is None:
        fitted = model.fitted_model
        target = model.target_ if isinstance(model, BaselineClassifier) else model.fitted_.target
        if wanted is None:
            rows = np.arange(len(model.graph_)) if fitted is None else fitted.default_rows(model.graph_)
        else:
            rows = model.graph_.indices_of(wanted)
        ids = model.node_ids_[rows]
        evidence = np.full(len(ids), _TRAINED)
        if not isinstance(fitted, EncoderModel):
            return Predictions(ids, model.classes_, model._outputs(wanted, None), evidence, target), []
        inputs = fitted.inputs(None, rows)
        evidence[~inputs.has_information] = _NONE
        outputs = fitted.probabilities_from(inputs, fitted.temperature)
        return Predictions(ids, model.classes_, outputs, evidence, target), []
    grown, trained = extended_graph(model, update), _inductive(model)
    ids = grown.graph.node_ids
    if wanted is None:
        rows = trained.default_rows(grown.graph)
        rows = rows[rows >= grown.num_existing_nodes]
        if not len(rows):
            problem = "the new edges and features hold no node that was not there in training"
            hint = Message.of("pass {nodes} to predict, or leave {edges} and {features} out")
            raise InputError(problem, hint=hint)
    else:
        try:
            rows = grown.graph.indices_of(wanted)
        except UnknownNodeError as error:
            way_out = "name nodes of the training graph or new ones"
            raise UnknownNodeError("", error.offenders, error.count, way_out, ids[:2].tolist()) from None
    evidence, probabilities = predict_new(trained, grown, rows)
    return Predictions(ids[rows], model.classes_, probabilities, evidence, trained.target), grown.notes


def _inductive(model: Estimator) -> FittedModel:
    """Return the trained model of an estimator that predicts new nodes; refuse others."""
    fitted = model.fitted_model
    if fitted is None or not fitted.inductive:
        name = type(model).__name__ if fitted is None else "transductive PaperCGE"
        hint = "train a CGE or an inductive PaperCGE to predict new ones"
        raise InputError(f"this model is a {name}, which predicts only the nodes of the training graph", hint=hint)
    return fitted


def extended_graph(model: Estimator, update: GraphUpdate, *, replace_features: bool = False) -> ExtendedGraph:
    """Return the training graph with new nodes, edges and features; see `extend_graph` for `replace_features`."""
    fitted = _inductive(model)
    if fitted.graph.features is None and not update.num_edges and not replace_features:
        problem = "this model was trained without features, so new nodes need edges"
        raise InputError(problem, hint=Message.of("pass {edges}"))
    means: Array | None = None  # where features are dense, the features of a node that has none
    if isinstance(fitted, EncoderModel) and fitted.data.uses_features and len(fitted.data.dense_scale[0]):
        means = fitted.data.dense_scale[0]
    return extend_graph(fitted.graph, update, means, replace_features=replace_features)


def predict_new(fitted: FittedModel, grown: ExtendedGraph, rows: Array) -> tuple[Array, Array]:
    """Return the evidence and the probabilities of some nodes of an extended graph."""
    trained = np.full(grown.num_existing_nodes, _TRAINED)
    if not isinstance(fitted, EncoderModel):
        features: Any = grown.graph.features
        featured = abs(features[grown.num_existing_nodes :]).sum(axis=1) > 0
        evidence = np.concatenate([trained, np.where(featured, _FEATURES, _NONE)])[rows]
        return evidence, fitted.probabilities(grown.graph, rows)
    labels = fitted.train.nodes, fitted.train.matrix  # nodes of the training graph keep their indices
    inputs = fitted.inputs(grown.graph, rows, labels)
    evidence = _path_evidence(fitted, grown, rows, inputs.has_information)
    temperatures = np.full(len(rows), fitted.temperature)
    for number in (_EDGES, _FEATURES):
        temperatures[evidence == number] = fitted.calibration.by_evidence.get(EVIDENCE[number], fitted.temperature)
    return evidence, fitted.probabilities_from(inputs, temperatures)


def training_labels(model: Estimator) -> list[list[Any]] | None:
    """Return a list of the training labels of each node; None for a baseline, which does not keep them."""
    fitted = model.fitted_model
    if fitted is None:
        return None
    labels: list[list[Any]] = [[] for _ in range(len(fitted.graph))]
    for node, names in zip(fitted.train.nodes.tolist(), fitted.target.names(fitted.train.matrix), strict=True):
        labels[node] = names
    return labels


def _path_evidence(
    fitted: EncoderModel, grown: ExtendedGraph, rows: Array, has_information: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the evidence for nodes that are predicted from the ends of paths."""
    data, graph = fitted.data_of(grown.graph), grown.graph
    hop_weights = np.array(
        [each.weighting.edge_weighting.normalized_hop_weights().tolist() for each in fitted.ensemble]
    )
    uses_edges = fitted.label_propagation or data.walk_vectors is not None or bool(hop_weights[:, 1:].any())
    connected = have_neighbors(graph, rows) & uses_edges
    featured = data.has_inputs[rows] & data.uses_features
    conditions = [~has_information, rows < grown.num_existing_nodes, featured & connected, featured]
    return np.select(conditions, [_NONE, _TRAINED, _BOTH, _FEATURES], _EDGES)


def edge_vectors(model: Any, pairs: Any, how: str = "hadamard") -> Array:
    """Return a vector for each pair of nodes, `(m, dim)`, whether there is an edge between them or not.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    pairs : (m, 2) array or sequence of pairs
        Node ids.
    how : {"hadamard", "average", "l1", "l2", "concat"}
        Elementwise: the product, the mean, the absolute or the squared difference; or the concatenation of both
        vectors, `(m, 2 dim)`, the only one that depends on the order of the pair.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array(["x", "y"], object), embedding_=np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> edge_vectors(model, [("x", "y"), ("y", "y")]).tolist()
    [[3.0, 8.0], [9.0, 16.0]]
    """
    if how not in PAIR_OPERATORS:
        raise InputError(parameter="how", expected=f"one of {', '.join(map(repr, PAIR_OPERATORS))}", found=how)
    ids, vectors = _vectors_of(model)
    index = IdIndex(ids)
    first, second = (find_nodes(index, column, "pairs") for column in edge_columns(pairs, "pair"))
    return pair_vectors(vectors, first, second, how)


def subgraph_vectors(model: Any, groups: Mapping[Any, Iterable[Hashable]] | Iterable[Iterable[Hashable]]) -> Array:
    """Return a vector for each sub-graph, `(g, dim)`: the weighted mean of its nodes' vectors.

    The weight of a node v of the sub-graph S is that of all paths within S that end at v,

        r(v) = Σ_k |h_k| Σ_{p: n_0, …, n_k = v, all in S} Π_t s(n_t, n_{t+1}),

    with the edge weights s and the hop weights h of the model: nodes that are central in S get more weight. For
    networks and weights of metapaths they are those of the closed form they start from; estimators without edge
    weights give the mean.

    Parameters
    ----------
    model
        A trained estimator: anything with `node_ids_` and `embedding_`.
    groups : {name: node ids} or a sequence of sequences of node ids
        Rows of the result are in this order. Repeated nodes count once.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(node_ids_=np.array(["x", "y"], object), embedding_=np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> subgraph_vectors(model, {"one": ["x"], "both": ["x", "y"]}).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    ids, vectors = _vectors_of(model)
    index, fitted, edge_weights = IdIndex(ids), getattr(model, "fitted_", None), None
    if isinstance(fitted, EncoderModel):
        data, weighting = fitted.data, fitted.selection.weighting.edge_weighting
        values = weighting.normalized_weights(data.transitions, data.edge_inputs_of(weighting))
        edge_weights = data.transitions.matrix(values.astype(np.float64))
        hop_weights = np.abs(weighting.used_hop_weights())
    items = groups.items() if isinstance(groups, Mapping) else enumerate(id_sequence(groups))
    named = [(f"sub-graph {format_value(name)}", id_sequence(node_ids)) for name, node_ids in items]
    result = np.empty((len(named), vectors.shape[1]), vectors.dtype)
    for row, (name, node_ids) in enumerate(named):
        nodes = np.unique(find_nodes(index, node_ids, name))
        if not len(nodes):
            raise InputError(f"{name} has no nodes, so it has no vector")
        weight = np.ones(len(nodes)) if edge_weights is None else inner_weight(edge_weights, hop_weights, nodes)
        result[row] = (weight / weight.sum()) @ vectors[nodes].astype(np.float64)
    return result


def inner_weight(edge_weights: sp.csr_array, hop_weights: Array, nodes: Array) -> Array:
    """Return r of each of some nodes, `(k,)`: Σ_k h_k (Mᵀ)^k 1, where M has the edges among these nodes only."""
    rows = edge_weights[nodes]
    position = np.searchsorted(nodes, rows.indices)
    inside = nodes[np.minimum(position, len(nodes) - 1)] == rows.indices
    start, end = np.repeat(np.arange(len(nodes)), np.diff(rows.indptr))[inside], position[inside]
    weights = rows.data[inside]
    reached: Array = np.ones(len(nodes))
    total: Array = hop_weights[0] * reached
    for hop in hop_weights[1:]:
        reached = np.bincount(end, weights * reached[start], minlength=len(nodes))
        total = total + hop * reached
    return total


def _vectors_of(model: Any) -> tuple[Array, Array]:
    """Return the ids `(n,)` and vectors `(n, dim)` of a trained model."""
    if not hasattr(model, "embedding_") or not hasattr(model, "node_ids_"):
        kind = type(model).__name__
        raise not_fitted(f"this {kind} has no node vectors; train a model that has, such as cge.CGE")
    return model.node_ids_, np.asarray(model.embedding_)
