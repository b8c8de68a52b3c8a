"""The paper's five analyses of path weights, cell by cell.

A cell is an analysis with an outer rule ("length, unrolled"), a data set and a seed. It trains CGE-LSTM and analyzes
the weights of the paths in the first walk of each node, which are paths that training used. The same paths are also
weighted by the untrained network, at the same vectors: what holds there as well was not learned.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.data import mask_labels
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.errors import CgeWarning, InputError
from cge.estimators.configs import make_estimator
from cge.estimators.paper_cge import PaperCGE
from cge.evaluation.protocol import draw_split
from cge.graph import Graph
from cge.models.path_networks import LstmWeighting, PathTree, PathWeighting
from cge.sampling import PathTable, Walker
from studies.analyses import against_diversity, against_length, class_relevance, distribution, path_relevance
from studies.cells import Cell
from studies.figures_data import VENUES, aminer_file, aminer_files, dataset

__all__ = ["ANALYSES", "BINS", "OUTER", "cells", "run"]

Array = npt.NDArray[Any]
Row = dict[str, Any]

OUTER = ("unrolled", "paper")
_CITATIONS = ("citeseer", "cora", "pubmed")
# The data sets and the window of each analysis: the paper's window is 3, and 10 for the analysis of length.
ANALYSES: dict[str, tuple[tuple[str, ...], int]] = {
    "distribution": (("citeseer",), 3),
    "relevance": (_CITATIONS, 3),
    "classes": (VENUES, 3),
    "length": (_CITATIONS, 10),
    "diversity": (_CITATIONS, 3),
}
_SETTINGS: dict[str, Any] = {"setting": "transductive", "walk_length": 10, "n_jobs": 1}
_DIM = {"citeseer": 50, "cora": 135, "pubmed": 128}  # sizes of vectors in the paper
BINS = 1000
_MASKED = 0.5  # share of the training labels
_PER_CLASS = 20  # training labels of each venue


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield all cells, or those of `only`: "length", "length/cora" or "*/cora"; the first seed of all first.

    "aminer" is among them where its file exists.
    """
    wanted, _, graph = (only or "*").partition("/")
    if wanted != "*" and wanted not in ANALYSES:
        raise InputError(f"there is no analysis {wanted!r}; there are {', '.join(ANALYSES)}")
    names = tuple(ANALYSES) if wanted == "*" else (wanted,)
    datasets = list(dict.fromkeys(dataset for name in names for dataset in ANALYSES[name][0]))
    if graph and graph not in datasets:
        raise InputError(f"{wanted} has no data set {graph!r}; it has {', '.join(datasets)}")
    if graph == "aminer":
        aminer_file()  # raises an error that explains how to get it
    for seed in range(seeds):
        for name in names:
            for candidate in ANALYSES[name][0]:
                if candidate == graph or (not graph and (candidate != "aminer" or aminer_files())):
                    yield from (Cell(candidate, f"{name}, {outer}", seed) for outer in OUTER)


class RecordedLstm:
    """Creates the paper's LSTM and keeps references to it and to a copy of it before training."""

    trained: PathWeighting
    untrained: PathWeighting

    def __call__(self, dim: int) -> PathWeighting:
        """Return a new network."""
        self.trained = LstmWeighting(dim)
        self.untrained = deepcopy(self.trained)
        return self.trained


class SampledPaths:
    """The distinct paths of up to `window` nodes in the first walk of each node."""

    def __init__(self, graph: Graph, window: int, seed: int) -> None:
        table = PathTable(window)
        table.add(Walker(graph, _SETTINGS["walk_length"], 1, seed=seed, n_jobs=1).sample(0, graph.num_nodes))
        self.nodes, self.length, self.counts = table.paths.nodes, table.paths.length, table.counts
        self.tree = PathTree.grow(self.nodes, self.length, table.parents)
        self.has_edges = self.length > 1  # training does not use paths of a single node

    def weights(self, network: PathWeighting, vectors: Array) -> Array:
        """Return A(p) of each path."""
        return network.weigh(torch.from_numpy(vectors), self.tree, n_jobs=1)


def run(cell: Cell) -> Row:
    """Run a cell on one thread."""
    name, _, outer = cell.method.partition(", ")
    data, start = dataset(cell.graph), time.perf_counter()
    settings = _SETTINGS | {"outer": outer, "window": ANALYSES[name][1], "random_state": cell.seed}
    settings |= {"dim": _DIM[cell.graph]} if cell.graph in _DIM else {}
    paths = SampledPaths(data.graph, settings["window"], cell.seed)
    row = _by_class(data, paths, settings) if name == "classes" else _by_path(name, data, paths, settings)
    row |= {"sampled": int(paths.counts[paths.has_edges].sum()), "window": settings["window"]}
    return row | {"seconds": round(time.perf_counter() - start, 1)}


