"""Explanations of nodes, classes and pairs of nodes, from paths and what is read off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.explain.explanation import ONLY_CLASSIFIER, Explanation, PathShare, WhichClassifier
from cge.explain.faithfulness import Faithfulness, faithfulness
from cge.explain.linear_scores import Local, Reading
from cge.explain.path_search import Found, joined
from cge.explain.path_source import Paths
from cge.randomness import generator
from cge.sampling import PathBatch
from cge.targets import Target

__all__ = ["Explainer", "Labels"]

Array = npt.NDArray[Any]

_SLOPES = 4_000_000  # numbers that are held at once


_NUMBERS = ("scores", "constant", "votes", "remainder")


def _pieces(values: Array, size: int) -> list[Array]:
    """Return an array in pieces."""
    return [values[begin : begin + size] for begin in range(0, len(values), size)]


def _sums(local: Local, by_hop: Array, by_type: Array) -> dict[str, Array]:
    """Return sums over nodes, `(c,)`, and what paths bring by hop and by type, `(K+1, c)` and `(types, c)`."""
    found: dict[str, Array] = {name: getattr(local, name).sum(0) for name in _NUMBERS}
    brought = {"hops": by_hop, "types": by_type}
    return found | {name: np.einsum("qcd,kqd->kc", local.slopes, one) for name, one in brought.items()}


@dataclass(frozen=True, eq=False)
class Labels:
    """The target of a model and its training labels: `nodes (k,)` ascending, `matrix (k, c)`."""

    target: Target
    nodes: Array
    matrix: Array

    @property
    def classes(self) -> Array:
        """The classes, `(c,)`."""
        return self.target.classes

    def of(self, nodes: Array) -> tuple[Any, ...]:
        """Return the training label of each node, or None; in a multilabel task, a tuple of classes."""
        rows = np.minimum(np.searchsorted(self.nodes, nodes), max(len(self.nodes) - 1, 0))
        known = self.nodes[rows] == nodes if len(self.nodes) else np.zeros(len(nodes), bool)
        names = iter(self.target.names(self.matrix[rows[known]]))
        labels = (tuple(next(names)) if is_known else None for is_known in known.tolist())
        return tuple(label if label is None or self.target.multilabel else label[0] for label in labels)


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains predictions of one reader or head; nodes and classes are numbers here, and names in what it returns.

    `probabilities (n, c)` are those that the model predicts for all nodes, `ids (n,)` the names of nodes. `temperature` is the
    temperature of calibration: scores are divided by it before they become chances. `classifier` tells which one it is.
    """

    paths: Paths
    reading: Reading
    probabilities: Array
    ids: Array
    labels: Labels
    temperature: float = 1.0
    classifier: WhichClassifier = ONLY_CLASSIFIER

    def node(self, node: int, top: int, hop: int | None = None, place: int | None = None) -> Explanation:
        """Explain the score of a class, the predicted one by default, for a node.

        With `hop`, only paths of that many steps are listed.
        """
        nodes, place = np.array([node]), int(self.probabilities[node].argmax()) if place is None else place
        hops = self.paths.by_hop(nodes, self.reading.carried)
        local = self.reading.at(nodes, hops.sum(0))
        found = self.paths.strongest(nodes, local.slopes[:, place], self.reading.carried, top, hop)
        types = self.paths.by_type(nodes, self.reading.carried)
        return self._told(nodes, place, [_sums(local, hops, types)], found, node=node)

    def strongest(self, nodes: Array, top: int) -> tuple[Found, Array]:
        """Return the paths that bring most to the predictions for many nodes, ascending, and what each brings."""
        found, brings, carried = [], [], self.reading.carried
        for some in _pieces(nodes, self.paths.at_once):
            vectors = self.reading.vectors_of(some, self.paths.by_hop(some, carried).sum(0))
            slopes = self.reading.slopes(some, vectors, self.probabilities[some].argmax(1))
            found.append(self.paths.strongest(some, slopes, carried, top))
            place, ends = np.searchsorted(some, found[-1].start), found[-1].end(self.paths.indices)
            brings.append(found[-1].share * np.einsum("ij,ij->i", slopes[place], carried[ends]))
        return joined(found), np.concatenate(brings)

    def says(self, nodes: Array) -> Array:
        """Return the class that this reader, by itself, holds most likely for some nodes, ascending, `(q,)`."""
        found = [np.empty(0, np.int64)]
        for some in _pieces(nodes, self.paths.at_once):
            vectors = self.reading.vectors_of(some, self.paths.by_hop(some, self.reading.carried).sum(0))
            found.append(self.reading.scores(some, vectors).argmax(1))
        return np.concatenate(found)

    def useful(self, nodes: Array) -> Array:
        """Return what paths of each number of steps bring to the predictions for some nodes, ascending, `(K+1,)`.

        A mean over nodes; with one label per node, above what they bring to all classes on average.
        """
        hops = self.paths.by_hop(nodes, self.reading.carried)
        brought = np.zeros(len(hops))
        for few in _pieces(np.arange(len(nodes)), self._at_once):
            local, place = self.reading.at(nodes[few], hops[:, few].sum(0)), self.probabilities[nodes[few]].argmax(1)
            slopes = self.labels.target.centered(local.slopes)[np.arange(len(few)), place]
            brought += np.einsum("qd,kqd->k", slopes, hops[:, few])
        mean: Array = brought / max(len(nodes), 1)
        return mean

    def pair(self, node: int, end: int, top: int, hop: int | None = None, place: int | None = None) -> Explanation:
        """Explain what the paths from one node to another bring to the first."""
        nodes, carried = np.array([node]), self.reading.carried
        place = int(self.probabilities[node].argmax()) if place is None else place
        local = self.reading.at(nodes, self.paths.by_hop(nodes, carried).sum(0))
        there = np.zeros_like(carried)
        there[end] = carried[end]
        part = _sums(local, self.paths.by_hop(nodes, there), self.paths.by_type(nodes, there))
        return self._told(nodes, place, [part], self.paths.between(node, end, top, hop), node=node, end=end)

    def of_class(self, place: int, top: int, hop: int | None = None) -> Explanation:
        """Explain a class: the paths that bring most to its score, and means over the nodes predicted to be in it."""
        within = self.labels.target.indicators(self.probabilities)[:, place]
        nodes, carried = np.flatnonzero(within), self.reading.carried
        parts: list[dict[str, Array]] = []
        found: list[Found] = []
        for some in _pieces(nodes, self.paths.at_once):
            hops, types = self.paths.by_hop(some, carried), self.paths.by_type(some, carried)
            slopes = self.reading.slopes(some, self.reading.vectors_of(some, hops.sum(0)), place)
            found.append(self.paths.speaking(some, slopes, carried, top, hop))
            parts += [
                _sums(self.reading.at(some[few], hops[:, few].sum(0)), hops[:, few], types[:, few])
                for few in _pieces(np.arange(len(some)), self._at_once)
            ]
        if len(found) > 1:
            all_found = joined(found)
            found = [all_found.take(np.argsort(-self._brought(all_found)[:, place], kind="stable")[:top])]
        return self._told(nodes, place, parts, found[0] if found else None)

    @property
    def _at_once(self) -> int:
        """How many nodes' slopes are held at once."""
        return max(_SLOPES // (len(self.labels.classes) * int(self.reading.carried.shape[1])), 1)

    def _brought(self, found: Found) -> Array:
        """Return what paths bring to each class, `(b, c)`."""
        carried, brought = self.reading.carried, np.empty((len(found), len(self.labels.classes)))
        ends = found.end(self.paths.indices)
        for nodes in _pieces(np.unique(found.start), min(self._at_once, self.paths.at_once)):
            local = self.reading.at(nodes, self.paths.by_hop(nodes, carried).sum(0))
            mine = np.flatnonzero(np.isin(found.start, nodes))
            slopes = local.slopes[np.searchsorted(nodes, found.start[mine])]
            brought[mine] = np.einsum("bcd,bd->bc", slopes, carried[ends[mine]]) * found.share[mine, None]
        return brought

    def _told(
        self,
        nodes: Array,
        place: int,
        parts: list[dict[str, Array]],
        found: Found | None,
        *,
        node: int | None = None,
        end: int | None = None,
    ) -> Explanation:
        """Put an explanation together: means over nodes, from sums over some of them at a time, and paths."""
        classes, names = self.labels.classes, () if self.paths.types is None else self.paths.types.names
        rows = {"hops": self.paths.hops + 1, "types": len(names)}
        sums = {name: np.zeros(len(classes)) for name in _NUMBERS}
        sums |= {name: np.zeros((size, len(classes))) for name, size in rows.items()}
        mean = {name: sum([part[name] for part in parts], one) / max(len(nodes), 1) for name, one in sums.items()}
        if end is not None:
            mean["remainder"] = mean["scores"] - mean["constant"] - mean["votes"] - mean["hops"].sum(0)
        by_name: dict[str, Array] = {}
        for name, brought in zip(names, mean.pop("types"), strict=True):
            by_name[name] = by_name.get(name, 0) + brought
        return Explanation(
            node=None if node is None else self.ids[[node]].tolist()[0],
            end=None if end is None else self.ids[[end]].tolist()[0],
            predicted=classes.tolist()[place if node is None else int(self.probabilities[node].argmax())],
            predicted_all=(classes.tolist()[place],) if node is None else self._predicted(node),
            explained=classes.tolist()[place],
            classes=classes,
            probabilities=self.probabilities[nodes].astype(np.float64).sum(0) / max(len(nodes), 1),
            edge_types=by_name,
            exact=self.paths.exact,
            num_nodes=len(nodes),
            paths=() if found is None else self._shares(found, place),
            classifier=self.classifier,
            **mean,
        )

    def _predicted(self, node: int) -> tuple[Any, ...]:
        """Return the classes that are predicted for a node, the most likely first."""
        order = np.argsort(-self.probabilities[node], kind="stable")
        predicted = self.labels.target.indicators(self.probabilities[[node]])[0]
        return tuple(self.labels.classes[order[predicted[order]]].tolist())

    def _shares(self, found: Found, place: int) -> tuple[PathShare, ...]:
        """Return paths with names, weights and what they bring."""
        brought, weights = self._brought(found), self.paths.weights(found).tolist()
        batch = PathBatch(found.nodes(self.paths.indices), found.length)
        shares = []
        for one, diversity in enumerate(batch.diversity.tolist()):
            nodes = batch.nodes[one, : batch.length[one]]
            types = () if self.paths.types is None else self.paths.types.named(found.steps[one])
            path, labels = tuple(self.ids[nodes].tolist()), self.labels.of(nodes)
            share = PathShare(path, weights[one], float(brought[one, place]), brought[one], diversity, labels, types)
            shares.append(share)
        return tuple(shares)

    # ------------------------------------------------------------------ is it true?

    def faithful(self, nodes: Array, shares: Array, repeats: int, most: int, seed: int) -> Faithfulness:
        """Take paths away, and give them back, and look at the chance of the predicted class; see `faithfulness`."""
        found = []
        for node in nodes.tolist():
            one, place = np.array([node]), int(self.probabilities[node].argmax())
            propagated = self.paths.by_hop(one, self.reading.carried).sum(0)
            local, paths = self.reading.at(one, propagated), self.paths.heaviest(node, most)
            brings = paths.share[:, None] * self.reading.carried[paths.end(self.paths.indices)]

            def read(vectors: Array, node: int = node, place: int = place) -> Array:
                return self._probabilities(self.reading.scores(np.full(len(vectors), node), vectors))[:, place]

            rest = local.vectors[0] - brings.sum(0)
            random = generator(seed, "faithfulness", node)
            says = brings @ local.slopes[0, place], np.abs(paths.share)
            found.append(faithfulness(brings, rest, *says, read, shares, repeats, random))
        return Faithfulness.stacked(found, shares)

    def _probabilities(self, scores: Array) -> Array:
        """Return the calibrated chances of this reader's class scores, `(q, c)`."""
        cooled = scores / self.temperature  # p^(1 / heat), made to sum to one, is the softmax of this
        return np.asarray(self.labels.target.outputs(torch.from_numpy(cooled)).numpy())
