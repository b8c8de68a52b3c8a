# mypy: ignore-errors
"""Loading by ensmallen into its own graph. Threads are set by RAYON_NUM_THREADS."""

import ensmallen
from measure import job, measure_load

TASK = job()


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    graph = ensmallen.Graph.from_csv(
        edge_path=path,
        edge_list_header=False,
        edge_list_separator="\t",
        sources_column_number=0,
        destinations_column_number=1,
        directed=False,
        verbose=False,
    )
    return graph.get_number_of_nodes(), graph.get_number_of_directed_edges()


if __name__ == "__main__":
    measure_load(TASK, load)
