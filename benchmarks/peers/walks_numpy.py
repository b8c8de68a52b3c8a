# mypy: disable-error-code="import-not-found"
"""Uniform walks with NumPy alone: all walks in lock-step, one vectorized step after the other.

Blocks of 2,048 to 262,144 walks, 64-bit arrays and another generator were tried: none was faster on all graphs.
"""

import numpy as np
from measure import Array, arrays, job, measure_walks


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    first, degree = indptr[:-1].astype(np.int32), np.diff(indptr).astype(np.int32)
    random = np.random.default_rng(0)

    def walk(starts: Array) -> Array:
        walks = np.empty((task["length"], len(starts)), np.int32)
        walks[0] = now = starts
        for step in range(1, task["length"]):
            now = indices[first[now] + (random.random(len(now)) * degree[now]).astype(np.int32)]
            walks[step] = now
        return walks.T

    measure_walks(task, walk, lambda walks: walks)


if __name__ == "__main__":
    main()
