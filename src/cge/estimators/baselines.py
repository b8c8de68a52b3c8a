"""What a method has to beat: features alone, labels alone, and plain smoothing of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from cge.graph import Graph

__all__ = ["features_only", "label_propagation", "sgc"]

Array = npt.NDArray[Any]

_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # inverse of regularization, chosen on validation labels
_KEPT = (0.5, 0.8, 0.9, 0.95, 0.99)  # share that propagation passes on, likewise
_SMOOTHED = 2  # steps of SGC


def features_only(graph: Graph, labels: Array, train: Array, validation: Array) -> Array:
    """Return the classes that logistic regression on the features of a node predicts, `(n,)`."""
    return _regressed(_unit(graph.features), labels, train, validation)


def sgc(graph: Graph, labels: Array, train: Array, validation: Array) -> Array:
    """Return the classes that logistic regression predicts on features smoothed twice, as SGC does, `(n,)`.

    Wu et al. 2019, "Simplifying Graph Convolutional Networks".
    """
    smooth, x = _symmetric(graph, loops=True), _unit(graph.features)
    for _ in range(_SMOOTHED):
        x = smooth @ x
    return _regressed(x, labels, train, validation)


def label_propagation(graph: Graph, labels: Array, train: Array, validation: Array, steps: int = 50) -> Array:
    """Return the classes that known labels spread to, `(n,)`.

    Zhou et al. 2004, "Learning with Local and Global Consistency".
    """
    known = np.zeros((graph.num_nodes, int(labels[train].max()) + 1))
    known[train, labels[train]] = 1
    smooth, found = _symmetric(graph, loops=False), []
    for share in _KEPT:
        spread = known
        for _ in range(steps):
            spread = share * (smooth @ spread) + (1 - share) * known
        found.append(spread.argmax(1))
    return max(found, key=lambda one: float(np.mean(one[validation] == labels[validation])))


def _symmetric(graph: Graph, loops: bool) -> sp.csr_array:
    matrix = graph.to_scipy()
    if loops:
        matrix = matrix + sp.eye_array(graph.num_nodes)
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    root = sp.diags_array(1 / np.sqrt(np.maximum(degree, 1e-12)))
    return sp.csr_array(root @ matrix @ root)


def _unit(features: Any) -> sp.csr_array:
    rows = sp.csr_array(features, dtype=np.float64)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ rows)


def _regressed(x: Any, labels: Array, train: Array, validation: Array) -> Array:
    """Return what logistic regression predicts, with the strength that does best on the validation labels."""
    best: tuple[float, Array] = -1.0, np.empty(0)
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=1000).fit(x[train], labels[train])
        predicted = model.predict(x)
        accuracy = float(np.mean(predicted[validation] == labels[validation]))
        if accuracy > best[0]:
            best = accuracy, predicted
    return best[1]
