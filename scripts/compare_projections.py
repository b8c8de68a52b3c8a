"""Compare random projections of walks with DeepWalk as node inputs, by logistic regression on the vectors alone.

The penalty is selected on validation nodes (single-label) or fixed (BlogCatalog, half of the nodes train; the number of
labels of a test node is known, as in the DeepWalk paper).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier

import cge
from cge.data.stored import ingest
from cge.engine import LocalEngine
from cge.training.walk_projections import add_projections


def projections(graph: cge.Graph, seed: int, dim: int = 128) -> Any:
    """Return the projections of a graph, `(n, dim)`."""
    with TemporaryDirectory() as folder:
        source, target = sp.triu(graph.to_scipy()).nonzero()
        pq.write_table(pa.table({"source": source, "target": target}), f"{folder}/edges.parquet")
        pq.write_table(pa.table({"node": np.arange(len(graph))}), f"{folder}/nodes.parquet")
        stored = ingest(f"{folder}/edges.parquet", f"{folder}/graph", nodes=f"{folder}/nodes.parquet")
        where = {"work": Path(folder) / "work", "engine": LocalEngine(1), "memory": 4 << 30}
        return np.array(add_projections(stored, dim, **where, seed=seed).load().features)  # type: ignore[arg-type]


def deepwalk(graph: cge.Graph, seed: int) -> Any:
    """Return DeepWalk vectors, `(n, 128)`."""
    return cge.DeepWalk(dim=128, random_state=seed).fit(graph).embedding_


def unit_rows(vectors: Any) -> Any:
    """Return vectors with centered and scaled columns and rows of unit length."""
    x = (vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-12)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def single_label_scores(x: Any, y: Any, train: Any, scored: Any) -> dict[float, float]:
    """Return the accuracy of logistic regression on some nodes for each value of C."""
    models = {c: LogisticRegression(C=c, max_iter=300).fit(x[train], y[train]) for c in (0.1, 1, 10, 100)}
    return {c: float(model.score(x[scored], y[scored])) for c, model in models.items()}


def multilabel_score(x: Any, y: Any, train: Any, scored: Any) -> float:
    """Return the micro-F1 of logistic regressions on some nodes, whose numbers of labels are known."""
    model = OneVsRestClassifier(LogisticRegression(C=10, max_iter=200)).fit(x[train], y[train])
    probabilities, predicted = model.predict_proba(x[scored]), np.zeros_like(y[scored])
    for row, count in enumerate(y[scored].sum(axis=1).astype(int)):
        predicted[row, np.argsort(-probabilities[row])[:count]] = 1
    return float(f1_score(y[scored], predicted, average="micro"))


def score(vectors: Any, data: Any, seed: int) -> float:
    """Return test accuracy, or micro-F1 in a multilabel task."""
    x, y, split = unit_rows(vectors), data.labels, data.split
    if y.ndim == 1:
        validation = single_label_scores(x, y, split.train, split.validation)
        best = max(validation, key=lambda c: validation[c])
        return single_label_scores(x, y, split.train, split.test)[best]
    order = np.random.default_rng(seed).permutation(len(x))
    return multilabel_score(x, y, order[: len(x) // 2], order[len(x) // 2 :])


def main() -> None:
    """Print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="*", default=["cora", "pubmed", "blogcatalog"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=["projections", "DeepWalk"], help="others keep their results")
    parser.add_argument("--out", default="results/projections.json")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    results: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name in arguments.datasets:
        data = cge.load_dataset(name)
        makers: dict[str, Any] = {"projections": projections, "DeepWalk": deepwalk}
        for method in arguments.methods:
            scores, seconds = [], []
            for seed in range(arguments.seeds):
                start = time.process_time()
                vectors = np.asarray(makers[method](data.graph, seed), np.float64)
                seconds.append(time.process_time() - start)
                scores.append(score(vectors, data, seed))
            results.setdefault(name, {})[method] = {"scores": scores, "cpu_seconds": seconds}
            print(name, method, f"{np.mean(scores):.4f}", f"{np.mean(seconds):.1f} CPU seconds", flush=True)
            out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
