"""Edge weightings: path weights that are products of edge weights, closed-form or learned.

    A(p) = h_k Π_t s(v_t, v_{t+1}),   s(u, v) = g(u, v) / (d_u^(1−b) d_v^b),   g(u, v) = w_uv exp(θᵀ f(u, v))

w is the edge weight of the graph, g the edge strength, s the normalized edge weight. The inputs f of an edge are the
context cosine of its nodes (`edge_features`), the number of their common neighbors, the Jaccard coefficient of their
neighborhoods, their degrees, edge features and the edge type; self-loops have a coefficient of their own, θ_self. That
makes only about a dozen parameters, so a few labels are enough to train them. θ = 0, b = 0 and equal hop weights h are
uniform path weights, the probabilities of a random walk.

In a heterogeneous graph, s can be normalized by relation r, with a weight ρ for each:

    s(u, v) = ρ_r / (Σ_{r′ at u} ρ_r′) · g(u, v) / (d_ur^(1−b) d′_vr^b)

d_ur sums g over the edges of r that leave u, d′_vr over those that enter v. A walk first draws a relation among those
of the node, then an edge of it, so that relations with many edges do not outweigh others; a self-loop is a relation of
its own. log ρ are the coefficients of the indicators. A metapath, a sequence of relations, has no weight of its own but
the product of the shares ρ_r / Σ ρ of its relations.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.models.backends import exp, log, row_dots, row_sums
from cge.models.edge_features import common_neighbors, cosines, inverse_document_frequencies
from cge.models.propagation import (
    MAX_SEED_FRACTION,
    FixedPropagation,
    Neighborhood,
    TransitionMatrix,
    neighborhood_of,
    normalized_weights,
)
from cge.models.relation_groups import RELATION, RelationGroups, relation_input

if TYPE_CHECKING:
    from torch import Tensor, nn


_MIN_SPREAD = 1e-6  # a smaller standard deviation is rounding of float32 cosines


@dataclass(frozen=True, eq=False)
class EdgeScale:
    """How edge inputs are standardized: their names, mean and standard deviation over the edges of the training graph.

    Indicators, the last of the names, have neither mean nor standard deviation: they stay zeros and ones.
    `idf (f,)` are the inverse document frequencies of sparse features, used by the cosine; empty where there are none.
    """

    names: tuple[str, ...]
    mean: Array
    spread: Array
    idf: Array


@dataclass(frozen=True, eq=False)
class EdgeInputs:
    """Inputs of each transition, `values (m, q)`, zero for self-loops; `self_loops (m,)` 0 or 1; `weights (m,)`.

    A *transition* is an edge in one direction, or a self-loop: an entry of the propagation matrix. The last columns of
    `values` indicate types or relations, from `first_indicator` on; `names` are those of all. In a heterogeneous graph,
    `relations` are the relations of the transitions.
    """

    values: Any
    self_loops: Any
    weights: Any
    names: tuple[str, ...] = ()
    first_indicator: int = 0
    relations: RelationGroups | None = None

    def tensors(self) -> EdgeInputs:
        """Return them as tensors that share the memory of the arrays."""
        import torch

        parts = {name: torch.as_tensor(getattr(self, name)) for name in ("values", "self_loops", "weights")}
        return replace(self, **parts)  # type: ignore[arg-type]


def make_edge_inputs(
    graph: Graph,
    transitions: TransitionMatrix,
    scale: EdgeScale | None = None,
    features: Any = None,
    self_loop_weight: float | None = None,
) -> tuple[EdgeInputs, EdgeScale]:
    """Return the inputs of a graph's transitions and their scale; a new graph is given the scale of the training graph.

    Nodes are compared by `features`, by default those of the graph. See `basic_edge_inputs` for `self_loop_weight`.
    """
    is_edge = (transitions.graph_entry >= 0) & (transitions.rows != transitions.indices)
    entry = transitions.graph_entry[is_edge]
    sources, targets = transitions.rows[is_edge], transitions.indices[is_edge]
    degree = out_degree = np.diff(graph.indptr)
    if graph.directed:
        degree = out_degree + np.bincount(graph.indices, minlength=graph.num_nodes)
    log_degree = np.log(np.maximum(degree, 1))
    shared = common_neighbors(graph, transitions.n_jobs)[entry]
    columns = {
        "common neighbors": np.log1p(shared),
        "jaccard": shared / np.maximum(out_degree[sources] + out_degree[targets] - shared, 1),
        "degrees": log_degree[sources] + log_degree[targets],
        "degree difference": np.abs(log_degree[sources] - log_degree[targets]),
    }
    features = graph.features if features is None else features
    idf = inverse_document_frequencies(features) if scale is None else scale.idf
    # A new graph may have features of another kind or width than the frequencies were computed for.
    comparable = features is not None and len(idf) == (features.shape[1] if sp.issparse(features) else 0)
    if comparable and (scale is None or "cosine" in scale.names):
        columns = {"cosine": cosines(graph, features, transitions.n_jobs, idf)[entry], **columns}
    if graph.edge_features is not None:
        columns |= {f"feature {name}": graph.edge_features[entry, k] for k, name in enumerate(graph.edge_feature_names)}
    if scale is None:
        scale = _scale_of(columns, indicator_names(graph), idf)
    values = np.zeros((len(transitions), len(scale.names)), np.float32)
    for index, name in enumerate(scale.names):
        if name in columns:  # an input that this graph or edge lacks counts as average
            values[is_edge, index] = np.nan_to_num((columns[name] - scale.mean[index]) / scale.spread[index])
    basic = basic_edge_inputs(graph, transitions, self_loop_weight)
    if basic.relations is not None:
        index_of = {name: index for index, name in enumerate(scale.names)}
        column_of = np.array([*(index_of.get(name, -1) for name in basic.relations.names), -1], np.int64)
        columns_of_edges = column_of[basic.relations.codes]
        rows = np.flatnonzero(columns_of_edges >= 0)
        values[rows, columns_of_edges[rows]] = 1
    return replace(basic, values=values, names=scale.names, first_indicator=len(scale.mean)), scale


def indicator_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the edge inputs that indicate edge types or, in a graph with node types, relations."""
    if graph.node_types is None:
        return tuple(f"type {name}" for name in graph.edge_type_names)
    return tuple(map(relation_input, graph.relations.names))


