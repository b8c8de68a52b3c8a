# mypy: ignore-errors
"""Loading by PecanPy into the rows that its walks use; all ids are strings to it."""

from measure import job, measure_load
from pecanpy import pecanpy


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    graph = pecanpy.SparseOTF()
    graph.read_edg(path, weighted=False, directed=False, delimiter="\t")
    return graph.num_nodes, len(graph.indices)


if __name__ == "__main__":
    measure_load(job(), load)
