"""Baselines for heterogeneous graphs: R-GCN, a network over metapaths as in SeHGNN, and metapath2vec.

In a graph without types all edges are of one relation.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.estimators.baselines import VectorClassifier, classify_vectors
from cge.estimators.classifier import TaskLabels
from cge.estimators.embeddings import DeepWalk
from cge.estimators.graph_networks import NetworkClassifier
from cge.estimators.settings import N_JOBS, RANDOM_STATE, documented, param
from cge.graph import Graph
from cge.graph_types import REVERSE
from cge.models.edge_weighting import EdgeInputs, basic_edge_inputs
from cge.models.relation_groups import RelationGroups
from cge.models.typed_networks import MetapathNetwork, Rgcn, metapath_features
from cge.training.encoder_data import EncoderData

_MAX_METAPATHS = 4  # that metapath2vec compares


def _both_directions(graph: Graph) -> Graph:
    """Return a graph in which paths can also follow directed edges in reverse, as relations of their own."""
    has_reverse = any(name.startswith(REVERSE) for name in graph.edge_type_names)
    return graph.with_reverse_edges() if graph.directed and not has_reverse else graph


def _edge_inputs(data: EncoderData) -> tuple[EdgeInputs, RelationGroups]:
    """Return edge weights and relations of a graph's transitions."""
    relations = RelationGroups(data.graph, data.transitions)
    return replace(basic_edge_inputs(data.graph, data.transitions), relations=relations), relations


@documented
@dataclass(eq=False, repr=False)
class RGCN(NetworkClassifier):
    """The relational GCN of Schlichtkrull et al. (2018), with two layers and basis decomposition.

    Directed edges also have a reverse relation. Nodes without features have learned inputs.
    """

    _: KW_ONLY
    hidden: int = param(32, "hidden units", low=1, high=4096)
    n_bases: int = param(8, "number of weight matrices that relations share", low=1, high=1000)

    def _data(self, graph: Graph) -> EncoderData:
        return super()._data(_both_directions(graph))

    def _network(self, data: EncoderData, features: int, classes: int) -> Rgcn:
        inputs, relations = _edge_inputs(data)
        sizes = features, self.hidden, classes
        return Rgcn(data.transitions, relations, inputs.weights, sizes, min(self.n_bases, len(relations)))


@documented
@dataclass(eq=False, repr=False)
class SeHGNN(NetworkClassifier):
    """Features propagated along each metapath once, a projection for each, and attention between them.

    A small form of SeHGNN (Yang et al. 2023), without its propagated labels. Nodes of other types than that of the
    labels have the class frequencies of the training labels.
    """

    hops: int = param(2, "edges of the longest metapath", low=1, high=10)
    _: KW_ONLY
    hidden: int = param(32, "hidden units for each metapath", low=1, high=4096)

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, int]:
        data = self._data(_both_directions(graph))
        nodes, (inputs, _) = _nodes_of_label_type(graph, task), _edge_inputs(data)
        features, widths = metapath_features(inputs, data.inputs("l2"), nodes, task.train, self.hops)
        sizes = self.hidden, len(task.classes)
        known, epochs = self._fit_network(lambda: MetapathNetwork(widths, *sizes), features, task, nodes)
        probabilities = np.tile(task.matrix(task.train).mean(axis=0), (len(graph), 1))
        probabilities[nodes] = known
        return probabilities, epochs


def _nodes_of_label_type(graph: Graph, task: TaskLabels) -> Array:
    """Return the nodes of the type of the labeled ones, `(k,)`; all nodes without types."""
    if graph.node_types is None:
        return np.arange(len(graph))
    return np.flatnonzero(graph.node_types == graph.node_types[task.train[0]])


@documented
@dataclass(eq=False, repr=False)
class Metapath2Vec(VectorClassifier):
    """Logistic regression on vectors of walks along a metapath (Dong et al. 2017), trained without labels.

    By default the metapaths t–x–t are compared on the validation labels, t the type of the labeled nodes and x one of
    the four types that most of its edges lead to. Without node types walks follow all edges.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        Vectors, a row for each of `node_ids_`; zeros for nodes of types that the metapath does not have.
    metapath_ : tuple of str or None
        The node types of the walks.
    """

    metapath: tuple[str, ...] | None = param(
        None, "node types that walks follow again and again", optional=True, none="selected on the validation labels"
    )
    _: KW_ONLY
    dim: int = param(128, "size of the vectors", low=1, high=4096)
    walk_length: int = param(80, "nodes in a walk", low=2)
    walks_per_node: int = param(10, "walks from each node", low=1)
    window: int = param(10, "largest distance in a walk between the nodes of a pair", low=1, high=1000)
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        if task.choice is not None:  # vectors do not depend on labels
            return classify_vectors(self.embedding_, task)
        labels, best = task.codes[task.validation], -np.inf
        for metapath in self._metapaths(graph, task)[: None if len(labels) else 1]:
            vectors = self._vectors(graph, metapath)
            probabilities, strength = classify_vectors(vectors, task)
            score = task.target.score(probabilities[task.validation], labels) if len(labels) else 0.0
            if score > best:
                best, result = score, (probabilities, strength)
                self.embedding_ = vectors
                self.metapath_ = metapath
        return result

    def _metapaths(self, graph: Graph, task: TaskLabels) -> list[tuple[str, ...] | None]:
        if self.metapath is not None or graph.node_types is None:
            return [self.metapath]
        names, own = graph.node_type_names, graph.node_types[task.train[0]]
        source = np.repeat(graph.node_types, graph.degrees)
        counts = np.bincount(graph.node_types[graph.indices[source == own]], minlength=len(names))
        counts += np.bincount(source[graph.node_types[graph.indices] == own], minlength=len(names))
        order = np.argsort(-counts, kind="stable")[:_MAX_METAPATHS].tolist()
        return [(names[own], names[code], names[own]) for code in order if counts[code]]

    def _vectors(self, graph: Graph, metapath: tuple[str, ...] | None) -> Array:
        settings = {name: getattr(self, name) for name in ("walk_length", "walks_per_node", "window")}
        settings |= {"metapath": metapath, "random_state": self.random_state, "n_jobs": self.n_jobs}
        vectors: Array = DeepWalk(self.dim, **settings).fit(_both_directions(graph)).embedding_
        return vectors
