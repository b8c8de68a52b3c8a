"""A graph as the path encoder sees it, and the weights of its paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.graph import Graph
from cge.models.edge_weighting import (
    EdgeInputs,
    EdgePropagation,
    EdgeWeighting,
    Scale,
    basic_edge_inputs,
    make_edge_inputs,
    mean_edge_weight,
)
from cge.models.label_propagation import closed_walk_weights, label_propagation, symmetric_weights
from cge.models.path_networks import PathWeighting
from cge.models.path_prefixes import Prefixes, PrefixPropagation, item_vectors, sample_prefixes
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import NodeFeatures, SparseFeatures, unit_rows
from cge.sampling import Walker
from cge.training.classifier_training import Propagation

__all__ = ["LABEL_PROPAGATION_HOPS", "EncoderData", "NamedWeighting"]

Array = npt.NDArray[Any]

_NEAR = 1e-5  # standard deviations: who is nearer to the mean of all has it, but for rounding
_LEAST = 1e-30  # spread of a feature: below, float32 has few digits left
LABEL_PROPAGATION_HOPS = 10  # steps at most from a node to a label that votes for it


class EncoderData:
    """Steps of a graph, what is known of them, and what nodes carry: features, given vectors, or each node itself.

    Parameters
    ----------
    payload : str
        "table" and "walks" let nodes carry themselves, or `table`, though they have features.
    like : PathData, optional
        The graph that was trained on, where this is another: its scales are used, and nodes are known by their ids.
    scale, dense : optional
        Scales of step inputs and of dense features, `(center, spread)`, where they are known.
    table : (n, d) array, optional
        A vector for each node of the graph that was trained on, which it carries instead of itself.
    steps : StepRows, optional
        Where the steps of the graph stand, where that is known.

    Attributes
    ----------
    returns : dict
        Of weights, by name: nodes, and the weight of all paths that return to each. Labels that vote need them, and
        they take long to find.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: str = "auto",
        n_jobs: int | None = None,
        *,
        like: EncoderData | None = None,
        scale: Scale | None = None,
        dense: tuple[Array, Array] | None = None,
        table: Array | None = None,
        steps: TransitionMatrix | None = None,
    ) -> None:
        features = graph.features
        if like is not None:
            inputs, scale, dense = ("auto" if like.by_features else "learned"), like.scale, like.dense
            table = like.table
        self.graph, self.n_jobs, self.like = graph, n_jobs, like
        self.table: Array | None = table
        self.by_features: bool = features is not None and inputs in ("auto", "features")
        self.steps = TransitionMatrix(graph, n_jobs) if steps is None else steps
        self._scale = scale
        self._self_loop_weight: float = mean_edge_weight(graph) if like is None else like._self_loop_weight
        self.dense: tuple[Array, Array] = _dense_scale(features) if dense is None else dense
        self._inputs: dict[str, NodeFeatures] = {}
        self._prefixes: dict[tuple[str, int, int], Prefixes] = {}
        self._items: dict[int, Tensor] = {}
        self.returns: dict[str, tuple[Array, Array]] = {}

    @cached_property
    def _known(self) -> tuple[EdgeInputs, Scale]:
        return make_edge_inputs(self.graph, self.steps, self._scale, self._compared(), self._self_loop_weight)

    def _compared(self) -> Any:
        """Return the features that the ends of a step are compared by: dense ones centered and scaled."""
        features = self.graph.features
        if features is None or sp.issparse(features) or len(self.dense[0]) != features.shape[1]:
            return features
        return self._dense_rows

    @property
    def edge_inputs(self) -> EdgeInputs:
        """What is known of steps."""
        return self._known[0]

    def edge_inputs_of(self, weighting: EdgeWeighting) -> EdgeInputs:
        """Return what is known of steps, as far as the weights look at it: most of it is dear to find out."""
        if "_known" in vars(self) or bool(weighting.gate.detach().any()):
            return self.edge_inputs
        return basic_edge_inputs(self.graph, self.steps, self._self_loop_weight)

    @property
    def scale(self) -> Scale:
        """How it was made comparable."""
        return self._known[1] if self._scale is None else self._scale

    def inputs(self, rows: str) -> NodeFeatures:
        """Return what nodes carry, `(n, f)`, sparse rows of unit length in the norm `rows`, "l1" or "l2".

        Dense features are centered and scaled, and their rows always have unit length in "l2".
        """
        if rows not in self._inputs:
            self._inputs[rows] = self._made(rows)
        return self._inputs[rows]

    def _made(self, rows: str) -> NodeFeatures:
        features: Any = self.graph.features
        if not self.by_features and self.table is not None:
            return torch.from_numpy(self._vectors_of_walks(self.table))
        if not self.by_features:
            return SparseFeatures(self._identity(), self.n_jobs)
        if sp.issparse(features):
            return SparseFeatures(unit_rows(features, rows), self.n_jobs)
        return torch.from_numpy(self._dense_rows)

    @cached_property
    def _dense_rows(self) -> Array:
        told = np.asarray(self.graph.features - self.dense[0], np.float32)
        told /= self.dense[1]
        lengths = np.sqrt(np.einsum("ij,ij->i", told, told))
        told /= np.where(lengths > _NEAR, lengths, np.float32(np.inf))[:, None]
        return told

    def _vectors_of_walks(self, table: Array) -> Array:
        """Return the vector that each node carries; a new one has the mean direction of its neighbors'."""
        found: Array = self._identity() @ table
        if self.like is not None:
            new = np.flatnonzero(~self.like.graph.contains(self.graph.node_ids))
            around = self.graph.to_scipy()[new] @ found
            found[new] = around / np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-12)
        return found

    def _identity(self) -> sp.csr_array:
        """Return a row for each node with a one in the column of that node in the graph that was trained on."""
        count = self.graph.num_nodes
        if self.like is None:
            return sp.eye_array(count, dtype=np.float32, format="csr")
        trained = self.like.graph
        known = np.flatnonzero(trained.contains(self.graph.node_ids))
        places, ones = trained.indices_of(self.graph.node_ids[known]), np.ones(len(known), np.float32)
        return sp.csr_array((ones, (known, places)), shape=(count, trained.num_nodes))

    def feature_scale(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each column of the payload, `(f,)`."""
        inputs = self.inputs("l2")
        if isinstance(inputs, Tensor):
            return inputs.mean(0), inputs.std(0).clamp(min=1e-6)
        rows, count = inputs.rows, inputs.shape[0]
        mean = np.asarray(rows.sum(axis=0)).ravel() / count
        square = np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=rows.shape[1]) / count
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        spread = np.where(spread > 1e-9, spread, 1.0)
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(spread.astype(np.float32))

    @cached_property
    def has_inputs(self) -> npt.NDArray[np.bool_]:
        """Which nodes carry anything, `(n,)`."""
        inputs = self.inputs("l2")
        if isinstance(inputs, Tensor):
            return np.asarray(inputs.any(1))
        before = np.concatenate([[0], np.cumsum(inputs.rows.data != 0)])  # each entry, those that are not zero
        return np.asarray(np.diff(before[inputs.rows.indptr]) > 0)

    def prefixes(self, prior: NamedWeighting, walks: int, seed: int) -> Prefixes:
        """Return paths from every node that walks of a prior make."""
        key = (prior.name, walks, seed)
        if key not in self._prefixes:
            steps, weighting = self.steps, prior.steps
            with torch.no_grad():
                gates = weighting.gates(self.edge_inputs).numpy()
            walked = Graph.from_scipy(steps.matrix(gates), directed=True, self_loops=True)
            length, stream = len(weighting.hops), ("prefixes",)
            walker = Walker(walked, length, walks, seed=seed, n_jobs=self.n_jobs, stream=stream)
            met = sample_prefixes(walker.sample(0, walker.num_walks), steps)
            normalization = np.bincount(steps.rows, gates, minlength=steps.nodes) ** -weighting.normalization.item()
            self._prefixes[key] = replace(met, count=met.count * normalization[met.end])
        return self._prefixes[key]

    def items(self, seed: int) -> Tensor:
        """Return what networks read of steps and starts, `(m + n, q)`."""
        if seed not in self._items:
            inputs = self.inputs("l2") if self.by_features else None
            degrees = (self if self.like is None else self.like).graph.degrees
            self._items[seed] = item_vectors(self.graph, self.steps, self.edge_inputs, inputs, seed, degrees)
        return self._items[seed]


def _dense_scale(features: Any) -> tuple[Array, Array]:
    """Return mean and spread of each dense feature; both are empty for others."""
    if features is None or sp.issparse(features):
        return np.empty(0, np.float32), np.empty(0, np.float32)
    mean, spread = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    noise = 1e-5 * np.abs(mean)  # a column that is the same everywhere has a spread of rounding
    spread = np.where(spread > np.maximum(noise, _LEAST), spread, np.inf)
    return mean.astype(np.float32), spread.astype(np.float32)


@dataclass(frozen=True, eq=False)
class NamedWeighting:
    """Weights of paths by name: of steps and hops, or a network's times those of a prior.

    A network looks at `sampled` paths (walks per node, seed), which the prior makes.
    """

    name: str
    module: EdgeWeighting | PathWeighting
    sampled: tuple[int, int] = field(default=(0, 0))
    prior: NamedWeighting | None = None

    @property
    def steps(self) -> EdgeWeighting:
        """The weights of single steps: these, or the prior's."""
        if isinstance(self.module, EdgeWeighting):
            return self.module
        if self.prior is None:
            raise TypeError("a network needs a prior, whose walks it weighs")
        return self.prior.steps

    def propagation(self, data: EncoderData) -> Propagation:
        """Return the sum over the paths of a graph with these weights."""
        if isinstance(self.module, EdgeWeighting):
            return EdgePropagation(data.steps, data.edge_inputs_of(self.module), self.module).fixed()
        return self.learnable(data).fixed()

    def learnable(self, data: EncoderData, starts: Array | None = None) -> PrefixPropagation:
        """Return the mean over sampled paths, of all nodes or of some, whose weights can learn."""
        if not isinstance(self.module, PathWeighting) or self.prior is None:
            raise TypeError("only networks look at sampled paths")
        prefixes = data.prefixes(self.prior, *self.sampled)
        if starts is not None:
            prefixes = prefixes.of(starts, data.graph.num_nodes)
        return PrefixPropagation(prefixes, data.items(self.sampled[1]), self.module, data.steps)

    def votes(
        self, data: EncoderData, known: Array, members: Array, several: bool, asked: Array | None = None
    ) -> Array:
        """Return the log-votes of known labels, `(n, c)`, along steps as these weigh them; see `label_propagation`."""
        edge_inputs, hops, mirror = data.edge_inputs_of(self.steps), [1.0] * (LABEL_PROPAGATION_HOPS + 1), None
        if data.graph.directed:
            values = EdgePropagation(data.steps, edge_inputs, self.steps).values().numpy()
        else:
            with torch.no_grad():
                gates = self.steps.gates(edge_inputs).double().numpy()
            values, mirror = symmetric_weights(data.steps, gates, self.steps.normalization.item())
        before = data.returns.get(self.name)
        own = None if before is None or not np.array_equal(before[0], known) else before[1]
        if own is None and asked is None:
            own = closed_walk_weights(data.steps, values, hops, known, mirror)
            data.returns[self.name] = known, own
        return label_propagation(data.steps, values, hops, known, members, several, asked, mirror, own)

    def of(self, data: EncoderData, paths: Sequence[Array]) -> Array:
        """Return A of paths of node numbers, `(k,)` float32; 0 for what is no path of the graph, or too long a one.

        It is relative to the random walk: A ≡ 1 gives every path 1. Edges of several types between two nodes are one
        step, which all of them make together; a network sees the first of them.
        """
        steps, length = data.steps, np.array([len(path) for path in paths], np.int64)
        nodes = np.full((len(paths), max(int(length.max(initial=0)), 1)), -1)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate([*paths, np.empty(0, np.int64)])
        keys, first = np.unique(steps.rows * steps.nodes + steps.indices, return_index=True)
        moves = nodes[:, 1:] >= 0
        wanted = np.where(moves, nodes[:, :-1] * steps.nodes + nodes[:, 1:], keys[0])
        entries = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)  # (k, L−1)
        weighting, found = self.steps, np.zeros(len(paths))
        there = (keys[entries] == wanted).all(axis=1) & (length <= len(weighting.hops)) & (length > 0)
        plain = EdgeWeighting([0.0] * len(data.scale.names), 0.0, 0.0, [1.0])
        with torch.no_grad():
            values, walk = (one.edge_values(steps, data.edge_inputs).double().numpy() for one in (weighting, plain))
            hops = weighting.hop_weights().double().numpy() * len(weighting.hops)
        values, walk = np.add.reduceat(values, first), np.add.reduceat(walk, first)
        ratios = np.where(moves[there], (values / walk)[entries[there]], 1.0)
        found[there] = hops[length[there] - 1] * ratios.prod(axis=1)
        if isinstance(self.module, PathWeighting) and there.any():
            items = np.concatenate([len(steps) + nodes[there, :1], np.where(moves, first[entries], -1)[there]], axis=1)
            with torch.no_grad():
                weights = self.module(
                    data.items(self.sampled[1]), torch.from_numpy(items), torch.from_numpy(length[there])
                )
            found[there] *= weights.double().numpy()
        return found.astype(np.float32)
