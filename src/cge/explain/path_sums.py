"""A class score as sums over paths: paths to node inputs, and paths to labeled nodes (label propagation).

A classifier is linear as long as the same hidden units are active, so for small changes of a node's propagated inputs
its scores are

    scores = constant + gradients · (sum over paths) + label_propagation

with gradients that are exact for this node; the contribution of a path is path weight · ⟨input of its endpoint,
gradient of its start⟩. The score of propagated labels is such a sum too, exactly (`Target.label_factors`):

    label score of class c at node i = φ_ic Σ_p q(p) t_c(endpoint of p),   q(p) = a(p) / Σ a

over all paths from i to labeled nodes other than i, with t = `Target.label_values` of a label; a(p) is the product of
the edge weights of a path, without a hop weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cge.arrays import Array
from cge.explain.path_search import PathSet
from cge.explain.path_sources import AllPaths, PathSource
from cge.models.fixed_classifier import FixedClassifier
from cge.targets import Target

FEATURES, INPUTS, LABEL = "features", "inputs", "label"  # what paths end at


@dataclass(frozen=True, eq=False)
class LabelPaths:
    """The paths from all nodes to labeled ones.

    `sums (n, c)`, `total (n, 1)` and `reachable (n, 1)` are the results of `models.propagation.label_propagation`, for
    the labels `matrix (k, c)` of `labeled (k,)` nodes; `label_weight` is β, the coefficient of the label scores in the
    class scores.
    """

    paths: AllPaths
    target: Target
    labeled: Array
    matrix: Array
    sums: Array
    total: Array
    reachable: Array
    label_weight: float

    def gradients(self, nodes: Array) -> Array:
        """Return the contribution to each class of a path of weight 1 to a label of value 1, `(q, c)`."""
        factors = self.label_weight * self.target.label_factors(self._means(nodes))
        return np.where(self.reachable[nodes], factors / np.where(self.reachable, self.total, 1)[nodes], 0)

    def scores(self, nodes: Array) -> Array:
        """Return the sum over all paths of their contributions, `(q, c)`."""
        return np.asarray(self.gradients(nodes) * self.total[nodes] * self._means(nodes))

    def _means(self, nodes: Array) -> Array:
        total = np.where(self.reachable[nodes], self.total[nodes], np.inf)
        return self.target.label_values(self.sums[nodes] / total)

    def values(self, columns: Any = slice(None)) -> Array:
        """Return the label values of all nodes for some classes, `(n, columns)`; zero for unlabeled nodes."""
        of_labeled = self.target.label_values(self.matrix)[:, columns]
        values = np.zeros((self.paths.num_nodes, of_labeled.shape[1]))
        values[self.labeled] = of_labeled
        return values

    def to_endpoint(self, node: Array, endpoint: int) -> Array:
        """Return the sum of the contributions of the paths from one node, `(1,)`, to the label of another, `(c,)`."""
        weight = self.paths.to_endpoints(node, np.ones((1, 1)))[endpoint, 0]
        return np.asarray(weight * self.gradients(node)[0] * self.values()[endpoint])

    def contributions(self, paths: PathSet) -> Array:
        """Return the contributions of paths to each class score, `(b, c)`."""
        values = self.values()[paths.endpoints(self.paths.indices)]
        return np.asarray(paths.path_weight[:, None] * self.gradients(paths.start) * values)


@dataclass(frozen=True, eq=False)
class InputFeatures:
    """Node features as inputs: `rows (n, f)`, dense or sparse, their `names`, and W as `projection (f, d)`."""

    rows: Any
    projection: Array
    names: tuple[Any, ...]

    def contributions(self, at_endpoints: Array) -> Array:
        """Return the contribution of each feature, `(f,)`.

        `at_endpoints (n, d)`: sum over the paths to each node of path weight × gradient of the score.
        """
        return np.asarray(((self.rows.T @ at_endpoints) * self.projection).sum(axis=1))

    def of_node(self, node: int, at_endpoint: Array, top: int) -> tuple[tuple[Any, float], ...]:
        """Return the names and contributions of the `top` features of one endpoint, by size."""
        row = self.rows[[node]]
        values = (row.toarray() if hasattr(row, "toarray") else row)[0] * (self.projection @ at_endpoint)
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        return tuple((self.names[feature], float(values[feature])) for feature in order.tolist() if values[feature])


@dataclass(frozen=True, eq=False)
class PathSum:
    """The contributions of all paths of a `source` from `nodes (q,)` to one class score: a part of the score.

    `inputs (n, d)` are those of endpoints, `gradients (q, d)` those of the nodes; `kind` is what the paths end at.
    """

    kind: str
    source: PathSource
    nodes: Array
    inputs: Array
    gradients: Array

    def each(self, transform: Callable[[Array], Array] = np.positive) -> Array:
        """Return sums of `transform(contribution)` over the paths from each node to each endpoint, `(n, q)`.

        `transform` is `np.positive`, `np.abs`, or `count` for the number of paths that contribute.
        """
        path_weights = self.source.to_endpoints(self.nodes, np.eye(len(self.nodes)), transform)
        return np.asarray(transform(self._values()) * path_weights)

    def num_paths(self) -> Array:
        """Return the number of paths from each node that contribute, `(q,)`."""
        return self.source.count_paths(self.nodes, self._values() != 0)

    def _values(self) -> Array:
        """Return the contribution of a path of weight 1 from each node to each endpoint, `(n, q)`."""
        values: Array = self.inputs @ self.gradients.T
        if self.kind == LABEL:
            values[self.nodes, np.arange(len(self.nodes))] = 0  # leave-one-out
        return values

    def some(self, rows: slice) -> PathSum:
        """Return the sum for some of the nodes."""
        return replace(self, nodes=self.nodes[rows], gradients=self.gradients[rows])

    def top(self, top: int, hop: int | None = None, positive: bool = False) -> PathSet:
        """Return the paths with the largest contributions."""
        return self.source.top_by_contribution(self.nodes, self.gradients, self.inputs, top, hop, positive=positive)


@dataclass(frozen=True, eq=False)
class LinearScores:
    """The linearized scores of some nodes: all `(q, c)`, except `vectors (q, d)` and `gradients (q, c, d)`.

    `vectors` are the z of `ScoreFunction`. `constant` does not depend on paths; `remainder` is due to the part of z
    that is not a sum over paths.
    """

    vectors: Array
    gradients: Array
    scores: Array
    constant: Array
    label_propagation: Array
    remainder: Array


class NodeScores(Protocol):
    """Class scores of nodes as a function of their vectors z, `(q, d)`."""

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return the class scores, `(q, c)`."""

    def gradients(self, nodes: Array, vectors: Array, classes: int | Array) -> Array:
        """Return the gradient of the score of a class, the same or one for each node, by the vectors, `(q, d)`."""


