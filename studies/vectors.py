"""Whether vectors carry what predictions use: logistic regression and nearest neighbors on the vectors alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.estimators.baselines import classify_vectors, linear_models
from cge.estimators.calibration import EnsembleScores, calibrate
from cge.estimators.cge import CGE
from cge.estimators.classifier import TaskLabels, task_labels
from cge.estimators.embeddings import DeepWalk
from cge.evaluation.protocol import split_of
from cge.metrics import accuracy_or_f1
from cge.models.sparse_products import unit_rows
from cge.randomness import generator
from studies.cells import Cell, grid_cells
from studies.import_graph import import_graph

__all__ = ["GRAPHS", "METHODS", "cells", "run"]

Array = npt.NDArray[Any]

GRAPHS = (
    *("cora", "citeseer", "pubmed", "nell-0.1", "nell-0.01", "nell-0.001", "debian", "blogcatalog", "vispub"),
    *("chameleon", "squirrel", "imports-20", "imports-10%"),
)
METHODS = ("cge", "deepwalk")
_TRAIN_SHARES = {"blogcatalog": 0.5, "imports-10%": 0.1}  # of all labels, a tenth of them validation labels
_QUERIES = 3000  # test nodes whose nearest neighbor is looked up


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Return the cells of the study, or those of `only`: "cora", "cora/cge" or "*/deepwalk"."""
    return grid_cells(GRAPHS, METHODS, only, seeds)


@cache
def _dataset(graph: str) -> Dataset:
    return import_graph() if graph.startswith("imports") else load_dataset(graph)


def task_of(graph: str, seed: int) -> tuple[Dataset, Split]:
    """Return the data set of a graph with the labels that its split covers, and the split of a seed."""
    return split_of(_dataset(graph), seed, train_share=_TRAIN_SHARES.get(graph))


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    data, split = task_of(cell.graph, cell.seed)
    y, validation = data.labels_of(split.train), data.labels_of(split.validation)
    labels, start = task_labels(data.graph, y, validation), time.process_time()
    row: dict[str, Any] = {"n_test": len(split.test), "labels": {"train": len(split.train), "outer": 0}}
    row["labels"]["validation"] = len(split.validation)
    if cell.method == "cge":
        model = CGE(random_state=cell.seed, n_jobs=1).fit(data.graph, y, validation)
        vectors = model.embedding_
        row |= {
            "labels": model.labels_seen_,
            "model": _score(model.predict_proba(), labels, split.test, data),
            "weighting": model.weighting_,
            "classifiers": model.classifiers_,
            "label_propagation": model.label_propagation_,
            "prior_correction": model.prior_correction_,
        }
    else:
        vectors = DeepWalk(random_state=cell.seed, n_jobs=1).fit(data.graph).embedding_
    seconds = time.process_time() - start
    probabilities, strength = classify_vectors(vectors, labels)
    row |= {
        "test": _score(probabilities, labels, split.test, data),
        "validation": _score(probabilities, labels, split.validation, data),
        "C": strength,
        "neighbors": neighbor_agreement(vectors, data.labels, split.test, cell.seed),
        "dim": int(vectors.shape[1]),
        "seconds": round(seconds, 1),
    }
    if not data.multilabel:
        corrected, strength = corrected_regression(vectors, labels)
        row |= {"test, prior corrected": _score(corrected, labels, split.test, data), "C, prior corrected": strength}
    return row


def _score(probabilities: Array, labels: TaskLabels, nodes: Array, data: Dataset) -> float:
    expanded = np.zeros((len(nodes), data.num_classes))
    expanded[:, labels.classes] = probabilities[nodes]
    return accuracy_or_f1(expanded, data.labels[nodes])


def corrected_regression(vectors: Array, labels: TaskLabels) -> tuple[Array, float]:
    """Return probabilities `(n, c)` by logistic regression on vectors with the prior correction of `CGE`, and its C.

    C is the most accurate on the validation labels after the correction, which is cross-fitted for this comparison.
    """
    train, validation = labels.train, labels.validation
    y, y_train = labels.codes[validation], labels.codes[train]
    best: tuple[float, Array, float] = (-1.0, np.empty(0), 0.0)
    for strength, probabilities in linear_models(unit_rows(vectors), labels).items():
        scores = np.log(np.maximum(probabilities, 1e-30))
        train_part = EnsembleScores([scores[train]]), y_train
        cross_fitted, _, shift = calibrate(
            EnsembleScores([scores[validation]]), y, labels.target, train_part, always=True
        )
        accuracy = labels.target.score(cross_fitted, y)
        if accuracy > best[0]:
            best = accuracy, scores if shift is None else scores + shift, strength
    return labels.target.outputs(best[1]), best[2]


def neighbor_agreement(vectors: Array, labels: Array, nodes: Array, seed: int) -> float:
    """Return how often the nearest labeled node by cosine similarity has the same class (a common one)."""
    labeled = np.flatnonzero(labels >= 0 if labels.ndim == 1 else labels.any(axis=1))
    if len(nodes) > _QUERIES:
        nodes = np.sort(generator(seed, "queries").choice(nodes, _QUERIES, replace=False))
    unit = unit_rows(vectors)
    own, agree = np.searchsorted(labeled, nodes), []
    for first in range(0, len(nodes), 256):
        queries = nodes[first : first + 256]
        similarity = unit[queries] @ unit[labeled].T
        similarity[np.arange(len(queries)), own[first : first + 256]] = -np.inf
        nearest = labeled[similarity.argmax(axis=1)]
        same = labels[nearest] == labels[queries] if labels.ndim == 1 else (labels[nearest] * labels[queries]).any(1)
        agree.append(same)
    return float(np.concatenate(agree).mean())
