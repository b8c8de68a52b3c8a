"""The exact sum over weighted paths: what lies at the ends of all paths from a node, each weighed.

    e_i = Σ_{k=0..K} h_k Σ_{p: i = n_0, …, n_k} A(p) · payload(n_k),   A(p) = Π_t s(n_t, n_{t+1})

A weight that is a product over steps makes the sum over *all* paths K sparse products: e = Σ_k h_k M^k payload, where
M holds s. Its cost grows with edges and hops, not with paths, and every single path still has its weight.

    s(u, v) = g(u, v) / (z_u^(1−b) z_v^b),   z_u = Σ_v g(u, v)

g is a gate, positive for each step. With g ≡ 1, b = 0 is the random walk (A ≡ 1: paths count by their chance), and
b = ½ the symmetric normalization of graph convolutions, read as a discount on paths that end at nodes of high degree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.graph import Graph
from cge.models.sparse_products import sparse_product
from cge.parallel import blocks_of, float_kernel, kernel, run_blocks

__all__ = [
    "UNREACHED",
    "FixedPropagation",
    "Reach",
    "SparsityPattern",
    "TransitionMatrix",
    "normalized_weights",
    "propagate",
    "propagate_to",
    "sparse_matmul",
]

Array = npt.NDArray[Any]

_BLOCK = 4096  # rows given to a thread at once
_FEW = 0.5  # share of all nodes
UNREACHED = 10_000  # steps


class SparsityPattern:
    """Where the entries of a sparse matrix stand: sorted by row, and the same entries sorted by where they lead.

    Attributes
    ----------
    indptr : (n+1,), indices : (m,)
        Row u has the entries `indices[indptr[u]:indptr[u+1]]`; the same place may occur several times.
    rows : (m,)
        The row of each entry.
    """

    def __init__(self, rows: Array, indices: Array, nodes: int, n_jobs: int | None = None) -> None:
        self.num_nodes, self.n_jobs, self.rows, self.indices = nodes, n_jobs, rows, indices
        self.indptr = _starts(rows, nodes)

    def __len__(self) -> int:
        return len(self.indices)

    def matrix(self, values: Array) -> sp.csr_array:
        """Return the matrix with `values (m,)` as its entries."""
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def transposed(self, values: Array) -> sp.csr_array:
        """Return its transpose."""
        back, indices, indptr = self._turned
        return sp.csr_array((values[back], indices, indptr), shape=(self.num_nodes, self.num_nodes))

    @cached_property
    def _turned(self) -> tuple[Array, Array, Array]:
        """Rows of the transpose: which entry of ours each entry is, where it leads, and where rows begin."""
        starts, back = _starts(self.indices, self.num_nodes), np.empty(len(self.indices), np.int64)
        _turn(self.indices, starts.copy(), back)
        return back, self.rows[back], starts


class TransitionMatrix(SparsityPattern):
    """Where the steps of a graph stand: its rows with a step from each node to itself, each row ascending.

    Attributes
    ----------
    graph_entry : (m,)
        Which entry of the graph's own rows each step is, −1 for a step to itself that the graph does not have.
    """

    def __init__(self, graph: Graph, n_jobs: int | None = None) -> None:
        nodes, blocks = graph.num_nodes, blocks_of(graph.num_nodes, _BLOCK)
        added = np.zeros(nodes + 1, np.int64)  # before each row, once they are summed

        def lack(first: int, stop: int) -> None:
            _lacking(graph.indptr, graph.indices, first, stop, added)

        run_blocks(lack, blocks, n_jobs)
        starts = graph.indptr + np.cumsum(added)
        rows, indices, self.graph_entry = (np.empty(starts[-1], np.int64) for _ in range(3))

        def write(first: int, stop: int) -> None:
            _with_loops(graph.indptr, graph.indices, starts, first, stop, rows, indices, self.graph_entry)

        run_blocks(write, blocks, n_jobs)
        super().__init__(rows, indices, nodes, n_jobs)


def normalized_weights(steps: TransitionMatrix, gate: Tensor, normalization: Tensor | float) -> Tensor:
    """Return s of each step, `(m,)`, from its gate g > 0, `(m,)`, and b; differentiable in both."""
    rows, ends = torch.from_numpy(steps.rows), torch.from_numpy(steps.indices)
    total = torch.zeros(steps.num_nodes, dtype=gate.dtype).index_add(0, rows, gate)  # z, (n,)
    log = torch.log(total)
    return gate * torch.exp(-(1 - normalization) * log[rows] - normalization * log[ends])


class _Entries:
    """A matrix as its entries are now, `values (m,)`; the transpose is made once, for all products back."""

    def __init__(self, pattern: SparsityPattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values
        self.matrix = pattern.matrix(values.detach().numpy())

    @cached_property
    def transposed(self) -> sp.csr_array:
        return self.pattern.transposed(self.matrix.data)


class _Product(torch.autograd.Function):
    """M x, with gradients for the entries of M and for x."""

    @staticmethod
    def forward(context: Any, entries: _Entries, _values: Tensor, x: Tensor) -> Tensor:
        context.entries = entries
        context.save_for_backward(x)
        return torch.from_numpy(sparse_product(entries.matrix, x.detach().numpy(), entries.pattern.n_jobs))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        steps, (x,) = context.entries.pattern, context.saved_tensors
        to_values = to_x = None
        above = np.ascontiguousarray(gradient.detach().numpy())
        if context.needs_input_grad[1]:
            found = np.empty(len(steps), above.dtype)
            below = np.ascontiguousarray(x.detach().numpy())

            def block(first: int, stop: int) -> None:
                _row_products(steps.indptr, steps.indices, above, below, first, stop, found)

            run_blocks(block, blocks_of(steps.num_nodes, _BLOCK), steps.n_jobs)
            to_values = torch.from_numpy(found)
        if context.needs_input_grad[2]:
            to_x = torch.from_numpy(sparse_product(context.entries.transposed, above, steps.n_jobs))
        return None, to_values, to_x


def sparse_matmul(pattern: SparsityPattern, values: Tensor, x: Tensor) -> Tensor:
    """Return M x, `(n, d)`, for the matrix M with `values (m,)`; differentiable in values and x."""
    return _times(_Entries(pattern, values), x)


def _times(entries: _Entries, x: Tensor) -> Tensor:
    found: Tensor = _Product.apply(entries, entries.values, x)  # type: ignore[no-untyped-call]
    return found


def propagate(steps: TransitionMatrix, values: Tensor, inputs: Tensor, hops: Tensor | Sequence[float]) -> Tensor:
    """Return Σ_k h_k M^k payload, `(n, d)`, for `inputs (n, d)`, the steps' weights `values (m,)` and `hops (K+1,)`.

    Differentiable in all three.
    """
    entries, reached, total = _Entries(steps, values), inputs, hops[0] * inputs
    for weight in hops[1:]:
        reached = _times(entries, reached)
        total = total + weight * reached
    return total


class _Pooled(torch.autograd.Function):
    """Σ_k h_k M^k x for constant M and h, by Horner's rule: h_0 x + M (h_1 x + M (…)); its gradient is that of Mᵀ."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor) -> Tensor:
        context.fixed = fixed
        return torch.from_numpy(fixed.sum(fixed.matrix, x.detach().numpy()))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:
        fixed = context.fixed
        return None, torch.from_numpy(fixed.sum(fixed.transposed, gradient.detach().numpy()))


