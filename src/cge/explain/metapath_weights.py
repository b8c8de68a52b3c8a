"""The metapaths of a model: their weight beside uniform weights, their contribution, and the accuracy without them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError
from cge.explain.explainer import Explainer
from cge.explain.metapath_paths import Metapath, MetapathPaths
from cge.explain.metapaths import EdgeRelations, along_metapath, metapath_sums
from cge.explain.path_sources import AllPaths

_NODES = 500  # whose paths are weighed


@dataclass(frozen=True)
class MetapathWeight:
    """A metapath of a model, and its share of the path weights and contributions of all metapaths.

    Attributes
    ----------
    metapath : str
        Its node types, and edge types where there are several between two node types.
    weight, uniform_weight : float
        Its share of the weight of all paths, and that with uniform weights.
    contribution : float
        Its share of the contributions to the scores of the predicted classes, relative to the other classes; negative
        if it is evidence against the predictions.
    accuracy_change : float or None
        The validation accuracy without the paths of this metapath, minus that with them: negative if they help. None
        without validation labels, and unless the target is single-label.
    """

    metapath: str
    weight: float
    uniform_weight: float
    contribution: float
    accuracy_change: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def metapath_weights(
    explainer: Explainer, uniform: AllPaths, top: int, validation: tuple[Array, Array]
) -> list[MetapathWeight]:
    """Return the metapaths with the largest contributions in a model, from a sample of the nodes that it predicts.

    `uniform` are the same paths with uniform weights; `validation` are nodes `(k,)` and their labels `(k, c)`.
    """
    source, relations = explainer.paths, explainer.relations
    if relations is None:
        raise InputError("the graph has no node or edge types, so there are no metapaths")
    if not isinstance(source, AllPaths | MetapathPaths):
        raise InputError("the weighting of this model is a network, and network weightings have no metapath weights")
    nodes = explainer.labeled_type_nodes()
    nodes = nodes[np.unique(np.linspace(0, len(nodes) - 1, min(len(nodes), _NODES)).astype(np.int64))]
    gradients = explainer.predicted_gradients(nodes)
    sums, rest = metapath_sums(source, relations, nodes, gradients, explainer.score_function.inputs)
    size = sum(map(abs, sums.values())) + abs(rest) or 1.0
    weights, uniform_weights = (_shares(each, relations, nodes) for each in (source, uniform))
    order = sorted(sums, key=lambda metapath: -abs(sums[metapath]))[:top]
    changes = _accuracy_changes(explainer, source, relations, order, *validation)
    start_type = str(relations.node_types[nodes[0]])
    return [
        MetapathWeight(
            relations.name(key, start_type),
            weights.get(key, 0.0),
            uniform_weights.get(key, 0.0),
            sums[key] / size,
            change,
        )
        for key, change in zip(order, changes, strict=True)
    ]


def _shares(source: AllPaths | MetapathPaths, relations: EdgeRelations, nodes: Array) -> dict[Metapath, float]:
    """Return the share of each metapath in the weight of all paths from some nodes."""
    ones = np.ones((source.num_nodes, 1))
    sums, rest = metapath_sums(source, relations, nodes, ones[nodes], ones)
    total = sum(map(abs, sums.values())) + abs(rest) or 1.0
    return {metapath: abs(value) / total for metapath, value in sums.items()}


def _accuracy_changes(
    explainer: Explainer,
    source: AllPaths | MetapathPaths,
    relations: EdgeRelations,
    metapaths: list[Metapath],
    nodes: Array,
    labels: Array,
) -> list[float | None]:
    """Return how the accuracy of a classifier on some nodes changes without the paths of each metapath."""
    target = explainer.labels.target
    if not len(nodes) or not target.exclusive_classes:
        return [None] * len(metapaths)
    function = explainer.score_function
    vectors = function.vectors_at(nodes, source.by_hop(nodes, function.inputs).sum(0))
    accuracy = target.score_outputs(function.scores(nodes, vectors), labels)
    changes: list[float | None] = []
    for metapath in metapaths:
        without = vectors - along_metapath(source, relations, metapath, function.inputs)[nodes]
        changes.append(target.score_outputs(function.scores(nodes, without), labels) - accuracy)
    return changes
