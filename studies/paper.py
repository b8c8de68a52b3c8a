"""The paper's algorithm: how its accuracy depends on outer steps, supervised gradient, random edges, and an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.estimators.configs import make_estimator
from cge.estimators.methods import find_method
from cge.estimators.paper_cge import PaperCGE, StageLabels
from cge.evaluation.protocol import run_once, split_of
from cge.models.path_networks import PathTree, PathWeighting
from cge.sampling import Walker, subpaths
from cge.training.paper_inner import MIN_PATH_NODES
from studies.cells import Cell, selected_cells
from studies.random_edges import with_random_edges
from studies.tables import read_table

__all__ = [
    "BOUNDS",
    "GRAPHS",
    "METHODS",
    "REVISION",
    "OraclePaperCGE",
    "cells",
    "current",
    "methods_of",
    "run",
    "same_class_auc",
]

Array = npt.NDArray[Any]

_NOISE = "+100%"  # suffix of graphs with as many random edges as edges; the seed draws them
GRAPHS = ("cora", "citeseer", f"cora{_NOISE}", f"citeseer{_NOISE}")
REVISION = 1  # raised when code changes the results: the cells are run again
OUTER_STEPS = (2, 8, 20, 84)  # updates of the weighting per epoch; table 2 has 32, one for each batch of walks
STRENGTHS = (0.0, 10.0)  # of the supervised gradient of the vectors; table 2 has 1, the paper's
SAME_CLASS = "same-class paths"
_AUC_PATHS = 8192  # sampled paths whose weights are compared

TABLE_2 = {  # rows of table 2 that belong to this study, and what they are here
    "planetoid-t": "strength 1",
    "cge-t-lstm": "strength 1, 32 outer steps",
    "planetoid-i": "strength 1",
    "cge-i-lstm": "strength 1, 32 outer steps",
}

_Methods = dict[str, tuple[str, dict[str, Any]]]  # name → method of table 2 and changed settings


def _bounds(letter: str) -> _Methods:
    """Return the variants of CGE-T or CGE-I that see all labels."""
    learned = f"cge-{letter}-lstm"
    return {f"{learned}, oracle": (learned, {}), f"cge-{letter}, {SAME_CLASS}": (learned, {"outer_steps": 1})}


def _variants(letter: str) -> _Methods:
    """Return the variants of CGE-T or CGE-I that change its settings."""
    learned, uniform = f"cge-{letter}-lstm", f"planetoid-{letter}"
    methods: _Methods = {}
    for strength in STRENGTHS:
        for method in (uniform, learned):
            methods[f"{method}, strength {strength:g}"] = (method, {"supervised_strength": strength})
    for steps in OUTER_STEPS:
        methods[f"{learned}, {steps} outer steps"] = (learned, {"outer_steps": steps})
    methods[f"{uniform}, sgd"] = (uniform, {"optimizer": "sgd"})
    methods[f"{learned}, sgd"] = (learned, {"optimizer": "sgd"})
    return methods


_TABLE_2_METHODS: _Methods = {f"{name}, {variant}": (name, {}) for name, variant in TABLE_2.items()}
BOUNDS = _bounds("t") | _bounds("i")
_VARIANTS = _variants("t") | _variants("i")
METHODS = _TABLE_2_METHODS | _VARIANTS | BOUNDS


def methods_of(graph: str) -> _Methods:
    """Return the methods of a graph that are run here: where it is one of table 2, its rows are taken from there."""
    return _TABLE_2_METHODS | BOUNDS if graph.endswith(_NOISE) else _VARIANTS | BOUNDS


class SameClassPaths(PathWeighting):
    """Gives paths between two nodes of the same class the weight 0.9, others 0.09; nothing is learned.

    `labels (n,)` are the labels of all nodes, those of test nodes included.
    """

    def __init__(self, labels: Array, dim: int) -> None:
        super().__init__()
        self.labels, self.unused = labels, nn.Parameter(torch.zeros(dim))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:  # noqa: ARG002 - part of the interface
        """Return zeros."""
        return (projected @ (0 * self.unused)).sum(1)

    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:  # noqa: ARG002
        """Return the weight of each path, by the labels of its first and last node."""
        endpoints = tree.nodes[np.arange(len(tree)), tree.length - 1]
        start_labels = self.labels[tree.nodes[:, 0]]
        same = (start_labels == self.labels[endpoints]) & (start_labels >= 0)
        return np.where(same, 0.9, 0.09).astype(np.float32)


class OraclePaperCGE(PaperCGE):
    """`PaperCGE` whose weighting network learns from all labels of a graph except those that train the vectors.

    The bound of what a weighting could gain with this network and rule: it sees validation and test labels.
    """

    outer_codes: ClassVar[Any] = None  # of all labels, −1 for unknown

    def _outer_labels(self, codes: Array, train_idx: Array, validation_idx: Array) -> StageLabels:
        outer = np.setdiff1d(np.flatnonzero(self.outer_codes >= 0), train_idx)
        known = codes.copy()
        known[outer] = self.outer_codes[outer]
        return StageLabels(known, train_idx, validation_idx, [outer], outer_only=True)


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study, or those of `only`: "cora", "cora/cge-t-lstm, oracle" or "*/planetoid-t, sgd"."""
    graphs, method = selected_cells(GRAPHS, METHODS, only)
    for seed in range(seeds):
        for graph in graphs:
            yield from (Cell(graph, name, seed) for name in methods_of(graph) if method in ("", name))


