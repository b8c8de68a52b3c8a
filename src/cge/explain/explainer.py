"""Explanations of nodes, classes and pairs of nodes, from paths and the scores of a classifier.

A classifier is linear as long as the same hidden units are active. So near a node its scores are

    scores = constant + gradients · (sum over paths) + label_propagation

with gradients that are exact for this node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.explain.explanation import SINGLE_CLASSIFIER, ClassifierInfo, Explanation, PathContribution
from cge.explain.faithfulness import Faithfulness, faithfulness_curves
from cge.explain.path_search import PathSet, concatenate_paths
from cge.explain.path_sources import PathSource
from cge.randomness import generator
from cge.sampling import PathBatch
from cge.targets import Target

_MAX_GRADIENTS = 4_000_000  # numbers in memory at once
_PARTS = ("scores", "constant", "label_propagation", "remainder")


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
    """A trained classifier or head as a function of node vectors; arrays are float64.

    `inputs (n, d)` are what a path takes from its endpoint to its start; `offset (d,)` is added to the sum over paths;
    `vectors (n, d)` replace it, where vectors are something else. `score` returns the class scores of nodes `(q,)` with
    vectors `(q, d)`, `(q, c)`, to which `label_propagation (n, c)` is added, where there is any.
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


def _chunks(values: Array, size: int) -> list[Array]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def _sums(linear: LinearScores, by_hop: Array, by_type: Array) -> dict[str, Array]:
    """Return sums over nodes, `(c,)`, and contributions of paths by hop and by type, `(K+1, c)` and `(types, c)`."""
    sums: dict[str, Array] = {name: getattr(linear, name).sum(0) for name in _PARTS}
    path_sums = {"by_hop": by_hop, "by_type": by_type}
    return sums | {name: np.einsum("qcd,kqd->kc", linear.gradients, values) for name, values in path_sums.items()}


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
        names = iter(self.target.names(self.matrix[rows[known]]))
        labels = (tuple(next(names)) if is_known else None for is_known in known.tolist())
        return tuple(label if label is None or self.target.multilabel else label[0] for label in labels)


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains the predictions of one classifier; takes indices of nodes and classes, returns ids and classes.

    `probabilities (n, c)` are those of the model for all nodes, `ids (n,)` the node ids.
    """

    paths: PathSource
    score_function: ScoreFunction
    probabilities: Array
    ids: Array
    labels: Labels
    temperature: float = 1.0
    classifier: ClassifierInfo = SINGLE_CLASSIFIER

    def explain_node(
        self, node: int, top: int, hop: int | None = None, class_index: int | None = None, endpoint: int | None = None
    ) -> Explanation:
        """Explain the score of a class, by default the predicted one; `hop` limits the listed paths, `endpoint` all."""
        nodes, inputs = np.array([node]), self._inputs
        class_index = int(self.probabilities[node].argmax()) if class_index is None else class_index
        by_hop = self.paths.by_hop(nodes, inputs)
        linear = self.score_function.linearize(nodes, by_hop.sum(0))
        if endpoint is None:
            paths = self.paths.top_by_contribution(nodes, linear.gradients[:, class_index], inputs, top, hop)
        else:
            paths = self.paths.between(node, endpoint, top, hop)
            inputs = np.zeros_like(inputs)
            inputs[endpoint] = self._inputs[endpoint]
            by_hop = self.paths.by_hop(nodes, inputs)
        part = _sums(linear, by_hop, self.paths.by_type(nodes, inputs))
        return self._explanation(nodes, class_index, [part], paths, node=node, endpoint=endpoint)

    def explain_class(self, class_index: int, top: int, hop: int | None = None) -> Explanation:
        """Explain a class: the largest contributions to its score, and means over the nodes predicted to be in it."""
        nodes = np.flatnonzero(self.labels.target.indicators(self.probabilities)[:, class_index])
        parts: list[dict[str, Array]] = []
        top_paths: list[PathSet] = []
        for chunk in _chunks(nodes, self.paths.batch_size):
            by_hop, by_type = self.paths.by_hop(chunk, self._inputs), self.paths.by_type(chunk, self._inputs)
            vectors = self.score_function.vectors_at(chunk, by_hop.sum(0))
            gradients = self.score_function.gradients(chunk, vectors, class_index)
            top_paths.append(self.paths.top_by_contribution(chunk, gradients, self._inputs, top, hop, positive=True))
            for rows in _chunks(np.arange(len(chunk)), self._batch_size):
                linear = self.score_function.linearize(chunk[rows], by_hop[:, rows].sum(0))
                parts.append(_sums(linear, by_hop[:, rows], by_type[:, rows]))
        if len(top_paths) > 1:
            paths = concatenate_paths(top_paths)
            order = np.argsort(-self._contributions(paths)[:, class_index], kind="stable")[:top]
            top_paths = [paths.take(order)]
        return self._explanation(nodes, class_index, parts, top_paths[0] if top_paths else None)

    def top_by_contribution(self, nodes: Array, top: int) -> tuple[PathSet, Array]:
        """Return the `top` paths of each of ascending nodes for its predicted class, and their contributions."""
        top_paths, contributions = [], []
        for chunk in _chunks(nodes, self.paths.batch_size):
            vectors = self.score_function.vectors_at(chunk, self._path_sums(chunk))
            gradients = self.score_function.gradients(chunk, vectors, self.probabilities[chunk].argmax(1))
            paths = self.paths.top_by_contribution(chunk, gradients, self._inputs, top)
            top_paths.append(paths)
            contributions.append(paths.contributions(chunk, gradients, self._inputs, self.paths.indices))
        return concatenate_paths(top_paths), np.concatenate(contributions)

    def predict_alone(self, nodes: Array) -> Array:
        """Return the index of the class that this classifier predicts without the others, `(q,)`; nodes ascend."""
        class_indices = [np.empty(0, np.int64)]
        for chunk in _chunks(nodes, self.paths.batch_size):
            vectors = self.score_function.vectors_at(chunk, self._path_sums(chunk))
            class_indices.append(self.score_function.scores(chunk, vectors).argmax(1))
        return np.concatenate(class_indices)

    def mean_contributions(self, nodes: Array) -> Array:
        """Return the mean contribution of paths of 0, 1, …, K hops to the predicted class of ascending nodes, `(K+1,)`.

        In a single-label task it is relative to the mean over classes: only differences between scores matter.
        """
        by_hop = self.paths.by_hop(nodes, self._inputs)
        total = np.zeros(len(by_hop))
        for rows in _chunks(np.arange(len(nodes)), self._batch_size):
            linear = self.score_function.linearize(nodes[rows], by_hop[:, rows].sum(0))
            class_indices = self.probabilities[nodes[rows]].argmax(1)
            gradients = self.labels.target.centered(linear.gradients)[np.arange(len(rows)), class_indices]
            total += np.einsum("qd,kqd->k", gradients, by_hop[:, rows])
        return np.asarray(total / max(len(nodes), 1))

    @property
    def _inputs(self) -> Array:
        return self.score_function.inputs

    def _path_sums(self, nodes: Array) -> Array:
        """Return the sums over all paths of some nodes, `(q, d)`."""
        return np.asarray(self.paths.by_hop(nodes, self._inputs).sum(0))

    def _linearize(self, nodes: Array) -> LinearScores:
        return self.score_function.linearize(nodes, self._path_sums(nodes))

    @property
    def _batch_size(self) -> int:
        """How many nodes' gradients are in memory at once."""
        return max(_MAX_GRADIENTS // (len(self.labels.classes) * int(self._inputs.shape[1])), 1)

    def _contributions(self, paths: PathSet) -> Array:
        """Return the contributions of paths to each class score, `(b, c)`."""
        contributions = np.empty((len(paths), len(self.labels.classes)))
        ends = paths.endpoints(self.paths.indices)
        for nodes in _chunks(np.unique(paths.start), min(self._batch_size, self.paths.batch_size)):
            linear = self._linearize(nodes)
            rows = np.flatnonzero(np.isin(paths.start, nodes))
            gradients = linear.gradients[np.searchsorted(nodes, paths.start[rows])]
            products = np.einsum("bcd,bd->bc", gradients, self._inputs[ends[rows]])
            contributions[rows] = products * paths.coefficient[rows, None]
        return contributions

    def _explanation(
        self,
        nodes: Array,
        class_index: int,
        parts: list[dict[str, Array]],
        paths: PathSet | None,
        *,
        node: int | None = None,
        endpoint: int | None = None,
    ) -> Explanation:
        """Return an explanation from single paths and the sums over chunks of nodes."""
        classes, names = self.labels.classes, () if self.paths.types is None else self.paths.types.names
        rows = {"by_hop": self.paths.hops + 1, "by_type": len(names)}
        zeros = {name: np.zeros(len(classes)) for name in _PARTS}
        zeros |= {name: np.zeros((size, len(classes))) for name, size in rows.items()}
        means = {name: sum([part[name] for part in parts], zero) / max(len(nodes), 1) for name, zero in zeros.items()}
        if endpoint is not None:
            explained = means["constant"] + means["label_propagation"] + means["by_hop"].sum(0)
            means["remainder"] = means["scores"] - explained
        by_edge_type: dict[str, Array] = {}
        for name, contribution in zip(names, means.pop("by_type"), strict=True):
            by_edge_type[name] = by_edge_type.get(name, 0) + contribution
        return Explanation(
            node=None if node is None else self.ids[[node]].tolist()[0],
            endpoint=None if endpoint is None else self.ids[[endpoint]].tolist()[0],
            predicted=classes.tolist()[class_index if node is None else int(self.probabilities[node].argmax())],
            predicted_all=(classes.tolist()[class_index],) if node is None else self._predicted(node),
            target_class=classes.tolist()[class_index],
            classes=classes,
            probabilities=self.probabilities[nodes].astype(np.float64).sum(0) / max(len(nodes), 1),
            by_edge_type=by_edge_type,
            exact=self.paths.exact,
            num_nodes=len(nodes),
            paths=() if paths is None else self._path_contributions(paths, class_index),
            classifier=self.classifier,
            **means,
        )

    def _predicted(self, node: int) -> tuple[Any, ...]:
        """Return the predicted classes of a node, the most probable first."""
        order = np.argsort(-self.probabilities[node], kind="stable")
        predicted = self.labels.target.indicators(self.probabilities[[node]])[0]
        return tuple(self.labels.classes[order[predicted[order]]].tolist())

    def _path_contributions(self, paths: PathSet, class_index: int) -> tuple[PathContribution, ...]:
        """Return paths with ids, weights and contributions."""
        contributions, weights = self._contributions(paths), self.paths.weights(paths).tolist()
        batch = PathBatch(paths.nodes(self.paths.indices), paths.length)
        rows, edge_types = [], self.paths.types
        for row, diversity in enumerate(batch.diversity.tolist()):
            nodes = batch.nodes[row, : batch.length[row]]
            ids, labels = tuple(self.ids[nodes].tolist()), self.labels.of_nodes(nodes)
            types = () if edge_types is None else edge_types.named(paths.edges[row])
            own = contributions[row]
            rows.append(PathContribution(ids, weights[row], float(own[class_index]), own, diversity, labels, types))
        return tuple(rows)

    # ------------------------------------------------------------------ faithfulness

    def faithfulness(self, nodes: Array, fractions: Array, repeats: int, max_paths: int, seed: int) -> Faithfulness:
        """Return the probability of the predicted class as paths are deleted or inserted; see `Faithfulness`."""
        curves = []
        for node in nodes.tolist():
            single, class_index = np.array([node]), int(self.probabilities[node].argmax())
            linear = self._linearize(single)
            paths = self.paths.top_by_weight(node, max_paths)
            parts = paths.coefficient[:, None] * self._inputs[paths.endpoints(self.paths.indices)]

            def predict(vectors: Array, node: int = node, class_index: int = class_index) -> Array:
                scores = self.score_function.scores(np.full(len(vectors), node), vectors)
                calibrated = self.labels.target.outputs(torch.from_numpy(scores / self.temperature))
                return np.asarray(calibrated.numpy()[:, class_index])

            rest = linear.vectors[0] - parts.sum(0)
            orders = parts @ linear.gradients[0, class_index], np.abs(paths.coefficient)
            random = generator(seed, "faithfulness", node)
            curves.append(faithfulness_curves(parts, rest, *orders, predict, fractions, repeats, random))
        return Faithfulness.concatenate(curves, fractions)
