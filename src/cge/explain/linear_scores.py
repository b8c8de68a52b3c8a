"""How class scores are read off what paths bring, and what of it each number of a vector decides.

Readers are linear as long as the same hidden numbers are on. So near a node its scores are

    scores = constant + slopes · (what paths bring) + votes

with slopes that are exact for this node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Local", "Reading"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Local:
    """How some nodes read: all `(q, c)`, but `vectors (q, d)` and `slopes (q, c, d)`.

    `constant` is what does not come from paths; `remainder` is what vectors hold besides what paths bring.
    """

    vectors: Array
    slopes: Array
    scores: Array
    constant: Array
    votes: Array
    remainder: Array


@dataclass(frozen=True, eq=False)
class Reading:
    """A trained reader or head, as explanations see it.

    Attributes
    ----------
    carried : (n, d) float64
        What paths bring of each node that they end at.
    score : callable
        Given nodes `(q,)` and vectors `(q, d)`, their class scores without votes, `(q, c)`.
    offset : (d,) float64
        What is added to the sum over paths.
    votes : (n, c) float64 or None
        What known labels vote.
    vectors : (n, d) float64 or None
        The vectors, where they are not the sum over paths.
    """

    carried: Array
    score: Callable[[Tensor, Tensor], Tensor]
    offset: Array
    votes: Array | None = None
    vectors: Array | None = None

    def vectors_of(self, nodes: Array, propagated: Array) -> Array:
        """Return the vectors that are read at some nodes, `(q, d)`, to which paths bring `propagated (q, d)`."""
        found: Array = propagated + self.offset if self.vectors is None else self.vectors[nodes]
        return found

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return class scores of vectors, `(q, c)`, votes included."""
        with torch.no_grad():
            found: Array = self.score(torch.from_numpy(nodes), _single(vectors)).double().numpy()
        return found + self._propagated(nodes, found.shape[1])

    def slopes(self, nodes: Array, vectors: Array, place: int | Array) -> Array:
        """Return how a class score, the same or one for each, changes with each number of the vectors, `(q, d)`."""
        at = _single(vectors).requires_grad_()
        scores = self.score(torch.from_numpy(nodes), at)
        (found,) = torch.autograd.grad(scores[np.arange(len(nodes)), place].sum(), at)
        slopes: Array = found.double().numpy()
        return slopes

    def at(self, nodes: Array, propagated: Array) -> Local:
        """Return how some nodes read, to which all paths bring `propagated (q, d)`."""
        vectors = self.vectors_of(nodes, propagated)
        at = _single(vectors).requires_grad_()
        found = self.score(torch.from_numpy(nodes), at)
        classes = range(found.shape[1])
        parts = [torch.autograd.grad(found[:, place].sum(), at, retain_graph=True)[0] for place in classes]
        slopes = torch.stack(parts, dim=1).double().numpy()
        read = found.detach().double().numpy()
        votes = self._propagated(nodes, len(classes))
        own = read - np.einsum("qcd,qd->qc", slopes, vectors)
        constant = own + slopes @ self.offset
        beyond = np.zeros_like(vectors) if self.vectors is None else vectors - propagated - self.offset
        remainder = np.einsum("qcd,qd->qc", slopes, beyond)
        return Local(vectors, slopes, read + votes, constant, votes, remainder)

    def _propagated(self, nodes: Array, classes: int) -> Array:
        return np.zeros((len(nodes), classes)) if self.votes is None else self.votes[nodes]


def _single(vectors: Array) -> Tensor:
    return torch.from_numpy(vectors.astype(np.float32))
