"""Baselines: logistic regression on features, on smoothed features and on vectors of walks; label propagation.

Each selects its strength of regularization or propagation on the validation labels. Common neighbors predict links,
propagated features are vectors without labels.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.classifier import BaselineClassifier, TaskLabels
from cge.estimators.embeddings import DeepWalk, Node2Vec, NodeVectors, stored_vectors
from cge.estimators.estimator import Estimator
from cge.estimators.settings import N_JOBS, RANDOM_STATE, documented, param
from cge.graph import Graph
from cge.models.edge_features import shared_neighbors
from cge.models.pair_inputs import neighbor_matrix
from cge.models.sparse_products import SparseFeatures, sparse_product, unit_rows
from cge.randomness import generator
from cge.training.encoder_data import EncoderData

if TYPE_CHECKING:
    from torch import Tensor

_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # C of LogisticRegression, the inverse of regularization
_DEFAULT_STRENGTH = 10.0  # without validation labels
_ALPHAS = (0.5, 0.8, 0.9, 0.95, 0.99)  # share of the neighbors' labels in an iteration of label propagation
_ITERATIONS = 50


@documented
class FeatureClassifier(BaselineClassifier):
    """Logistic regression on the node features, with rows of unit length; edges are not used.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (2, 3)], features=np.eye(2)[[0, 0, 1, 1]])
    >>> FeatureClassifier().fit(graph, {0: "a", 2: "b"}).predict([1, 3]).tolist()
    ['a', 'b']
    """

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        return _linear_model(unit_features(graph), task)


@documented
@dataclass(eq=False, repr=False)
class SGC(BaselineClassifier):
    """Logistic regression on features propagated along edges (Wu et al. 2019)."""

    hops: int = param(2, "hops of feature propagation", low=1, high=100)

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        adjacency, x = normalized_adjacency(graph, self_loops=True), unit_features(graph)
        for _ in range(self.hops):
            x = adjacency @ x
        return _linear_model(x, task)


@documented
@dataclass(eq=False, repr=False)
class LabelPropagation(BaselineClassifier):
    """Label propagation along edges (Zhou et al. 2004, "Learning with Local and Global Consistency").

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (2, 3)])
    >>> LabelPropagation().fit(graph, {0: "a", 2: "b"}).predict([1, 3]).tolist()
    ['a', 'b']
    """

    class_mass: bool = param(False, "class mass normalization: scale scores to the class frequencies (Zhu et al. 2003)")

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        n_classes = len(task.classes)
        labels = np.zeros((len(graph), n_classes + 1))  # the last column is 1 for each labeled node
        labels[task.train, :n_classes] = task.matrix(task.train)
        labels[task.train, n_classes] = 1
        prior = labels.mean(axis=0) / labels[:, n_classes].mean()  # class frequencies of the training labels
        adjacency, candidates = normalized_adjacency(graph, self_loops=False), {}
        for alpha in _ALPHAS if task.choice is None else (task.choice,):
            scores = labels
            for _ in range(_ITERATIONS):
                scores = alpha * (adjacency @ scores) + (1 - alpha) * labels
            if self.class_mass:
                scores = scores * (prior / np.maximum(scores.sum(axis=0), 1e-12))
            outputs = task.target.mean_labels(scores[:, :n_classes], scores[:, n_classes:])
            candidates[alpha] = np.where(np.isnan(outputs), prior[:n_classes], outputs)
        return _best(candidates, task)


class VectorClassifier(BaselineClassifier):
    """A classifier of vectors of size `dim`, `embedding_`, which are saved with it."""

    dim: int
    embedding_: Array

    def _arrays(self) -> dict[str, Array]:
        return {"embedding": self.embedding_}

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._unpack(graph, metadata, arrays)
        self.embedding_ = stored_vectors(arrays, graph, self.dim)


@documented
@dataclass(eq=False, repr=False)
class WalkClassifier(VectorClassifier):
    """Logistic regression on vectors of random walks, which are trained without labels.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        Vectors, a row for each of `node_ids_`.
    """

    vectors: str = param("deepwalk", "method of the vectors", choices=("deepwalk", "node2vec"))
    _: KW_ONLY
    features: bool = param(False, "append the node features to the vectors")
    dim: int = param(128, "size of the vectors", low=1, high=4096)
    walk_length: int = param(80, "nodes in a walk", low=2)
    walks_per_node: int = param(10, "walks from each node", low=1)
    window: int = param(10, "largest distance in a walk between the nodes of a pair", low=1, high=1000)
    p: float = param(1.0, "return parameter of node2vec: 1/p is the weight of going back", low=1e-9, high=1e9)
    q: float = param(0.5, "in-out parameter of node2vec: 1/q is the weight of going farther away", low=1e-9, high=1e9)
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        features = unit_features(graph) if self.features else None
        if task.choice is None:  # vectors do not depend on labels
            self.embedding_ = self._vectors(graph)
        if features is None:
            return classify_vectors(self.embedding_, task)
        return _linear_model(sp.csr_array(sp.hstack([unit_rows(self.embedding_), features])), task)

    def _embedder(self) -> DeepWalk | Node2Vec:
        names = ("walk_length", "walks_per_node", "window", "random_state", "n_jobs")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.vectors == "node2vec":
            return Node2Vec(self.dim, p=self.p, q=self.q, **settings)
        return DeepWalk(self.dim, **settings)

    def _vectors(self, graph: Graph) -> Array:
        vectors: Array = self._embedder().fit(graph).embedding_
        return vectors


@documented
@dataclass(eq=False, repr=False)
class PropagatedFeatures(NodeVectors):
    """Vectors from features propagated along edges, without labels: principal components of mean over k of S^k X.

    X are the features, scaled as for `CGE`, and S = D^-½ (A + I) D^-½ as in GCN and SGC, k = 0 … `hops`. With more than
    `dim` features they are projected to the leading right singular vectors of the mean.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2)], features=np.eye(3))
    >>> PropagatedFeatures(dim=2, hops=1).fit(graph).embedding_.shape
    (3, 2)
    """

    dim: int = param(128, "largest size of the vectors; as many as there are features, if these are fewer", low=1)
    _: KW_ONLY
    hops: int = param(4, "hops of feature propagation", low=0, high=100)
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    def _width(self, graph: Graph) -> int:
        return min(self.dim, 0 if graph.features is None else int(graph.features.shape[1]))

    def _vectors(self, graph: Graph, progress: Any) -> Array:  # noqa: ARG002 - a short computation
        if graph.features is None:
            problem = "propagated features need features, and the graph has none"
            raise InputError(problem, hint=Message.of("pass {features}"))
        import torch

        from cge.training.torch_state import one_thread
        from cge.training.walk_embedding import leading_eigenvectors

        inputs = EncoderData(graph, n_jobs=self.n_jobs).inputs("l2")
        x = sp.csr_array(inputs.csr if isinstance(inputs, SparseFeatures) else inputs, dtype=np.float64)
        adjacency, dim = normalized_adjacency(graph, self_loops=True), self._width(graph)
        to_ends, to_starts = (
            partial(self._mean_over_hops, matrix) for matrix in (adjacency, sp.csr_array(adjacency.T))
        )
        if dim == x.shape[1]:
            return to_ends(x.toarray()).astype(np.float32)
        columns = sp.csr_array(x.T)

        def gram(basis: Tensor) -> Tensor:
            """Return Zᵀ Z · basis, where Z is the mean over hops of S^k X."""
            rows = to_starts(to_ends(sparse_product(x, basis.numpy(), self.n_jobs)))
            return torch.from_numpy(sparse_product(columns, rows, self.n_jobs))

        with one_thread():
            _, directions = leading_eigenvectors(gram, x.shape[1], dim, 5, generator(self.random_state, "directions"))
        return to_ends(sparse_product(x, directions.numpy(), self.n_jobs)).astype(np.float32)

    def _mean_over_hops(self, matrix: sp.csr_array, rows: Array) -> Array:
        total = rows
        for _ in range(self.hops):
            rows = sparse_product(matrix, rows, self.n_jobs)
            total = total + rows
        return np.asarray(total / (self.hops + 1))


class CommonNeighbors(Estimator):
    """Scores pairs of nodes by their common neighbors; directions and weights of edges are ignored.

    Attributes
    ----------
    node_ids_ : (n,)
        The node ids of the graph.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> CommonNeighbors().fit(graph).link_scores([[0, 2], [0, 1]])["common neighbors"].tolist()
    [2.0, 0.0]
    """

    def fit(self, graph: Graph, y: None = None) -> CommonNeighbors:  # noqa: ARG002 - scikit-learn passes it
        """Store the neighbors of all nodes of a graph."""
        self.node_ids_, self._matrix = graph.node_ids, neighbor_matrix(graph)
        return self

    def link_scores(self, pairs: npt.ArrayLike) -> dict[str, Array]:
        """Return scores of pairs of node numbers `(k, 2)`, by the name of the score."""
        first, second = np.asarray(pairs).T
        scores = shared_neighbors(self._matrix, first, second)
        return dict(zip(("common neighbors", "Adamic-Adar"), scores, strict=True))


def normalized_adjacency(graph: Graph, self_loops: bool) -> sp.csr_array:
    """Return D_out^-½ A D_in^-½, with or without self-loops."""
    matrix = graph.to_scipy()
    if self_loops:
        matrix = matrix + sp.eye_array(graph.num_nodes)
    by_row, by_column = (sp.diags_array(1 / np.sqrt(np.maximum(matrix.sum(axis=axis), 1e-12))) for axis in (1, 0))
    return sp.csr_array(by_row @ matrix @ by_column)


def unit_features(graph: Graph) -> sp.csr_array:
    """Return the features with rows of unit length."""
    if graph.features is None:
        raise InputError("this method needs node features, and the graph has none")
    rows: sp.csr_array = unit_rows(sp.csr_array(graph.features, dtype=np.float64))
    return rows


def classify_vectors(vectors: Array, task: TaskLabels) -> tuple[Array, float]:
    """Return outputs `(n, c)` of a linear model of vectors `(n, d)` alone, such as logistic regression, and its C.

    Rows are scaled to unit length. The validation labels select C, the inverse strength of regularization.
    """
    return _linear_model(unit_rows(vectors), task)


def _linear_model(x: Any, task: TaskLabels) -> tuple[Array, float]:
    """Return the outputs of a linear model, and the strength that is best on the validation labels."""
    if sp.issparse(x):  # features that no training node has get the weight zero
        x = x[:, np.unique(x[task.train].indices)]
        if not x.shape[1]:
            return np.tile(task.matrix(task.train).mean(axis=0), (x.shape[0], 1)), _DEFAULT_STRENGTH
    return _best(linear_models(x, task), task)


def linear_models(x: Any, task: TaskLabels) -> dict[float, Array]:
    """Return the outputs `(n, c)` of a linear model of `x (n, d)`, for each value of C."""
    labels = task.codes[task.train]
    strengths = _STRENGTHS if len(task.validation) else (task.choice or _DEFAULT_STRENGTH,)
    return {strength: task.target.linear_outputs(x, task.train, labels, strength) for strength in strengths}


def _best(candidates: dict[float, Array], task: TaskLabels) -> tuple[Array, float]:
    """Return the outputs with the best validation score and their hyperparameter; without labels the middle."""
    labels, choice = task.codes[task.validation], list(candidates)[len(candidates) // 2]
    if len(task.validation):
        scores = {value: task.target.as_scores(outputs[task.validation]) for value, outputs in candidates.items()}
        choice = max(scores, key=lambda value: task.target.score(scores[value], labels))
    return candidates[choice], choice