@dataclass(frozen=True, eq=False)
class ClassifierScores:
    """The scores of a classifier for z divided by `lengths (n,)`, which are 1 unless inputs have unit length."""

    classifier: FixedClassifier
    lengths: Array

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return the class scores."""
        return self.classifier.scores(vectors / self.lengths[nodes][:, None])

    def gradients(self, nodes: Array, vectors: Array, classes: int | Array) -> Array:
        """Return the gradient of the score of a class."""
        lengths = self.lengths[nodes][:, None]
        return np.asarray(self.classifier.gradients(vectors / lengths, classes) / lengths)


@dataclass(frozen=True, eq=False)
class ScoreFunction:
    """A trained classifier or head as a function of vectors z of the nodes; arrays are float64.

    For `CGE`, z are the projected propagated inputs: the sum over paths of path weight × projected input of the
    endpoint, `inputs (n, d)`, plus `offset (d,)`. For `PaperCGE`, z are the node vectors, `vectors (n, d)`.
    `of_vectors` gives the class scores of z; the scores of `label_paths` are added if labels are propagated. `features`
    are the node features that inputs are computed from, None for other inputs.
    """

    inputs: Array
    of_vectors: NodeScores
    offset: Array
    label_paths: LabelPaths | None = None
    vectors: Array | None = None
    features: InputFeatures | None = None

    def vectors_at(self, nodes: Array, path_sums: Array) -> Array:
        """Return z of some nodes, `(q, d)`, given the sums over their paths, `(q, d)`."""
        return np.asarray(path_sums + self.offset if self.vectors is None else self.vectors[nodes])

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return the class scores for vectors z, `(q, c)`, including label propagation."""
        scores = self.of_vectors.scores(nodes, vectors)
        return scores + self._propagated(nodes, scores.shape[1])

    def gradients(self, nodes: Array, vectors: Array, column: int | Array) -> Array:
        """Return the gradient of a class score by z, `(q, d)`; of the same class, or one class for each node."""
        return self.of_vectors.gradients(nodes, vectors, column)

    def linearize(self, nodes: Array, path_sums: Array) -> LinearScores:
        """Return the linearized scores of some nodes, given the sums over all their paths, `(q, d)`."""
        vectors = self.vectors_at(nodes, path_sums)
        scores = self.of_vectors.scores(nodes, vectors)
        columns = range(scores.shape[1])
        gradients = np.stack([self.of_vectors.gradients(nodes, vectors, column) for column in columns], axis=1)
        propagated = self._propagated(nodes, len(columns))
        constant = scores - np.einsum("qcd,qd->qc", gradients, vectors) + gradients @ self.offset
        beyond = np.zeros_like(vectors) if self.vectors is None else vectors - path_sums - self.offset
        remainder = np.einsum("qcd,qd->qc", gradients, beyond)
        return LinearScores(vectors, gradients, scores + propagated, constant, propagated, remainder)

    def _propagated(self, nodes: Array, classes: int) -> Array:
        return np.zeros((len(nodes), classes)) if self.label_paths is None else self.label_paths.scores(nodes)