def _fit(graph: Graph, labels: Array, split: Split, train: Array, settings: Row) -> tuple[RecordedLstm, Array, Row]:
    """Train on the labels of `train`; return the networks, the vectors, and a summary of the training."""
    networks, y, validation = RecordedLstm(), np.full((2, len(labels)), -1), split.validation
    y[0, train], y[1, validation] = labels[train], labels[validation]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CgeWarning)  # a weighting that collapses is a result
        model = make_estimator(PaperCGE, {**settings, "weighting": networks}).fit(graph, y[0], y[1])
    messages = [str(warning.message) for warning in caught]
    row = {
        "test": model.score(graph.node_ids[split.test], labels[split.test]),
        "n_test": len(split.test),
        "labels": model.labels_seen_,
        "best_epoch": model.best_epoch_,
        "weight_means": [round(mean, 6) for mean in model.history_.column("weight_mean")],
        "collapsed": any("collapsed" in message for message in messages),
        "constant": any("nearly constant" in message for message in messages),
    }
    return networks, model.embedding_, row


def _by_path(name: str, data: Dataset, paths: SampledPaths, settings: Row) -> Row:
    """Run an analysis that uses the labels of the data set."""
    split, seed = data.splits[0], settings["random_state"]
    train = split.train
    if name == "relevance":
        train = np.flatnonzero(mask_labels(data.labels_of(split.train), _MASKED, seed) >= 0)
    networks, vectors, row = _fit(data.graph, data.labels, split, train, settings)
    has_edges, all_paths = paths.has_edges, np.ones(len(paths.length), bool)

    def analyze(network: PathWeighting) -> Row:
        all_weights = paths.weights(network, vectors)
        nodes, weights, counts = paths.nodes[has_edges], all_weights[has_edges], paths.counts[has_edges]
        result: Row = {"mean": float(np.average(weights, weights=counts))}
        if name == "distribution":
            shape = asdict(distribution(weights, counts, BINS))
            del shape["edges"]
            return shape | {"quantiles": {str(share): value for share, value in shape["quantiles"].items()}}
        if name == "relevance":
            masked = np.setdiff1d(split.train, train)
            return result | asdict(path_relevance(nodes, weights, train, masked, counts))
        for suffix, part in (("", has_edges), (" with single nodes", all_paths)):
            length, counts = paths.length[part], paths.counts[part]
            diversity = against_diversity(paths.nodes[part], length, all_weights[part], counts)
            result[f"length{suffix}"] = asdict(against_length(length, all_weights[part], counts))
            result[f"diversity{suffix}"] = asdict(diversity)
        return result

    both = {"trained": networks.trained, "untrained": networks.untrained}
    return row | {key: _as_json(analyze(network)) for key, network in both.items()}


def _by_class(data: Dataset, paths: SampledPaths, settings: Row) -> Row:
    """Train a binary task for each venue, on the same nodes, and average the weights of paths that contain it."""
    sizes, has_edges = np.bincount(data.labels), paths.has_edges
    labels, split = draw_split(data.labels, max(1, min(_PER_CLASS, int(sizes.min()) // 2)), settings["random_state"])
    rows: list[Row] = []
    results: Row = {key: {"mean": [], "matrix": []} for key in ("trained", "untrained")}
    for target in range(data.num_classes):
        binary = (labels == target).astype(np.int64)
        networks, vectors, row = _fit(data.graph, binary, split, split.train, settings)
        rows.append(row)
        for key, network in (("trained", networks.trained), ("untrained", networks.untrained)):
            weights, counts = paths.weights(network, vectors)[has_edges], paths.counts[has_edges]
            means = class_relevance(paths.nodes[has_edges], weights, data.labels, data.num_classes, counts).means
            results[key]["matrix"].append(means)
            results[key]["mean"].append(np.average(weights, weights=counts))
    summary = {
        "test": float(np.mean([row["test"] for row in rows])),
        "best_epoch": [row["best_epoch"] for row in rows],
        "weight_means": [row["weight_means"] for row in rows],
        "collapsed": any(row["collapsed"] for row in rows),
        "constant": any(row["constant"] for row in rows),
        "venues": list(data.class_names),
        "sizes": sizes,
    }
    return rows[0] | dict(_as_json(summary | results))


def _as_json(value: Any) -> Any:
    """Return a value as JSON can store it: numbers with seven digits, None for those that are not finite."""
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
