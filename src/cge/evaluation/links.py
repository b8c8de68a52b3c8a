"""Link prediction: a method sees a graph without some edges, and has to tell them from pairs that are none.

Takes anything that behaves like an estimator of this package, and knows none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from cge.data.link_split import Links, LinkSplit
from cge.evaluation.protocol import peak_mb, summary
from cge.models.node_pairs import PAIR_OPERATORS, pair_cosines, pair_vectors

__all__ = ["link_summary", "run_links"]

Array = npt.NDArray[Any]

_STRENGTHS = (0.01, 1.0, 100.0)  # inverse of regularization


def run_links(estimator: Any, split: LinkSplit, labels: tuple[Any, Any] | None = None) -> dict[str, Any]:
    """Train an estimator on what is left of a graph, let validation pairs choose a scorer, and score the test pairs.

    `labels` are those that train and those that choose, for a method that learns from labels of nodes.
    """
    began = time.perf_counter()
    estimator.fit(split.graph, *(() if labels is None else labels))
    pairs, cut = np.concatenate([split.validation.pairs, split.test.pairs]), len(split.validation)
    best, chosen, scores = -1.0, "", np.empty(0)
    for name, found in _scored(estimator, split.train, pairs):
        auc = float(roc_auc_score(split.validation.linked, found[:cut]))
        if auc > best:
            best, chosen, scores = auc, name, found[cut:]
    return {
        "metrics": {
            "auc": float(roc_auc_score(split.test.linked, scores)),
            "ap": float(average_precision_score(split.test.linked, scores)),
        },
        "scorer": chosen,
        "n_test": len(split.test),
        "labels": dict(getattr(estimator, "labels_seen_", {"train": 0, "outer": 0, "selection": 0})),
        "edges": dict(split.edges),
        "seconds": round(time.perf_counter() - began, 2),
        "peak_mb": round(peak_mb()),
    }


def _scored(estimator: Any, train: Links, pairs: Array) -> Iterator[tuple[str, Array]]:
    """Yield ways to score pairs, the simplest first, and the scores, `(k,)`."""
    if hasattr(estimator, "link_scores"):
        yield from estimator.link_scores(pairs).items()
        return
    vectors = estimator.embedding_
    yield from zip(("dot", "cosine"), pair_cosines(vectors, pairs[:, 0], pairs[:, 1]), strict=True)
    for how in PAIR_OPERATORS:
        known, asked = (pair_vectors(vectors, some[:, 0], some[:, 1], how) for some in (train.pairs, pairs))
        center, spread = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)
        for strength in _STRENGTHS:
            model: Any = LogisticRegression(C=strength, max_iter=1000).fit((known - center) / spread, train.linked)
            yield f"{how}, C = {strength:g}", model.decision_function((asked - center) / spread)


def link_summary(
    dataset: str, method: str, settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the runs of a method come to, as JSON holds it."""
    found = summary(dataset, method, settings, rows)
    return found | {"edges": rows[0]["edges"], "scorers": [row["scorer"] for row in rows]}
