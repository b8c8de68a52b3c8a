# mypy: ignore-errors
"""Loading by csrgraph."""

import csrgraph
from measure import job, measure_load


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    graph = csrgraph.read_edgelist(path, directed=False, sep="\t", header=None)
    return graph.nnodes, len(graph.dst)


if __name__ == "__main__":
    measure_load(job(), load)
