"""Unsupervised vectors: skip-gram on walks, every path alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.randomness import generator
from cge.sampling import NegativeSampler, Walker
from cge.training.skipgram import make_parts, parts_for, train_walks

__all__ = ["embed_walks"]

Array = npt.NDArray[Any]

_BATCH = 1024  # walks whose blocks run side by side; small, so that all parts of the graph advance together
_LAST_RATE = 1e-4  # of the first: where the learning rate ends


def embed_walks(
    walker: Walker,
    *,
    dim: int,
    window: int,
    negatives: int,
    epochs: int,
    learning_rate: float,
    seed: int,
    threads: int | None,
    progress: Callable[[float], None] | None = None,
) -> tuple[Array, Array]:
    """Return source and target vectors, `(n, dim)` float32 each, trained on all walks of `epochs` epochs.

    `window` counts steps to both sides of a node, as in word2vec (not nodes of a path, as in the paper). The learning
    rate falls linearly. `progress` is called with the share of the walks done.
    """
    nodes = walker.graph.num_nodes
    sources = ((generator(seed, "vectors").random((nodes, dim), np.float32)) - np.float32(0.5)) / np.float32(dim)
    targets = np.zeros((nodes, dim), np.float32)
    if not len(walker.graph.indices):
        return sources, targets
    parts = make_parts(NegativeSampler(walker.graph).probability, parts_for(2 * window), seed)
    total, done = walker.num_walks * epochs, 0
    for epoch in range(epochs):
        for first, walks in enumerate(walker.batches(_BATCH, epoch=epoch)):
            first_rate, last_rate = (
                learning_rate * max(1 - share, _LAST_RATE) for share in (done / total, (done + len(walks)) / total)
            )
            train_walks(
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
                threads=threads,
            )
            done += len(walks)
            if progress is not None:
                progress(done / total)
    return sources, targets
