"""A weighting of the paths of a graph, by name: sums over paths, propagated labels and relative path weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cge.arrays import Array
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.propagation import closed_walk_weights, label_propagation, symmetric_weights
from cge.targets import Target
from cge.training.encoder_data import EncoderData

if TYPE_CHECKING:
    from cge.models.autograd import Propagation
    from cge.models.path_networks import PathWeighting
    from cge.models.path_prefixes import PrefixPropagation

LABEL_PROPAGATION_HOPS = 10  # edges at most between a node and a label that is propagated to it
LABEL_HOP_WEIGHTS = [1.0] * (LABEL_PROPAGATION_HOPS + 1)


@dataclass(frozen=True, eq=False)
class NamedWeighting:
    """Weights of paths: an `EdgeWeighting`, a network or weights of metapaths.

    `initial_weighting` is the closed form from which a network or weights of metapaths are learned. A network weighs
    `sampled` paths, (walks per node, seed): prefixes of walks that follow `initial_weighting`, whose weights it
    multiplies. With weights of metapaths, labels are propagated along the edge weights of `initial_weighting`.
    """

    name: str
    module: EdgeWeighting | PathWeighting | MetapathWeighting
    sampled: tuple[int, int] = (0, 0)
    initial_weighting: NamedWeighting | None = None

    @property
    def edge_weighting(self) -> EdgeWeighting:
        """The edge weighting: its own, or that of `initial_weighting`."""
        if isinstance(self.module, EdgeWeighting):
            return self.module
        return self.initial_weighting.edge_weighting  # type: ignore[union-attr]

    def propagation(self, data: EncoderData) -> Callable[[Array], Array]:
        """Return the weighted sum over the paths of a graph, with constant weights."""
        if isinstance(self.module, EdgeWeighting):
            return self.module.propagation(data.transitions, data.edge_inputs_of(self.module))
        if isinstance(self.module, MetapathWeighting):
            return self.module.propagation(data.edge_inputs, data.n_jobs)
        return self.trainable(data).fixed()

    def training_propagation(self, data: EncoderData) -> Propagation:
        """Return the same with the weights that PyTorch computes, to the last bit as in the outer problem."""
        if isinstance(self.module, EdgeWeighting):
            return EdgePropagation(data.transitions, data.edge_inputs_of(self.module), self.module).fixed()
        if isinstance(self.module, MetapathWeighting):
            return self.module.propagation(data.edge_inputs, data.n_jobs)
        return self.trainable(data).fixed()

    def trainable(self, data: EncoderData, starts: Array | None = None) -> PrefixPropagation:
        """Return the weighted mean over sampled paths of a network that can be trained; of some start nodes, or all."""
        from cge.models.path_prefixes import PrefixPropagation

        if isinstance(self.module, EdgeWeighting | MetapathWeighting) or self.initial_weighting is None:
            raise TypeError("only networks use sampled paths")
        prefixes = data.prefixes(self.initial_weighting.name, self.initial_weighting.edge_weighting, *self.sampled)
        if starts is not None:
            prefixes = prefixes.of(starts, data.graph.num_nodes)
        return PrefixPropagation(prefixes, data.step_vectors(self.sampled[1]), self.module, data.transitions)

    def propagate_labels(
        self, data: EncoderData, nodes: Array, matrix: Array, target: Target, rows: Array | None = None
    ) -> Array:
        """Return scores of the propagated labels `matrix (k, c)` of `nodes (k,)`, `(n, c)`; see `label_propagation`.

        Only `rows` need the scores that leave their own label out; by default all do.
        """
        return target.label_scores(*self.label_sums(data, nodes, matrix, target, rows))

    def label_sums(
        self, data: EncoderData, nodes: Array, matrix: Array, target: Target, rows: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Return the results of `label_propagation`, from which `propagate_labels` computes scores.

        If a class has one training node, leave-one-out leaves that node without any label of its own class, so its
        label scores would always be wrong. No label is reachable from it (multilabel: none of that class).
        """
        (weights, symmetric), hop_weights = self.label_weights(data), LABEL_HOP_WEIGHTS
        cached = data.closed_walks.get(self.name)
        closed_walks = None if cached is None or not np.array_equal(cached[0], nodes) else cached[1]
        if closed_walks is None and rows is None:
            closed_walks = data.closed_walks_by_weights.of(
                nodes,
                weights if symmetric is None else symmetric,
                lambda some: closed_walk_weights(data.transitions, weights, hop_weights, some, symmetric),
            )
            data.closed_walks[self.name] = nodes, closed_walks
        labels = nodes, matrix, rows, symmetric, closed_walks
        sums, total, reachable = label_propagation(data.transitions, weights, hop_weights, *labels)
        informative = target.informative(matrix)
        reachable = np.repeat(reachable, informative.shape[1], axis=1)
        reachable[nodes] &= informative
        return sums, total, reachable

    def label_weights(self, data: EncoderData) -> tuple[Array, Array | None]:
        """Return the edge weights that propagate labels, `(m,)`, and their symmetric form in an undirected graph."""
        weighting, transitions = self.edge_weighting, data.transitions
        edge_inputs = data.edge_inputs_of(weighting)
        if data.graph.directed or not weighting.is_symmetric(edge_inputs):
            return weighting.normalized_weights(transitions, edge_inputs), None
        edge_strengths = weighting.edge_strengths(edge_inputs).astype(np.float64)
        return symmetric_weights(transitions, edge_strengths, weighting.normalization.item())

    def path_weights(self, data: EncoderData, paths: Sequence[Array]) -> Array:
        """Return the relative path weights of paths of node indices, `(k,)` float32; 0 for what is not a path.

        The relative path weight is A(p) divided by that of uniform weights; sequences of more than `hops` edges have 0.
        Edges of several types between two nodes count as one edge with their total weight; a network reads the first.
        """
        if isinstance(self.module, MetapathWeighting):
            uniform_weights, hops = data.uniform_weights(), len(self.edge_weighting.hop_weights) - 1
            return self.module.path_weights(data.transitions, data.edge_inputs, uniform_weights, hops, paths)
        transitions, length = data.transitions, np.array([len(path) for path in paths], np.int64)
        nodes = np.full((len(paths), max(int(length.max(initial=0)), 1)), -1)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate([*paths, np.empty(0, np.int64)])
        keys, first = np.unique(transitions.rows * transitions.num_nodes + transitions.indices, return_index=True)
        present = nodes[:, 1:] >= 0
        wanted = np.where(present, nodes[:, :-1] * transitions.num_nodes + nodes[:, 1:], keys[0])
        entries = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)  # (k, L−1)
        weighting, relative_weights = self.edge_weighting, np.zeros(len(paths))
        valid = (keys[entries] == wanted).all(axis=1) & (length <= len(weighting.hop_weights)) & (length > 0)
        edge_weights = weighting.normalized_weights(transitions, data.edge_inputs_of(weighting)), data.uniform_weights()
        relative_hops = weighting.normalized_hop_weights().astype(np.float64) * len(weighting.hop_weights)
        weights, uniform_weights = (np.add.reduceat(each.astype(np.float64), first) for each in edge_weights)
        ratios = np.where(present[valid], (weights / uniform_weights)[entries[valid]], 1.0)
        relative_weights[valid] = relative_hops[length[valid] - 1] * ratios.prod(axis=1)
        if not isinstance(self.module, EdgeWeighting) and valid.any():
            import torch

            starts = len(transitions) + nodes[valid, :1]
            tokens = np.concatenate([starts, np.where(present, first[entries], -1)[valid]], axis=1)
            vectors = data.step_vectors(self.sampled[1])
            with torch.no_grad():
                factors = self.module(vectors, torch.from_numpy(tokens), torch.from_numpy(length[valid]))
            relative_weights[valid] *= factors.double().numpy()
        return relative_weights.astype(np.float32)
