"""DeepWalk and node2vec: vectors of random walks, without labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.classifier import as_graph
from cge.estimators.estimator import Estimator, not_fitted
from cge.estimators.persistence import save_estimator
from cge.estimators.settings import N_JOBS, RANDOM_STATE, check_settings, documented, param
from cge.graph import Graph
from cge.sampling import Walker


class NodeVectors(Estimator):
    """An estimator of vectors without labels; a subclass has the settings, and computes the vectors.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        Vectors, a row for each of `node_ids_`.
    graph_ : Graph
        The training graph.
    node_ids_ : (n,)
        The node ids of the graph.
    """

    dim: int

    def fit(
        self,
        graph: Graph,
        y: None = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        progress: Callable[[float], None] | None = None,
    ) -> Self:
        """Train vectors for every node of a graph.

        Parameters
        ----------
        graph : Graph
            With at least one node.
        y : None
            Ignored.
        progress : callable, optional
            Called with the finished fraction of the training.
        """
        check_settings(self)
        graph = as_graph(graph)
        if graph.num_nodes == 0:
            raise InputError("the graph has no nodes, so there is nothing to embed")
        self.embedding_ = self._vectors(graph, progress)
        self.node_ids_, self.graph_ = graph.node_ids, graph
        return self

    def _vectors(self, graph: Graph, progress: Callable[[float], None] | None) -> Array:
        """Return the vectors, `(n, dim)`."""
        raise NotImplementedError

    def transform(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the vectors of nodes, `(k, dim)`; None means all, in the order of `node_ids_`."""
        if not hasattr(self, "embedding_"):
            raise not_fitted(f"this {type(self).__name__} has no vectors yet; call fit first")
        return self.embedding_ if nodes is None else self.embedding_[self.graph_.indices_of(nodes)]

    def save(self, folder: str | Path) -> None:
        """Write vectors, ids and graph to a folder, which `cge.load` reads: safetensors and JSON, no pickle."""
        self.transform()  # raises where there are no vectors
        save_estimator(self, folder, self.graph_, {}, {"embedding": self.embedding_})

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002 - as CGE
        """Restore what `save` wrote."""
        vectors = stored_vectors(arrays, graph, self._width(graph))
        self.embedding_, self.node_ids_, self.graph_ = vectors, graph.node_ids, graph

    def _width(self, graph: Graph) -> int:  # noqa: ARG002 - for subclasses
        """Return the size of the vectors."""
        return self.dim


@dataclass(eq=False, repr=False)
class _WalkVectors(NodeVectors):
    """An estimator of vectors from random walks; a subclass has the settings, with or without `p` and `q`."""

    dim: int = param(128, "size of the vectors", low=1, high=4096)
    _: KW_ONLY
    walk_length: int = param(80, "nodes in a walk", low=2)
    walks_per_node: int = param(10, "walks from each node", low=1)
    window: int = param(10, "largest distance in a walk between the nodes of a pair", low=1, high=1000)
    negatives: int = param(5, "negative samples per pair", low=1, high=100)
    epochs: int = param(1, "passes over new walks", low=1)
    learning_rate: float = param(0.05, "initial learning rate, which falls linearly", above=0, high=10)
    metapath: tuple[str, ...] | None = param(
        None,
        "node types that walks follow again and again, such as ('author', 'paper', 'author') (metapath2vec); nodes of "
        "other types have vectors of zeros",
        optional=True,
        none="walks follow all edges",
    )
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    def _vectors(self, graph: Graph, progress: Callable[[float], None] | None) -> Array:
        options: Any = {"seed": self.random_state, "n_jobs": self.n_jobs}
        bias: Any = {name: getattr(self, name, 1.0) for name in ("p", "q")} | {"metapath": self.metapath}
        walker = Walker(graph, self.walk_length, self.walks_per_node, **bias, **options, shuffle=True)
        options |= {name: getattr(self, name) for name in ("dim", "window", "negatives", "epochs", "learning_rate")}
        from cge.training.walk_embedding import embed_walks

        vectors, _ = embed_walks(walker, **options, progress=progress)
        if not np.isfinite(vectors).all():
            problem = Message.of("training overflowed with {learning_rate}", learning_rate=self.learning_rate)
            raise InputError(problem, parameter="learning_rate", hint="try a tenth of it")
        if self.metapath is not None:  # walks do not reach nodes of other types
            types = [graph.node_type_names.index(name) for name in self.metapath]
            vectors[~np.isin(graph.node_types, types)] = 0  # type: ignore[arg-type]
        return vectors


def stored_vectors(arrays: dict[str, Array], graph: Graph, dim: int) -> Array:
    """Return the vectors of a model folder."""
    if arrays["embedding"].shape != (graph.num_nodes, dim) or arrays["embedding"].dtype != np.float32:
        raise InputError(f"the vectors must be ({graph.num_nodes}, {dim}) of float32")
    return arrays["embedding"]


@documented
class DeepWalk(_WalkVectors):
    """Vectors from uniform random walks and skip-gram with negative sampling (Perozzi et al. 2014).

    Examples
    --------
    >>> graph = Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a")])
    >>> model = DeepWalk(dim=8, walks_per_node=2, walk_length=5, window=2).fit(graph)
    >>> model.embedding_.shape, model.transform(["c", "a"]).shape
    ((3, 8), (2, 8))
    """


@documented
@dataclass(eq=False, repr=False)
class Node2Vec(_WalkVectors):
    """Vectors from node2vec's walks and skip-gram with negative sampling (Grover and Leskovec 2016).

    As in the paper, 1/p is the weight of returning to the previous node, and 1/q that of going to a node that is no
    neighbor of the previous one.

    Examples
    --------
    >>> graph = Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a")])
    >>> Node2Vec(dim=8, q=0.5, walks_per_node=2, walk_length=5, window=2).fit(graph).embedding_.shape
    (3, 8)
    """

    _: KW_ONLY
    p: float = param(1.0, "return parameter of node2vec: 1/p is the weight of going back", low=1e-9, high=1e9)
    q: float = param(1.0, "in-out parameter of node2vec: 1/q is the weight of going farther away", low=1e-9, high=1e9)
