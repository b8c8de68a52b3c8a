"""Splits of labeled nodes into training, validation and test nodes.

Labels are in one of two forms: `(n,)` class indices, −1 for an unlabeled node, or `(n, c)` zeros and ones for several
labels per node, where a row of zeros is an unlabeled node. Where nodes are drawn class by class, a node with several
labels counts for the rarest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import InputError, counted, format_value
from cge.randomness import generator

Indices = npt.NDArray[np.int64]

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint sets of node indices, each ascending and read-only.

    Attributes
    ----------
    train, validation, test : (k,) int64
        Nodes to train on, to select models on, and to report results on.

    Examples
    --------
    >>> split = Split([2, 0], [1], [3])
    >>> split.train.tolist(), split.sizes
    ([0, 2], (2, 1, 1))
    """

    train: Indices
    validation: Indices
    test: Indices

    def __post_init__(self) -> None:
        for name in PARTS:
            object.__setattr__(self, name, _node_indices(getattr(self, name), name))
        for first, second in combinations(PARTS, 2):
            shared = np.intersect1d(getattr(self, first), getattr(self, second), assume_unique=True)
            if len(shared):
                raise InputError(f"{first} and {second} must not share nodes, but both contain node {shared[0]}")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of training, validation and test nodes."""
        return len(self.train), len(self.validation), len(self.test)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in PARTS)

    def __hash__(self) -> int:
        return hash((self.train.tobytes(), self.validation.tobytes(), self.test.tobytes()))

    def __repr__(self) -> str:
        train, validation, test = self.sizes
        return f"Split(train={train:,}, validation={validation:,}, test={test:,})"


def checked_labels(labels: Any) -> Array:
    """Return labels as int64, `(n,)` with −1 for unknown or `(n, c)` of zeros and ones."""
    array = np.asarray(labels)
    if array.ndim not in (1, 2) or (array.size and array.dtype.kind not in "iub"):
        expected = "integers of shape (nodes,) or (nodes, classes)"
        raise InputError(f"labels must be {expected}, found shape {array.shape} of {array.dtype}")
    array = array.astype(np.int64, copy=False)
    wrong = array < -1 if array.ndim == 1 else (array < 0) | (array > 1)
    if wrong.any():
        expected = "-1 for unknown, or 0 and above" if array.ndim == 1 else "0 or 1 for each class"
        raise InputError(f"labels must be {expected}, found {array[wrong][0]} at node {np.argwhere(wrong)[0][0]:,}")
    return array


def labeled(labels: Array) -> npt.NDArray[np.bool_]:
    """Return for each node whether it has a label, `(n,)`.

    >>> labeled(np.array([0, -1, 2])).tolist()
    [True, False, True]
    """
    return np.asarray(labels >= 0 if labels.ndim == 1 else labels.any(axis=1), bool)


def per_class(
    labels: Any,
    k: int,
    validation: int = 500,
    test: int | None = 1000,
    seed: int = 0,
    *,
    class_names: Sequence[str] | None = None,
) -> Split:
    """Draw `k` training nodes of each class, then validation and test nodes from the other labeled ones.

    `test=None` takes all remaining nodes. Of nodes with several labels as few are drawn as give each class its `k`,
    from the rarest class to the most common.

    >>> per_class([0, 0, 0, 1, 1, 1, -1], 2, validation=1, test=None).sizes
    (4, 1, 1)
    """
    labels = checked_labels(labels)
    k, validation = checked_integer("k", k, 1), checked_integer("validation", validation, 0)
    random = generator(seed, "split", "per class")
    order = random.permutation(np.flatnonzero(labeled(labels)))  # (labeled,)
    if labels.ndim == 1:
        rank, sizes = _rank_in_class(labels[order])
        _check_class_sizes(labels[order], sizes, k, class_names)
        in_train = rank < k
    else:
        in_train = _few_of_each(labels[order].astype(bool), k, class_names)
    rest = random.permutation(order[~in_train])  # in `order` common classes come first: rare ones are in training
    needed = validation + (0 if test is None else checked_integer("test", test, 0))
    if needed > len(rest):
        problem = f"validation and test need {needed:,} nodes, but {_nodes(len(rest))} remain after {k:,} per class"
        raise InputError(f"{problem}; use fewer, or pass test=None")
    return Split(order[in_train], rest[:validation], rest[validation : None if test is None else needed])


def stratified(labels: Any, train: float, validation: float = 0.0, test: float | None = None, seed: int = 0) -> Split:
    """Split the labeled nodes by fractions that hold within each class as closely as whole nodes allow.

    `test=None` takes all remaining nodes. Each class has at least one training node.

    >>> stratified([0, 0, 0, 0, 1, 1, 1, 1], 0.5, 0.25).sizes
    (4, 2, 2)
    """
    labels = checked_labels(labels)
    fractions = [_fraction(train, "train"), _fraction(validation, "validation")]
    fractions.append(max(0.0, 1 - sum(fractions)) if test is None else _fraction(test, "test"))
    if sum(fractions) > 1 + 1e-9:
        raise InputError(f"the fractions of a split must add up to at most 1, found {sum(fractions):g}")
    nodes = generator(seed, "split", "stratified").permutation(np.flatnonzero(labeled(labels)))
    strata = _strata_of(labels)[nodes]
    rank, size = _rank_in_class(strata)
    # Sort by rank / size within the class: any prefix of this order has each class in proportion, and the first node
    # of every class comes before all others.
    nodes = nodes[np.argsort(rank / size, kind="stable")]
    ends = np.rint(np.cumsum(fractions) * len(nodes)).astype(np.int64)
    missing = np.setdiff1d(strata, _strata_of(labels)[nodes[: ends[0]]])
    if len(missing):
        selected = f"train={train:g} selects {_nodes(int(ends[0]))} of {len(nodes):,}"
        raise InputError(f"{selected}, too few for one of each class: class {missing[0]} would have none")
    return Split(nodes[: ends[0]], nodes[ends[0] : ends[1]], nodes[ends[1] : ends[2]])


def folds(train: Any, labels: Any, k: int, seed: int = 0) -> tuple[Indices, ...]:
    """Split training nodes into `k` disjoint folds of almost equal size, each class spread evenly over them.

    A class with fewer than `k` nodes is in as many folds as it has nodes.

    >>> labels = np.array([0, 0, 1, 1])
    >>> [labels[fold].tolist() for fold in folds([0, 1, 2, 3], labels, 2)]
    [[0, 1], [0, 1]]
    """
    labels, nodes = checked_labels(labels), _node_indices(train, "train")
    if checked_integer("k", k, 2) > len(nodes):
        raise InputError(f"{_nodes(len(nodes))} cannot be split into {k:,} folds; use at most {len(nodes):,}")
    if len(nodes) and nodes[-1] >= len(labels):
        raise InputError(f"train contains node {nodes[-1]}, but there are {len(labels):,} nodes")
    unlabeled = nodes[~labeled(labels)[nodes]]
    if len(unlabeled):
        raise InputError(f"every training node needs a label, but node {unlabeled[0]} has none")
    nodes = generator(seed, "split", "folds").permutation(nodes)
    nodes = nodes[np.argsort(_strata_of(labels)[nodes], kind="stable")]  # class after class, shuffled within
    return tuple(np.sort(nodes[start::k]) for start in range(k))


def mask_labels(labels: Any, fraction: float, seed: int = 0) -> Array:
    """Return a copy in which this fraction of the labeled nodes is unlabeled.

    >>> mask_labels([0, 1, 0, 1], 0.5).tolist().count(-1)
    2
    """
    masked = checked_labels(labels).copy()
    nodes = generator(seed, "split", "mask").permutation(np.flatnonzero(labeled(masked)))
    masked[nodes[: round(_fraction(fraction, "fraction") * len(nodes))]] = -1 if masked.ndim == 1 else 0
    return masked


def _strata_of(labels: Array) -> Array:
    """Return the class by which each node is stratified, `(n,)`: its label, or the rarest of its labels."""
    if labels.ndim == 1:
        return labels
    own_sizes = np.where(labels > 0, labels.sum(axis=0), np.iinfo(np.int64).max)
    return np.asarray(own_sizes.argmin(axis=1))


def _rank_in_class(strata: Array) -> tuple[Array, Array]:
    """Return each node's rank within its class, by position, and the size of that class."""
    _, code, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(strata), np.int64)
    rank[order] = np.arange(len(strata)) - np.repeat(starts, sizes)
    return rank, sizes[code]


