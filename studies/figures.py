"""The paper's five analyses of path weights, run again, cell by cell.

A cell is an analysis with an outer rule ("length, unrolled"), a data set and a seed. It trains CGE-LSTM and looks at
the paths of the first walk from each node, which training has weighed as well. Each is also weighed by the network as
it was before training, at the same vectors: what is there already is not learned.
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
from cge.explain.analyses import against_diversity, against_length, class_relevance, distribution, path_relevance
from cge.graph import Graph
from cge.models.path_networks import LstmWeighting, PathWeighting
from cge.models.path_tree import PathTree
from cge.sampling import PathTable, Walker
from studies.cells import Cell
from studies.figures_sets import VENUES, aminer_file, aminer_files, dataset

__all__ = ["ANALYSES", "BINS", "OUTER", "cells", "run"]

Array = npt.NDArray[Any]
Row = dict[str, Any]

OUTER = ("unrolled", "paper")
_PAPERS = ("citeseer", "cora", "pubmed")
# The data sets of each analysis, and its window: the paper's is 3, and 10 where length is looked at.
ANALYSES: dict[str, tuple[tuple[str, ...], int]] = {
    "distribution": (("citeseer",), 3),
    "relevance": (_PAPERS, 3),
    "classes": (VENUES, 3),
    "length": (_PAPERS, 10),
    "diversity": (_PAPERS, 3),
}
_SETTINGS: dict[str, Any] = {"setting": "transductive", "walk_length": 10, "n_jobs": 1}
_DIM = {"citeseer": 50, "cora": 135, "pubmed": 128}  # the paper's vectors
BINS = 1000
_MASKED = 0.5  # of the training labels
_PER_CLASS = 20  # training labels of each venue


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield all cells, or those of `only`: "length", "length/cora" or "*/cora"; the first seed of all first.

    "aminer" is among them where its file is.
    """
    wanted, _, graph = (only or "*").partition("/")
    if wanted != "*" and wanted not in ANALYSES:
        raise InputError(f"there is no analysis {wanted!r}; there are {', '.join(ANALYSES)}")
    names = tuple(ANALYSES) if wanted == "*" else (wanted,)
    known = list(dict.fromkeys(one for name in names for one in ANALYSES[name][0]))
    if graph and graph not in known:
        raise InputError(f"{wanted} has no data set {graph!r}; it has {', '.join(known)}")
    if graph == "aminer":
        aminer_file()  # says how to get it
    for seed in range(seeds):
        for name in names:
            for one in ANALYSES[name][0]:
                if one == graph or (not graph and (one != "aminer" or aminer_files())):
                    yield from (Cell(one, f"{name}, {outer}", seed) for outer in OUTER)


class Kept:
    """Makes the paper's LSTM, and keeps it beside a copy of how it was before training."""

    now: PathWeighting
    before: PathWeighting

    def __call__(self, dim: int) -> PathWeighting:
        """Return a new network."""
        self.now = LstmWeighting(dim)
        self.before = deepcopy(self.now)
        return self.now


class Sampled:
    """The distinct paths, up to a number of nodes, in the first walk from each node."""

    def __init__(self, graph: Graph, window: int, seed: int) -> None:
        table = PathTable(window)
        table.add(Walker(graph, _SETTINGS["walk_length"], 1, seed=seed, n_jobs=1).sample(0, graph.num_nodes))
        self.nodes, self.length, self.counts = table.paths.nodes, table.paths.length, table.counts
        self.tree = PathTree.grow(self.nodes, self.length, table.parents)
        self.several = self.length > 1  # training weighs no path of one node

    def weights(self, network: PathWeighting, vectors: Array) -> Array:
        """Return A of each."""
        return network.weigh(torch.from_numpy(vectors), self.tree, n_jobs=1)


def run(cell: Cell) -> Row:
    """Run a cell on one thread."""
    name, _, outer = cell.method.partition(", ")
    data, began = dataset(cell.graph), time.perf_counter()
    settings = _SETTINGS | {"outer": outer, "window": ANALYSES[name][1], "random_state": cell.seed}
    settings |= {"dim": _DIM[cell.graph]} if cell.graph in _DIM else {}
    paths = Sampled(data.graph, settings["window"], cell.seed)
    row = _by_class(data, paths, settings) if name == "classes" else _by_path(name, data, paths, settings)
    told = {"sampled": int(paths.counts[paths.several].sum()), "window": settings["window"]}
    return row | told | {"seconds": round(time.perf_counter() - began, 1)}


