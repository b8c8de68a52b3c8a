"""DeepWalk and node2vec: vectors of random walks, without labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from cge.arrays import Array
from cge.errors import MAKE_GRAPH, InputError, Message, qualified_type
from cge.estimators.not_fitted import NotFittedError
from cge.estimators.settings import Setting, check_settings, documented
from cge.estimators.storing import save_estimator
from cge.graph import Graph
from cge.sampling import Walker
from cge.training.walk_embedding import embed_walks

Dim = Annotated[int, Setting("size of the vectors", low=1, high=4096)]
WalkLength = Annotated[int, Setting("nodes in a walk", low=2)]
WalksPerNode = Annotated[int, Setting("walks from each node", low=1)]
Window = Annotated[int, Setting("largest distance in a walk between the nodes of a pair", low=1, high=1000)]
Negatives = Annotated[int, Setting("negative samples per pair", low=1, high=100)]
Epochs = Annotated[int, Setting("passes over new walks", low=1)]
LearningRate = Annotated[float, Setting("initial learning rate, which falls linearly", above=0, high=10)]
Seed = Annotated[int, Setting("seed; results do not depend on the number of threads", low=0)]
Jobs = Annotated[int | None, Setting("threads", low=1, also=(-1,), optional=True, none="all cores")]
Return = Annotated[float, Setting("return parameter of node2vec: 1/p is the weight of going back", low=1e-9, high=1e9)]
InOut = Annotated[
    float, Setting("in-out parameter of node2vec: 1/q is the weight of going farther away", low=1e-9, high=1e9)
]


class _WalkVectors(BaseEstimator):  # type: ignore[misc]
    """An estimator of vectors from random walks; a subclass has the settings, with or without `p` and `q`.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        Vectors, a row for each of `node_ids_`.
    graph_ : Graph
        The training graph.
    node_ids_ : (n,)
        The node ids of the graph.
    """

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
        if not isinstance(graph, Graph):
            raise InputError(f"fit takes a cge.Graph, found {qualified_type(graph)}", hint=MAKE_GRAPH)
        if graph.num_nodes == 0:
            raise InputError("the graph has no nodes, so there is nothing to embed")
        params: Any = self.get_params()
        walker = Walker(
            graph,
            params["walk_length"],
            params["walks_per_node"],
            p=params.get("p", 1.0),
            q=params.get("q", 1.0),
            seed=params["random_state"],
            n_jobs=params["n_jobs"],
            shuffle=True,
        )
        names = ("dim", "window", "negatives", "epochs", "learning_rate", "n_jobs")
        settings = {name: params[name] for name in names}
        self.embedding_, _ = embed_walks(walker, **settings, seed=params["random_state"], progress=progress)
        self.node_ids_, self.graph_ = graph.node_ids, graph
        if not np.isfinite(self.embedding_).all():
            problem = Message.of("training overflowed with {learning_rate}", learning_rate=params["learning_rate"])
            raise InputError(problem, parameter="learning_rate", hint="try a tenth of it")
        return self

    def transform(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the vectors of nodes, `(k, dim)`; None means all, in the order of `node_ids_`."""
        if not hasattr(self, "embedding_"):
            raise NotFittedError(f"this {type(self).__name__} has no vectors yet; call fit first")
        return self.embedding_ if nodes is None else self.embedding_[self.graph_.indices_of(nodes)]

    def save(self, folder: str | Path) -> None:
        """Write vectors, ids and graph to a folder, which `cge.load` reads: safetensors and JSON, no pickle."""
        self.transform()  # raises where there are no vectors
        save_estimator(self, folder, self.graph_, {}, {"embedding": self.embedding_})

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002 - as CGE
        """Restore what `save` wrote."""
        dim = self.get_params()["dim"]
        if arrays["embedding"].shape != (graph.num_nodes, dim) or arrays["embedding"].dtype != np.float32:
            raise InputError(f"the vectors must be ({graph.num_nodes}, {dim}) of float32")
        self.embedding_, self.node_ids_, self.graph_ = arrays["embedding"], graph.node_ids, graph


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

    def __init__(
        self,
        dim: Dim = 128,
        *,
        walk_length: WalkLength = 80,
        walks_per_node: WalksPerNode = 10,
        window: Window = 10,
        negatives: Negatives = 5,
        epochs: Epochs = 1,
        learning_rate: LearningRate = 0.05,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.dim = dim
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.window = window
        self.negatives = negatives
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.n_jobs = n_jobs


@documented
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

    def __init__(
        self,
        dim: Dim = 128,
        *,
        p: Return = 1.0,
        q: InOut = 1.0,
        walk_length: WalkLength = 80,
        walks_per_node: WalksPerNode = 10,
        window: Window = 10,
        negatives: Negatives = 5,
        epochs: Epochs = 1,
        learning_rate: LearningRate = 0.05,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.dim = dim
        self.p = p
        self.q = q
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.window = window
        self.negatives = negatives
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.n_jobs = n_jobs
