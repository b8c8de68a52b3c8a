"""Unsupervised vectors: skip-gram on walks, every path alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.randomness import generator
from cge.sampling import NegativeSampler, Walker
from cge.training.skipgram import train_walks
from cge.training.walk_partitions import make_parts, parts_for

__all__ = ["WalkVectors", "embed_walks"]

Array = npt.NDArray[Any]

_CHUNK = 4096  # walks that all parts of the graph see before any sees the next; chosen on validation nodes
_BATCH = 4 * _CHUNK  # walks in memory at once
LEARNING_RATE = 0.05
_LAST_RATE = 1e-4  # of the first: where the learning rate ends
_LINE = 64  # bytes: rows that begin with a line of the cache are read and written faster


@dataclass(frozen=True, eq=False)
class WalkVectors:
    """Source and target vectors, `(n, dim)` float32 each, and the number of pairs that they were trained on."""

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
    rate falls linearly. `progress` is called with the share of the walks done.
    """
    nodes = walker.graph.num_nodes
    sources, targets = _zeros(nodes, dim), _zeros(nodes, dim)
    generator(seed, "vectors").random(out=sources, dtype=np.float32)
    sources -= np.float32(0.5)
    sources /= np.float32(dim)
    if not len(walker.graph.indices):
        return WalkVectors(sources, targets, 0)
    parts = make_parts(NegativeSampler(walker.graph).probability, parts_for(2 * window), seed)
    total, done, pairs = walker.num_walks * epochs, 0, 0
    for epoch in range(epochs):
        for first, walks in enumerate(walker.batches(_BATCH, epoch=epoch)):
            first_rate, last_rate = (
                learning_rate * max(1 - share, _LAST_RATE) for share in (done / total, (done + len(walks)) / total)
            )
            pairs += train_walks(
                walks,
                first * _BATCH,
                sources,
                targets,
                parts,
                back=window,
                ahead=window,
                rates=(first_rate, last_rate),
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


def _zeros(rows: int, columns: int) -> Array:
    """Return a float32 table of zeros whose first row begins with a line of the cache."""
    room = np.zeros(rows * columns + _LINE // 4, np.float32)
    begin = -room.ctypes.data % _LINE // 4
    return room[begin : begin + rows * columns].reshape(rows, columns)