def _scale_of(columns: dict[str, Array], indicators: tuple[str, ...], idf: Array) -> EdgeScale:
    table, names = np.stack(list(columns.values()), axis=1), tuple(columns)
    mean, spread = (table.mean(0), table.std(0)) if len(table) else (np.zeros(len(names)), np.ones(len(names)))
    for index in np.flatnonzero(np.isnan(mean)).tolist():  # edge features with missing values
        known = table[~np.isnan(table[:, index]), index]
        mean[index], spread[index] = (known.mean(), known.std()) if len(known) else (0.0, 1.0)
    return EdgeScale(names + indicators, mean, np.where(spread > _MIN_SPREAD, spread, 1.0), idf)


def mean_edge_weight(graph: Graph) -> float:
    """Return the mean weight of a graph's edges, which is the weight of the self-loops that are added to it."""
    return 1.0 if graph.weights is None or not len(graph.weights) else float(graph.weights.mean())


def basic_edge_inputs(graph: Graph, transitions: TransitionMatrix, self_loop_weight: float | None = None) -> EdgeInputs:
    """Return self-loops and edge weights without any other input, which is enough for weightings with θ = 0.

    `self_loop_weight` is the weight of added self-loops, by default the mean edge weight; in a new graph it is that of
    the training graph.
    """
    in_graph = transitions.graph_entry >= 0
    self_loops = ~(in_graph & (transitions.rows != transitions.indices))
    weights = np.ones(len(transitions), np.float32)
    if graph.weights is not None:
        weights[in_graph] = graph.weights[transitions.graph_entry[in_graph]]
        weights[~in_graph] = mean_edge_weight(graph) if self_loop_weight is None else self_loop_weight
    relations = None if graph.edge_types is None and graph.node_types is None else RelationGroups(graph, transitions)
    values = np.empty((len(transitions), 0), np.float32)
    return EdgeInputs(values, self_loops.astype(np.float32), weights, relations=relations)