class _SomePooled(torch.autograd.Function):
    """Some rows of `_Pooled`. A level of Horner's rule is computed where the next one looks, and nowhere else."""

    @staticmethod
    def forward(context: Any, fixed: FixedPropagation, x: Tensor, reach: Reach) -> Tensor:
        context.fixed, context.reach = fixed, reach
        return torch.from_numpy(fixed.sum_at(x.detach().numpy(), reach))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        return None, torch.from_numpy(context.fixed.sum_from(gradient.detach(), context.reach)), None


@dataclass(frozen=True, eq=False)
class Reach:
    """Distances from some nodes: `level (n,)` edges from the nearest of `nodes`, `UNREACHED` beyond all hops."""

    nodes: Tensor
    level: Array

    def within(self, steps: int) -> Array:
        """Return the nodes that so many steps reach, ascending."""
        return np.flatnonzero(self.level <= steps)


class FixedPropagation:
    """The pooling `propagate` with constant weights: faster, and differentiable in the payload only."""

    def __init__(self, steps: TransitionMatrix, values: Tensor, hops: Sequence[float]) -> None:
        self._entries = _Entries(steps, values)
        self.matrix = self._entries.matrix
        self.hops, self.n_jobs = [float(one) for one in hops], steps.n_jobs
        self._reaches: deque[Reach] = deque(maxlen=2)  # epochs ask for the nodes that train and those that choose

    @property
    def transposed(self) -> sp.csr_array:
        """Mᵀ, made when a gradient asks for it."""
        return self._entries.transposed

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return Σ_k h_k M^k payload, `(n, d)`."""
        found: Tensor = _Pooled.apply(self, inputs)  # type: ignore[no-untyped-call]
        return found

    def sum(self, matrix: sp.csr_array, x: Array) -> Array:
        """Return Σ_k h_k matrix^k x."""
        if len(self.hops) == 1:
            alone: Array = x * x.dtype.type(self.hops[0])
            return alone
        x = np.ascontiguousarray(x)
        total, factor = x, self.hops[-1]
        for share in reversed(self.hops[:-1]):
            total = sparse_product(matrix, total, self.n_jobs, factor=factor, base=x, share=share)
            factor = 1.0
        return total

    # ------------------------------------------------------------------ some rows

    def reach(self, nodes: Tensor) -> Reach:
        """Return what paths from some nodes reach; what was asked last is kept."""
        for one in self._reaches:
            if torch.equal(one.nodes, nodes):
                return one
        level = np.full(self.matrix.shape[0], UNREACHED, np.int16)
        level[nodes.numpy()] = 0
        _spread(self.matrix.indptr, self.matrix.indices, level, np.unique(nodes.numpy()), len(self.hops) - 1)
        self._reaches.append(Reach(nodes, level))
        return self._reaches[-1]

    def at(self, inputs: Tensor, reach: Reach) -> Tensor:
        """Return the rows of Σ_k h_k M^k payload that belong to the nodes of a reach, `(k, d)`."""
        found: Tensor = _SomePooled.apply(self, inputs, reach)  # type: ignore[no-untyped-call]
        return found

    def sum_at(self, x: Array, reach: Reach) -> Array:
        """Return these rows, from the payload."""
        x = np.ascontiguousarray(x)
        total, factor = x, self.hops[-1]
        for steps in range(len(self.hops) - 2, -1, -1):
            rows, share = reach.within(steps), self.hops[steps]
            total = sparse_product(self.matrix, total, self.n_jobs, factor=factor, base=x, share=share, rows=rows)
            factor = 1.0
        found: Array = total[reach.nodes.numpy()]
        return found if len(self.hops) > 1 else found * x.dtype.type(factor)

    def sum_from(self, gradient: Tensor, reach: Reach) -> Array:
        """Return the gradient of the payload, `(n, d)`, from that of these rows, `(k, d)`."""
        given = torch.empty(self.matrix.shape[0], gradient.shape[1], dtype=gradient.dtype)
        given[reach.nodes] = 0  # a node may come twice; rows of others are never looked at
        given.index_add_(0, reach.nodes, gradient)
        base = given.numpy()
        total, factor = base, self.hops[-1]
        for steps in range(1, len(self.hops)):
            rows, share = reach.within(steps), self.hops[-1 - steps]
            known: dict[str, Any] = {"rows": rows, "level": reach.level, "near": steps - 1}
            total = sparse_product(self.transposed, total, self.n_jobs, factor=factor, base=base, share=share, **known)
            factor = 1.0
        total[reach.level >= len(self.hops)] = 0
        return total if len(self.hops) > 1 else total * base.dtype.type(factor)


def propagate_to(propagation: Callable[[Tensor], Tensor], inputs: Tensor, nodes: Tensor) -> Tensor:
    """Return what a pooling brings to some nodes, `(k, d)`; where they are few, no more is computed than they need."""
    if isinstance(propagation, FixedPropagation) and len(nodes) < _FEW * len(inputs):
        return propagation.at(inputs, propagation.reach(nodes))
    return propagation(inputs)[nodes]


def _starts(places: Array, count: int) -> Array:
    """Return where each of `count` places begins when entries are sorted by it, `(count + 1,)`."""
    return np.concatenate([[0], np.cumsum(np.bincount(places, minlength=count))])


@kernel
def _turn(indices: Array, starts: Array, back: Array) -> None:
    """Write the entries in the order of where they lead; those that lead to the same place stay in order."""
    for entry in range(len(indices)):
        place = starts[indices[entry]]
        back[place] = entry
        starts[indices[entry]] = place + 1


@kernel
def _lacking(indptr: Array, indices: Array, first: int, stop: int, added: Array) -> None:
    """Write a one behind each of some rows where no step leads from the node to itself."""
    for u in range(first, stop):
        added[u + 1] = 1
        for entry in range(indptr[u], indptr[u + 1]):
            if indices[entry] == u:
                added[u + 1] = 0


@kernel
def _with_loops(
    indptr: Array, indices: Array, starts: Array, first: int, stop: int, rows: Array, targets: Array, entries: Array
) -> None:
    """Write the entries of some ascending rows, with a step of each node to itself where there is none (entry −1)."""
    for u in range(first, stop):
        place = starts[u]
        missing = starts[u + 1] - place > indptr[u + 1] - indptr[u]
        for entry in range(indptr[u], indptr[u + 1]):
            if missing and indices[entry] > u:
                rows[place], targets[place], entries[place] = u, u, -1
                place += 1
                missing = False
            rows[place], targets[place], entries[place] = u, indices[entry], entry
            place += 1
        if missing:
            rows[place], targets[place], entries[place] = u, u, -1


@kernel
def _spread(indptr: Array, indices: Array, level: Array, edge: Array, steps: int) -> None:
    """Write how many steps lead to a node from the nearest one in `edge`, up to `steps`."""
    for step in range(1, steps + 1):
        found = np.empty(len(level), np.int64)
        count = 0
        for u in edge:
            for entry in range(indptr[u], indptr[u + 1]):
                v = indices[entry]
                if level[v] > step:
                    level[v] = step
                    found[count] = v
                    count += 1
        edge = found[:count]


@float_kernel
def _row_products(
    indptr: Array, indices: Array, above: Array, below: Array, first: int, stop: int, found: Array
) -> None:
    """Write ⟨above[u], below[v]⟩ for each step u → v of some rows."""
    for u in range(first, stop):
        for entry in range(indptr[u], indptr[u + 1]):
            v = indices[entry]
            total = 0.0
            for d in range(above.shape[1]):
                total += above[u, d] * below[v, d]
            found[entry] = total
