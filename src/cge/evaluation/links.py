"""Link prediction: a method is trained without some edges, and has to rank them above pairs that are no edges.

Takes any object with the interface of this package's estimators.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from cge.arrays import Array
from cge.data.link_split import Links, LinkSplit
from cge.evaluation.protocol import peak_mb, summarize
from cge.models.edge_features import PAIR_OPERATORS, pair_cosines, pair_vectors

_STRENGTHS = (0.01, 1.0, 100.0)  # inverse of regularization


def run_links(estimator: Any, split: LinkSplit, labels: tuple[Any, Any] | None = None) -> dict[str, Any]:
    """Train an estimator on the remaining graph, select a scorer on the validation pairs, and score the test pairs.

    `labels` are training and validation labels, for a method that learns from labels of nodes.
    """
    start = time.perf_counter()
    estimator.fit(split.graph, *(() if labels is None else labels))
    pairs, cut = np.concatenate([split.validation.pairs, split.test.pairs]), len(split.validation)
    best_auc, best_scorer, test_scores = -1.0, "", np.empty(0)
    for name, scores in _scored(estimator, split.train, pairs):
        auc = float(roc_auc_score(split.validation.linked, scores[:cut]))
        if auc > best_auc:
            best_auc, best_scorer, test_scores = auc, name, scores[cut:]
    return {
        "metrics": {
            "auc": float(roc_auc_score(split.test.linked, test_scores)),
            "ap": float(average_precision_score(split.test.linked, test_scores)),
        },
        "scorer": best_scorer,
        "n_test": len(split.test),
        "labels": dict(getattr(estimator, "labels_seen_", {"train": 0, "outer": 0, "validation": 0})),
        "edges": dict(split.edges),
        "seconds": round(time.perf_counter() - start, 2),
        "peak_mb": round(peak_mb()),
    }


def _scored(estimator: Any, train: Links, pairs: Array) -> Iterator[tuple[str, Array]]:
    """Yield the name of each scorer, the simplest first, and its scores of pairs, `(k,)`."""
    if hasattr(estimator, "link_scores"):
        yield from estimator.link_scores(pairs).items()
        return
    vectors = estimator.embedding_
    yield from zip(("dot", "cosine"), pair_cosines(vectors, pairs[:, 0], pairs[:, 1]), strict=True)
    for how in PAIR_OPERATORS:
        x, x_test = (pair_vectors(vectors, ends[:, 0], ends[:, 1], how) for ends in (train.pairs, pairs))
        mean, sd = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
        for strength in _STRENGTHS:
            model: Any = LogisticRegression(C=strength, max_iter=1000).fit((x - mean) / sd, train.linked)
            yield f"{how}, C = {strength:g}", model.decision_function((x_test - mean) / sd)


def link_summary(
    dataset: str, method: str, settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the summary of the runs of a method, for a JSON file."""
    summary = summarize(dataset, method, settings, rows)
    return summary | {"edges": rows[0]["edges"], "scorers": [row["scorer"] for row in rows]}
