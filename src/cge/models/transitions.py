"""The transition matrix of a graph: its adjacency with a self-loop at every node, and where its entries stand."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph


class SparsityPattern:
    """The positions of the entries of a square sparse matrix, sorted by row; values are given when they are known.

    Row u has its entries in the columns `indices[indptr[u]:indptr[u+1]]`; a column may occur more than once. `rows
    (m,)` is the row of each entry.
    """

    def __init__(self, rows: Array, indices: Array, num_nodes: int, n_jobs: int | None = None) -> None:
        self.num_nodes, self.n_jobs, self.rows, self.indices = num_nodes, n_jobs, rows, indices
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_nodes))])

    def __len__(self) -> int:
        return len(self.indices)

    def matrix(self, values: Array) -> sp.csr_array:
        """Return the matrix with entries `values (m,)`."""
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def transposed(self, values: Array) -> sp.csr_array:
        """Return its transpose."""
        return self.matrix(values).T.tocsr()


class TransitionMatrix(SparsityPattern):
    """The positions of a graph's transitions: its edges, and a self-loop at every node; each row is ascending.

    `graph_entry (m,)` is the entry of the graph's own CSR rows of each transition; −1 for an added self-loop.
    """

    def __init__(self, graph: Graph, n_jobs: int | None = None) -> None:
        nodes = np.arange(graph.num_nodes)
        rows = np.repeat(nodes, np.diff(graph.indptr))
        missing = np.setdiff1d(nodes, rows[rows == graph.indices])  # nodes without a self-loop
        before = np.bincount(rows[graph.indices < rows], minlength=graph.num_nodes)  # entries of a row before it
        place = (graph.indptr[:-1] + before)[missing]
        self.graph_entry = np.insert(np.arange(len(rows)), place, -1)
        rows, indices = np.insert(rows, place, missing), np.insert(graph.indices.astype(np.int64), place, missing)
        super().__init__(rows, indices, graph.num_nodes, n_jobs)
