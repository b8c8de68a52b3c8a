"""Which weighting of paths is more accurate on which graph: uniform, closed-form and learned weights, and ablations."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.estimators.cge import CGE
from cge.estimators.classifier import folds_of
from cge.estimators.configs import OuterConfig, make_estimator
from cge.estimators.encoder_options import encoder_settings
from cge.evaluation.protocol import draw_split
from cge.graph import Graph
from cge.models.path_networks import PathWeighting
from cge.sampling import Walker
from cge.targets import SingleLabel, Task
from cge.training.encoder_data import EncoderData
from studies.attempts import ATTEMPTS, attempt
from studies.cells import Cell, selected_cells
from studies.random_edges import with_random_edges

__all__ = ["GRAPHS", "METHODS", "cells", "run", "task_of"]

Array = npt.NDArray[Any]

GRAPHS = (
    "cora",
    "citeseer",
    "pubmed",
    "cora+50%",
    "cora+100%",
    "cora+200%",
    "citeseer+50%",
    "citeseer+100%",
    "citeseer+200%",
    "chameleon",
    "squirrel",
    "actor",
    "vispub",
    "debian",
    "nell-0.1",
    "nell-0.01",
    "nell-0.001",
)
_WITHOUT_FEATURES = ("vispub",)
_PER_CLASS = 20  # training labels of each class, where a data set has no split


class ConstantNetwork(PathWeighting):
    """Gives all sampled paths the same weight, A(p) = ½, whatever it is trained on."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(dim))

    def project(self, vectors: Tensor) -> Tensor:
        """Return zeros."""
        return vectors @ (0 * self.unused)[:, None]

    def score(self, projected: Tensor, length: Tensor) -> Tensor:  # noqa: ARG002 - part of the interface
        """Return zeros."""
        return projected.sum((1, 2))


METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "uniform": {"weighting": "uniform"},
    "degree": {"weighting": "degree"},
    "cosine": {"weighting": "cosine"},
    "edges": {"weighting": "edges"},
    "edges+hops": {"weighting": "edges+hops"},
    "average": {"weighting": "average"},
    "cnn": {"weighting": "cnn"},
    "lstm": {"weighting": "lstm"},
    "features only": {"weighting": "uniform", "hops": 0, "classifier": "mlp", "label_propagation": False},
    # Ablations, all with degree weights.
    "degree, mlp": {"weighting": "degree", "classifier": "mlp"},
    "degree, consistency": {"weighting": "degree", "classifier": "consistency"},
    "degree, sparse": {"weighting": "degree", "classifier": "sparse"},
    "degree, 2 hops": {"weighting": "degree", "hops": 2},
    "degree, 8 hops": {"weighting": "degree", "hops": 8},
    "degree, learned inputs": {"weighting": "degree", "inputs": "learned"},
    "degree, label propagation": {"weighting": "degree", "label_propagation": True},
    "degree, 3 estimators": {"weighting": "degree", "n_estimators": 3},
    "degree, no consistency loss": {"weighting": "degree", "classifier": "consistency", "consistency_weight": 0.0},
    "sampled, constant": {"weighting": ConstantNetwork},
    **{name: {} for name in ATTEMPTS},
}
_GROUPS = {
    "main": ("auto", "uniform", "degree", "cosine", "edges", "edges+hops", "lstm", "features only"),
    "networks": ("average", "cnn", "lstm"),
    "ablation": tuple(name for name in METHODS if name.startswith(("degree, ", "sampled, "))),
    "attempts": tuple(ATTEMPTS),
}


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study, or those of `only`: "cora", "cora/degree", "*/auto" or "cora/ablation"."""
    graphs, method = selected_cells(GRAPHS, [*METHODS, *_GROUPS], only)
    methods = _GROUPS.get(method, (method,)) if method else _GROUPS["main"]
    for seed in range(seeds):
        for graph in graphs:
            for name in methods:
                if not (name in ("cosine", "features only") and graph in _WITHOUT_FEATURES):
                    yield Cell(graph, name, seed)


@cache
def _dataset(graph: str) -> Dataset:
    return load_dataset(graph.partition("+")[0])


def task_of(cell: Cell) -> tuple[Graph, Array, Split, set[tuple[int, int]]]:
    """Return graph, labels, split and random edges of a cell; the seed draws edges, and a split where none is given."""
    data = _dataset(cell.graph)
    graph, noise = data.graph, set[tuple[int, int]]()
    percent = re.search(r"\+(\d+)%", cell.graph)
    if percent:
        graph, noise = with_random_edges(graph, int(percent[1]) / 100, cell.seed)
    labels = data.labels
    if data.splits:
        return graph, labels, data.splits[cell.seed % len(data.splits)], noise
    labels, split = draw_split(labels, _PER_CLASS, cell.seed)
    return graph, labels, split, noise


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    graph, labels, split, noise = task_of(cell)
    if cell.method in ATTEMPTS:
        return _run_attempt(cell, graph, labels, split)
    start = time.process_time()  # of this process, since others may run at the same time
    y, validation = (np.where(_mask(nodes, len(labels)), labels, -1) for nodes in (split.train, split.validation))
    settings = {**METHODS[cell.method], "random_state": cell.seed, "n_jobs": 1}
    model = make_estimator(CGE, settings).fit(graph, y, validation)
    seconds = time.process_time() - start
    ids = graph.node_ids
    row = {
        "test": model.score(ids[split.test], labels[split.test]),
        "validation": model.score(ids[split.validation], labels[split.validation]),
        "n_test": len(split.test),
        "labels": model.labels_seen_,
        "weighting": model.weighting_,
        "classifiers": model.classifiers_,
        "label_propagation": model.label_propagation_,
        "prior_correction": model.prior_correction_,
        "seconds": round(seconds, 1),
        "search_results": model.search_results_,
        "weight_parameters": model.weight_parameters_,
    }
    if noise:
        row["noise_auc"] = _noise_auc(model, graph, noise, cell.seed)
    return row


def _run_attempt(cell: Cell, graph: Graph, labels: Array, split: Split) -> dict[str, Any]:
    """Run a variant of learned weightings, without label propagation."""
    start = time.process_time()
    seed, train, validation = cell.seed, torch.tensor(split.train), torch.tensor(split.validation)
    folds = [torch.from_numpy(fold) for fold in folds_of(labels, split.train, OuterConfig().n_folds, seed)]
    codes = torch.from_numpy(labels.astype(np.int64))
    task = Task(graph, None, codes, SingleLabel(np.arange(labels.max() + 1)), train, validation, folds)
    settings = encoder_settings(CGE(weighting="edges+hops", label_propagation=False, random_state=seed), task.classes)
    probabilities, classifiers, weighting = attempt(cell.method, task, EncoderData(graph, n_jobs=1), settings)
    correct = (probabilities.argmax(1) == codes).numpy()
    return {
        "test": float(correct[split.test].mean()),
        "validation": float(correct[split.validation].mean()),
        "n_test": len(split.test),
        "labels": {"train": len(split.train), "outer": len(split.train), "validation": len(split.validation)},
        "weighting": weighting,
        "classifiers": classifiers,
        "label_propagation": False,
        "seconds": round(time.process_time() - start, 1),
    }


def _mask(nodes: Array, size: int) -> Array:
    mask = np.zeros(size, bool)
    mask[nodes] = True
    return mask


def _noise_auc(model: CGE, graph: Graph, noise: set[tuple[int, int]], seed: int) -> float:
    """Return the probability that a two-step path of true edges has a larger weight than one with a random edge."""
    walks = Walker(graph, 3, 1, seed=seed, stream=("auc",)).sample(0, graph.num_nodes)
    walks = walks[(walks >= 0).all(axis=1)]
    true = [all((min(a, b), max(a, b)) not in noise for a, b in pairwise(walk)) for walk in walks.tolist()]
    return float(roc_auc_score(true, model.path_weights(graph.node_ids[walks].tolist())))
