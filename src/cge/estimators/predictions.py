"""What a trained model says of nodes, old and new ones: class, confidence, chances, and by which way."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.data.graph_update import ExtendedGraph, GraphUpdate, extend_graph
from cge.errors import InputError, Message, UnknownNodeError
from cge.estimators.classifier import as_classes
from cge.estimators.encoder_model import EncoderModel
from cge.graph import Graph
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import LABEL_PROPAGATION_HOPS

__all__ = ["EVIDENCE", "Predictions", "known_labels_of", "predict_nodes"]

Array = npt.NDArray[Any]

EVIDENCE = ("trained", "new: features and edges", "new: features only", "new: edges only", "nothing known")
_TRAINED, _BOTH, _FEATURES, _EDGES, _NOTHING = range(len(EVIDENCE))


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of nodes.

    Attributes
    ----------
    nodes : (k,) ids
        Who is predicted.
    classes : (c,)
        What may be predicted.
    chances : (k, c) float32
        Of each class.
    ways : (k,) int
        How each was predicted, as numbers into `EVIDENCE`.
    several : bool
        Whether a node may have several classes.
    """

    nodes: Array
    classes: Array
    probabilities: Array
    ways: Array
    several: bool

    @cached_property
    def predicted(self) -> list[Any]:
        """The class of each node; a list of classes where nodes may have several."""
        found = as_classes(self.probabilities, self.classes, self.several)
        if not self.several:
            return list(found.tolist())
        return [self.classes[row.astype(bool)].tolist() for row in found]

    @property
    def confidence(self) -> Array:
        """The chance of the predicted class, `(k,)`; with several classes, that of the decision in most doubt."""
        sure = np.maximum(self.probabilities, 1 - self.probabilities).min(axis=1, initial=1) if self.several else None
        found: Array = self.probabilities.max(axis=1, initial=0) if sure is None else sure
        return found

    def counts(self) -> dict[str, int]:
        """Return how many nodes were predicted which way, in the order of `EVIDENCE`."""
        found = np.bincount(self.ways, minlength=len(EVIDENCE)).tolist()
        return {way: count for way, count in zip(EVIDENCE, found, strict=True) if count}


def predict_nodes(
    model: Any, nodes: Iterable[Hashable] | None = None, new: GraphUpdate | None = None
) -> tuple[Predictions, list[str]]:
    """Return predictions of a trained model, and notes on what was not taken as it came.

    Parameters
    ----------
    model : CGE
        For new nodes; otherwise any classifier of nodes.
    nodes : ids, optional
        By default all nodes of training, or all new ones where there are any.
    new : Additions, optional
        Edges and features that came after training. They are put together with the graph of training, so that known
        neighbors, their features and their labels count.

    >>> from cge.estimators.cge import CGE
    >>> from cge.graph import Graph
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = CGE().fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> found, notes = predict_nodes(model, new=GraphUpdate([(6, 3), (6, 5)]))
    >>> found.nodes.tolist(), found.predicted, EVIDENCE[found.ways[0]]
    ([6], ['right'], 'new: edges only')
    """
    fitted, graph, wanted = getattr(model, "_fitted", None), model.graph_, None if nodes is None else list(nodes)
    if new is None:
        ids = model.node_ids_ if wanted is None else model.node_ids_[graph.indices_of(wanted)]
        probabilities, ways = model.predict_proba(wanted), np.full(len(ids), _TRAINED)
        several = model._several if fitted is None else fitted.several
        return Predictions(ids, model.classes_, probabilities, ways, several), []
    if fitted is None or model.encoder == "table":
        what = f"is a {type(model).__name__}" if fitted is None else "has encoder 'table'"
        raise InputError(
            f"this model {what}, which knows only the nodes it was trained on; "
            "train a CGE with encoder 'paths' or 'features' to predict new ones"
        )
    if graph.features is None and not new.num_edges:
        raise InputError(
            "this model was trained without features, so new nodes need edges", hint=Message.of("pass {edges}")
        )
    grown = extend_graph(graph, new, _missing(fitted))
    everyone = grown.graph.node_ids
    if wanted is None and len(everyone) == grown.old:
        raise InputError(
            "the new edges and features hold no node that was not there in training",
            hint=Message.of("pass {nodes} to predict, or leave {edges} and {features} out"),
        )
    if wanted is None:
        rows = np.arange(grown.old, len(everyone))
    else:
        try:
            rows = grown.graph.indices_of(wanted)
        except UnknownNodeError as error:
            hint = "name nodes of the training graph or new ones"
            raise UnknownNodeError("", error.offenders, error.count, hint) from None
    if isinstance(fitted, EncoderModel):
        data = fitted.data_of(grown.graph)
        ways = _with_old(grown, _path_ways(fitted, data, grown.old))[rows]
        temperatures = np.full(len(rows), fitted.temperature)
        for way, name in ((_EDGES, "edges only"), (_FEATURES, "features only")):
            temperatures[ways == way] = fitted.temperatures.get(name, fitted.temperature)
        known = fitted.known, fitted.matrix  # old nodes keep their numbers
        probabilities = fitted.probabilities_in(data, known, rows, temperatures)
    else:
        ways, probabilities = _with_old(grown, _feature_ways(grown))[rows], fitted.probabilities(grown.graph, rows)
    return Predictions(everyone[rows], model.classes_, probabilities, ways, fitted.several), grown.notes


