"""`NodeClassifier`: a node classifier for scikit-learn's tools, in which a sample is a node id."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from cge.arrays import Array
from cge.errors import MAKE_GRAPH, InputError
from cge.estimators.cge import CGE
from cge.estimators.classifier import as_graph
from cge.estimators.estimator import not_fitted


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify nodes given by their ids: for `cross_val_score`, `GridSearchCV`, pipelines.

    `X` holds node ids and `y` their labels; the graph, with all its nodes and features, is a parameter. So splits of
    `X` are splits of the labels, as in transductive learning: test nodes are in the graph, but their labels are not.

    Parameters
    ----------
    graph : Graph, or an object that `Graph.of` understands
        Contains all nodes.
    estimator : estimator, optional
        A node classifier with `fit(graph, y)`; by default `CGE()`. Its settings are `estimator__…` in searches.

    Attributes
    ----------
    estimator_ : the trained estimator
    classes_ : (c,) the classes

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from cge.graph import Graph
    >>> graph = Graph.from_edges([(i + s, (i + 1) % 6 + s) for s in (0, 6) for i in range(6)])
    >>> cge_model = CGE("degree", classifier="mlp", validation_fraction=0, training={"max_epochs": 30})
    >>> nodes, labels = list(range(12)), ["left"] * 6 + ["right"] * 6
    >>> cross_val_score(NodeClassifier(graph, cge_model), nodes, labels, cv=3).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, graph: Any = None, estimator: Any = None) -> None:
        self.graph = graph
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.non_deterministic, tags.no_validation = False, True  # ids are checked against the graph
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Train on the labels `y` of the nodes `X`."""
        if self.graph is None:
            raise InputError("NodeClassifier needs a graph", parameter="graph", hint=MAKE_GRAPH)
        nodes, graph = _node_ids(X), as_graph(self.graph)
        labels = np.asarray(y)
        if len(labels) != len(nodes):
            raise InputError(f"there are {len(nodes):,} nodes in X, but {len(labels):,} labels in y")
        graph.indices_of(nodes, "X")
        if len(set(nodes)) != len(nodes):
            raise InputError("a node occurs more than once in X; give each one label")
        estimator = CGE() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.fit(graph, dict(zip(nodes, labels.tolist(), strict=True)))
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the classes of nodes, `(k,)`."""
        return np.asarray(self._trained().predict(_node_ids(X)))

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the probability of each class, `(k, c)`."""
        return np.asarray(self._trained().predict_proba(_node_ids(X)))

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the vectors of nodes, `(k, d)`, for a further step of a pipeline."""
        return np.asarray(self._trained().transform(_node_ids(X)))

    def _trained(self) -> Any:
        if not hasattr(self, "estimator_"):
            raise not_fitted("this NodeClassifier has not been trained yet; call fit first")
        return self.estimator_


def _node_ids(x: Any) -> list[Any]:
    """Return node ids: a list, a column of a table, or an array `(k,)` or `(k, 1)`."""
    values = np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else x, None if hasattr(x, "dtype") else object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"X must hold one node id in each row, found an array of shape {values.shape}")
    return list(values.tolist())
