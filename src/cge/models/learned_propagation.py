"""The sum over paths to some nodes, with gradients for the inputs, or for the edge weights and the hop weights.

    T_K = h_K x,   T_k = h_k x + M T_{k+1},   T_0 = Σ_k h_k M^k x                     Horner's rule
    G_0 = ∂L/∂T_0,   G_{k+1} = Mᵀ G_k
    ∂L/∂M_uv = Σ_k ⟨G_k[u], T_{k+1}[v]⟩,   ∂L/∂h_k = ⟨G_k, x⟩,   ∂L/∂x = Σ_k h_k G_k

Of T_0 only the rows of the seed nodes are needed, and of T_k and G_k only those of nodes at most k hops away. A step of
the outer problem needs the gradients of two losses: one for the inputs, and another for the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.propagation import Neighborhood, TransitionMatrix
from cge.models.sparse_products import sparse_product
from cge.parallel import float_kernel, run_blocks, split_blocks

_BLOCK = 1024  # rows whose gradients a thread computes at once


def propagate_to(
    transitions: TransitionMatrix, weights: Tensor, x: Tensor, hop_weights: Tensor, neighborhood: Neighborhood
) -> tuple[Tensor, Tensor]:
    """Return Σ_k h_k M^k x, `(n, d)`, twice; only the rows of the seed nodes are defined.

    The first is differentiable in `x (n, d)` only, the second in `weights (m,)`, the entries of M, and `hop_weights`.
    """
    arrays = weights.detach().numpy(), np.ascontiguousarray(x.detach().numpy())
    sums = _Sums(transitions, neighborhood, *arrays, hop_weights.detach().tolist())
    of_inputs: Tensor = _OfInputs.apply(sums, x)  # type: ignore[no-untyped-call]
    of_weights: Tensor = _OfWeights.apply(sums, weights, hop_weights)  # type: ignore[no-untyped-call]
    return of_inputs, of_weights


@dataclass(frozen=True, eq=False)
class _Sums:
    """T_k near some nodes, and the gradients G_k."""

    transitions: TransitionMatrix
    neighborhood: Neighborhood
    weights: Array
    inputs: Array
    hop_weights: list[float]

    @cached_property
    def values(self) -> list[Array]:
        """T_0, …, T_{K−1}, x."""
        last, sums = len(self.hop_weights) - 1, [self.inputs]
        matrix, n_jobs = self.transitions.matrix(self.weights), self.transitions.n_jobs
        for hop in range(last - 1, -1, -1):
            terms: dict[str, Any] = {
                "factor": self.scale(hop),
                "base": self.inputs,
                "base_factor": self.hop_weights[hop],
            }
            sums.append(sparse_product(matrix, sums[-1], n_jobs, rows=self.neighborhood.within(hop), **terms))
        if last == 0:
            sums.append(self.inputs * self.inputs.dtype.type(self.hop_weights[0]))
        return sums[::-1]

    def scale(self, hop: int) -> float:
        """Return T_{k+1} relative to what `values` has: h_K for the last hop."""
        return self.hop_weights[-1] if hop == len(self.hop_weights) - 2 else 1.0

    def gradients(self, upstream: Tensor) -> Iterator[tuple[int, Array, Array]]:
        """Yield k, the nodes at most k hops away, and G_k, of which only their rows are defined."""
        gradient, last = np.ascontiguousarray(upstream.detach().numpy()), len(self.hop_weights) - 1
        transposed, rows = self.transitions.transposed(self.weights), self.neighborhood.within(0)
        for hop in range(last + 1):
            yield hop, rows, gradient
            if hop < last:
                rows = self.neighborhood.within(hop + 1)
                near: dict[str, Any] = {"distance": self.neighborhood.distance, "max_distance": hop}
                gradient = sparse_product(transposed, gradient, self.transitions.n_jobs, rows=rows, **near)


class _OfInputs(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, sums: _Sums, x: Tensor) -> Tensor:  # noqa: ARG004 - differentiable in x
        context.sums = sums
        return torch.from_numpy(sums.values[0])

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[None, Tensor]:
        sums = context.sums
        total = np.zeros_like(sums.inputs)
        for hop, rows, gradient in sums.gradients(upstream):
            _add_rows(gradient, rows, total.dtype.type(sums.hop_weights[hop]), total)
        return None, torch.from_numpy(total)


class _OfWeights(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, sums: _Sums, weights: Tensor, hop_weights: Tensor) -> Tensor:
        context.sums, context.dtypes = sums, (weights.dtype, hop_weights.dtype)
        return torch.from_numpy(sums.values[0])

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[None, Tensor, Tensor | None]:
        sums, n_jobs = context.sums, context.sums.transitions.n_jobs
        transitions, last = sums.transitions, len(sums.hop_weights) - 1
        to_weights, to_hops = np.zeros(len(transitions)), np.zeros(last + 1)
        entries = transitions.indptr, transitions.indices
        for hop, rows, gradient in sums.gradients(upstream):
            if context.needs_input_grad[2]:
                to_hops[hop] = _dot_rows(gradient, sums.inputs, rows)
            if hop < last:
                operands: Any = *entries, gradient, sums.values[hop + 1], sums.scale(hop), rows

                work: Any = partial(_add_entry_dots, *operands, to_weights)  # type: ignore[call-arg]
                run_blocks(work, split_blocks(len(rows), _BLOCK), n_jobs)
        of_hops = torch.from_numpy(to_hops).to(context.dtypes[1]) if context.needs_input_grad[2] else None
        return None, torch.from_numpy(to_weights).to(context.dtypes[0]), of_hops


@float_kernel
def _add_entry_dots(
    indptr: Array,
    indices: Array,
    gradient: Array,
    sums: Array,
    scale: float,
    rows: Array,
    out: Array,
    first: int,
    stop: int,
) -> None:
    zero = gradient.dtype.type(0)
    for place in range(first, stop):
        u = rows[place]
        for entry in range(indptr[u], indptr[u + 1]):
            v, total = indices[entry], zero
            for k in range(gradient.shape[1]):
                total += gradient[u, k] * sums[v, k]
            out[entry] += scale * total


@float_kernel
def _add_rows(values: Array, rows: Array, factor: Any, out: Array) -> None:
    for row in rows:
        for k in range(values.shape[1]):
            out[row, k] += factor * values[row, k]


@float_kernel
def _dot_rows(a: Array, b: Array, rows: Array) -> float:
    total = 0.0
    for row in rows:
        of_row = 0.0
        for k in range(a.shape[1]):
            of_row += a[row, k] * b[row, k]
        total += of_row
    return total
