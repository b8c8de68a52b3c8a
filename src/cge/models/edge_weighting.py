"""Weights of single steps, learned or closed-form: a gate on what is known of a step, a degree discount, hop weights.

    A(p) = h_k Π_t s(n_t, n_{t+1}),   s(u, v) = g(u, v) / (z_u^(1−b) z_v^b),   g = w(u, v) · exp(θ · inputs(u, v))

w is the edge's weight. Five inputs and a step's type are looked at; a step from a node to itself has a number of its
own, θ_stay. All in all a handful of numbers, which a few labels can teach. θ = 0, b = 0 and equal h are A ≡ 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from cge.graph import Graph
from cge.models.edge_features import common_neighbors, cosines, inverse_document_frequencies
from cge.models.propagation import FixedPropagation, TransitionMatrix, normalized_weights, propagate

__all__ = [
    "EdgeInputs",
    "EdgePropagation",
    "EdgeScale",
    "EdgeWeighting",
    "basic_edge_inputs",
    "make_edge_inputs",
    "mean_edge_weight",
]

Array = npt.NDArray[Any]

_ROUNDING = 1e-6  # of float32 cosines: a smaller spread is none


@dataclass(frozen=True, eq=False)
class EdgeScale:
    """How inputs are made comparable: their names, mean and spread over the edges of the graph that was trained on.

    `idf (f,)` are the weights of sparse features in the cosine, empty where there are none.
    """

    names: tuple[str, ...]
    mean: Array
    spread: Array
    idf: Array


@dataclass(frozen=True, eq=False)
class EdgeInputs:
    """Inputs of each edge, `values (m, q)`, zero for self-loops; `self_loops (m,)` 0 or 1; `weights (m,)` of edges."""

    values: Tensor
    self_loops: Tensor
    weights: Tensor


def make_edge_inputs(
    graph: Graph,
    steps: TransitionMatrix,
    scale: EdgeScale | None = None,
    features: Any = None,
    self_loop_weight: float | None = None,
) -> tuple[EdgeInputs, EdgeScale]:
    """Return what is known of the steps of a graph, and the scale; a new graph is given that of the trained one.

    Nodes are compared by `features`, by default those of the graph. Self-loops weigh `self_loop_weight` (see
    `basic_edge_inputs`).
    """
    own = steps.graph_entry >= 0
    moves = own & (steps.rows != steps.indices)
    entry = steps.graph_entry[moves]
    degree = _degrees(graph)
    from_degree, to_degree = degree[steps.rows[moves]], degree[steps.indices[moves]]
    out = np.diff(graph.indptr)
    shared = common_neighbors(graph, steps.n_jobs)[entry]
    columns = {
        "common neighbors": np.log1p(shared),
        "jaccard": shared / np.maximum(out[steps.rows[moves]] + out[steps.indices[moves]] - shared, 1),
        "degrees": np.log(from_degree) + np.log(to_degree),
        "degree difference": np.abs(np.log(from_degree) - np.log(to_degree)),
    }
    features = graph.features if features is None else features
    idf = np.empty(0) if scale is None else scale.idf
    if features is not None and scale is None:
        idf = inverse_document_frequencies(features)
    if features is not None and (scale is None or ("cosine" in scale.names and _fits(features, idf))):
        columns = {"cosine": cosines(graph, features, steps.n_jobs, idf)[entry], **columns}
    if scale is None:
        names, table = tuple(columns), np.stack(list(columns.values()), axis=1)
        mean, spread = (table.mean(0), table.std(0)) if len(table) else (np.zeros(len(names)), np.ones(len(names)))
        names += tuple(f"type {name}" for name in graph.edge_type_names)
        scale = EdgeScale(names, mean, np.where(spread > _ROUNDING, spread, 1.0), idf)
    plain = [name for name in scale.names if not name.startswith("type ")]
    values = np.zeros((len(steps), len(scale.names)), np.float32)
    for place, name in enumerate(plain):
        if name in columns:  # what is not known of this graph counts as average
            values[moves, place] = (columns[name] - scale.mean[place]) / scale.spread[place]
    if graph.edge_types is not None:
        known = np.array([*(_place(scale.names, f"type {name}") for name in graph.edge_type_names)], np.int64)
        places = known[graph.edge_types[entry]]
        rows = np.flatnonzero(moves)
        values[rows[places >= 0], places[places >= 0]] = 1
    return replace(basic_edge_inputs(graph, steps, self_loop_weight), values=torch.from_numpy(values)), scale


def mean_edge_weight(graph: Graph) -> float:
    """Return the mean weight of a graph's edges: what a step weighs that stays and is no edge."""
    return 1.0 if graph.weights is None or not len(graph.weights) else float(graph.weights.mean())


