"""`LinkPredictor`: which links of a graph are likely to be missing, learned from edges that are held out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import checked_integer, edge_columns
from cge.data.link_split import Links, hold_out_links
from cge.estimators.classifier import as_graph, check_fitted
from cge.estimators.estimator import Estimator
from cge.estimators.similar import SimilarNodes
from cge.graph import Graph
from cge.models.pair_inputs import candidate_pairs, neighbor_matrix, pair_inputs
from cge.models.sparse_products import unit_rows
from cge.randomness import generator
from cge.training.dense_scale import feature_scale, scaled_unit_rows

_HELD_OUT = 0.1, 0.1  # shares of the edges that train the scores, and that select the penalty
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # inverse penalties of the logistic regression
_DIM = 128  # of vectors of walks and of random projections of features
_NEAREST = 10  # candidates by vectors for each node
_MAX_EXACT = 20_000  # nodes up to which nearest vectors of all nodes are compared exactly
_PROPAGATED_HOPS = 4

Vectors = Callable[[Graph], dict[str, Array]]


class Link(NamedTuple):
    """A pair of nodes, and the probability that it is an edge rather than a random pair (as many of both)."""

    source: Any
    target: Any
    score: float


class LinkPredictor(Estimator):
    """Scores pairs of nodes by logistic regression on their neighbors, paths, and the cosines of their vectors.

    A tenth of the edges is held out; they, and as many random pairs that are no edges, are the training data. All
    inputs are computed on the graph without them, so an edge never describes itself; a further tenth selects the
    penalty. Afterwards inputs are those of the whole graph. Vectors are walk embeddings (NetMF factorization up to
    20,000 nodes, DeepWalk above) and propagated features, where the graph has features.

    Parameters
    ----------
    random_state : int
        The seed of held-out edges, random pairs and vectors.
    n_jobs : int, optional
        Threads; results do not depend on it.

    Attributes
    ----------
    coefficients_ : {name: float}
        Of the standardized inputs.
    validation_auc_ : float
        The AUC of the edges that select the penalty.
    graph_, node_ids_
        The graph and its node ids.

    Examples
    --------
    >>> ring = Graph.from_edges([(i, (i + k) % 30) for i in range(30) for k in (1, 2, 3) if (i, k) != (0, 2)])
    >>> LinkPredictor().fit(ring).top_links(1)[0][:2]
    (0, 2)
    """

    def __init__(self, random_state: int = 0, n_jobs: int | None = None) -> None:
        self.random_state, self.n_jobs = random_state, n_jobs

    def fit(self, graph: Graph, y: None = None, *, vectors: Vectors | None = None) -> Self:  # noqa: ARG002
        """Train on the edges of a graph; `vectors` maps a graph to further vectors of its nodes, by name."""
        graph = as_graph(graph)
        test, validation = _HELD_OUT
        split = hold_out_links(graph, test, validation, seed=self.random_state)
        make = self._vectors if vectors is None else lambda part: self._vectors(part) | vectors(part)
        adjacency, held_out_vectors = neighbor_matrix(split.graph), make(split.graph)

        def inputs(links: Links) -> Array:
            return pair_inputs(adjacency, links.pairs, held_out_vectors)[0]

        x, x_validation = inputs(split.test), inputs(split.validation)
        self._mean, self._spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
        x, x_validation = ((each - self._mean) / self._spread for each in (x, x_validation))
        linked = split.test.linked, split.validation.linked
        self._weights, self._bias, self.validation_auc_ = _fit_logistic(x, x_validation, *linked)
        self.graph_, self.node_ids_ = graph, graph.node_ids
        self._adjacency, self._table = neighbor_matrix(graph), make(graph)
        names = pair_inputs(self._adjacency, split.test.pairs[:1], self._table)[1]
        self.coefficients_ = dict(zip(names, self._weights.tolist(), strict=True))
        return self

    def _vectors(self, graph: Graph) -> dict[str, Array]:
        """Return the vectors whose cosines are inputs, by name."""
        from cge.training.encoder_settings import MAX_FACTORIZED_NODES
        from cge.training.walk_embedding import embed_walks, factorize_walks

        options: Any = {"dim": min(_DIM, len(graph) // 2), "seed": self.random_state, "n_jobs": self.n_jobs}
        if len(graph) <= MAX_FACTORIZED_NODES:
            vectors = {"walks": factorize_walks(graph, **options)}
        else:
            from cge.sampling import Walker

            walker = Walker(graph, 40, 5, seed=self.random_state, n_jobs=self.n_jobs, shuffle=True)
            vectors = {"walks": embed_walks(walker, window=5, negatives=5, **options)[0]}
        return vectors | _feature_vectors(graph)

    def link_scores(self, pairs: npt.ArrayLike) -> dict[str, Array]:
        """Return scores of pairs of node numbers `(k, 2)`, by the name of the score: the log odds of an edge."""
        check_fitted(self)
        x, _ = pair_inputs(self._adjacency, np.asarray(pairs), self._table)
        return {"trained": ((x - self._mean) / self._spread * self._weights).sum(axis=1) + self._bias}

    def edge_probabilities(self, pairs: Any) -> Array:
        """Return the probability that pairs of node ids are edges, where edges and random pairs are as many, `(k,)`."""
        check_fitted(self)
        columns = [self.graph_.indices_of(column, "pairs") for column in edge_columns(pairs, "pair")]
        scores = self.link_scores(np.stack(columns, axis=1))["trained"]
        return np.asarray(1 / (1 + np.exp(-scores)))

    def candidates(self, node: Hashable | None = None) -> Array:
        """Return pairs that may be missing links, of all nodes or of one, `(k, 2)`."""
        check_fitted(self)
        rows = np.arange(len(self.graph_)) if node is None else np.array([self.graph_.index_of(node)])
        nearest = np.empty((len(self.graph_), 0), np.int64)
        if len(rows) == 1 or len(self.graph_) <= _MAX_EXACT:
            vectors = np.concatenate([unit_rows(table) for table in self._table.values()], axis=1)
            similar = SimilarNodes(self.node_ids_, vectors)
            known = rows[np.abs(vectors[rows]).sum(axis=1) > 0]
            places, _ = similar.nearest(self.node_ids_[known], _NEAREST) if len(known) else (np.empty((0, 0)), None)
            nearest = np.full((len(self.graph_), places.shape[1]), -1, np.int64)
            nearest[:] = np.arange(len(self.graph_))[:, None]  # a pair of a node with itself is dropped
            nearest[known] = places
        return candidate_pairs(self._adjacency, nearest, nodes=rows)

    def top_links(self, top: int = 100, node: Hashable | None = None) -> list[Link]:
        """Return the most probable links that the graph does not have, of all nodes or of one, the best first."""
        top = checked_integer("top", top, 1)
        pairs = self.candidates(node)
        scores = self.link_scores(pairs)["trained"]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[:top]
        odds = 1 / (1 + np.exp(-scores[order]))
        columns = [self.node_ids_[pairs[order, side]].tolist() for side in (0, 1)]
        links = [Link(*row) for row in zip(*columns, odds.tolist(), strict=True)]
        return links if node is None else [link if link.source == node else Link(node, *link[::2]) for link in links]


_PREDICTORS: WeakKeyDictionary[Any, LinkPredictor] = WeakKeyDictionary()  # by the trained model


def predictor_of(model: Any, random_state: int = 0) -> LinkPredictor:
    """Return the link predictor of the graph of a trained model; the last one is kept as long as the model."""
    kept = _PREDICTORS.get(model)
    if kept is None or kept.graph_ is not model.graph_ or kept.random_state != random_state:
        kept = LinkPredictor(random_state, getattr(model, "n_jobs", None)).fit(model.graph_)
        _PREDICTORS[model] = kept
    return kept


def _feature_vectors(graph: Graph) -> dict[str, Array]:
    """Return features, and features propagated along edges, as random projections; none without features."""
    features: Any = graph.features
    if features is None:
        return {}
    if sp.issparse(features):
        present = np.maximum(np.bincount(features.indices, minlength=features.shape[1]), 1)
        rows: Any = unit_rows(sp.csr_array(features.multiply(np.log1p(len(graph) / present)[None, :])))
    else:
        rows = scaled_unit_rows(features, feature_scale(features))
    dim = min(features.shape[1], 4 * _DIM)
    projection = np.eye(features.shape[1], dtype=np.float32)
    if dim < features.shape[1]:
        projection = generator(0, "link features").standard_normal((features.shape[1], dim), np.float32)
    hidden = np.asarray(rows @ projection, np.float32)
    adjacency = neighbor_matrix(graph)
    walk = sp.csr_array(adjacency.multiply(1 / np.maximum(np.diff(adjacency.indptr), 1)[:, None]), dtype=np.float32)
    vectors, propagated = {"features": hidden}, hidden
    for hop in range(1, _PROPAGATED_HOPS + 1):
        propagated = (propagated + walk @ propagated) / 2
        vectors[f"features propagated {hop} hops"] = propagated
    return vectors


def _fit_logistic(x: Array, x_validation: Array, linked: Array, validation: Array) -> tuple[Array, float, float]:
    """Return weights and bias of the logistic regression with the best AUC of the validation pairs, and that AUC."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    best: tuple[Array, float, float] | None = None
    for strength in _STRENGTHS:
        model: Any = LogisticRegression(C=strength, max_iter=1000).fit(x, linked)
        auc = float(roc_auc_score(validation, x_validation @ model.coef_[0]))
        if best is None or auc > best[2]:
            best = np.array(model.coef_[0]), float(model.intercept_[0]), auc
    assert best is not None  # noqa: S101 - for the type checker
    return best