def _fitted(graph: Graph, labels: Array, split: Split, train: Array, settings: Row) -> tuple[Kept, Array, Row]:
    """Train on the labels of `train`; return the networks, the vectors, and what there is to say."""
    kept, y, validation = Kept(), np.full((2, len(labels)), -1), split.validation
    y[0, train], y[1, validation] = labels[train], labels[validation]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CgeWarning)  # a network that comes to nothing is a result
        model = make_estimator(PaperCGE, {**settings, "weighting": kept}).fit(graph, y[0], y[1])
    row = {
        "test": model.score(graph.node_ids[split.test], labels[split.test]),
        "n_test": len(split.test),
        "labels": model.labels_seen_,
        "best_round": model.best_epoch_,
        "weight_means": [round(one, 6) for one in model.history_.column("weight_mean")],
        "said": [str(one.message) for one in said],
    }
    return kept, model.embedding_, row


def _by_path(name: str, data: Dataset, paths: Sampled, settings: Row) -> Row:
    """Run an analysis whose labels are those of the data set."""
    split, seed = data.splits[0], settings["random_state"]
    train = split.train
    if name == "relevance":
        train = np.flatnonzero(mask_labels(data.labels_of(split.train), _MASKED, seed) >= 0)
    kept, vectors, row = _fitted(data.graph, data.labels, split, train, settings)
    several, every = paths.several, np.ones(len(paths.length), bool)

    def looked(network: PathWeighting) -> Row:
        weights = paths.weights(network, vectors)
        some = (paths.nodes[several], weights[several])
        found: Row = {"mean": float(np.average(some[1], weights=paths.counts[several]))}
        if name == "distribution":
            facts = asdict(distribution(some[1], paths.counts[several], BINS))
            del facts["edges"]
            return facts | {"quantiles": {str(share): one for share, one in facts["quantiles"].items()}}
        if name == "relevance":
            masked = np.setdiff1d(split.train, train)
            return found | asdict(path_relevance(*some, train, masked, paths.counts[several]))
        for label, part in (("", several), (" with single nodes", every)):
            length, counts = paths.length[part], paths.counts[part]
            found[f"length{label}"] = asdict(against_length(length, weights[part], counts))
            found[f"diversity{label}"] = asdict(against_diversity(paths.nodes[part], length, weights[part], counts))
        return found

    return row | {"found": _plain(looked(kept.now)), "before": _plain(looked(kept.before))}


def _by_class(data: Dataset, paths: Sampled, settings: Row) -> Row:
    """Train a binary task for each venue, on the same nodes, and weigh the paths that contain each."""
    sizes, several = np.bincount(data.labels), paths.several
    labels, split = draw_split(data.labels, max(1, min(_PER_CLASS, int(sizes.min()) // 2)), settings["random_state"])
    rows: list[Row] = []
    found: Row = {when: {"mean": [], "matrix": []} for when in ("found", "before")}
    for target in range(data.num_classes):
        binary = (labels == target).astype(np.int64)
        kept, vectors, row = _fitted(data.graph, binary, split, split.train, settings)
        rows.append(row)
        for when, network in (("found", kept.now), ("before", kept.before)):
            weights, counts = paths.weights(network, vectors)[several], paths.counts[several]
            means = class_relevance(paths.nodes[several], weights, data.labels, data.num_classes, counts).means
            found[when]["matrix"].append(means)
            found[when]["mean"].append(np.average(weights, weights=counts))
    told = {
        "test": float(np.mean([row["test"] for row in rows])),
        "said": [text for row in rows for text in row["said"]],
        "weight_means": [row["weight_means"] for row in rows],
        "best_round": [row["best_round"] for row in rows],
        "venues": list(data.class_names),
        "sizes": sizes,
    }
    plain: Row = _plain(told | found)
    return rows[0] | plain


def _plain(value: Any) -> Any:
    """Return what JSON can hold, numbers in seven digits; what is no number is None."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
