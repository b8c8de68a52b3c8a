"""A weighting of paths with its name: what a search compares, and what a fitted model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cge.arrays import Array
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting
from cge.models.label_propagation import closed_walk_weights, label_propagation, symmetric_weights
from cge.models.path_networks import PathWeighting
from cge.models.path_prefixes import PrefixPropagation
from cge.models.propagation import Propagation
from cge.targets import Target
from cge.training.encoder_data import EncoderData

LABEL_PROPAGATION_HOPS = 10  # edges at most between a node and a label that is propagated to it


@dataclass(frozen=True, eq=False)
class NamedWeighting:
    """Weights of paths: an `EdgeWeighting`, or a network whose weights multiply those of a `base` weighting.

    A network weighs `sampled` paths, (walks per node, seed), which walks of the base weighting find.
    """

    name: str
    module: EdgeWeighting | PathWeighting
    sampled: tuple[int, int] = (0, 0)
    base: NamedWeighting | None = None

    @property
    def edge_weighting(self) -> EdgeWeighting:
        """The weights of edges and hops: its own, or those of the base."""
        if isinstance(self.module, EdgeWeighting):
            return self.module
        if self.base is None:
            raise TypeError("a network needs a base weighting, whose walks it weighs")
        return self.base.edge_weighting

    def propagation(self, data: EncoderData) -> Propagation:
        """Return the weighted sum over the paths of a graph, with constant weights."""
        if isinstance(self.module, EdgeWeighting):
            return EdgePropagation(data.transitions, data.edge_inputs_of(self.module), self.module).fixed()
        return self.trainable(data).fixed()

    def trainable(self, data: EncoderData, starts: Array | None = None) -> PrefixPropagation:
        """Return the weighted mean over sampled paths of a network that can be trained; of some start nodes, or all."""
        if not isinstance(self.module, PathWeighting) or self.base is None:
            raise TypeError("only networks use sampled paths")
        prefixes = data.prefixes(self.base.name, self.base.edge_weighting, *self.sampled)
        if starts is not None:
            prefixes = prefixes.of(starts, data.graph.num_nodes)
        return PrefixPropagation(prefixes, data.token_vectors(self.sampled[1]), self.module, data.transitions)

    def propagate_labels(
        self, data: EncoderData, nodes: Array, matrix: Array, target: Target, rows: Array | None = None
    ) -> Array:
        """Return scores of the propagated labels of some nodes, `(n, c)`; see `label_propagation`.

        `nodes (k,)` are labeled, `matrix (k, c)` are their labels as `target` makes them. Only `rows` need the scores
        that leave their own label out; by default all do.
        """
        weighting, transitions, symmetric = self.edge_weighting, data.transitions, None
        edge_inputs, hops = data.edge_inputs_of(weighting), [1.0] * (LABEL_PROPAGATION_HOPS + 1)
        if data.graph.directed:
            values = EdgePropagation(transitions, edge_inputs, weighting).values().numpy()
        else:
            with torch.no_grad():
                raw_weights = weighting.raw_weights(edge_inputs).double().numpy()
            values, symmetric = symmetric_weights(transitions, raw_weights, weighting.normalization.item())
        cached = data.closed_walks.get(self.name)
        closed_walks = None if cached is None or not np.array_equal(cached[0], nodes) else cached[1]
        if closed_walks is None and rows is None:
            closed_walks = closed_walk_weights(transitions, values, hops, nodes, symmetric)
            data.closed_walks[self.name] = nodes, closed_walks
        sums = label_propagation(transitions, values, hops, nodes, matrix, rows, symmetric, closed_walks)
        return target.label_scores(*sums)

    def path_weights(self, data: EncoderData, paths: Sequence[Array]) -> Array:
        """Return the relative path weights of paths of node indices, `(k,)` float32; 0 for what is not a path.

        The relative path weight is A(p) divided by that of uniform weights; sequences of more than `hops` edges have 0.
        Edges of several types between two nodes count as one edge with their total weight; a network reads the first.
        """
        transitions, length = data.transitions, np.array([len(path) for path in paths], np.int64)
        nodes = np.full((len(paths), max(int(length.max(initial=0)), 1)), -1)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate([*paths, np.empty(0, np.int64)])
        keys, first = np.unique(transitions.rows * transitions.num_nodes + transitions.indices, return_index=True)
        present = nodes[:, 1:] >= 0
        wanted = np.where(present, nodes[:, :-1] * transitions.num_nodes + nodes[:, 1:], keys[0])
        entries = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)  # (k, L−1)
        weighting, weights = self.edge_weighting, np.zeros(len(paths))
        valid = (keys[entries] == wanted).all(axis=1) & (length <= len(weighting.hops)) & (length > 0)
        uniform = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0])
        with torch.no_grad():
            edge_weights = [each.edge_weights(transitions, data.edge_inputs) for each in (weighting, uniform)]
            hops = weighting.hop_weights().double().numpy() * len(weighting.hops)
        values, walk = (np.add.reduceat(each.double().numpy(), first) for each in edge_weights)
        ratios = np.where(present[valid], (values / walk)[entries[valid]], 1.0)
        weights[valid] = hops[length[valid] - 1] * ratios.prod(axis=1)
        if isinstance(self.module, PathWeighting) and valid.any():
            starts = len(transitions) + nodes[valid, :1]
            tokens = np.concatenate([starts, np.where(present, first[entries], -1)[valid]], axis=1)
            vectors = data.token_vectors(self.sampled[1])
            with torch.no_grad():
                factors = self.module(vectors, torch.from_numpy(tokens), torch.from_numpy(length[valid]))
            weights[valid] *= factors.double().numpy()
        return weights.astype(np.float32)
