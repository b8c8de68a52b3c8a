"""Faithfulness of explanations: the prediction as a function of how many of the important paths are deleted.

*Deletion* removes paths from a node's vector, *insertion* adds them to a vector without any; the most important first,
or in random order. If the explanation is faithful, deletion by importance lowers the probability faster than random
deletion, and insertion raises it faster. Paths of large weight matter for any class; a third order, by weight, shows
how much of the effect is due to weight alone. Petsiuk et al. 2018 (https://arxiv.org/abs/1806.07421) evaluate
explanations of images this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cge.arrays import Array
from cge.targets import SingleLabel, TargetTexts

MAX_PATHS = 2000  # of a node, those with the largest weights
FRACTIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Curves over the fraction of paths that are deleted or inserted, a row for each node; `print` shows the means.

    Attributes
    ----------
    fractions : (q,)
        Fractions of the paths.
    deletion, insertion : (nodes, q)
        The calibrated probability that the explained classifier predicts for the predicted class, when paths are
        deleted or inserted by contribution. Without deletion it is that of `predict_proba`, if there is one classifier.
        In regression it is the predicted value.
    random_deletion, random_insertion : (nodes, q)
        The same in random order.
    by_weight_deletion, by_weight_insertion : (nodes, q)
        The same by the weight of a path in the vector, whatever its contribution to classes.
    """

    fractions: Array
    deletion: Array
    insertion: Array
    random_deletion: Array
    random_insertion: Array
    by_weight_deletion: Array
    by_weight_insertion: Array
    texts: TargetTexts = field(default=SingleLabel.texts, kw_only=True)

    @classmethod
    def concatenate(cls, parts: Sequence[Faithfulness], fractions: Array, texts: TargetTexts) -> Faithfulness:
        """Return the curves of several nodes together."""
        names = [f"{order}{change}" for order in ("", "random_", "by_weight_") for change in ("deletion", "insertion")]
        empty = np.empty((0, len(fractions)))
        curves = (np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names)
        return cls(fractions, *curves, texts=texts)

    @property
    def gaps(self) -> tuple[Array, Array]:
        """Areas between the curves by contribution and in random order, for deletion and insertion, `(nodes,)` each.

        Positive: the explanation is better than random.
        """
        return self._areas(self.random_deletion, self.random_insertion)

    @property
    def gaps_over_weight(self) -> tuple[Array, Array]:
        """The same areas between the curves by contribution and by weight."""
        return self._areas(self.by_weight_deletion, self.by_weight_insertion)

    def __repr__(self) -> str:
        return f"Faithfulness({len(self.deletion)} nodes, {len(self.fractions)} fractions)"

    def __str__(self) -> str:
        """Return the mean curves over the nodes as a table, and the mean areas between them."""
        names = [f"{order}{change}" for change in ("deletion", "insertion") for order in ("", "by_weight_", "random_")]
        lines = [f"{self.texts.predicted_output}, mean of {len(self.deletion):,} nodes"]
        width, number = self.texts.output_width, self.texts.output_format
        lines.append("fraction of paths    " + "".join(f"{fraction:{width}g}" for fraction in self.fractions))
        if len(self.deletion):
            means = {name: getattr(self, name).mean(axis=0) for name in names}
            lines += [f"{name:21}" + "".join(f"{p:{width}{number}}" for p in mean) for name, mean in means.items()]
            for order, areas in (("in random order", self.gaps), ("by weight", self.gaps_over_weight)):
                down, up = (area.mean() for area in areas)
                lines.append(f"mean area from the curves {order}: deletion {down:+.3f}, insertion {up:+.3f}")
        return "\n".join(lines)

    def _areas(self, deletion: Array, insertion: Array) -> tuple[Array, Array]:
        down = np.trapezoid(deletion - self.deletion, self.fractions, axis=1)
        up = np.trapezoid(self.insertion - insertion, self.fractions, axis=1)
        return np.asarray(down), np.asarray(up)


def delete_paths(parts: Array, rest: Array, order: Array, fractions: Array) -> Array:
    """Return a vector without the first of its paths, `(q, d)`, for each of the `fractions (q,)` of paths.

    `parts (b, d)` is what each path adds to the vector, `rest (d,)` what else is in it, `order (b,)` that of deletion.
    """
    return np.asarray(rest + parts.sum(0) - insert_paths(parts, np.zeros_like(rest), order, fractions))


def insert_paths(parts: Array, rest: Array, order: Array, fractions: Array) -> Array:
    """Return a vector with only the first of its paths, `(q, d)`; arguments as in `delete_paths`."""
    sums = np.concatenate([np.zeros((1, parts.shape[1])), np.cumsum(parts[order], axis=0)])
    return np.asarray(rest + sums[np.round(np.asarray(fractions) * len(parts)).astype(np.int64)])


def faithfulness_curves(
    parts: Array,
    rest: Array,
    importance: Array,
    weight: Array,
    predict: Callable[[Array], Array],
    fractions: Array,
    repeats: int,
    random: np.random.Generator,
) -> Faithfulness:
    """Return the curves of one node; `parts`, `rest` and `fractions` as in `delete_paths`.

    Paths are ordered by `importance (b,)`, by `weight (b,)`, the largest first, and in `repeats` random orders, whose
    curves are averaged. `predict` returns the probability of the predicted class, or the value, `(q,)`, of vectors
    `(q, d)`.
    """
    by_importance, by_weight = (np.argsort(-values, kind="stable") for values in (importance, weight))
    at_random = [random.permutation(len(parts)) for _ in range(repeats)]

    def curve(change: Callable[[Array, Array, Array, Array], Array], orders: Sequence[Array]) -> Array:
        """Return the mean curve over some orders, `(1, q)`."""
        vectors = np.concatenate([change(parts, rest, order, fractions) for order in orders])
        return np.asarray(predict(vectors).reshape(len(orders), -1).mean(0, keepdims=True))

    orders = [by_importance], at_random, [by_weight]
    curves = [curve(change, each) for each in orders for change in (delete_paths, insert_paths)]
    return Faithfulness(np.asarray(fractions), *curves)
