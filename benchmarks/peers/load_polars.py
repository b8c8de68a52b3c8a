# mypy: ignore-errors
"""Loading by Polars (and its enumeration of strings), SciPy builds the rows. Threads are set by POLARS_MAX_THREADS."""

import numpy as np
import polars as pl
import scipy.sparse as sp
from measure import job, measure_load

TASK = job()


def load(path):
    """Read an edge list and return (nodes, stored entries)."""
    kind = pl.Int32 if TASK["kind"] == "integers" else pl.String
    table = pl.read_csv(path, separator="\t", has_header=False, schema={"source": kind, "target": kind})
    both = pl.concat([table["source"], table["target"].alias("source")], rechunk=True)
    if TASK["kind"] == "strings":
        names = both.unique()
        codes, size = both.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32), len(names)
    else:
        codes = both.to_numpy()
        size = int(codes.max()) + 1
    source, target = codes[: len(table)], codes[len(table) :]
    ones = np.ones(len(codes), np.int8)
    matrix = sp.coo_array((ones, (codes, np.concatenate([target, source]))), shape=(size, size)).tocsr()
    return size, matrix.nnz


if __name__ == "__main__":
    measure_load(TASK, load)
