"""A graph as the path encoder sees it: its transitions, inputs and sampled paths."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.models.edge_weighting import (
    EdgeInputs,
    EdgeScale,
    EdgeWeighting,
    basic_edge_inputs,
    make_edge_inputs,
    mean_edge_weight,
)
from cge.models.propagation import (
    TransitionMatrix,
)
from cge.models.sparse_products import SparseFeatures, dense_product, unit_rows
from cge.sampling import Walker
from cge.training.closed_walks import ClosedWalkCache
from cge.training.data_size import DataSize, data_size, nodes_without_features, uses_components
from cge.training.dense_scale import feature_scale, scaled_unit_rows

if TYPE_CHECKING:
    from torch import Tensor

    from cge.models.autograd import NodeFeatures
    from cge.models.path_prefixes import Prefixes


class EncoderData:
    """Transitions, edge inputs and node inputs of a graph; node inputs are features, walk vectors or one-hot node ids.

    With `inputs` "learned" or "walks" the features of the graph are ignored: the inputs are one-hot node ids, or
    `walk_vectors (n, d)` of the training graph's nodes. If that is another graph, `training_data` is given: its scales
    are used, and its nodes are recognized by their ids. `part_of` is the graph of which `graph` is a part, see
    `TransitionMatrix`. `edge_scale` and `dense_scale` are mean and standard deviation
    of edge inputs and of dense features, where they are known; so are `components`, None where inputs are the features
    themselves. `closed_walks` has, by the name of a weighting, nodes
    and the weight of all closed walks at each, for leave-one-out label propagation. In a graph with node types, some of
    which have sparse features, `learned_nodes` are the nodes of the others: each has a column of its own, with one, so
    that its input is learned.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: str = "auto",
        n_jobs: int | None = None,
        *,
        training_data: EncoderData | None = None,
        edge_scale: EdgeScale | None = None,
        dense_scale: tuple[Array, Array] | None = None,
        walk_vectors: Array | None = None,
        transitions: TransitionMatrix | None = None,
        components: Array | str | None = "auto",
        part_of: Graph | None = None,
    ) -> None:
        features = graph.features
        training_data = None if training_data is None else training_data.training_data_or_self
        if training_data is not None:
            inputs = "auto" if training_data.uses_features else "learned"
            edge_scale, dense_scale = training_data.edge_scale, training_data.dense_scale
            walk_vectors = training_data.walk_vectors
        self.graph, self.n_jobs, self.training_data = graph, n_jobs, training_data
        self.walk_vectors: Array | None = walk_vectors
        self.uses_features: bool = features is not None and inputs in ("auto", "features")
        self._precomputed_transitions, self._part_of = transitions, part_of
        if training_data is not None:
            self.learned_nodes: Array = training_data.learned_nodes
        else:
            self.learned_nodes = nodes_without_features(graph, inputs)
        self._precomputed_edge_scale, self._precomputed_components = edge_scale, components
        self._edge_inputs_and_scale: tuple[EdgeInputs, EdgeScale] | None = None
        self.self_loop_weight: float
        self.self_loop_weight = mean_edge_weight(graph) if training_data is None else training_data.self_loop_weight
        self.dense_scale: tuple[Array, Array] = feature_scale(features) if dense_scale is None else dense_scale
        self._inputs: dict[str, Array | SparseFeatures] = {}
        self._prefixes: dict[tuple[str, int, int], Prefixes] = {}
        self._step_vectors: dict[int, Tensor] = {}
        self.closed_walks: dict[str, tuple[Array, Array]] = {}
        self.closed_walks_by_weights = ClosedWalkCache()

    @property
    def training_data_or_self(self) -> EncoderData:
        """The data of the training graph: `training_data`, or these data if this is the training graph."""
        return self if self.training_data is None else self.training_data

    @cached_property
    def transitions(self) -> TransitionMatrix:
        """The transitions of the graph."""
        transitions = self._precomputed_transitions
        return TransitionMatrix(self.graph, self.n_jobs, self._part_of) if transitions is None else transitions

    def without_edges(self) -> EncoderData:
        """Return what a model needs of its training data to be used on other graphs: ids and scales, but no edges."""
        graph = Graph(np.zeros(len(self.graph) + 1, np.int32), np.empty(0, np.int32), self.graph.node_ids)
        scales: Any = {"edge_scale": self.edge_scale, "dense_scale": self.dense_scale, "components": self.components}
        data = EncoderData(graph, n_jobs=self.n_jobs, walk_vectors=self.walk_vectors, **scales)
        data.training_data, data.uses_features = self.training_data, self.uses_features
        data.learned_nodes, data.self_loop_weight = self.learned_nodes, self.self_loop_weight
        return data

    @property
    def _inputs_and_scale(self) -> tuple[EdgeInputs, EdgeScale]:
        if self._edge_inputs_and_scale is None:
            self._edge_inputs_and_scale = self._make_edge_inputs()
        return self._edge_inputs_and_scale

    def _make_edge_inputs(self) -> tuple[EdgeInputs, EdgeScale]:
        features = self.graph.features
        if features is not None and not sp.issparse(features) and len(self.dense_scale[0]) == features.shape[1]:
            features = self.dense_rows  # nodes are compared by centered and scaled features
        return make_edge_inputs(
            self.graph, self.transitions, self._precomputed_edge_scale, features, self.self_loop_weight
        )

    @property
    def edge_inputs(self) -> EdgeInputs:
        """The inputs of every transition."""
        return self._inputs_and_scale[0]

    def uniform_weights(self) -> Array:
        """Return the transition probabilities of a random walk, the edge weights of uniform weights, `(m,)` float64."""
        uniform = EdgeWeighting([0.0] * len(self.edge_scale.names), 0.0, 0.0, [1.0])
        return np.asarray(uniform.normalized_weights(self.transitions, self.edge_inputs_of(uniform)), np.float64)

    def edge_inputs_of(self, weighting: EdgeWeighting) -> EdgeInputs:
        """Return the edge inputs that a weighting uses: the full table is expensive, and not needed where θ = 0."""
        if self._edge_inputs_and_scale is not None or bool(weighting.coefficients.any()):
            return self.edge_inputs
        return basic_edge_inputs(self.graph, self.transitions, self.self_loop_weight)

    @property
    def edge_scale(self) -> EdgeScale:
        """Names, mean and standard deviation of the edge inputs."""
        return self._inputs_and_scale[1] if self._precomputed_edge_scale is None else self._precomputed_edge_scale

    @cached_property
    def size(self) -> DataSize:
        """The sizes of the training graph and its inputs, from which the work of a fit is counted."""
        inputs = "features" if self.uses_features else "learned" if self.walk_vectors is None else "walks"
        return data_size(self.graph, inputs, len(self.learned_nodes))

    @property
    def input_dim(self) -> int:
        """The number of columns of the inputs."""
        if self.uses_features:
            columns: Any = self.graph.features if self.components is None else self.components
            return int(columns.shape[1]) + len(self.learned_nodes)
        if self.walk_vectors is not None:
            return int(self.walk_vectors.shape[1])
        return self.training_data_or_self.graph.num_nodes

    @property
    def input_names(self) -> tuple[Any, ...]:
        """The names of the columns of features and, after them, of learned inputs: the ids of their nodes."""
        features: Any = self.graph.features
        graph = self.training_data_or_self.graph
        return (*(self.graph.feature_names or range(features.shape[1])), *graph.node_ids[self.learned_nodes].tolist())

    def inputs(self, norm: str) -> Array | SparseFeatures:
        """Return the input of every node, `(n, f)`; sparse rows have unit length in `norm`, dense ones in "l2"."""
        if norm not in self._inputs:
            features: Any = self.graph.features
            if self.uses_features and not sp.issparse(features):
                rows = self.dense_rows
                self._inputs[norm] = rows if self.components is None else dense_product(rows, self.components)
            elif self.uses_features or self.walk_vectors is None:
                rows = unit_rows(features, norm) if self.uses_features else self._one_hot()
                if self.uses_features and len(self.learned_nodes):
                    rows = sp.csr_array(sp.hstack([rows, self._one_hot()[:, self.learned_nodes]]))
                whole = self.graph if self._part_of is None else self._part_of
                entries = len(whole) + (whole.features.nnz if self.uses_features else 0)  # type: ignore[union-attr]
                self._inputs[norm] = SparseFeatures(rows, self.n_jobs, entries)
            else:
                self._inputs[norm] = self._walk_vectors_of_nodes(self.walk_vectors)
        return self._inputs[norm]

    def tensor_inputs(self, norm: str) -> NodeFeatures:
        """Return the inputs for training: dense ones as a tensor."""
        import torch

        inputs = self.inputs(norm)
        return inputs if isinstance(inputs, SparseFeatures) else torch.from_numpy(inputs)

    @cached_property
    def components(self) -> Array | None:
        """The principal components of many dense features of few nodes, `(f, r)`; inputs are their coordinates.

        They span the rows of the training graph, so that nothing is lost, and r ≤ n.
        """
        if self.training_data is not None:
            return self.training_data.components
        if not isinstance(self._precomputed_components, str):
            return self._precomputed_components
        if not self.uses_features or not uses_components(self.graph):
            return None
        import torch

        from cge.training.torch_state import one_thread

        with one_thread():
            rows = torch.from_numpy(self.dense_rows).double()
            values, vectors = torch.linalg.eigh(rows @ rows.T)
            used = values > 1e-9 * values[-1].clamp(min=1e-30)
            return np.asarray((rows.T @ vectors[:, used] / values[used].sqrt()).float().numpy())

    @cached_property
    def dense_rows(self) -> Array:
        """The dense features, centered, scaled, and with rows of unit length, `(n, f)`."""
        return scaled_unit_rows(self.graph.features, self.dense_scale)

    def _walk_vectors_of_nodes(self, walk_vectors: Array) -> Array:
        """Return the walk vector of each node.

        A node without one, because it is new or had no neighbors in training, gets the mean of the vectors that its
        neighbors have from training, weighted by the edges in either direction and scaled to unit length; zeros if none
        of them has one.
        """
        vectors: Array = self._one_hot() @ walk_vectors
        missing = np.flatnonzero(~vectors.any(axis=1))
        if len(missing):
            edges = self.graph.to_scipy()
            rows = edges[missing] + edges.T.tocsr()[missing] if self.graph.directed else edges[missing]
            vectors[missing] = unit_rows(rows @ vectors)
        return vectors

    def _one_hot(self) -> sp.csr_array:
        """Return a row for each node with a one in the column of that node in the training graph."""
        count = self.graph.num_nodes
        if self.training_data is None:
            return sp.eye_array(count, dtype=np.float32, format="csr")
        training_graph = self.training_data.graph
        rows = np.flatnonzero(training_graph.contains(self.graph.node_ids))
        columns, ones = training_graph.indices_of(self.graph.node_ids[rows]), np.ones(len(rows), np.float32)
        return sp.csr_array((ones, (rows, columns)), shape=(count, training_graph.num_nodes))

    def input_statistics(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each column of the inputs, `(f,)`."""
        import torch

        inputs = self.tensor_inputs("l2")
        if not isinstance(inputs, SparseFeatures):
            return inputs.mean(0), inputs.std(0).clamp(min=1e-6)
        rows, count = inputs.csr, inputs.shape[0]
        mean = np.asarray(rows.sum(axis=0)).ravel() / count
        square = np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=rows.shape[1]) / count
        std = np.sqrt(np.maximum(square - mean**2, 0))
        std[std <= 1e-9] = 1.0
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(std.astype(np.float32))

    @cached_property
    def has_inputs(self) -> Array:
        """Which nodes have an input other than zero, `(n,)`."""
        inputs = self.inputs("l2")
        if not isinstance(inputs, SparseFeatures):
            return np.asarray(inputs.any(axis=1))
        nonzero_before = np.concatenate([[0], np.cumsum(inputs.csr.data != 0)])
        return np.asarray(np.diff(nonzero_before[inputs.csr.indptr]) > 0)

    def prefixes(self, name: str, weighting: EdgeWeighting, walks: int, seed: int) -> Prefixes:
        """Return paths from every node: prefixes of walks that follow an edge weighting, which is called `name`."""
        from cge.models.path_prefixes import sample_prefixes

        key = (name, walks, seed)
        if key not in self._prefixes:
            transitions, length = self.transitions, len(weighting.hop_weights)
            edge_strengths = weighting.edge_strengths(self.edge_inputs)
            walk_graph = Graph.from_scipy(transitions.matrix(edge_strengths), directed=True, self_loops=True)
            walker = Walker(walk_graph, length, walks, seed=seed, n_jobs=self.n_jobs, stream=("prefixes",))
            prefixes = sample_prefixes(walker.sample(0, walker.num_walks), transitions)
            degree = np.bincount(transitions.rows, edge_strengths, minlength=transitions.num_nodes)
            degree_factor = degree ** -weighting.normalization.item()
            self._prefixes[key] = replace(prefixes, count=prefixes.count * degree_factor[prefixes.endpoint])
        return self._prefixes[key]

    def step_vectors(self, seed: int) -> Tensor:
        """Return the step vectors that networks read, `(m + n, q)`: of transitions, then of start nodes."""
        from cge.models.path_prefixes import make_step_vectors

        if seed not in self._step_vectors:
            inputs = self.inputs("l2") if self.uses_features else None
            degrees = self.training_data_or_self.graph.degrees
            edges = (self.graph, self.transitions, self.edge_inputs)
            self._step_vectors[seed] = make_step_vectors(*edges, inputs, seed, degrees)
        return self._step_vectors[seed]
