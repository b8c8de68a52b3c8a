"""The transition matrix of a graph: its adjacency with a self-loop at every node, and where its entries stand."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.parallel import kernel, run_blocks, split_blocks

_BLOCK = 4096  # rows that a thread computes at once


class SparsityPattern:
    """The positions of the entries of a square sparse matrix, sorted by row; values are given when they are known.

    Attributes
    ----------
    indptr : (n+1,), indices : (m,)
        Row u has its entries in the columns `indices[indptr[u]:indptr[u+1]]`; a column may occur more than once.
    rows : (m,)
        The row of each entry.
    """

    def __init__(self, rows: Array, indices: Array, num_nodes: int, n_jobs: int | None = None) -> None:
        self.num_nodes, self.n_jobs, self.rows, self.indices = num_nodes, n_jobs, rows, indices
        self.indptr = _group_starts(rows, num_nodes)

    def __len__(self) -> int:
        return len(self.indices)

    def matrix(self, values: Array) -> sp.csr_array:
        """Return the matrix with entries `values (m,)`."""
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def transposed(self, values: Array) -> sp.csr_array:
        """Return its transpose."""
        order, indices, indptr = self._transposition
        return sp.csr_array((values[order], indices, indptr), shape=(self.num_nodes, self.num_nodes))

    @cached_property
    def _transposition(self) -> tuple[Array, Array, Array]:
        """The entries sorted by column: their order, their rows, and where each column starts."""
        indptr, order = _group_starts(self.indices, self.num_nodes), np.empty(len(self.indices), np.int64)
        _sort_by_column(self.indices, indptr.copy(), order)
        return order, self.rows[order], indptr


class TransitionMatrix(SparsityPattern):
    """The positions of a graph's transitions: its edges, and a self-loop at every node; each row is ascending.

    Attributes
    ----------
    graph_entry : (m,)
        Which entry of the graph's own CSR rows each transition is; −1 for a self-loop that the graph does not have.
    """

    def __init__(self, graph: Graph, n_jobs: int | None = None) -> None:
        num_nodes, blocks = graph.num_nodes, split_blocks(graph.num_nodes, _BLOCK)
        added = np.zeros(num_nodes + 1, np.int64)  # 1 after each row that gets a self-loop

        def count(first: int, stop: int) -> None:
            _count_missing_loops(graph.indptr, graph.indices, first, stop, added)

        run_blocks(count, blocks, n_jobs)
        starts = graph.indptr + np.cumsum(added)
        rows, indices, self.graph_entry = (np.empty(starts[-1], np.int64) for _ in range(3))

        def write(first: int, stop: int) -> None:
            _write_with_loops(graph.indptr, graph.indices, starts, first, stop, rows, indices, self.graph_entry)

        run_blocks(write, blocks, n_jobs)
        super().__init__(rows, indices, num_nodes, n_jobs)


def _group_starts(groups: Array, count: int) -> Array:
    """Return where each of `count` groups starts when entries are sorted by group, `(count + 1,)`."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))])


@kernel
def _sort_by_column(indices: Array, starts: Array, order: Array) -> None:
    """Write the numbers of entries sorted by column; entries of a column keep their order."""
    for entry in range(len(indices)):
        place = starts[indices[entry]]
        order[place] = entry
        starts[indices[entry]] = place + 1


@kernel
def _count_missing_loops(indptr: Array, indices: Array, first: int, stop: int, added: Array) -> None:
    """Write 1 after each of some rows whose node has no self-loop."""
    for u in range(first, stop):
        added[u + 1] = 1
        for entry in range(indptr[u], indptr[u + 1]):
            if indices[entry] == u:
                added[u + 1] = 0


@kernel
def _write_with_loops(
    indptr: Array, indices: Array, starts: Array, first: int, stop: int, rows: Array, targets: Array, entries: Array
) -> None:
    """Write the entries of some ascending rows, with a self-loop (entry −1) where a node has none."""
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
