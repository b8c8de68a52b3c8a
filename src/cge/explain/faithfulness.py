"""Are explanations true? Take the paths away that are said to matter, and look whether the prediction goes.

*Deletion* takes paths out of a node's vector, *insertion* gives them back to a vector without any; the most important
first, or in random order. If the explanation is faithful, deletion by importance falls faster than deletion at random,
and insertion rises faster. Heavy paths matter whatever they say; a third order, the heaviest first, shows how much of
that is weight alone, and how much is knowing what a path says of the class. Petsiuk et al. 2018
(https://arxiv.org/abs/1806.07421) measure explanations of pictures so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SHARES", "Faithfulness", "deleted", "faithfulness", "inserted"]

Array = npt.NDArray[Any]

SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Curves over shares of paths that are deleted or inserted, a row for each node.

    Attributes
    ----------
    shares : (q,)
        Of the paths.
    deletion, insertion : (nodes, q)
        The calibrated chance that the explained reader gives to the predicted class when paths go, or come, by what
        they bring. Without any deletion it is what `predict_proba` says, where there is one reader.
    random_deletion, random_insertion : (nodes, q)
        The same in random order.
    heaviest_deletion, heaviest_insertion : (nodes, q)
        The same by how much of the vector a path makes up, whatever it says of classes.
    """

    shares: Array
    deletion: Array
    insertion: Array
    random_deletion: Array
    random_insertion: Array
    heaviest_deletion: Array
    heaviest_insertion: Array

    @classmethod
    def stacked(cls, parts: Sequence[Faithfulness], shares: Array) -> Faithfulness:
        """Return the curves of several nodes together."""
        orders = ("", "random_", "heaviest_")
        names = [f"{order}{way}" for order in orders for way in ("deletion", "insertion")]
        empty = np.empty((0, len(shares)))
        return cls(shares, *(np.concatenate([empty, *(getattr(one, name) for one in parts)]) for name in names))

    @property
    def gaps(self) -> tuple[Array, Array]:
        """Areas between the curves by importance and at random, for deletion and insertion, `(nodes,)` each.

        Positive: the explanation knows more than chance.
        """
        return self._above(self.random_deletion, self.random_insertion)

    @property
    def gaps_over_heaviest(self) -> tuple[Array, Array]:
        """The same areas between the curves by importance and by weight alone.

        Positive: the explanation knows more than which paths are heavy.
        """
        return self._above(self.heaviest_deletion, self.heaviest_insertion)

    def _above(self, deletion: Array, insertion: Array) -> tuple[Array, Array]:
        down = np.trapezoid(deletion - self.deletion, self.shares, axis=1)
        up = np.trapezoid(self.insertion - insertion, self.shares, axis=1)
        return np.asarray(down), np.asarray(up)


def deleted(brings: Array, rest: Array, order: Array, shares: Array) -> Array:
    """Return what is left of a vector when the first of its paths are taken away, `(q, d)`.

    Parameters
    ----------
    brings : (b, d)
        What each path brings.
    rest : (d,)
        What else is in the vector.
    order : (b,)
        Places of paths, in the order in which they go.
    shares : (q,)
        Shares of the paths, from 0 to 1.

    >>> deleted(np.eye(2), np.zeros(2), np.array([1, 0]), np.array([0, 0.5, 1])).tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """
    left: Array = rest + brings.sum(0) - inserted(brings, np.zeros_like(rest), order, shares)
    return left


def inserted(brings: Array, rest: Array, order: Array, shares: Array) -> Array:
    """Return a vector without paths, to which the first of them are given back, `(q, d)`; arguments as in `deleted`."""
    sums = np.concatenate([np.zeros((1, brings.shape[1])), np.cumsum(brings[order], axis=0)])
    found: Array = rest + sums[np.round(np.asarray(shares) * len(brings)).astype(np.int64)]
    return found


def faithfulness(
    brings: Array,
    rest: Array,
    importance: Array,
    weight: Array,
    read: Callable[[Array], Array],
    shares: Array,
    repeats: int,
    random: np.random.Generator,
) -> Faithfulness:
    """Return the curves of one node.

    Parameters
    ----------
    brings, rest, shares
        As in `deleted`.
    importance : (b,)
        Of each path; the largest goes, or comes, first.
    weight : (b,)
        Of each path in the vector; the order that knows nothing else.
    read : callable
        Given vectors `(q, d)`, the prediction that is watched, `(q,)`.
    repeats : int
        Random orders whose curves are averaged.
    random : numpy.random.Generator
    """
    order, heavy = (np.argsort(-one, kind="stable") for one in (importance, weight))
    orders = [random.permutation(len(brings)) for _ in range(repeats)]

    def curve(change: Callable[[Array, Array, Array, Array], Array], how: Sequence[Array]) -> Array:
        """Return the mean curve over some orders, `(1, q)`."""
        vectors = np.concatenate([change(brings, rest, one, shares) for one in how])
        mean: Array = read(vectors).reshape(len(how), -1).mean(0, keepdims=True)
        return mean

    return Faithfulness(
        np.asarray(shares),
        *(curve(change, how) for how in ([order], orders, [heavy]) for change in (deleted, inserted)),
    )
