# mypy: ignore-errors
"""Loading by pandas (and its factorize for strings), SciPy builds the rows."""

import numpy as np
import pandas as pd
import scipy.sparse as sp
from measure import job, measure_load

TASK = job()


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    kind = np.int32 if TASK["kind"] == "integers" else str
    table = pd.read_csv(path, sep="\t", header=None, names=["source", "target"], dtype=kind)
    both = pd.concat([table["source"], table["target"]], ignore_index=True)
    if TASK["kind"] == "strings":
        codes, names = pd.factorize(both)
        size = len(names)
    else:
        codes = both.to_numpy()
        size = int(codes.max()) + 1
    source, target = codes[: len(table)], codes[len(table) :]
    ones = np.ones(len(codes), np.int8)
    matrix = sp.coo_array((ones, (codes, np.concatenate([target, source]))), shape=(size, size)).tocsr()
    return size, matrix.nnz


if __name__ == "__main__":
    measure_load(TASK, load)
