"""What a method has to beat: features alone, labels alone, vectors of walks, and plain smoothing of features.

All choose their one number (the strength of regularization, or how far labels spread) on the selection labels.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from cge.errors import InputError
from cge.estimators.classifier import NodeClassifier, TaskLabels
from cge.estimators.embeddings import DeepWalk, Dim, Jobs, Node2Vec, Ratio, Seed, WalkLength, WalksPerNode, Window
from cge.estimators.settings import Setting, documented
from cge.graph import Graph
from cge.models.sparse_products import unit_rows

__all__ = ["SGC", "FeatureClassifier", "LabelPropagation", "WalkClassifier"]

Array = npt.NDArray[Any]

_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # inverse of regularization
_USUAL = 10.0  # of them, where nothing chooses
_KEPT = (0.5, 0.8, 0.9, 0.95, 0.99)  # share that propagation passes on
_SPREADS = 50  # steps of propagation


@documented
class FeatureClassifier(NodeClassifier):
    """Logistic regression on the features of a node, rows of unit length: nothing of the graph.

    Attributes
    ----------
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (2, 3)], features=np.eye(2)[[0, 0, 1, 1]])
    >>> FeatureClassifier().fit(graph, {0: "a", 2: "b"}).predict([1, 3]).tolist()
    ['a', 'b']
    """

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        return _regressed(_unit(graph), task)


@documented
class SGC(NodeClassifier):
    """Logistic regression on features that were smoothed over the graph (Wu et al. 2019, SGC).

    Attributes
    ----------
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict
    """

    def __init__(self, hops: Annotated[int, Setting("steps of smoothing", low=1, high=100)] = 2) -> None:
        self.hops = hops

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        smooth, x = _symmetric(graph, loops=True), _unit(graph)
        for _ in range(self.hops):
            x = smooth @ x
        return _regressed(x, task)


@documented
class LabelPropagation(NodeClassifier):
    """TaskLabels labels spread along edges (Zhou et al. 2004, "Learning with Local and Global Consistency").

    Attributes
    ----------
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (2, 3)])
    >>> LabelPropagation().fit(graph, {0: "a", 2: "b"}).predict([1, 3]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        class_mass: Annotated[
            bool, Setting("scale what spreads of each class to the share of its training labels (Zhu et al. 2003)")
        ] = False,
    ) -> None:
        self.class_mass = class_mass

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        classes = len(task.classes)
        labels = np.zeros((len(graph), classes + 1))  # in the last column, whether there is a label at all
        labels[task.train, :classes] = task.matrix(task.train)
        labels[task.train, classes] = 1
        share = labels.mean(axis=0) / labels[:, classes].mean()  # of the training labels
        smooth, found = _symmetric(graph, loops=False), {}
        for passed in _KEPT if task.choice is None else (task.choice,):
            spread = labels
            for _ in range(_SPREADS):
                spread = passed * (smooth @ spread) + (1 - passed) * labels
            if self.class_mass:
                spread = spread * (share / np.maximum(spread.sum(axis=0), 1e-12))
            there = spread[:, classes:] if task.multilabel else spread[:, :classes].sum(axis=1, keepdims=True)
            probabilities = np.minimum(spread[:, :classes] / np.maximum(there, 1e-300), 1.0)
            found[passed] = np.where(there > 0, probabilities, share[:classes])
        return _best(found, task)


@documented
class WalkClassifier(NodeClassifier):
    """Logistic regression on vectors of random walks, which no label has seen.

    Attributes
    ----------
    embedding_ : (n, dim) float32
    classes_ : (c,)
    node_ids_ : (n,)
    labels_seen_ : dict
    """

    def __init__(
        self,
        vectors: Annotated[str, Setting("whose vectors", choices=("deepwalk", "node2vec"))] = "deepwalk",
        *,
        features: Annotated[bool, Setting("append the features of a node to its vector")] = False,
        dim: Dim = 128,
        walk_length: WalkLength = 80,
        walks_per_node: WalksPerNode = 10,
        window: Window = 10,
        p: Ratio = 1.0,
        q: Ratio = 0.5,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.vectors = vectors
        self.features = features
        self.dim = dim
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.window = window
        self.p = p
        self.q = q
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, Any]:
        more = _unit(graph) if self.features else None
        if task.choice is None:  # vectors do not depend on labels
            self.embedding_ = self._vectors(graph)
        x: Any = unit_rows(self.embedding_)
        return _regressed(x if more is None else sp.csr_array(sp.hstack([x, more])), task)

    def _embedder(self) -> DeepWalk | Node2Vec:
        names = ("walk_length", "walks_per_node", "window", "random_state", "n_jobs")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.vectors == "node2vec":
            return Node2Vec(self.dim, p=self.p, q=self.q, **settings)
        return DeepWalk(self.dim, **settings)

    def _vectors(self, graph: Graph) -> Array:
        found: Array = self._embedder().fit(graph).embedding_
        return found

    def _arrays(self) -> dict[str, Array]:
        return {"embedding": self.embedding_}

    def _unpack(self, graph: Graph, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._unpack(graph, facts, arrays)
        if arrays["embedding"].shape != (len(graph), self.dim) or arrays["embedding"].dtype != np.float32:
            raise InputError(f"the vectors must be ({len(graph)}, {self.dim}) of float32")
        self.embedding_ = arrays["embedding"]


def _symmetric(graph: Graph, loops: bool) -> sp.csr_array:
    matrix = graph.to_scipy()
    if loops:
        matrix = matrix + sp.eye_array(graph.num_nodes)
    left, right = (sp.diags_array(1 / np.sqrt(np.maximum(matrix.sum(axis=axis), 1e-12))) for axis in (1, 0))
    return sp.csr_array(left @ matrix @ right)


def _unit(graph: Graph) -> sp.csr_array:
    """Return the features with rows of unit length."""
    if graph.features is None:
        raise InputError("this method needs node features, and the graph has none")
    rows: sp.csr_array = unit_rows(sp.csr_array(graph.features, dtype=np.float64))
    return rows


def _regressed(x: Any, task: TaskLabels) -> tuple[Array, float]:
    """Return the chances that logistic regression gives, and the strength that does best on the selection labels."""
    labels, found = task.codes[task.train], {}
    if sp.issparse(x):  # the weight of what no training node has is zero
        x = x[:, np.unique(x[task.train].indices)]
        if not x.shape[1]:
            return np.tile(task.matrix(task.train).mean(axis=0), (x.shape[0], 1)), _USUAL
    strengths = _STRENGTHS if len(task.validation) else (task.choice or _USUAL,)
    for strength in strengths:
        model: Any = LogisticRegression(C=strength, max_iter=1000)
        probabilities = np.zeros((x.shape[0], len(task.classes)))
        if task.multilabel:
            for place, column in enumerate(labels.T):  # what all have or nobody has, all have or nobody has
                varied = column.min() < column.max()
                probabilities[:, place] = (
                    model.fit(x[task.train], column).predict_proba(x)[:, 1] if varied else column[0]
                )
        else:
            with warnings.catch_warnings():  # a label for every second class is no reason to regress
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                model.fit(x[task.train], labels)
            probabilities[:, model.classes_] = model.predict_proba(x)
        found[strength] = probabilities
    return _best(found, task)


def _best(found: dict[float, Array], task: TaskLabels) -> tuple[Array, float]:
    """Return those of several chances that the selection labels prefer, by what they came; else the middle ones."""
    labels, choice = task.codes[task.validation], list(found)[len(found) // 2]
    if len(task.validation):
        choice = max(found, key=lambda one: task.target.score(found[one][task.validation], labels))
    return found[choice], choice
