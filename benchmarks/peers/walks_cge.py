# mypy: disable-error-code="import-not-found"
"""Walks by cge: taken batch by batch, as its users do; making the sampler is part of the measured time."""

import numpy as np
from measure import Array, arrays, job, measure_walks

from cge.graph import Graph
from cge.sampling.walks import Walker


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    graph = Graph(indptr, indices, np.arange(len(indptr) - 1))

    def walk(starts: Array) -> Array:
        n_augmentations, rest = divmod(len(starts), graph.num_nodes)
        walker = Walker(
            graph,
            task["length"],
            walks_per_node=1 if rest else n_augmentations,
            starts=starts if rest else None,  # whole passes start at every node
            p=task["p"],
            q=task["q"],
            n_jobs=task["n_jobs"],
        )
        count, batch = 0, np.empty((0, 0), np.int32)
        for batch in walker.batches():
            count += len(batch)
        if count != len(starts):
            raise SystemExit(f"got {count} walks, expected {len(starts)}")
        return batch

    measure_walks(task, walk, lambda batch: batch)


if __name__ == "__main__":
    main()
