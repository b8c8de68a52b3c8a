# mypy: ignore-errors
"""Uniform walks by csrgraph: the body of its `random_walks`, which on one thread fails in re-compiling itself."""

import numpy as np
from csrgraph import csrgraph
from csrgraph.random_walks import _random_walk
from measure import arrays, job, measure_walks
from scipy import sparse


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    size = len(indptr) - 1
    # 64-bit floats: in 32 bits the shares of a large row add up to less than 1 and its draw falls outside of the row.
    matrix = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(size, size))
    graph = csrgraph(matrix, n_jobs=task["n_jobs"])
    graph.normalize(return_self=True)

    def walk(starts):
        return _random_walk(graph.weights, graph.src, graph.dst, starts, task["length"])

    measure_walks(task, walk, np.asarray)


if __name__ == "__main__":
    main()
