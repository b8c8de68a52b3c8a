# mypy: disable-error-code="import-not-found"
"""Uniform walks with NumPy alone: many walks in lock-step, one vectorized step after the other."""

import numpy as np
from measure import Array, arrays, job, measure_walks

_BLOCK = 65_536  # walks in lock-step; more leave the cache, fewer make NumPy's overhead show


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    first, degree = indptr[:-1], np.diff(indptr)
    random = np.random.default_rng(0)

    def walk(starts: Array) -> Array:
        walks = np.empty((task["length"], len(starts)), np.int32)
        walks[0] = starts
        for begin in range(0, len(starts), _BLOCK):
            now = starts[begin : begin + _BLOCK]
            for step in range(1, task["length"]):
                place = first[now] + (random.random(len(now)) * degree[now]).astype(np.int64)
                now = indices[place]
                walks[step, begin : begin + _BLOCK] = now
        return walks.T

    measure_walks(task, walk, lambda walks: walks)


if __name__ == "__main__":
    main()
