# mypy: disable-error-code="import-not-found"
"""Loading by PyArrow's CSV reader (and its dictionary encoding of strings), SciPy builds the rows."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse as sp
from measure import job, measure_load

TASK = job()


def load(path: str) -> tuple[int, int]:
    """Read an edge list and return (nodes, stored entries)."""
    table = pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(column_names=["source", "target"], use_threads=TASK["n_jobs"] > 1),
        pa.csv.ParseOptions(delimiter="\t"),
    )
    both = pa.chunked_array(table["source"].chunks + table["target"].chunks)
    if TASK["kind"] == "strings":
        encoded = both.dictionary_encode().combine_chunks()
        codes, size = encoded.indices.to_numpy(), len(encoded.dictionary)
    else:
        codes = both.to_numpy().astype(np.int32)
        size = int(codes.max()) + 1
    source, target = codes[: len(codes) // 2], codes[len(codes) // 2 :]
    ones = np.ones(len(codes), np.int8)
    matrix = sp.coo_array((ones, (codes, np.concatenate([target, source]))), shape=(size, size)).tocsr()
    return size, matrix.nnz


if __name__ == "__main__":
    pa.set_cpu_count(TASK["n_jobs"])
    measure_load(TASK, load)
