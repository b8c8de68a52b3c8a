"""DeepWalk and node2vec: vectors from walks alone, on the same kernels as everything else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cge.errors import InputError
from cge.estimators.settings import Setting, check_settings
from cge.graph import Graph
from cge.sampling import Walker
from cge.training.embedding import embed_walks

__all__ = ["DeepWalk", "Node2Vec"]

Array = npt.NDArray[Any]

Dim = Annotated[int, Setting("numbers in a vector", low=1, high=4096)]
WalkLength = Annotated[int, Setting("nodes in a walk", low=2)]
WalksPerNode = Annotated[int, Setting("walks from each node", low=1)]
Window = Annotated[int, Setting("steps to each side of a node that make pairs", low=1, high=1000)]
Negatives = Annotated[int, Setting("negatives that each pair counts", low=1, high=100)]
Epochs = Annotated[int, Setting("rounds of walks, each with walks of its own", low=1)]
LearningRate = Annotated[float, Setting("first learning rate; it falls linearly", above=0, high=10)]
Seed = Annotated[int, Setting("seed; the same seed gives the same bytes for any number of threads", low=0)]
Threads = Annotated[int | None, Setting("threads; None uses every core", low=1, optional=True)]
Ratio = Annotated[float, Setting("1/p weighs the way back, 1/q the way away", low=1e-9, high=1e9)]


class DeepWalk(BaseEstimator):  # type: ignore[misc]
    """Vectors from uniform random walks and skip-gram with negative sampling (Perozzi et al. 2014).

    Attributes
    ----------
    embedding_ : (n, dim) float32
        A row for each of `node_ids_`.
    node_ids_ : (n,)

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
        threads: Threads = None,
    ) -> None:
        self.dim = dim
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.window = window
        self.negatives = negatives
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.threads = threads

    def fit(
        self,
        graph: Graph,
        y: None = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        progress: Callable[[float], None] | None = None,
    ) -> DeepWalk:
        """Train vectors for every node of `graph`; `progress` is called with the share done."""
        _fit(self, graph, 1.0, 1.0, progress)
        return self

    def transform(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the vectors of nodes, `(k, dim)`; None means all, in the order of `node_ids_`."""
        return _vectors(self, nodes)


class Node2Vec(BaseEstimator):  # type: ignore[misc]
    """Vectors from node2vec's walks and skip-gram with negative sampling (Grover and Leskovec 2016).

    `p` and `q` as in the paper: 1/p weighs the way back, 1/q the way to nodes that are not neighbors of the last one.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        A row for each of `node_ids_`.
    node_ids_ : (n,)

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
        p: Ratio = 1.0,
        q: Ratio = 1.0,
        walk_length: WalkLength = 80,
        walks_per_node: WalksPerNode = 10,
        window: Window = 10,
        negatives: Negatives = 5,
        epochs: Epochs = 1,
        learning_rate: LearningRate = 0.05,
        random_state: Seed = 0,
        threads: Threads = None,
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
        self.threads = threads

    def fit(
        self,
        graph: Graph,
        y: None = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        progress: Callable[[float], None] | None = None,
    ) -> Node2Vec:
        """Train vectors for every node of `graph`; `progress` is called with the share done."""
        _fit(self, graph, float(self.p), float(self.q), progress)
        return self

    def transform(self, nodes: Iterable[Hashable] | None = None) -> Array:
        """Return the vectors of nodes, `(k, dim)`; None means all, in the order of `node_ids_`."""
        return _vectors(self, nodes)


def _fit(model: Any, graph: Graph, p: float, q: float, progress: Callable[[float], None] | None) -> None:
    check_settings(model)
    if not isinstance(graph, Graph):
        raise InputError(f"fit takes a cge.Graph, found a {type(graph).__name__}; Graph.from_edges makes one")
    if graph.num_nodes == 0:
        raise InputError("the graph has no nodes, so there is nothing to embed")
    walker = Walker(
        graph,
        model.walk_length,
        model.walks_per_node,
        p=p,
        q=q,
        seed=model.random_state,
        threads=model.threads,
        shuffle=True,
    )
    model.embedding_, _ = embed_walks(
        walker,
        dim=model.dim,
        window=model.window,
        negatives=model.negatives,
        epochs=model.epochs,
        learning_rate=model.learning_rate,
        seed=model.random_state,
        threads=model.threads,
        progress=progress,
    )
    model.node_ids_ = graph.node_ids
    model.graph_ = graph
    if not np.isfinite(model.embedding_).all():
        raise InputError(f"training overflowed with learning_rate={model.learning_rate}; try a tenth of it")


def _vectors(model: Any, nodes: Iterable[Hashable] | None) -> Array:
    if not hasattr(model, "embedding_"):
        raise NotFittedError(f"this {type(model).__name__} has no vectors yet; call fit first")
    vectors: Array = model.embedding_
    return vectors if nodes is None else vectors[model.graph_.indices_of(nodes)]
