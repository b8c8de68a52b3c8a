# mypy: disable-error-code="import-not-found"
"""Loading by cge; the number of threads follows from the cores this process may use."""

from measure import job, measure_load

from cge.data.files.graph_files import read_graph


def load(path: str) -> tuple[int, int]:
    """Read an edge list and return (nodes, stored entries)."""
    graph = read_graph(path)
    return graph.num_nodes, len(graph.indices)


if __name__ == "__main__":
    measure_load(job(), load)
