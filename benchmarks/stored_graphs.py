"""Graphs on disk of any size, generated in blocks: planted classes, homophilous edges, noisy features of the class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cge.arrays import Array
from cge.parallel import split_blocks
from cge.randomness import generator

CLASSES = 16
_HOMOPHILY = 0.6  # share of edges within a class
_NOISE = 6.0  # standard deviation of features; class means are one apart
_EDGE_BLOCK, _NODE_BLOCK = 5_000_000, 500_000


def class_of(nodes: Array) -> Array:
    """Return the class of nodes."""
    return nodes % CLASSES


def write_graph(folder: Path, nodes: int, edges: int, features: int, label_share: float, seed: int = 0) -> None:
    """Write `edges-*.parquet`, `x.npy`, `labels.csv`, `validation.csv` and `test.csv`; half of the labels train."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (first, stop) in enumerate(split_blocks(edges, _EDGE_BLOCK)):
        random = generator(seed, "edges", number)
        source = random.integers(0, nodes, stop - first)
        target = random.integers(0, nodes, stop - first)
        within = random.random(stop - first) < _HOMOPHILY
        same_class = target - target % CLASSES + source % CLASSES
        target = np.where(within & (same_class < nodes), same_class, target)
        table = pa.table({"source": source, "target": target})
        pq.write_table(table, folder / f"edges-{number:04d}.parquet", compression="zstd")
    means = generator(seed, "means").standard_normal((CLASSES, features), np.float32)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (nodes, features))
    for number, (first, stop) in enumerate(split_blocks(nodes, _NODE_BLOCK)):
        noise = generator(seed, "features", number).standard_normal((stop - first, features), np.float32)
        x[first:stop] = means[class_of(np.arange(first, stop))] + np.float32(_NOISE) * noise
    x.flush()
    count = int(label_share * nodes)
    labeled = generator(seed, "labels").choice(nodes, 2 * count, replace=False)
    parts = {"labels": labeled[: count // 2], "validation": labeled[count // 2 : count], "test": labeled[count:]}
    for name, part in parts.items():
        lines = [f"{node},c{node % CLASSES}" for node in part.tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["node,label", *lines, ""]))
