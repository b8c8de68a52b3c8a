"""Contributions added up by endpoint, labeled node, class of the labels, or feature; the largest are listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.explain.path_sums import InputFeatures
from cge.targets import Target

_NODE_FEATURES = 3  # of an endpoint
MAX_ROWS, COVERAGE = 10, 0.8  # by default as many entries as cover this share of the contributions, at most MAX_ROWS


@dataclass(frozen=True)
class Contributor:
    """A node, class or feature, and its contribution to the score of the target class.

    For a node: its training `label` or None, the parts of the contribution `from_inputs` and `from_label`, the number
    of paths that end there (0 in the explanation of a class, where they are not counted), and the strongest of its
    `features` with their contributions.
    """

    name: Any
    contribution: float
    label: Any = None
    from_inputs: float = 0.0
    from_label: float = 0.0
    num_paths: float = 0.0
    features: tuple[tuple[Any, float], ...] = ()


@dataclass(frozen=True, eq=False)
class ContributionTable(Sequence[Contributor]):
    """The largest contributions, in descending order of their size.

    `total` is the sum of all, `size` their number, and `coverage` the share of Σ |contribution| that is listed.
    """

    rows: tuple[Contributor, ...] = ()
    total: float = 0.0
    size: int = 0
    coverage: float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    @property
    def rest(self) -> float:
        """The sum of the contributions that are not listed."""
        return self.total - sum(row.contribution for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"rows": rows, "rest": self.rest, "total": self.total, "size": self.size, "coverage": self.coverage}


NO_CONTRIBUTIONS = ContributionTable()


def n_to_list(sizes: Array, total: float, top: int | None) -> int:
    """Return how many of the `sizes`, descending, to list: `top`, or by default those that cover enough of `total`.

    >>> n_to_list(np.array([5.0, 3.5, 1.0, 0.5]), 10.0, None)
    2
    """
    if top is not None:
        return min(top, len(sizes))
    covered = int(np.searchsorted(np.cumsum(sizes), COVERAGE * total * (1 - 1e-9))) + 1
    return min(covered, MAX_ROWS, len(sizes))


def ranked(contributions: Array, top: int | None, make: Callable[[int, float], Contributor]) -> ContributionTable:
    """Return the largest of `contributions (m,)`; `make` returns the row of one, from its index and value."""
    entries = np.flatnonzero(contributions)
    order = entries[np.argsort(-np.abs(contributions[entries]), kind="stable")]
    sizes = np.abs(contributions[order])
    listed = n_to_list(sizes, float(sizes.sum()), top)
    rows = tuple(make(index, float(contributions[index])) for index in order[:listed].tolist())
    coverage = float(sizes[:listed].sum() / sizes.sum()) if len(sizes) else 1.0
    return ContributionTable(rows, float(contributions.sum()), len(order), coverage)


@dataclass(frozen=True, eq=False)
class Labels:
    """The training labels of a model: `nodes (k,)` ascending, their labels as `matrix (k, c)`, and the target."""

    target: Target
    nodes: Array
    matrix: Array

    @property
    def classes(self) -> Array:
        """The classes, `(c,)`."""
        return self.target.classes

    def of_nodes(self, nodes: Array) -> tuple[Any, ...]:
        """Return the training label of each node, or None; in a multilabel task, a tuple of classes."""
        rows = np.minimum(np.searchsorted(self.nodes, nodes), max(len(self.nodes) - 1, 0))
        known = self.nodes[rows] == nodes if len(self.nodes) else np.zeros(len(nodes), bool)
        labels = iter(self.target.decode(self.target.from_matrix(self.matrix[rows[known]])))
        given = (next(labels) if is_known else None for is_known in known.tolist())
        return tuple(tuple(label) if isinstance(label, list) else label for label in given)


def contribution_tables(
    sums: dict[str, Array], labels: Labels, ids: Array, features: InputFeatures | None, top: int | None
) -> dict[str, ContributionTable]:
    """Return the tables of an explanation by name, from sums by endpoint, `(n,)`.

    `sums` are "from_inputs", "from_label", "num_paths" and, for `features`, "at_endpoints (n, d)", the contribution of
    an input of 1 at each node.
    """
    from_inputs, from_label = sums["from_inputs"], sums["from_label"]

    def of_node(node: int, contribution: float) -> Contributor:
        strongest: tuple[tuple[Any, float], ...] = ()
        if features is not None and from_inputs[node]:
            strongest = features.of_node(node, sums["at_endpoints"][node], _NODE_FEATURES)
        (name,), (label,) = ids[[node]].tolist(), labels.of_nodes(np.array([node]))
        parts = float(from_inputs[node]), float(from_label[node]), float(sums["num_paths"][node])
        return Contributor(name, contribution, label, *parts, strongest)

    def named(names: Sequence[Any]) -> Callable[[int, float], Contributor]:
        return lambda index, contribution: Contributor(names[index], contribution)

    tables = {"by_endpoint": ranked(from_inputs + from_label, top, of_node)}
    tables["by_labeled_node"] = ranked(from_label, top, of_node)
    if labels.target.has_probabilities:  # nodes with several labels count in equal parts
        shares = labels.matrix / np.maximum(labels.matrix.sum(axis=1, keepdims=True), 1)
        by_class = from_label[labels.nodes] @ shares
        tables["by_label"] = ranked(by_class, top, named(labels.classes.tolist()))
    if features is not None:
        tables["by_feature"] = ranked(features.contributions(sums["at_endpoints"]), top, named(features.names))
    return tables
