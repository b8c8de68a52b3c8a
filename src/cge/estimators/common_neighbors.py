"""The baseline of link prediction: common neighbors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from cge.arrays import Array
from cge.graph import Graph
from cge.models.edge_features import shared_neighbors


class CommonNeighbors(BaseEstimator):  # type: ignore[misc]
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
        matrix = graph.to_scipy()
        matrix = sp.csr_array(matrix + matrix.T)
        matrix.setdiag(0)
        matrix.eliminate_zeros()
        matrix.data[:] = 1
        self.node_ids_, self._matrix = graph.node_ids, matrix
        return self

    def link_scores(self, pairs: npt.ArrayLike) -> dict[str, Array]:
        """Return scores of pairs of node numbers `(k, 2)`, by the name of the score."""
        first, second = np.asarray(pairs).T
        scores = shared_neighbors(self._matrix, first, second)
        return dict(zip(("common neighbors", "Adamic-Adar"), scores, strict=True))
