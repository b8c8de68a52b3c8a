"""Graphs with planted classes, written once to the cache folder as files that a user would have.

Ten classes, and 100 dense features: the mean of the class and strong noise. In generated graphs, of ten edges per node,
70 % of the edges are rewired to a node of the same class. The edges of npm are given, so there the classes follow the
edges: a node gets the class whose random field, smoothed over neighbors, is largest. Files of a graph:

- the edges, one per line, tab-separated, with node v called `node-v`;
- `<name>.nodes.txt`: all nodes, in the order of the features;
- `<name>.features.npy`: `(n, 100)` float32;
- `<name>.labels.csv`: node and class of 1 % of the nodes, and of 50 at least;
- `<name>.classes.npy`: `(n,)` the class of every node, to measure the accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.graphs import distinct, edge_keys, graph_files, power_law_edges, write_file, write_named
from benchmarks.harness import cache_folder

__all__ = ["CLASSES", "SIZES", "PlantedFiles", "planted_edges", "planted_features", "planted_files", "spread_classes"]

Array = npt.NDArray[Any]

SIZES = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1M": 1_000_000}
CLASSES = 10

_FORMAT = 1  # part of the folder's name: raise it when the files change
_SEED = 0
_EDGES = 10  # per node
_SPARE = 1.25  # times as many edges are drawn, since some coincide after rewiring
_WITHIN = 0.7  # share of the edges that are rewired to a node of the same class
_FEATURES = 100
_SPREAD = 0.1  # standard deviation of the class means; that of the noise is 1
_SMOOTHING = 12  # steps: about half of the edges of npm are then within a class
_LABELED, _FEWEST = 0.01, 50  # share of labeled nodes, and their smallest number


@dataclass(frozen=True)
class PlantedFiles:
    """The files of a graph."""

    edges: Path
    nodes: Path
    features: Path
    labels: Path
    classes: Path


def planted_files(name: str) -> PlantedFiles:
    """Return the files of a generated graph, a name of `SIZES`, or of npm, written if they do not exist."""
    folder = cache_folder() / f"planted-{_FORMAT}"
    suffixes = ("nodes.txt", "features.npy", "labels.csv", "classes.npy")
    generated = name in SIZES
    edges = folder / f"{name}.edges.tsv" if generated else graph_files(name).strings
    files = PlantedFiles(edges, *(folder / f"{name}.{suffix}" for suffix in suffixes))
    if all(path.exists() for path in vars(files).values()):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(_SEED)
    if generated:
        classes = random.integers(0, CLASSES, SIZES[name])
        source, target = planted_edges(classes, _EDGES * len(classes), _SEED)
        write_file(files.edges, lambda file: write_named(file, source, target))
    else:
        with np.load(graph_files(name).arrays) as arrays:
            classes = spread_classes(arrays["indptr"], arrays["indices"], _SEED)
    labeled = np.sort(random.permutation(len(classes))[: max(round(_LABELED * len(classes)), _FEWEST)])
    lines = [f"node-{node},class-{classes[node]}\n" for node in labeled.tolist()]
    write_file(files.nodes, lambda file: write_named(file, np.arange(len(classes))))
    write_file(files.features, lambda file: np.save(file, planted_features(classes, _SEED)))
    write_file(files.labels, lambda file: file.writelines(line.encode() for line in ["node,label\n", *lines]))
    write_file(files.classes, lambda file: np.save(file, classes))
    return files


def planted_edges(classes: Array, edges: int, seed: int) -> tuple[Array, Array]:
    """Return about `edges` distinct undirected edges, most of them within a class.

    They are those of a power-law graph; then most target nodes are exchanged for target nodes of the source's class, so
    hubs stay hubs.
    """
    nodes, random = len(classes), np.random.default_rng(seed)
    source, target = power_law_edges(nodes, round(_SPARE * edges), seed)
    targets = target[np.argsort(classes[target], kind="stable")]
    count = np.bincount(classes[target], minlength=CLASSES)
    first = np.cumsum(count) - count
    rewired = np.flatnonzero(random.random(len(source)) < _WITHIN)
    label = classes[source[rewired]]
    target[rewired] = targets[first[label] + (random.random(len(rewired)) * count[label]).astype(np.int64)]
    keys = distinct(edge_keys(source, target, nodes))[:edges]
    return keys // nodes, keys % nodes


def spread_classes(indptr: Array, indices: Array, seed: int) -> Array:
    """Return classes `(n,)` that neighbors tend to share, of similar sizes."""
    nodes = len(indptr) - 1
    adjacency = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(nodes, nodes))
    degrees = np.maximum(np.diff(indptr), 1).astype(np.float32)[:, None]
    field = np.random.default_rng(seed).standard_normal((nodes, CLASSES), np.float32)
    for _ in range(_SMOOTHING):
        field += adjacency @ field / degrees
        field = (field - field.mean(axis=0)) / field.std(axis=0)
    classes: Array = field.argmax(axis=1)
    return classes


def planted_features(classes: Array, seed: int) -> Array:
    """Return features of nodes, `(n, 100)` float32: the mean of the class plus noise."""
    random = np.random.default_rng(seed)
    means = _SPREAD * random.standard_normal((CLASSES, _FEATURES), np.float32)
    features: Array = random.standard_normal((len(classes), _FEATURES), np.float32)
    features += means[classes]
    return features
