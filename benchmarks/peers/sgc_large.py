"""SGC in memory on a graph on disk: features propagated by SciPy or PyG, then scikit-learn's logistic regression.

    python sgc_large.py scipy|pyg FOLDER

prints the accuracy on the test nodes. Neither reads the graph in parts, so both need all of it in memory.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

HOPS = 4


def main() -> None:
    """Propagate, train and score."""
    tool, folder = sys.argv[1], Path(sys.argv[2])
    edges = [pq.read_table(path) for path in sorted(folder.glob("edges-*.parquet"))]
    edge_index = np.stack(
        [np.concatenate([table[name].to_numpy() for table in edges]) for name in ("source", "target")]
    )
    del edges
    x = (scipy_sgc if tool == "scipy" else pyg_sgc)(edge_index, np.load(folder / "x.npy"))
    (train, y), (test, expected) = (labels(folder / f"{name}.csv") for name in ("labels", "test"))
    model = LogisticRegression(C=100, max_iter=300).fit(x[train], y)
    print(model.score(x[test], expected))


def scipy_sgc(edge_index: Any, x: Any) -> Any:
    """Return S^K X with S = D^(−½) (A + I) D^(−½)."""
    import scipy.sparse as sp

    count, (source, target) = len(x), edge_index
    half = sp.csr_array((np.ones(len(source), np.float32), (source, target)), shape=(count, count))
    rows = half + half.T + sp.eye_array(count, dtype=np.float32, format="csr")
    rows.data[:] = 1
    scale = sp.diags_array(1 / np.sqrt(np.asarray(rows.sum(axis=1)).ravel())).astype(np.float32)
    rows = sp.csr_array(scale @ rows @ scale)
    for _ in range(HOPS):
        x = rows @ x
    return x


def pyg_sgc(edge_index: Any, x: Any) -> Any:
    """Return the same with the sparse matrix of PyG, without a row for each edge."""
    import torch
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import coalesce, to_torch_csr_tensor, to_undirected

    edges = coalesce(to_undirected(torch.from_numpy(edge_index)))
    edges, weights = gcn_norm(edges, num_nodes=len(x))
    rows, features = to_torch_csr_tensor(edges, weights, (len(x), len(x))), torch.from_numpy(x)
    for _ in range(HOPS):
        features = rows @ features
    return features.numpy()


def labels(path: Path) -> tuple[Any, Any]:
    """Return nodes and classes of a file."""
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    return np.array([int(row["node"]) for row in rows]), np.array([row["label"] for row in rows])


if __name__ == "__main__":
    main()
