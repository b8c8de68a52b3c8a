# mypy: ignore-errors
"""DeepWalk by PecanPy: its first-order walks, then gensim on them with the settings that PecanPy gives it."""

import numpy as np
from measure import job, measure_deepwalk

TASK = job()


def deepwalk(seed):
    """Read the edge list and return vectors in the order of its numbers."""
    from pecanpy import pecanpy

    graph = pecanpy.FirstOrderUnweighted(p=1, q=1, workers=TASK["n_jobs"], random_state=seed)
    graph.read_edg(TASK["integers"], weighted=False, directed=False, delimiter="\t")
    vectors = graph.embed(
        dim=TASK["dim"], num_walks=TASK["walks"], walk_length=TASK["length"] - 1, window_size=TASK["window"]
    )
    return vectors[np.argsort(np.array(graph.nodes, np.int64))]


if __name__ == "__main__":
    measure_deepwalk(TASK, __file__, deepwalk)
