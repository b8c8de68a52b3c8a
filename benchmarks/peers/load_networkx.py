# mypy: ignore-errors
"""Loading by NetworkX, whose graph becomes a SciPy matrix."""

import networkx as nx
from measure import job, measure_load

TASK = job()


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    kind = int if TASK["kind"] == "integers" else str
    graph = nx.read_edgelist(path, delimiter="\t", nodetype=kind, data=False)
    matrix = nx.to_scipy_sparse_array(graph, dtype="int8", weight=None)
    return matrix.shape[0], matrix.nnz


if __name__ == "__main__":
    measure_load(TASK, load)