def known_labels_of(model: Any) -> list[list[Any]] | None:
    """Return the classes of each node that the model keeps from training, None where it keeps none.

    Encoder "paths" keeps the labels it was trained on. A node without a label has an empty list.
    """
    fitted = getattr(model, "_fitted", None)
    if not isinstance(fitted, EncoderModel):
        return None
    found: list[list[Any]] = [[] for _ in range(len(model.node_ids_))]
    for node, row in zip(fitted.known.tolist(), fitted.matrix.astype(bool), strict=True):
        found[node] = model.classes_[row].tolist()
    return found


def _missing(fitted: Any) -> Array | None:
    """Return the features of a node that has none: those that say nothing."""
    if isinstance(fitted, EncoderModel) and fitted.data.uses_features and len(fitted.data.dense_scale[0]):
        center: Array = fitted.data.dense_scale[0]
        return center
    return None


def _with_old(grown: ExtendedGraph, ways: Array) -> Array:
    """Return the ways of all nodes from those of the new ones."""
    return np.concatenate([np.full(grown.old, _TRAINED), ways])


def _feature_ways(grown: ExtendedGraph) -> Array:
    """Return how new nodes are predicted from features alone."""
    features: Any = grown.graph.features
    return np.where(abs(features[grown.old :]).sum(axis=1) > 0, _FEATURES, _NOTHING)


def _path_ways(fitted: EncoderModel, data: EncoderData, old: int) -> Array:
    """Return how new nodes are predicted from what lies at the ends of paths."""
    graph, votes = data.graph, fitted.plan.label_propagation
    hops = np.flatnonzero(fitted.plan.weighting.edge_weighting.hop_weights().detach().numpy())
    far = max(int(hops.max(initial=0)), int(data.walk_vectors is not None))  # new nodes ask neighbors for vectors
    own = data.has_inputs if data.uses_features else np.arange(len(graph)) < old
    featured, away = own[old:], _without_loops(graph)
    leads = (np.diff(away.indptr[old:]) > 0) & (far > 0 or votes)
    met = np.zeros(len(featured), bool)
    if not featured.all():
        met |= _met(away, own, far)[old:]
        if votes:
            labeled = np.zeros(len(graph), bool)
            labeled[fitted.known] = True
            met |= _met(away, labeled, LABEL_PROPAGATION_HOPS)[old:]
    return np.select([featured & leads, featured, met], [_BOTH, _FEATURES, _EDGES], _NOTHING)


def _without_loops(graph: Graph) -> sp.csr_array:
    """Return the steps of a graph that lead elsewhere, as a matrix of ones."""
    loops = graph.indices == np.repeat(np.arange(len(graph), dtype=graph.indices.dtype), graph.degrees)
    indptr, indices = graph.indptr, graph.indices
    if loops.any():
        indptr = np.concatenate([[0], np.cumsum(~loops)])[indptr]
        indices = indices[~loops]
    return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(graph),) * 2)


def _met(moves: sp.csr_array, ends: npt.NDArray[np.bool_], hops: int) -> npt.NDArray[np.bool_]:
    """Say from which nodes a path of 1 to `hops` steps leads to one of `ends`, `(n,)`."""
    met, reached = np.zeros(len(ends), bool), ends
    for _ in range(hops):
        reached = (moves @ reached.astype(np.float32)) > 0
        if not (reached & ~met).any():  # nothing new: later steps find nothing new either
            break
        met |= reached
    return met