@cache
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def data_of(cell: Cell) -> Dataset:
    """Return the data set of a cell, with its random edges."""
    data = _dataset(cell.graph.removesuffix(_NOISE))
    if not cell.graph.endswith(_NOISE):
        return data
    return replace(data, graph=with_random_edges(data.graph, 1.0, cell.seed)[0])


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell that differ from the defaults: those of table 2, and those of the variant."""
    method, changed = METHODS[cell.method]
    settings = read_table("table2").settings_of(cell.graph.removesuffix(_NOISE), method) | changed
    if "optimizer" in changed:
        settings.pop("head_lr", None)  # which table 2 selects for Adam
    return settings


def same_class_auc(model: PaperCGE, labels: Array) -> float:
    """Return the probability that a path between two nodes of the same class has a larger weight than another path."""
    graph, window = model.graph_, model.window
    walks = Walker(graph, window, 1, seed=0, stream=("auc",)).sample(0, graph.num_nodes)
    paths = subpaths(walks, window, shortest=MIN_PATH_NODES)
    chosen = np.arange(0, len(paths), max(1, len(paths) // _AUC_PATHS))
    label_pairs = labels[paths.start[chosen]], labels[paths.endpoint[chosen]]
    known = (label_pairs[0] >= 0) & (label_pairs[1] >= 0)
    nodes = [graph.node_ids[paths.nodes[path, : paths.length[path]]].tolist() for path in chosen[known]]
    return float(roc_auc_score((label_pairs[0] == label_pairs[1])[known], model.path_weights(nodes)))


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    data, split = split_of(data_of(cell), cell.seed)
    settings, method = settings_of(cell), find_method(METHODS[cell.method][0])
    oracle = cell.method.endswith(", oracle")
    fixed: dict[str, Any] = {"random_state": cell.seed, "n_jobs": 1}
    if cell.method.endswith(f", {SAME_CLASS}"):
        fixed["weighting"] = partial(SameClassPaths, data.labels)
    model = make_estimator(OraclePaperCGE if oracle else PaperCGE, settings | dict(method.settings) | fixed)
    if oracle:
        model.outer_codes = data.labels
    row = run_once(model, data, split)
    last = model.history_[-1]
    result = {
        "settings": settings,
        "revision": REVISION,
        "test": row["metrics"]["accuracy"],
        "validation": max(epoch.validation_accuracy for epoch in model.history_),
        "weight_mean": last.weight_mean,
        "weight_std": last.weight_std,
    }
    if isinstance(model.weighting, str) and model.weighting != "uniform":
        result["auc"] = same_class_auc(model, data.labels)
    return row | result


def current(cell: Cell, row: dict[str, Any]) -> bool:
    """Return whether a stored cell has the present settings and revision."""
    known = cell.graph in GRAPHS and cell.method in methods_of(cell.graph)
    return known and row.get("revision", 0) >= REVISION and bool(row.get("settings") == settings_of(cell))
