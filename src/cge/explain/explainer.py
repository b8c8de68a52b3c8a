"""Explanations of nodes, classes and pairs of nodes, from paths and the linearized scores of a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.explain.contribution_tables import MAX_ROWS, ContributionTable, Labels, contribution_tables, n_to_list
from cge.explain.explanation import SINGLE_CLASSIFIER, ClassifierInfo, Explanation, PathContribution
from cge.explain.faithfulness import Faithfulness, faithfulness_curves
from cge.explain.metapath_paths import Metapath
from cge.explain.metapaths import EdgeRelations, metapath_sums, metapath_table
from cge.explain.path_search import PathSet
from cge.explain.path_sources import PathSource, count
from cge.explain.path_sums import FEATURES, INPUTS, LABEL, InputFeatures, LinearScores, PathSum, ScoreFunction
from cge.randomness import generator
from cge.sampling import PathBatch

_MAX_GRADIENTS = 4_000_000  # numbers in memory at once
_PARTS = ("scores", "constant", "label_propagation", "remainder")


def _order(path: PathContribution, absolute: bool = False) -> tuple[float, tuple[Any, ...]]:
    """Return a sort key: largest contributions first, and those that differ by rounding by their nodes."""
    contribution = abs(path.contribution) if absolute else path.contribution
    return -float(f"{contribution:.5g}"), path.path


def _chunks(values: Array, size: int) -> list[Array]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def _sums(linear: LinearScores, by_hop: Array, by_type: Array) -> dict[str, Array]:
    """Return sums over nodes, `(c,)`, and contributions of paths by hop and by type, `(K+1, c)` and `(types, c)`."""
    sums: dict[str, Array] = {name: getattr(linear, name).sum(0) for name in _PARTS}
    path_sums = {"by_hop": by_hop, "by_type": by_type}
    return sums | {name: np.einsum("qcd,kqd->kc", linear.gradients, values) for name, values in path_sums.items()}


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains the predictions of one classifier; takes indices of nodes and classes, returns ids and classes.

    `probabilities (n, c)` are those of the model (in another graph only for the explained nodes, else 0), `ids (n,)`
    the node ids. `relations` are those of the edges, in a heterogeneous graph. `informed (n,)` says from which of the
    explained nodes a path reaches an input other than zero or a label; by default from all.
    """

    paths: PathSource
    score_function: ScoreFunction
    probabilities: Array
    ids: Array
    labels: Labels
    temperature: float = 1.0
    classifier: ClassifierInfo = SINGLE_CLASSIFIER
    relations: EdgeRelations | None = None
    informed: Array | None = None

    def explain_node(
        self,
        node: int,
        top: int | None = None,
        hop: int | None = None,
        class_index: int | None = None,
        endpoint: int | None = None,
    ) -> Explanation:
        """Explain the score of a class of a node, by default the predicted one.

        Only paths of `hop` hops are listed; with `endpoint`, sums too are over the paths that end there.
        """
        nodes, inputs = np.array([node]), self._inputs
        class_index = int(self.probabilities[node].argmax()) if class_index is None else class_index
        linear = self._linearize(nodes)
        terms = self._score_terms(nodes, linear.gradients[:, class_index], class_index)
        more: dict[str, Any] = {"informed": endpoint is not None or self.is_informed(node)}
        if endpoint is not None:
            mask = np.arange(len(self.ids))[:, None] == endpoint
            inputs, terms = inputs * mask, [replace(term, inputs=term.inputs * mask) for term in terms]
        sums = _sums(linear, self.paths.by_hop(nodes, inputs), self.paths.by_type(nodes, inputs))
        sums |= self._single_sums(terms, endpoint)
        paths, total = self._listed(terms, class_index, top, hop), np.inf if hop is not None else float(sums["size"])
        paths = paths[: n_to_list(np.abs([path.contribution for path in paths]), total, top)]
        covered = min(sum(abs(path.contribution) for path in paths) / total, 1.0) if total else 1.0
        more["coverage"] = None if hop is not None else covered
        more |= self._metapaths([terms[0]], top)
        features = self.score_function.features
        if features is not None:
            features = replace(features, projection=features.projection @ linear.gradients[0, class_index][:, None])
        return self._explanation(nodes, class_index, [sums], paths, top, features, node, endpoint, **more)

    def explain_class(self, class_index: int, top: int | None = None, hop: int | None = None) -> Explanation:
        """Explain the score of a class: single paths, and sums over paths as means over the nodes predicted as it."""
        nodes = self.labeled_type_nodes()
        nodes = nodes[self.labels.target.indicators(self.probabilities[nodes])[:, class_index] != 0]
        sums: list[dict[str, Array]] = []
        paths: list[PathContribution] = []
        input_terms: list[PathSum] = []
        for chunk in _chunks(nodes, self.paths.batch_size):
            by_hop, by_type = self.paths.by_hop(chunk, self._inputs), self.paths.by_type(chunk, self._inputs)
            vectors = self.score_function.vectors_at(chunk, by_hop.sum(0))
            gradients = self.score_function.gradients(chunk, vectors, class_index)
            terms = self._score_terms(chunk, gradients, class_index)
            paths += self._listed(terms, class_index, top, hop, positive=True)
            input_terms.append(terms[0])
            at_endpoints = [term.source.to_endpoints(chunk, term.gradients) for term in terms]
            contributions = [(term.inputs * at).sum(1) for term, at in zip(terms, at_endpoints, strict=True)]
            by_endpoint = {"from_inputs": contributions[0], "from_label": np.sum(contributions[1:], axis=0)}
            sums.append(by_endpoint | {"at_endpoints": at_endpoints[0]})
            for rows in _chunks(np.arange(len(chunk)), self._batch_size):
                linear = self.score_function.linearize(chunk[rows], by_hop[:, rows].sum(0))
                sums.append(_sums(linear, by_hop[:, rows], by_type[:, rows]))
        paths = sorted(paths, key=_order)[: top or MAX_ROWS]
        more: dict[str, Any] = self._metapaths(input_terms, top)
        return self._explanation(nodes, class_index, sums, paths, top, self.score_function.features, **more)

    def labeled_type_nodes(self) -> Array:
        """Return all nodes or, in a graph with node types, those of the type of the training labels."""
        if self.relations is None or not len(self.labels.nodes):
            return np.arange(len(self.ids))
        types = self.relations.node_types
        return np.flatnonzero(types == types[self.labels.nodes[0]])

    def _metapaths(self, terms: list[PathSum], top: int | None) -> dict[str, ContributionTable]:
        """Return the table of mean contributions to a score by metapath; none without types."""
        if self.relations is None or not sum(len(term.nodes) for term in terms):
            return {}
        total: dict[Metapath, float] = {}
        rest, num_nodes = 0.0, sum(len(term.nodes) for term in terms)
        for term in terms:
            sums, others = metapath_sums(term.source, self.relations, term.nodes, term.gradients, term.inputs)
            rest += others / num_nodes
            for metapath, value in sums.items():
                total[metapath] = total.get(metapath, 0.0) + value / num_nodes
        start_type = str(self.relations.node_types[terms[0].nodes[0]])
        return {"by_metapath": metapath_table(total, rest, self.relations, start_type, top)}

    def _score_terms(self, nodes: Array, gradients: Array, class_index: int) -> list[PathSum]:
        """Return the terms of a class score that are sums over paths; `gradients (q, d)` are those of this score."""
        labels, kind = self.score_function.label_paths, INPUTS if self.score_function.features is None else FEATURES
        terms = [PathSum(kind, self.paths, nodes, self._inputs, gradients)]
        if labels is not None:
            label_gradients, values = labels.gradients(nodes)[:, [class_index]], labels.values([class_index])
            terms.append(PathSum(LABEL, labels.paths, nodes, values, label_gradients))
        return terms

    def is_informed(self, node: int) -> bool:
        """Return whether a path from a node reaches an input other than zero, but its own learned one, or a label."""
        return self.informed is None or bool(self.informed[node])

    def _single_sums(self, terms: list[PathSum], endpoint: int | None) -> dict[str, Any]:
        """Return the sums over the paths of one node by endpoint, `(n,)`."""
        by_endpoint = [np.array([term.each(each)[:, 0] for term in terms]) for each in (np.positive, np.abs, count)]
        contributions, sizes, num_paths = by_endpoint
        path_weights = self.paths.to_endpoints(terms[0].nodes, np.ones((1, 1)))
        if endpoint is not None:
            path_weights *= np.arange(len(self.ids))[:, None] == endpoint
        sums = {"size": sizes.sum(), "at_endpoints": path_weights, "num_paths": num_paths.sum(0)}
        return sums | {"from_inputs": contributions[0], "from_label": contributions[1:].sum(0)}

    def _listed(
        self, terms: list[PathSum], class_index: int, top: int | None, hop: int | None, positive: bool = False
    ) -> list[PathContribution]:
        """Return the paths with the largest contributions among all terms of the score."""
        listed: list[PathContribution] = []
        for term in terms:
            listed += self._path_contributions(term, top or MAX_ROWS, hop, class_index, positive)
        return sorted(listed, key=lambda path: _order(path, absolute=True))[: top or MAX_ROWS]

    def predicted_terms(self, nodes: Array) -> Iterator[list[PathSum]]:
        """Yield the terms of the scores of predicted classes that are sums over paths, for the nodes of each class."""
        for chunk in _chunks(nodes, self.paths.batch_size):
            vectors, class_indices = self._vectors(chunk), self.probabilities[chunk].argmax(1)
            gradients = self.score_function.gradients(chunk, vectors, class_indices)
            for class_index in np.unique(class_indices).tolist():
                rows = class_indices == class_index
                yield self._score_terms(chunk[rows], gradients[rows], class_index)

    def predict_alone(self, nodes: Array) -> Array:
        """Return the class index that this classifier predicts alone, `(q,)`; `nodes` must be sorted."""
        chunks = _chunks(nodes, self.paths.batch_size)
        scores = [self.score_function.scores(chunk, self._vectors(chunk)) for chunk in chunks]
        return np.concatenate([np.empty(0, np.int64), *(part.argmax(1) for part in scores)])

    def predicted_gradients(self, nodes: Array) -> Array:
        """Return gradients of predicted scores minus the mean over classes, `(q, d)`; `nodes` must be sorted."""
        class_indices, gradients = self.probabilities[nodes].argmax(1), []
        for rows in _chunks(np.arange(len(nodes)), min(self._batch_size, self.paths.batch_size)):
            linear = self._linearize(nodes[rows])
            gradients.append(self.labels.target.centered(linear.gradients)[np.arange(len(rows)), class_indices[rows]])
        return np.concatenate(gradients)

    def mean_contributions(self, nodes: Array) -> Array:
        """Return the mean contribution of paths of 0, 1, …, K hops to the predicted class of sorted nodes, `(K+1,)`.

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

    def _input_sums(self, nodes: Array) -> Array:
        """Return the sums over all paths of some nodes, `(q, d)`."""
        return np.asarray(self.paths.by_hop(nodes, self._inputs).sum(0))

    def _vectors(self, nodes: Array) -> Array:
        return self.score_function.vectors_at(nodes, self._input_sums(nodes))

    def _linearize(self, nodes: Array) -> LinearScores:
        return self.score_function.linearize(nodes, self._input_sums(nodes))

    @property
    def _batch_size(self) -> int:
        """How many nodes' gradients are in memory at once."""
        return max(_MAX_GRADIENTS // (len(self.labels.classes) * int(self._inputs.shape[1])), 1)

    def _contributions(self, paths: PathSet) -> Array:
        """Return the contributions of paths to each class score, `(b, c)`."""
        contributions = np.empty((len(paths), len(self.labels.classes)))
        endpoints = paths.endpoints(self.paths.indices)
        for nodes in _chunks(np.unique(paths.start), min(self._batch_size, self.paths.batch_size)):
            linear = self._linearize(nodes)
            rows = np.flatnonzero(np.isin(paths.start, nodes))
            gradients = linear.gradients[np.searchsorted(nodes, paths.start[rows])]
            products = np.einsum("bcd,bd->bc", gradients, self._inputs[endpoints[rows]])
            contributions[rows] = products * paths.path_weight[rows, None]
        return contributions

    def _explanation(
        self,
        nodes: Array,
        class_index: int,
        sums: list[dict[str, Array]],
        paths: list[PathContribution],
        top: int | None,
        features: InputFeatures | None,
        node: int | None = None,
        endpoint: int | None = None,
        **more: Any,
    ) -> Explanation:
        """Return an explanation from the listed paths and the sums over paths, which are averaged over nodes."""
        classes, names = self.labels.classes, () if self.paths.types is None else self.paths.types.names
        rows = {"by_hop": self.paths.hops + 1, "by_type": len(names)}
        zeros = {name: np.zeros(len(classes)) for name in _PARTS}
        zeros |= {name: np.zeros((size, len(classes))) for name, size in rows.items()}
        zeros |= {name: np.zeros(len(self.ids)) for name in ("from_inputs", "from_label", "num_paths")}
        zeros["at_endpoints"] = np.zeros((len(self.ids), 1))
        means: dict[str, Any] = {
            name: sum([part[name] for part in sums if name in part], zero) / max(len(nodes), 1)
            for name, zero in zeros.items()
        }
        if endpoint is not None:
            if self.score_function.label_paths is not None:
                means["label_propagation"] = self.score_function.label_paths.to_endpoint(nodes, endpoint)
            explained = means["constant"] + means["label_propagation"] + means["by_hop"].sum(0)
            means["remainder"] = means["scores"] - explained
        by_edge_type: dict[str, Array] = {}
        for name, contribution in zip(names, means.pop("by_type"), strict=True):
            by_edge_type[name] = by_edge_type.get(name, 0) + contribution
        by_endpoint = {name: means.pop(name) for name in [*means] if name not in (*_PARTS, "by_hop")}
        return Explanation(
            node=None if node is None else self.ids[[node]].tolist()[0],
            endpoint=None if endpoint is None else self.ids[[endpoint]].tolist()[0],
            predicted=classes.tolist()[class_index if node is None else int(self.probabilities[node].argmax())],
            predicted_all=(classes.tolist()[class_index],) if node is None else self._predicted(node),
            target_class=classes.tolist()[class_index],
            classes=classes,
            probabilities=self.probabilities[nodes].astype(np.float64).sum(0) / max(len(nodes), 1),
            target=self.labels.target,
            by_edge_type=by_edge_type,
            exact=self.paths.exact,
            num_nodes=len(nodes),
            paths=tuple(paths),
            num_paths=None if node is None else float(by_endpoint["num_paths"].sum()),
            classifier=self.classifier,
            **(means | more | contribution_tables(by_endpoint, self.labels, self.ids, features, top)),
        )

    def _predicted(self, node: int) -> tuple[Any, ...]:
        """Return the predicted classes of a node, the most probable first."""
        order = np.argsort(-self.probabilities[node], kind="stable")
        predicted = self.labels.target.indicators(self.probabilities[[node]])[0]
        return tuple(self.labels.classes[order[predicted[order]]].tolist())

    def _path_contributions(
        self, term: PathSum, top: int, hop: int | None, class_index: int, positive: bool
    ) -> list[PathContribution]:
        """Return the paths of a term of the score with the largest contributions, with ids and relative weights."""
        paths, labels, source = term.top(top, hop, positive), self.score_function.label_paths, term.source
        is_label = term.kind == LABEL and labels is not None
        contributions = labels.contributions(paths) if is_label else self._contributions(paths)  # type: ignore[union-attr]
        batch, relative_weights = PathBatch(paths.nodes(source.indices), paths.length), source.weights(paths).tolist()
        rows, edge_types = [], self.paths.types
        for row, distinct in enumerate(batch.distinct_nodes.tolist()):
            nodes, own = batch.nodes[row, : batch.length[row]], contributions[row]
            ids, of_nodes = tuple(self.ids[nodes].tolist()), self.labels.of_nodes(nodes)
            types = () if edge_types is None else edge_types.named(paths.edges[row])
            value = float(own[class_index])
            rows.append(PathContribution(ids, relative_weights[row], value, own, distinct, of_nodes, types, term.kind))
        return rows

    # ------------------------------------------------------------------ faithfulness

    def faithfulness(self, nodes: Array, fractions: Array, repeats: int, max_paths: int, seed: int) -> Faithfulness:
        """Return the probability of the predicted class as paths are deleted or inserted; see `Faithfulness`."""
        curves = []
        for node in nodes.tolist():
            single, class_index = np.array([node]), int(self.probabilities[node].argmax())
            linear = self._linearize(single)
            paths = self.paths.top_by_weight(node, max_paths)
            weighted_inputs = paths.path_weight[:, None] * self._inputs[paths.endpoints(self.paths.indices)]

            def predict(vectors: Array, node: int = node, class_index: int = class_index) -> Array:
                scores = self.score_function.scores(np.full(len(vectors), node), vectors)
                return np.asarray(self.labels.target.outputs(scores / self.temperature)[:, class_index])

            rest = linear.vectors[0] - weighted_inputs.sum(0)
            orders = weighted_inputs @ linear.gradients[0, class_index], np.abs(paths.path_weight)
            random = generator(seed, "faithfulness", node)
            curves.append(faithfulness_curves(weighted_inputs, rest, *orders, predict, fractions, repeats, random))
        return Faithfulness.concatenate(curves, fractions, self.labels.target.texts)
