# mypy: ignore-errors
"""Walks by fastnode2vec, one call per walk, as its own training does. It has no setting for threads.

The graph's arrays are set directly: its constructor takes minutes for 10 M edges and builds the same arrays.
"""

import numpy as np
from fastnode2vec import Graph
from measure import arrays, job, measure_walks


def main() -> None:
    """Do the job."""
    task = job()
    graph = Graph([(0, 1)], directed=False, weighted=False, verbose=False)
    graph.indptr, graph.indices = arrays(task["graph"])
    graph.node_names = np.arange(len(graph.indptr) - 1)

    def walk(starts):
        return [graph.generate_random_walk(task["length"], task["p"], task["q"], start) for start in starts]

    measure_walks(task, walk, np.array)


if __name__ == "__main__":
    main()
