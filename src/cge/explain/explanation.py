"""The explanation of a prediction: the contributions of single paths to each class score, and sums over all paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import counted
from cge.explain.contribution_tables import NO_CONTRIBUTIONS, ContributionTable
from cge.html_tables import html_table
from cge.targets import Target

TEXT_COLUMNS = (  # the others are numbers
    "path", "ends at", "training labels", "edge types", "endpoint", "training label", "top features",
    "labeled node", "label", "feature", "metapath",
)  # fmt: skip
# How contributions can be added up → the attribute of an explanation, and the title of its first column.
TABLES = {
    "endpoint": ("by_endpoint", "endpoint"),
    "labeled-node": ("by_labeled_node", "labeled node"),
    "label": ("by_label", "label"),
    "feature": ("by_feature", "feature"),
    "metapath": ("by_metapath", "metapath"),
}
_OF_NODES = ("training label", "paths", "from inputs", "from label", "top features")
_MAX_NAME = 14  # characters of a class in a column title


def label_text(label: Any) -> str:
    """Return an id or a label as text; a node may have several labels."""
    return "; ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def rounded_count(number: float) -> str:
    """Return a number of paths as text.

    >>> [rounded_count(number) for number in (1, 12_345, 142_005_938.0, 3.2e12)]
    ['1', '12,345', 'about 142 million', 'about 3.2e+12']
    """
    if number < 1e6:
        return f"{number:,.0f}"
    return f"about {number / 1e6:,.0f} million" if number < 1e9 else f"about {number:.2g}"


def describe_coverage(listed: int, coverage: float, num_paths: float, endpoint: str = "") -> str:
    """Return what part of the contributions of `num_paths` the listed ones are, in words; all may be to an endpoint."""
    rest = num_paths - listed
    if rest < 0.5:
        return "No other path contributes."
    to_endpoint = f" of all paths to {endpoint}" if endpoint else ""
    covered = f"These {counted(listed, 'path')} cover {coverage:.0%} of the absolute contributions{to_endpoint}"
    return f"{covered}; the rest is spread over {rounded_count(rest)} other{'s' if rest > 1 else ''}."


def signed(number: float) -> str:
    """Return a number with its sign; a small one with two significant digits."""
    return f"{number:+.4f}" if abs(number) >= 0.001 or not number else f"{number:+.2g}"


@dataclass(frozen=True)
class ClassifierInfo:
    """Which classifier of an ensemble is explained: its `index`, the `count` of classifiers, and its `name`.

    >>> print(ClassifierInfo(0, 3, "consistency"))
    'consistency' (index 0 of 3)
    """

    index: int = 0
    count: int = 1
    name: str = "head"

    def __str__(self) -> str:
        return f"{self.name!r} (index {self.index} of {self.count})"


SINGLE_CLASSIFIER = ClassifierInfo()


@dataclass(frozen=True, eq=False)
class PathContribution:
    """A path from a node, and its contributions to the node's class scores.

    Attributes
    ----------
    path : tuple
        Ids of its nodes, the explained one first; `distinct_nodes` is the number of distinct ones.
    relative_weight : float
        A(p) divided by that in a random walk (uniform weights), as in `CGE.path_weights`; for a path that ends at a
        label, this ratio of the weights in label propagation, without hop weights. For `PaperCGE` A(p).
    contribution, contributions : float, (c,) float64
        To the score of the target class, and of each class.
    training_labels : tuple
        The training label of each of its nodes, or None; in a multilabel task a tuple.
    edge_types : tuple of str
        The type of each edge, "(self-loop)" for a step to the node itself; empty where edges have no types.
    ends_at : {"features", "inputs", "label"}
        What it ends at: the features of its endpoint, a learned or walk vector (`inputs`), or the training label.
    """

    path: tuple[Any, ...]
    relative_weight: float
    contribution: float
    contributions: Array
    distinct_nodes: int
    training_labels: tuple[Any, ...]
    edge_types: tuple[str, ...] = ()
    ends_at: str = "inputs"

    @property
    def hops(self) -> int:
        """Number of edges."""
        return len(self.path) - 1

    def row(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return plain values by name."""
        numbers = {name: getattr(self, name) for name in ("hops", "distinct_nodes", "relative_weight", "contribution")}
        return {
            "path": list(self.path),
            "training_labels": [list(label) if isinstance(label, tuple) else label for label in self.training_labels],
            "edge_types": list(self.edge_types),
            "ends_at": self.ends_at,
            **numbers,
            "contributions": dict(zip(map(str, classes), self.contributions.tolist(), strict=True)),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Sequence[PathContribution]):
    """Why a node, or a class, is predicted: the paths with the largest contributions, and sums over all paths.

    `constant + label_propagation + by_hop.sum(0) + remainder` equals `scores`; with one classifier their softmax
    (sigmoid if multilabel), calibrated, is `probabilities`; in an ensemble that is an average over classifiers. The
    tables `by_endpoint`, `by_labeled_node`, `by_label` and `by_feature` divide `label_propagation` and `by_hop` for the
    target class. The explanation of a class contains means over the nodes predicted to be in it.

    Attributes
    ----------
    node, endpoint : node id, or None
        The explained node, None for a class; the other node, where only the paths between two nodes are explained.
    predicted, target_class : class
        The most probable class, and the class whose score is explained: by default the same.
    predicted_all : tuple of classes
        All predicted classes, the most probable first; in a multilabel task possibly none.
    classes, probabilities : (c,)
        All classes, and those of `predict_proba`; in regression ["value"] and the predicted value.
    target : Target
        What is predicted.
    scores, constant, label_propagation, remainder : (c,) float64
        The class scores of the explained classifier, and their parts: what does not depend on paths, the contributions
        of all paths to training labels, and what paths do not explain (zero for a node or a class of `CGE`).
    by_hop : (K+1, c) float64
        The contributions of all paths of 0, 1, …, K hops to inputs; with `endpoint`, of all that end there.
    by_edge_type : {name: (c,) float64}
        The same by edge type; a path counts for the types of its edges in equal parts. Empty without types.
    exact : bool
        Whether the scores are a sum over paths (`CGE`), or are only attributed to them (`PaperCGE`).
    num_nodes : int
        Number of explained nodes.
    paths : tuple of PathContribution
        Those with the largest absolute contributions, in descending order; for a class, the largest positive ones.
    classifier : ClassifierInfo
        Which classifier the scores are from, where several are averaged.
    by_endpoint, by_labeled_node, by_label, by_feature : ContributionTable
        Contributions to the target class by endpoint of the paths, those of labels by labeled node and by label
        (empty in regression), and those of inputs by feature (empty where inputs are not features).
    by_metapath : ContributionTable
        Contributions of the inputs to the target class by metapath, the sequence of relations of a path without its
        self-loops; empty in a graph without types.
    coverage, num_paths : float or None
        The listed paths' share of Σ |contribution| over all paths, with `endpoint` over those to it (None if paths of
        one length are listed), and how many of these paths contribute; both None for a class.
    informed : bool
        Whether a path reaches features other than zeros, a walk vector, a label or another node's learned input.
    """

    node: Any
    endpoint: Any
    predicted: Any
    predicted_all: tuple[Any, ...]
    target_class: Any
    classes: Array
    probabilities: Array
    scores: Array
    constant: Array
    label_propagation: Array
    by_hop: Array
    target: Target
    by_edge_type: dict[str, Array]
    remainder: Array
    exact: bool
    num_nodes: int
    paths: tuple[PathContribution, ...]
    classifier: ClassifierInfo = SINGLE_CLASSIFIER
    by_endpoint: ContributionTable = NO_CONTRIBUTIONS
    by_labeled_node: ContributionTable = NO_CONTRIBUTIONS
    by_label: ContributionTable = NO_CONTRIBUTIONS
    by_feature: ContributionTable = NO_CONTRIBUTIONS
    by_metapath: ContributionTable = NO_CONTRIBUTIONS
    coverage: float | None = None
    num_paths: float | None = None
    informed: bool = True

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        return self.paths[index]

    def __repr__(self) -> str:
        subject = f"class {self.predicted!r}" if self.node is None else f"node {self.node!r}"
        endpoint = "" if self.endpoint is None else f" and node {self.endpoint!r}"
        return f"Explanation({subject}{endpoint}, {len(self)} paths)"

    def _repr_html_(self) -> str:
        """Return the tables of endpoints and paths for a notebook."""
        tables = [html_table(zip(*each.values(), strict=True), each) for each in map(self.table, ("endpoint", "path"))]
        return "".join([html_table([], title=repr(self)), *tables, f"<p>{escape(' '.join(self._sentences()))}</p>"])

    def _sentences(self) -> Iterable[str]:
        return filter(None, [self.describe_information(), self.describe_coverage(), *self.table_footer()])

    def __str__(self) -> str:
        columns = []
        for title, cells in self.table().items():
            width = max(map(len, (title, *cells)))
            columns.append([f"{cell:{'<' if title in TEXT_COLUMNS else '>'}{width}}" for cell in (title, *cells)])
        return "\n".join([*("  ".join(row).rstrip() for row in zip(*columns, strict=True)), *self._sentences()])

    def table(self, by: str = "path", text: Callable[[Any], str] = label_text) -> dict[str, list[str]]:
        """Return a table as columns of text, by title; `text` writes an id, a label or a type.

        `by` is "path", or what contributions are added up by: "endpoint", "labeled-node", "label", "feature" or
        "metapath". The last row of sums is that of the entries that are not listed.
        """

        def joined(values: Iterable[Any]) -> str:
            return " → ".join("·" if value is None else text(value) for value in values)

        contribution = f"contribution to {_shortened(text(self.target_class))}"
        contribution = f"mean {contribution}" if self.node is None and by != "path" else contribution
        if by == "path":
            columns = {
                "path": [joined(path.path) for path in self.paths],
                "ends at": [path.ends_at for path in self.paths],
                "training labels": [joined(path.training_labels) for path in self.paths],
                "edge types": [joined(path.edge_types) for path in self.paths],
                "hops": [str(path.hops) for path in self.paths],
                self._weight_title: [f"{path.relative_weight:.3g}" for path in self.paths],
                contribution: [signed(path.contribution) for path in self.paths],
            }
            return {title: cells for title, cells in columns.items() if title != "edge types" or self.by_edge_type}
        table: ContributionTable = getattr(self, TABLES[by][0])
        features = [
            [f"{text(name)} {value:+.2g}" for name, value in row.features if abs(value) > abs(row.contribution) / 20]
            for row in table
        ]
        columns = {
            TABLES[by][1]: [text(row.name) for row in table],
            "training label": [joined([row.label]) for row in table],
            "paths": [rounded_count(row.num_paths) if row.num_paths else "" for row in table],
            "from inputs": [signed(row.from_inputs) if row.from_inputs else "" for row in table],
            "from label": [signed(row.from_label) if row.from_label else "" for row in table],
            contribution: [signed(row.contribution) for row in table],
            "top features": [", ".join(cells) for cells in features],
        }
        hidden = {"endpoint": (), "labeled-node": ("from inputs", "from label", "top features")}.get(by, _OF_NODES)
        others = table.size - len(table)
        rest = {TABLES[by][1]: f"({counted(others, 'other')})", contribution: signed(table.rest)} if others else {}
        return {
            title: [*cells, rest.get(title, "")] if others else cells
            for title, cells in columns.items()
            if title not in hidden and (title not in _OF_NODES or any(cells))
        }

    def table_footer(self) -> tuple[str, str]:
        """Return what the columns of the table of paths mean, in two lines."""
        ends = "ends at: which data of the last node contribute (features, other inputs or its training label)"
        weight = "path weight divided by that in a random walk (uniform weights)" if self.exact else "A(p), from 0 to 1"
        return f"{ends}; · = no training label", f"{self._weight_title}: {weight}"

    @property
    def _weight_title(self) -> str:
        return "relative weight" if self.exact else "weight"

    def describe_coverage(self) -> str:
        """Return what part of the contributions the listed paths are; "" where this is not known."""
        known = self.coverage is not None and self.num_paths is not None and self.paths
        endpoint = "" if self.endpoint is None else label_text(self.endpoint)
        return describe_coverage(len(self), self.coverage, self.num_paths, endpoint) if known else ""  # type: ignore[arg-type]

    def describe_information(self) -> str:
        """Return that there is no information about the node, if so; else ""."""
        return "" if self.informed else self.target.texts.no_information

    @property
    def target_index(self) -> int:
        """The column of the target class."""
        return int(np.flatnonzero(self.classes == self.target_class)[0])

    @property
    def classifier_prediction(self) -> Any:
        """The class that the explained classifier predicts by itself; `predicted` is that of the average."""
        return self.classes.tolist()[int(self.scores.argmax())]

    def describe_classifier(self) -> str:
        """Return which classifier of an ensemble is explained, and whether it differs from the ensemble; else ""."""
        if self.classifier.count == 1:
            return ""
        sentence = f"The model averages {self.classifier.count} classifiers; these are the scores of {self.classifier}."
        if self.node is None or self.classifier_prediction == self.predicted:
            return sentence
        return f"{sentence} By itself it predicts {self.classifier_prediction}; the average predicts {self.predicted}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = ("node", "endpoint", "predicted", "predicted_all", "target_class")
        arrays = ("classes", "probabilities", "scores", "constant", "label_propagation", "remainder", "by_hop")
        return {
            **{name: getattr(self, name) for name in plain},
            "predicted_all": list(self.predicted_all),
            "classifier": self.classifier.name,
            "classifier_index": self.classifier.index,
            "num_classifiers": self.classifier.count,
            "classifier_prediction": self.classifier_prediction,
            "exact": self.exact,
            "informed": self.informed,
            "coverage": self.coverage,
            "num_paths": self.num_paths,
            "num_nodes": self.num_nodes,
            **{name: getattr(self, name).tolist() for name in arrays},
            "by_edge_type": {name: values.tolist() for name, values in self.by_edge_type.items()},
            **{name: getattr(self, name).to_dict() for name, _ in TABLES.values()},
            "paths": self.rows(),
        }

    def rows(self, by: str = "path") -> list[dict[str, Any]]:
        """Return a table as plain values; `by` is as for `table`."""
        if by == "path":
            return [path.row(self.classes.tolist()) for path in self.paths]
        rows: list[dict[str, Any]] = getattr(self, TABLES[by][0]).to_dict()["rows"]
        return rows if by in ("endpoint", "labeled-node") else [dict([*row.items()][:2]) for row in rows]