def basic_edge_inputs(graph: Graph, steps: TransitionMatrix, self_loop_weight: float | None = None) -> EdgeInputs:
    """Return which steps stay and what edges weigh, and nothing else: all that weights with θ = 0 look at.

    Self-loops weigh `self_loop_weight`, by default the mean of the edges. A new graph is given that of the trained one.
    """
    own = steps.graph_entry >= 0
    self_loops = ~(own & (steps.rows != steps.indices))
    weights = np.ones(len(steps), np.float32)
    if graph.weights is not None:
        weights[own] = graph.weights[steps.graph_entry[own]]
        weights[~own] = mean_edge_weight(graph) if self_loop_weight is None else self_loop_weight
    return EdgeInputs(torch.empty(len(steps), 0), torch.from_numpy(self_loops.astype(np.float32)), _tensor(weights))


def _degrees(graph: Graph) -> Array:
    """Return the number of edges at each node, `(n,)`, at least 1; with directions, those that leave and arrive."""
    found = np.diff(graph.indptr).astype(np.float64)
    if graph.directed:
        found += np.bincount(graph.indices, minlength=len(found))
    return np.maximum(found, 1)


def _fits(features: Any, idf: Array) -> bool:
    """Say whether features are of the kind and width that rarities were found for."""
    return len(idf) == (features.shape[1] if sp.issparse(features) else 0)


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


class EdgeWeighting(nn.Module):
    """θ, θ_stay, b and h: `coefficients (q,)`, `self_loop`, `normalization` and `hops (K+1,)`, all learnable.

    Hop weights may be negative; their absolute values sum to one, so that weights only say what matters more.
    """

    def __init__(
        self, coefficients: Sequence[float], self_loop: float, normalization: float, hops: Sequence[float]
    ) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(_tensor(coefficients))
        self.self_loop = nn.Parameter(_tensor(self_loop))
        self.normalization = nn.Parameter(_tensor(normalization))
        self.hops = nn.Parameter(_tensor(hops))

    def raw_weights(self, edge_inputs: EdgeInputs) -> Tensor:
        """Return g of each step, `(m,)`."""
        exponent = self.self_loop * edge_inputs.self_loops
        if edge_inputs.values.shape[1]:
            exponent = edge_inputs.values @ self.coefficients + exponent
        return edge_inputs.weights * torch.exp(exponent.clamp(-20, 20))

    def edge_weights(self, steps: TransitionMatrix, edge_inputs: EdgeInputs) -> Tensor:
        """Return s of each step, `(m,)`."""
        return normalized_weights(steps, self.raw_weights(edge_inputs), self.normalization)

    def hop_weights(self) -> Tensor:
        """Return h, `(K+1,)`."""
        return self.hops / self.hops.abs().sum().clamp(min=1e-12)


def _tensor(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values, np.float32))


class EdgePropagation:
    """The sum over all paths of a graph with the weights of a `EdgeWeighting`.

    With `gates_only` b and h do not learn.
    """

    def __init__(
        self, steps: TransitionMatrix, edge_inputs: EdgeInputs, weighting: EdgeWeighting, *, gates_only: bool = False
    ) -> None:
        self.steps, self.edge_inputs, self.weighting = steps, edge_inputs, weighting
        self._learns = [weighting.coefficients, weighting.self_loop]
        if not gates_only:
            self._learns += [weighting.normalization, weighting.hops]
        self._prior = [one.detach().clone() for one in self._learns]

    def parameters(self) -> list[nn.Parameter]:
        """Return θ, θ_stay, b and h, or those of them that learn."""
        return self._learns

    def prior(self) -> list[Tensor]:
        """Return what they were at the beginning."""
        return self._prior

    def propagation(self, nodes: Array | None = None) -> Callable[[Tensor], Tensor]:  # noqa: ARG002 - all at once
        """Return the pooling with the weights as they are now, differentiable in them."""
        values, hops = self.weighting.edge_weights(self.steps, self.edge_inputs), self.weighting.hop_weights()
        return lambda inputs: propagate(self.steps, values, inputs, hops)

    def fixed(self) -> Callable[[Tensor], Tensor]:
        """Return the pooling with the weights as they are now, which learn no more."""
        return FixedPropagation(self.steps, self.values(), self.hops())

    def values(self) -> Tensor:
        """Return s of each step, `(m,)`."""
        with torch.no_grad():
            return self.weighting.edge_weights(self.steps, self.edge_inputs)

    def hops(self) -> list[float]:
        """Return h without zeros at its end, at least h_0."""
        with torch.no_grad():
            found = self.weighting.hop_weights().tolist()
        while len(found) > 1 and found[-1] == 0:
            found.pop()
        return found
