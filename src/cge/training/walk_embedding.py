"""Unsupervised node vectors: skip-gram on random walks, all paths with weight 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cge.arrays import Array
from cge.randomness import generator
from cge.sampling import NegativeSampler, Walker
from cge.training.skipgram import train_walks
from cge.training.walk_partitions import partition_count, partition_nodes

_CHUNK = 4096  # walks that all parts of the graph see before any sees the next; chosen on validation nodes
_BATCH = 4 * _CHUNK  # walks in memory at once
LEARNING_RATE = 0.05
_LAST_RATE = 1e-4  # final learning rate, relative to the first
_CACHE_LINE = 64  # bytes: rows aligned with cache lines are read and written faster


@dataclass(frozen=True, eq=False)
class WalkVectors:
    """Source and target vectors, `(n, dim)` float32 each, and the number of pairs they were trained on."""

    sources: Array
    targets: Array
    pairs: int


def embed_walks(
    walker: Walker,
    *,
    dim: int,
    window: int,
    negatives: int,
    epochs: int = 1,
    learning_rate: float = LEARNING_RATE,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> WalkVectors:
    """Train vectors on all walks of `epochs` epochs.

    `window` counts steps to both sides of a node, as in word2vec (not nodes of a path, as in the paper). The learning
    rate decays linearly. `progress` is called with the fraction of the walks that is done.
    """
    nodes = walker.graph.num_nodes
    sources, targets = _aligned_zeros(nodes, dim), _aligned_zeros(nodes, dim)
    generator(seed, "vectors").random(out=sources, dtype=np.float32)
    sources -= np.float32(0.5)
    sources /= np.float32(dim)
    if not len(walker.graph.indices):
        return WalkVectors(sources, targets, 0)
    partition = partition_nodes(NegativeSampler(walker.graph).probability, partition_count(2 * window), seed)
    total, done, pairs = walker.num_walks * epochs, 0, 0
    for epoch in range(epochs):
        for batch, walks in enumerate(walker.batches(_BATCH, epoch=epoch)):
            progress_range = done / total, (done + len(walks)) / total
            first_rate, last_rate = (learning_rate * max(1 - fraction, _LAST_RATE) for fraction in progress_range)
            pairs += train_walks(
                walks,
                batch * _BATCH,
                sources,
                targets,
                partition,
                back=window,
                ahead=window,
                learning_rates=(first_rate, last_rate),
                negatives=negatives,
                seed=seed,
                stream=epoch,
                n_jobs=n_jobs,
                chunk=_CHUNK,
            )
            done += len(walks)
            if progress is not None:
                progress(done / total)
    return WalkVectors(sources, targets, pairs)


def _aligned_zeros(rows: int, columns: int) -> Array:
    """Return a float32 table of zeros whose first row is aligned with a cache line."""
    buffer = np.zeros(rows * columns + _CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % _CACHE_LINE // 4
    return buffer[start : start + rows * columns].reshape(rows, columns)