class EdgeWeighting:
    """θ, θ_self, b and h: `coefficients (q,)`, `self_loop`, `normalization` and `hop_weights (K+1,)`, float32 arrays.

    Hop weights may be negative; `normalized_hop_weights` divides them by the sum of their absolute values. With
    `by_relation` the weights are normalized by relation. The methods compute with arrays, and after `trainable` with
    tensors and gradients.
    """

    NAMES = ("coefficients", "self_loop", "normalization", "hop_weights")

    def __init__(
        self, coefficients: Any, self_loop: Any, normalization: Any, hop_weights: Any, *, by_relation: bool = False
    ) -> None:
        values = coefficients, self_loop, normalization, hop_weights
        self.coefficients, self.self_loop, self.normalization, self.hop_weights = map(_float32, values)
        self.by_relation = by_relation

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def trainable(self) -> EdgeWeighting:
        """Return the same parameters as tensors that share the memory of the arrays: an optimizer changes both."""
        import torch

        weighting = copy(self)
        for name, array in self.arrays().items():
            setattr(weighting, name, torch.nn.Parameter(torch.as_tensor(array).detach()))
        return weighting

    def edge_strengths(self, edge_inputs: EdgeInputs) -> Any:
        """Return g of each transition, `(m,)`; if normalized by relation, s with b = 0, the transition probability."""
        if self._uses_relations(edge_inputs):
            return self._by_relation(edge_inputs, 0.0)
        exponent = self.self_loop * edge_inputs.self_loops
        if edge_inputs.values.shape[1]:
            exponent = row_dots(edge_inputs.values, self.coefficients) + exponent
        return edge_inputs.weights * exp(exponent.clip(-20, 20))

    def normalized_weights(self, transitions: TransitionMatrix, edge_inputs: EdgeInputs) -> Any:
        """Return s of each transition, `(m,)`."""
        if self._uses_relations(edge_inputs):
            return self._by_relation(edge_inputs, self.normalization)
        return normalized_weights(transitions, self.edge_strengths(edge_inputs), self.normalization)

    def _uses_relations(self, edge_inputs: EdgeInputs) -> bool:
        return self.by_relation and edge_inputs.relations is not None

    def _by_relation(self, edge_inputs: EdgeInputs, normalization: Any) -> Any:
        """Return s of each transition, normalized by relation."""
        relations, count = edge_inputs.relations, edge_inputs.first_indicator
        assert relations is not None  # noqa: S101 - for the type checker
        strengths = edge_inputs.weights
        if edge_inputs.values.shape[1]:
            exponent = row_dots(edge_inputs.values[:, :count], self.coefficients[:count])
            strengths = strengths * exp(exponent.clip(-20, 20))
        log_weights = relations.log_weights(edge_inputs.names, self.coefficients, self.self_loop).clip(-20, 20)
        source, target = (
            log(row_sums(group, strengths, size)[group]) for group, size in (relations.by_source, relations.by_target)
        )
        share = strengths * exp(log_weights - source)  # ρ_r g / d_ur
        total = row_sums(relations.rows, share, relations.num_nodes)[relations.rows]  # Σ_{r′ at u} ρ_r′
        return share / total * exp(normalization * (source - target))

    def is_symmetric(self, edge_inputs: EdgeInputs) -> bool:
        """Return whether g(u, v) = g(v, u) in an undirected graph.

        It is not if g depends on relations, since the two directions of an edge have different ones.
        """
        directions = [place for place, name in enumerate(edge_inputs.names) if name.startswith(RELATION)]
        return not self._uses_relations(edge_inputs) and not bool(self.coefficients[directions].any())

    def normalized_hop_weights(self) -> Any:
        """Return h, `(K+1,)`, whose absolute values sum to 1."""
        return self.hop_weights / abs(self.hop_weights).sum().clip(min=1e-12)

    def used_hop_weights(self) -> list[float]:
        """Return h without trailing zeros, at least h_0."""
        hop_weights: list[float] = self.normalized_hop_weights().tolist()
        while len(hop_weights) > 1 and hop_weights[-1] == 0:
            hop_weights.pop()
        return hop_weights

    def propagation(self, transitions: TransitionMatrix, edge_inputs: EdgeInputs) -> FixedPropagation:
        """Return the sum over all paths with these weights."""
        return FixedPropagation(transitions, self.normalized_weights(transitions, edge_inputs), self.used_hop_weights())


def _float32(values: Any) -> Any:
    return np.array(values, np.float32)


class EdgePropagation:
    """The sum over all paths of a graph, weighted by an `EdgeWeighting`, which training changes in place.

    b and h are trained only with `train_hops`.
    """

    def __init__(
        self,
        transitions: TransitionMatrix,
        edge_inputs: EdgeInputs,
        weighting: EdgeWeighting,
        *,
        train_hops: bool = True,
    ) -> None:
        self.transitions, self.edge_inputs = transitions, edge_inputs.tensors()
        self.weighting = weighting.trainable()
        self._trained: list[nn.Parameter] = [self.weighting.coefficients, self.weighting.self_loop]
        if train_hops:
            self._trained += [self.weighting.normalization, self.weighting.hop_weights]
        self._initial = [parameter.detach().clone() for parameter in self._trained]
        self._neighborhood: Neighborhood | None = None

    def parameters(self) -> list[nn.Parameter]:
        """Return θ, θ_self, b and h, or those of them that are trained."""
        return self._trained

    def initial_parameters(self) -> list[Tensor]:
        """Return the values of the parameters before training."""
        return self._initial

    def propagation(self, nodes: Array | None = None) -> Callable[[Tensor], Tensor | tuple[Tensor, Tensor]]:
        """Return the propagation with the current weights, differentiable in them and in the inputs.

        If only the sums of a few `nodes` are needed, pass these: the propagation is then `propagate_to`, which returns
        the sums twice.
        """
        from cge.models.autograd import propagate
        from cge.models.learned_propagation import propagate_to

        transitions = self.transitions
        weights = self.weighting.normalized_weights(transitions, self.edge_inputs)
        hop_weights = self.weighting.normalized_hop_weights()
        if nodes is None or len(nodes) >= MAX_SEED_FRACTION * transitions.num_nodes:
            return lambda inputs: propagate(transitions, weights, inputs, hop_weights)
        if self._neighborhood is None or not np.array_equal(self._neighborhood.seeds, nodes):
            self._neighborhood = neighborhood_of(transitions.matrix(transitions.indices), nodes, len(hop_weights) - 1)
        neighborhood = self._neighborhood
        return lambda inputs: propagate_to(transitions, weights, inputs, hop_weights, neighborhood)

    def fixed(self) -> FixedPropagation:
        """Return the propagation with the current weights as constants."""
        return FixedPropagation(self.transitions, self.normalized_weights(), self.weighting.used_hop_weights())

    def normalized_weights(self) -> Tensor:
        """Return s of each transition, `(m,)`."""
        weights: Tensor = self.weighting.normalized_weights(self.transitions, self.edge_inputs).detach()
        return weights
