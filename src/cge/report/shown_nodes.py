"""The nodes on the page of a report: their labels, predictions and colors, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.estimators.path_estimator import PathEstimator
from cge.report.charts import NodePaths, project, rounded
from cge.report.scored_nodes import ScoredNodes
from cge.targets.node_groups import NodeGroups

_MAX_NODES = 4000  # on the page
COLORS = (
    "#2f6fd0", "#d9822b", "#2a9d5c", "#c4483f", "#8456b8", "#8c6d4f", "#d06fae", "#6f7a1f", "#1f9aa8", "#b8932a",
)  # fmt: skip
_OTHER_COLOR = "#8a94a3"


@dataclass(frozen=True, eq=False)
class ShownNodes:
    """Labels and outputs of all nodes, and the groups by which charts color them.

    `train_labels` and `labels (n, g)` say which groups the training labels, and all known labels, of a node belong to;
    `known (n, c)` are the labels themselves, NaN where unknown. `outputs (n, c)` are probabilities or values. `shown`
    are the nodes of the 2-D chart; `on_page` are these, followed by nodes that occur only on their paths.
    """

    groups: NodeGroups
    train_labels: Array
    labels: Array
    known: Array
    outputs: Array
    shown: Array
    on_page: Array

    @property
    def predicted(self) -> Array:
        """The group of each node's prediction, `(n,)`; of several classes the most probable."""
        return self.groups.of_outputs(self.outputs)

    @property
    def group_sizes(self) -> Array:
        """Nodes shown by label or, without a label, by prediction, `(g,)`."""
        one_hot = np.eye(self.labels.shape[1], dtype=np.int64)[self.predicted]
        return np.asarray(np.where(self.labels.any(1, keepdims=True), self.labels, one_hot)[self.shown].sum(0))

    @property
    def color_group(self) -> Array:
        """The group that gives a node its color, `(n,)`: the largest of its labels, or else the predicted one."""
        largest = np.where(self.labels > 0, self.group_sizes, -1).argmax(1)
        return np.where(self.labels.any(1), largest, self.predicted)


def shown_nodes(model: PathEstimator, test_labels: Array | None) -> ShownNodes:
    """Return the nodes on the page, without those that occur only on paths."""
    fitted, target = model.fitted_, model.fitted_.target
    parts = [(labeled.nodes, labeled.matrix) for labeled in (fitted.train, fitted.validation)]
    groups = target.groups(np.concatenate([matrix for _, matrix in parts]))
    if test_labels is not None:
        nodes = np.flatnonzero(target.labeled(test_labels))
        parts.append((nodes, target.matrix(test_labels[nodes])))
    known = np.full((len(model.node_ids_), len(model.classes_)), np.nan)
    labels = np.zeros((len(known), len(groups.names)), np.int64)
    train_labels = labels.copy()
    train_labels[fitted.train.nodes] = groups.of_labels(fitted.train.matrix)
    for nodes, matrix in parts:
        labels[nodes] |= groups.of_labels(matrix)
        known[nodes] = matrix
    outputs, shown = model._outputs(model.node_ids_, None), _select_nodes(train_labels, labels)
    return ShownNodes(groups, train_labels, labels, known, outputs, shown, shown)


def _select_nodes(train_labels: Array, labels: Array) -> Array:
    """Return the nodes on the page: all, or in a large graph training nodes first, then evenly spaced others."""
    count = len(labels)
    if count <= _MAX_NODES:
        return np.arange(count)
    first, labeled = np.flatnonzero(train_labels.any(axis=1)), np.flatnonzero(labels.any(axis=1))
    first = first[np.linspace(0, len(first) - 1, min(len(first), _MAX_NODES // 2)).astype(np.int64)]
    rest = np.setdiff1d(labeled if len(labeled) >= _MAX_NODES else np.arange(count), first)
    more = rest[np.linspace(0, len(rest) - 1, _MAX_NODES - len(first)).astype(np.int64)]
    return np.unique(np.concatenate([first, more]))


def on_paths(shown: Array, paths: list[NodePaths]) -> Array:
    """Return the nodes shown, followed by those that occur only on their paths."""
    others = {node for node_paths in paths for path, *_ in node_paths.paths for node in path}
    others |= {end for node_paths in paths for end, *_ in node_paths.endpoints}
    return np.concatenate([shown, np.setdiff1d(np.array([*others], np.int64), shown)])


def color_groups(sizes: Array) -> list[dict[str, Any]]:
    """Return the groups with their own color, the largest first, and the others together."""
    order = np.argsort(-sizes, kind="stable").tolist()
    others = sorted(order[len(COLORS) :])
    groups: list[dict[str, Any]] = [
        {"classes": [column], "color": color} for column, color in zip(order, COLORS, strict=False)
    ]
    return [*groups, {"classes": others, "color": _OTHER_COLOR}] if others else groups


def node_table(model: PathEstimator, nodes: ShownNodes, projection: str) -> dict[str, Any]:
    """Return the columns of the nodes on the page; those shown in 2-D come first, and have keys."""
    explainer, on_page, target = model.explainer(), nodes.on_page, model.fitted_.target
    projected, outputs = project(model.embedding_[nodes.shown], projection, model.random_state), nodes.outputs[on_page]
    alone = target.has_probabilities and explainer.classifier.count > 1
    return {
        "keys": list(range(len(nodes.shown))),
        "id": [str(node) for node in model.node_ids_[on_page].tolist()],
        "label": [np.flatnonzero(row).tolist() for row in nodes.labels[on_page]],
        "label_text": nodes.groups.texts(nodes.known[on_page]),
        "is_training": nodes.train_labels[on_page].any(1).astype(int).tolist(),
        "predicted": nodes.predicted[on_page].tolist(),
        "predicted_text": nodes.groups.texts(outputs),
        "confidence": rounded(outputs.max(1)),
        "predicted_all": target.predicted_classes(outputs),
        "classifier_prediction": explainer.predict_alone(nodes.shown).tolist() if alone else None,
        "color_class": nodes.color_group[on_page].tolist(),
        "x": rounded(projected[:, 0]),
        "y": rounded(projected[:, 1]),
    }


def first_node(model: PathEstimator, nodes: ShownNodes, scored: ScoredNodes | None) -> int:
    """Return which node the explorer shows first.

    A node with at least three neighbors and a correct prediction of medium confidence (or value); a test node, if there
    are any, or else one without a training label. Conditions that no node meets are ignored.
    """
    shown, predicted = nodes.shown, nodes.predicted[nodes.shown]
    suitable, is_test = np.ones(len(shown), bool), scored is not None and scored.is_test
    unseen = np.isin(shown, scored.nodes) if scored is not None and is_test else ~nodes.train_labels[shown].any(axis=1)
    for condition in (unseen, nodes.labels[shown, predicted] > 0, model.graph_.degrees[shown] >= 3):
        suitable = suitable & condition if (suitable & condition).any() else suitable
    if not len(shown):
        return 0
    confidence = nodes.outputs[shown].max(1)
    medium = (confidence[suitable].min() + confidence[suitable].max()) / 2
    return int(np.where(suitable, np.abs(confidence - medium), np.inf).argmin())
