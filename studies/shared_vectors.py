"""Walk vectors that several cells of a table use, computed once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import cge
from cge.estimators.baselines import WalkClassifier
from cge.estimators.persistence import data_hash
from cge.graph import Graph
from cge.store.atomic import write_files

__all__ = ["SharedVectors"]

Array = npt.NDArray[Any]


class SharedVectors(WalkClassifier):
    """Logistic regression on walk vectors that are cached in `folder`.

    Vectors do not depend on labels, so a file is named by a hash of the graph and of the settings of the walks.
    `saved_seconds` is the time that loading the vectors instead of training them saved.
    """

    folder: Path
    saved_seconds = 0.0

    def _vectors(self, graph: Graph) -> Array:
        settings = self._embedder().get_params() | {"n_jobs": None, "vectors": self.vectors, "version": cge.__version__}
        file = self.folder / f"{data_hash(settings, graph, [])[:32]}.npz"
        if file.exists():
            with np.load(file, allow_pickle=False) as cached:
                self.saved_seconds = float(cached["seconds"])
                vectors: Array = cached["vectors"]
            return vectors
        start = time.perf_counter()
        vectors = super()._vectors(graph)
        seconds = time.perf_counter() - start
        self.folder.mkdir(parents=True, exist_ok=True)
        write_files({file: lambda stream: np.savez(stream, vectors=vectors, seconds=seconds)})
        return vectors
