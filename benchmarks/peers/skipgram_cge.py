# mypy: disable-error-code="import-not-found"
"""Skip-gram by cge: `pairs` samples its walks within the measured time, `deepwalk` is its estimator on an edge list."""

from collections.abc import Callable

import numpy as np
from measure import Array, arrays, job, measure_deepwalk, measure_pairs

TASK = job()


def pairs() -> None:
    """Measure training."""
    from cge.graph import Graph
    from cge.sampling import Walker
    from cge.training.walk_embedding import embed_walks

    indptr, indices = arrays(TASK["graph"])
    graph = Graph(indptr, indices, np.arange(len(indptr) - 1))
    settings = {name: TASK[name] for name in ("dim", "window", "negatives", "n_jobs")}

    def prepare(seed: int) -> Callable[[], tuple[Array, float]]:
        def work() -> tuple[Array, float]:
            n_jobs = TASK["n_jobs"]
            walker = Walker(graph, TASK["length"], TASK["walks"], seed=seed, n_jobs=n_jobs, shuffle=True)
            return embed_walks(walker, **settings, seed=seed)

        return work

    few = Walker(graph, TASK["length"], 1, starts=range(2), shuffle=True)
    embed_walks(few, **settings)  # compiles
    measure_pairs(TASK, prepare)


def deepwalk(seed: int) -> Array:
    """Read the edge list and return vectors in the order of its numbers."""
    import cge
    from cge.data.files.graph_files import read_graph

    graph = read_graph(TASK["integers"])
    model = cge.DeepWalk(
        TASK["dim"],
        walk_length=TASK["length"],
        walks_per_node=TASK["walks"],
        window=TASK["window"],
        negatives=TASK["negatives"],
        random_state=seed,
        n_jobs=TASK["n_jobs"],
    ).fit(graph)
    return model.transform(range(TASK["nodes"]))


if __name__ == "__main__":
    if TASK["kind"] == "pairs":
        pairs()
    else:
        measure_deepwalk(TASK, __file__, deepwalk)
