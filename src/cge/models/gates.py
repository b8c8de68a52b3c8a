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
from cge.models.pooling import FixedPool, StepRows, pool, step_weights
from cge.models.steps import common_neighbors, cosines, rarities

__all__ = ["Scale", "StepInputs", "StepPooling", "StepWeighting", "bare_inputs", "mean_weight", "step_inputs"]

Array = npt.NDArray[Any]

_ROUNDING = 1e-6  # of float32 cosines: a smaller spread is none


@dataclass(frozen=True, eq=False)
class Scale:
    """How inputs are made comparable: their names, mean and spread over the edges of the graph that was trained on.

    `rarity (f,)` are the weights of sparse features in the cosine, empty where there are none.
    """

    names: tuple[str, ...]
    mean: Array
    spread: Array
    rarity: Array


@dataclass(frozen=True, eq=False)
class StepInputs:
    """What is known of each step, `values (m, q)`, zero for steps that stay; `stays (m,)` 0 or 1; `weights (m,)`."""

    values: Tensor
    stays: Tensor
    weights: Tensor


def step_inputs(
    graph: Graph, steps: StepRows, scale: Scale | None = None, features: Any = None, staying: float | None = None
) -> tuple[StepInputs, Scale]:
    """Return what is known of the steps of a graph, and the scale; a new graph is given that of the trained one.

    Ends are compared by `features`, by default those of the graph. Steps that stay weigh `staying` (see `bare_inputs`).
    """
    own = steps.entry >= 0
    moves = own & (steps.rows != steps.indices)
    entry = steps.entry[moves]
    degree = _degrees(graph)
    from_degree, to_degree = degree[steps.rows[moves]], degree[steps.indices[moves]]
    out = np.diff(graph.indptr)
    shared = common_neighbors(graph, steps.threads)[entry]
    columns = {
        "common neighbors": np.log1p(shared),
        "jaccard": shared / np.maximum(out[steps.rows[moves]] + out[steps.indices[moves]] - shared, 1),
        "degrees": np.log(from_degree) + np.log(to_degree),
        "degree difference": np.abs(np.log(from_degree) - np.log(to_degree)),
    }
    features = graph.features if features is None else features
    rarity = np.empty(0) if scale is None else scale.rarity
    if features is not None and scale is None:
        rarity = rarities(features)
    if features is not None and (scale is None or ("cosine" in scale.names and _fits(features, rarity))):
        columns = {"cosine": cosines(graph, features, steps.threads, rarity)[entry], **columns}
    if scale is None:
        names, table = tuple(columns), np.stack(list(columns.values()), axis=1)
        mean, spread = (table.mean(0), table.std(0)) if len(table) else (np.zeros(len(names)), np.ones(len(names)))
        names += tuple(f"type {name}" for name in graph.edge_type_names)
        scale = Scale(names, mean, np.where(spread > _ROUNDING, spread, 1.0), rarity)
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
    return replace(bare_inputs(graph, steps, staying), values=torch.from_numpy(values)), scale


def mean_weight(graph: Graph) -> float:
    """Return the mean weight of a graph's edges: what a step weighs that stays and is no edge."""
    return 1.0 if graph.weights is None or not len(graph.weights) else float(graph.weights.mean())


def bare_inputs(graph: Graph, steps: StepRows, staying: float | None = None) -> StepInputs:
    """Return which steps stay and what edges weigh, and nothing else: all that weights with θ = 0 look at.

    Steps that stay weigh `staying`, by default the mean of the edges. A new graph is given that of the trained one.
    """
    own = steps.entry >= 0
    stays = ~(own & (steps.rows != steps.indices))
    weights = np.ones(len(steps), np.float32)
    if graph.weights is not None:
        weights[own] = graph.weights[steps.entry[own]]
        weights[~own] = mean_weight(graph) if staying is None else staying
    return StepInputs(torch.empty(len(steps), 0), torch.from_numpy(stays.astype(np.float32)), _tensor(weights))


def _degrees(graph: Graph) -> Array:
    """Return the number of edges at each node, `(n,)`, at least 1; with directions, those that leave and arrive."""
    found = np.diff(graph.indptr).astype(np.float64)
    if graph.directed:
        found += np.bincount(graph.indices, minlength=len(found))
    return np.maximum(found, 1)


def _fits(features: Any, rarity: Array) -> bool:
    """Say whether features are of the kind and width that rarities were found for."""
    return len(rarity) == (features.shape[1] if sp.issparse(features) else 0)


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


class StepWeighting(nn.Module):
    """θ, θ_stay, b and h: `gate (q,)`, `stay`, `discount` and `hops (K+1,)`, all learnable.

    Hop weights may be negative; their absolute values sum to one, so that weights only say what matters more.
    """

    def __init__(self, gate: Sequence[float], stay: float, discount: float, hops: Sequence[float]) -> None:
        super().__init__()
        self.gate = nn.Parameter(_tensor(gate))
        self.stay = nn.Parameter(_tensor(stay))
        self.discount = nn.Parameter(_tensor(discount))
        self.hops = nn.Parameter(_tensor(hops))

    def gates(self, inputs: StepInputs) -> Tensor:
        """Return g of each step, `(m,)`."""
        exponent = self.stay * inputs.stays
        if inputs.values.shape[1]:
            exponent = inputs.values @ self.gate + exponent
        return inputs.weights * torch.exp(exponent.clamp(-20, 20))

    def step_values(self, steps: StepRows, inputs: StepInputs) -> Tensor:
        """Return s of each step, `(m,)`."""
        return step_weights(steps, self.gates(inputs), self.discount)

    def hop_weights(self) -> Tensor:
        """Return h, `(K+1,)`."""
        return self.hops / self.hops.abs().sum().clamp(min=1e-12)


def _tensor(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values, np.float32))


class StepPooling:
    """The sum over all paths of a graph with the weights of a `StepWeighting`.

    With `gates_only` b and h do not learn.
    """

    def __init__(
        self, steps: StepRows, inputs: StepInputs, weighting: StepWeighting, *, gates_only: bool = False
    ) -> None:
        self.steps, self.inputs, self.weighting = steps, inputs, weighting
        self._learns = [weighting.gate, weighting.stay]
        if not gates_only:
            self._learns += [weighting.discount, weighting.hops]
        self._prior = [one.detach().clone() for one in self._learns]

    def parameters(self) -> list[nn.Parameter]:
        """Return θ, θ_stay, b and h, or those of them that learn."""
        return self._learns

    def prior(self) -> list[Tensor]:
        """Return what they were at the beginning."""
        return self._prior

    def pooling(self, nodes: Array | None = None) -> Callable[[Tensor], Tensor]:  # noqa: ARG002 - all at once
        """Return the pooling with the weights as they are now, differentiable in them."""
        values, hops = self.weighting.step_values(self.steps, self.inputs), self.weighting.hop_weights()
        return lambda payload: pool(self.steps, values, payload, hops)

    def fixed(self) -> Callable[[Tensor], Tensor]:
        """Return the pooling with the weights as they are now, which learn no more."""
        return FixedPool(self.steps, self.values(), self.hops())

    def values(self) -> Tensor:
        """Return s of each step, `(m,)`."""
        with torch.no_grad():
            return self.weighting.step_values(self.steps, self.inputs)

    def hops(self) -> list[float]:
        """Return h without zeros at its end, at least h_0."""
        with torch.no_grad():
            found = self.weighting.hop_weights().tolist()
        while len(found) > 1 and found[-1] == 0:
            found.pop()
        return found
