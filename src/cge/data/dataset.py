"""A data set: a graph, labels of its nodes, and the splits on which results are reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.splits import PARTS, Split, checked_labels, labeled
from cge.errors import InputError, format_text
from cge.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A graph with labels and splits.

    Attributes
    ----------
    name : str
    graph : Graph
        With features, if the data set has any.
    labels : (n,) or (n, c) int64
        Indices into `class_names` with −1 for unknown; or zeros and ones, where a node can have several labels.
    class_names : tuple of str
        One for each class.
    split : Split or None
        The split on which results are reported; the first of several.
    splits : tuple of Split
        All splits that the source publishes.
    node_titles : (n,) object or None
        Readable names of the nodes, where `graph.node_ids` are not.
    notes : str
        Decisions made in reading the source.
    citation : str

    Examples
    --------
    >>> graph = Graph.from_edges([("a", "b"), ("b", "c")])
    >>> Dataset("tiny", graph, np.array([0, 1, -1]), ("red", "blue"), Split([0], [], [1]))
    Dataset(tiny: 3 nodes, 2 edges, 2 classes, 2 labeled nodes, no features, split 1/0/1)
    """

    name: str
    graph: Graph
    labels: Array
    class_names: tuple[str, ...] = ()
    split: Split | None = None
    splits: tuple[Split, ...] = ()
    node_titles: Array | None = None
    notes: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        labels, size = checked_labels(self.labels), self.graph.num_nodes
        object.__setattr__(self, "labels", labels)
        if len(labels) != size:
            raise InputError(f"{self.name}: there are {size:,} nodes, but {len(labels):,} labels")
        classes = labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
        if classes > len(self.class_names) or (labels.ndim == 2 and classes != len(self.class_names)):
            raise InputError(f"{self.name}: the labels need {classes:,} class names, found {len(self.class_names):,}")
        if self.node_titles is not None and len(self.node_titles) != size:
            raise InputError(f"{self.name}: there are {size:,} nodes, but {len(self.node_titles):,} titles")
        if self.splits and self.split is None:
            object.__setattr__(self, "split", self.splits[0])
        elif self.split is not None and not self.splits:
            object.__setattr__(self, "splits", (self.split,))
        for split in self.splits:
            if max((part[-1] for part in (split.train, split.validation, split.test) if len(part)), default=-1) >= size:
                raise InputError(f"{self.name}: a split contains nodes beyond the {size:,} of the graph")

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def multilabel(self) -> bool:
        """Whether a node can have several labels."""
        return self.labels.ndim == 2

    @property
    def labeled(self) -> Array:
        """Indices of the nodes that have a label, ascending."""
        return np.flatnonzero(labeled(self.labels))

    def labels_of(self, nodes: Array) -> Array:
        """Return labels like `labels` in which only these nodes (indices) are labeled; see also `named_labels`.

        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> Dataset("tiny", graph, np.array([0, 1, 0]), ("red", "blue")).labels_of([1, 2]).tolist()
        [-1, 1, 0]
        """
        labels = np.full_like(self.labels, 0 if self.multilabel else -1)
        labels[nodes] = self.labels[nodes]
        return labels

    def named_labels(self, part: str) -> dict[Any, Any]:
        """Return {node id: class name} of a part of `split`: "train", "validation" or "test".

        Where a node can have several labels, {node id: list of class names}. Nodes without a label are left out.

        >>> graph = Graph.from_edges([("a", "b"), ("b", "c")])
        >>> data = Dataset("tiny", graph, np.array([0, 1, 0]), ("red", "blue"), Split([0, 1], [], [2]))
        >>> data.named_labels("train")
        {'a': 'red', 'b': 'blue'}
        """
        if part not in PARTS:
            raise InputError(parameter="part", expected=f"one of {', '.join(map(repr, PARTS))}", found=part)
        if self.split is None:
            raise InputError(f"{self.name} has no split", hint="pass labels as {node id: label}")
        nodes = np.intersect1d(getattr(self.split, part), self.labeled, assume_unique=True)
        ids, labels = self.graph.node_ids[nodes].tolist(), self.labels[nodes]
        if not self.multilabel:
            return dict(zip(ids, (self.class_names[label] for label in labels), strict=True))
        names = np.array(self.class_names, object)
        return {node: names[row != 0].tolist() for node, row in zip(ids, labels, strict=True)}

    def label_counts(self) -> dict[str, int]:
        """Return the number of nodes of each class, by class name."""
        if self.multilabel:
            counts = self.labels.sum(axis=0)
        else:
            counts = np.bincount(self.labels[self.labels >= 0], minlength=self.num_classes)
        return dict(zip(self.class_names, counts.tolist(), strict=True))

    def label_rows(self) -> list[tuple[str, str]]:
        """Return a summary of the labels as (name, value) pairs of text, the largest classes first."""
        counts = sorted(self.label_counts().items(), key=lambda pair: -pair[1])
        more = ", …" if len(counts) > 8 else ""
        classes = ", ".join(f"{format_text(name)} {count:,}" for name, count in counts[:8]) + more
        classes = f"{self.num_classes:,}: {classes}" if counts else "none"
        several = ", several labels each" if self.multilabel else ""
        return [("labeled nodes", f"{len(self.labeled):,} of {self.graph.num_nodes:,}{several}"), ("classes", classes)]

    def rows(self) -> list[tuple[str, str]]:
        """Return a summary as (name, value) pairs of text."""
        splits = "; ".join(map(_sizes, self.splits[:3])) + ("; …" if len(self.splits) > 3 else "") or "none"
        rows = [("data set", self.name), *self.graph.summary().rows(), *self.label_rows(), ("splits", splits)]
        return rows + [(name, text) for name, text in (("notes", self.notes), ("cite", self.citation)) if text]

    def summary(self) -> str:
        """Return a summary as a small table."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def __repr__(self) -> str:
        features = self.graph.features
        parts = [
            f"{self.graph.num_nodes:,} nodes",
            f"{self.graph.num_edges:,} edges",
            f"{self.num_classes:,} classes" if self.num_classes else "no classes",
            f"{len(self.labeled):,} labeled nodes",
            "no features" if features is None else f"{features.shape[1]:,} features",
        ]
        if len(self.splits) > 1:
            parts.append(f"{len(self.splits)} splits")
        elif self.split is not None:
            parts.append(f"split {_sizes(self.split)}")
        return f"Dataset({self.name}: {', '.join(parts)})"


def _sizes(split: Split) -> str:
    return "/".join(f"{size:,}" for size in split.sizes)
