"""Class scores as a function of node vectors, and its linearization at single nodes.

A classifier is linear as long as the same hidden units are active. So near a node its scores are

    scores = constant + gradients · (sum over paths) + label_propagation

with gradients that are exact for this node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array


@dataclass(frozen=True, eq=False)
class LinearScores:
    """The linearized scores of some nodes: all `(q, c)`, except `vectors (q, d)` and `gradients (q, c, d)`.

    `constant` does not depend on paths; `remainder` is due to the part of the vectors that is not a sum over paths.
    """

    vectors: Array
    gradients: Array
    scores: Array
    constant: Array
    label_propagation: Array
    remainder: Array


@dataclass(frozen=True, eq=False)
class ScoreFunction:
    """A trained classifier or head as a function of node vectors.

    Attributes
    ----------
    inputs : (n, d) float64
        The input of each node, which a path takes from its endpoint to its start.
    score : callable
        Given nodes `(q,)` and vectors `(q, d)`, their class scores without label propagation, `(q, c)`.
    offset : (d,) float64
        Added to the sum over paths.
    label_propagation : (n, c) float64 or None
        The scores of the propagated training labels.
    vectors : (n, d) float64 or None
        The vectors, where they are not the sum over paths.
    """

    inputs: Array
    score: Callable[[Tensor, Tensor], Tensor]
    offset: Array
    label_propagation: Array | None = None
    vectors: Array | None = None

    def vectors_at(self, nodes: Array, path_sums: Array) -> Array:
        """Return the vectors of some nodes, `(q, d)`, given the sums over their paths, `(q, d)`."""
        return np.asarray(path_sums + self.offset if self.vectors is None else self.vectors[nodes])

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return the class scores of vectors, `(q, c)`, including label propagation."""
        with torch.no_grad():
            scores: Array = self.score(torch.from_numpy(nodes), _to_tensor(vectors)).double().numpy()
        return scores + self._propagated(nodes, scores.shape[1])

    def gradients(self, nodes: Array, vectors: Array, column: int | Array) -> Array:
        """Return the gradient of a class score, the same class or one for each node, by the vectors, `(q, d)`."""
        at = _to_tensor(vectors).requires_grad_()
        scores = self.score(torch.from_numpy(nodes), at)
        (gradient,) = torch.autograd.grad(scores[np.arange(len(nodes)), column].sum(), at)
        return np.asarray(gradient.double().numpy())

    def linearize(self, nodes: Array, path_sums: Array) -> LinearScores:
        """Return the linearized scores of some nodes, given the sums over all their paths, `(q, d)`."""
        vectors = self.vectors_at(nodes, path_sums)
        at = _to_tensor(vectors).requires_grad_()
        outputs = self.score(torch.from_numpy(nodes), at)
        columns = range(outputs.shape[1])
        parts = [torch.autograd.grad(outputs[:, column].sum(), at, retain_graph=True)[0] for column in columns]
        gradients = torch.stack(parts, dim=1).double().numpy()
        scores = outputs.detach().double().numpy()
        propagated = self._propagated(nodes, len(columns))
        constant = scores - np.einsum("qcd,qd->qc", gradients, vectors) + gradients @ self.offset
        beyond = np.zeros_like(vectors) if self.vectors is None else vectors - path_sums - self.offset
        remainder = np.einsum("qcd,qd->qc", gradients, beyond)
        return LinearScores(vectors, gradients, scores + propagated, constant, propagated, remainder)

    def _propagated(self, nodes: Array, classes: int) -> Array:
        return np.zeros((len(nodes), classes)) if self.label_propagation is None else self.label_propagation[nodes]


def _to_tensor(vectors: Array) -> Tensor:
    return torch.from_numpy(vectors.astype(np.float32))