def _few_of_each(indicators: npt.NDArray[np.bool_], k: int, names: Sequence[str] | None) -> npt.NDArray[np.bool_]:
    """Choose nodes, from the first on, until each class has `k`: the rarest class first, `(n, c)` → `(n,)`."""
    sizes = indicators.sum(axis=0)
    present = np.flatnonzero(sizes)
    _check_class_sizes(present, sizes[present], k, names)
    chosen = np.zeros(len(indicators), bool)
    for label in present[np.argsort(sizes[present], kind="stable")].tolist():
        missing = max(0, k - int(np.count_nonzero(chosen & indicators[:, label])))
        chosen[np.flatnonzero(indicators[:, label] & ~chosen)[:missing]] = True
    return chosen


def _check_class_sizes(classes: Array, sizes: Array, k: int, names: Sequence[str] | None) -> None:
    small = np.flatnonzero(sizes < k)
    if len(small):
        smallest = small[np.argmin(sizes[small])]
        label = int(classes[smallest])
        name = str(label) if names is None else f"{label} ({names[label]})"
        raise InputError(f"class {name} has {_nodes(int(sizes[smallest]))}, but k is {k:,}")


def _node_indices(values: Any, name: str) -> Indices:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in ("iu" if array.size else "iuf"):  # an empty list becomes floats
        raise InputError(f"{name} must be a flat array of node indices, found shape {array.shape} of {array.dtype}")
    indices: Indices = np.sort(array.astype(np.int64))
    if len(indices) and indices[0] < 0:
        raise InputError(f"{name} must contain node indices of at least 0, found {indices[0]}")
    duplicates = indices[1:][indices[1:] == indices[:-1]]
    if len(duplicates):
        raise InputError(f"{name} must contain each node once, but node {duplicates[0]} occurs twice")
    indices.setflags(write=False)
    return indices


def _fraction(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise InputError(f"{name} must be a fraction between 0 and 1, found {format_value(value)}")
    return float(value)


def _nodes(count: int) -> str:
    return counted(count, "labeled node")
