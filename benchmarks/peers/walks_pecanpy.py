# mypy: ignore-errors
"""Walks by PecanPy: the body of its `simulate_walks`, with its compiled functions cached between calls.

`simulate_walks` compiles again in each call, which is not what is measured here. Walks come as lists of node names, as
its users get them. Threads are set by NUMBA_NUM_THREADS. node2vec's tables of all pairs of edges (`PreComp`) are used
where they fit in 2 GB, otherwise probabilities are computed at each step (`SparseOTF`).
"""

import tempfile
from pathlib import Path

import numpy as np
from measure import arrays, job, measure_walks
from numba_progress import ProgressBar
from pecanpy import pecanpy

_TABLE_BYTES = 2e9


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    if task["p"] == task["q"] == 1:
        kind = pecanpy.FirstOrderUnweighted
    else:
        entries = np.square(np.diff(indptr).astype(np.float64)).sum()
        kind = pecanpy.PreComp if entries * 8 < _TABLE_BYTES else pecanpy.SparseOTF
    graph = kind(p=task["p"], q=task["q"], workers=task["n_jobs"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        nodes = np.arange(len(indptr) - 1).astype(str)
        np.savez(path, IDs=nodes, data=np.ones(len(indices), np.float32), indptr=indptr, indices=indices)
        graph.read_npz(str(path), weighted=False)
    graph._preprocess_transition_probs()
    move_forward, has_nbrs = graph.get_move_forward(), graph.get_has_nbrs()

    def walk(starts):
        steps = task["length"] - 1
        with ProgressBar(total=len(starts), disable=True) as progress:
            matrix = graph._random_walks(
                len(starts), steps, None, starts.astype(np.uint32), has_nbrs, move_forward, progress
            )
        return [graph._map_walk(row) for row in matrix]

    measure_walks(task, walk, lambda walks: np.array(walks).astype(np.int64))


if __name__ == "__main__":
    main()
