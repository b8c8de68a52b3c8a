# mypy: ignore-errors
"""Walks by DGL (backend PyTorch). Threads are set by OMP_NUM_THREADS."""

import os

os.environ["DGLBACKEND"] = "pytorch"

import dgl
import numpy as np
import torch
from measure import arrays, job, measure_walks


def main() -> None:
    """Do the job."""
    task = job()
    torch.set_num_threads(task["n_jobs"])
    indptr, indices = (torch.from_numpy(array.astype(np.int64)) for array in arrays(task["graph"]))
    graph = dgl.graph(("csr", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats("csr")
    steps = task["length"] - 1

    def walk(starts):
        nodes = torch.from_numpy(starts)
        if task["p"] == task["q"] == 1:
            return dgl.sampling.random_walk(graph, nodes, length=steps)[0]
        return dgl.sampling.node2vec_random_walk(graph, nodes, task["p"], task["q"], steps)

    measure_walks(task, walk, lambda walks: walks.numpy())


if __name__ == "__main__":
    main()
