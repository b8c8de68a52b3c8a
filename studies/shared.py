"""Vectors of walks that several cells of a table read, made once."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import cge
from cge.estimators.baselines import WalkClassifier
from cge.graph import Graph
from cge.store.atomic import write_files

__all__ = ["SharedVectors"]

Array = npt.NDArray[Any]


class SharedVectors(WalkClassifier):
    """Logistic regression on vectors of walks that are kept in `folder`: whoever comes first makes them.

    Vectors do not depend on labels and features, so that a file is named by the graph and by how it was walked.
    `saved` are the seconds that were not spent, since the vectors were there.
    """

    folder: Path
    saved = 0.0

    def _vectors(self, graph: Graph) -> Array:
        told = self._embedder().get_params() | {"n_jobs": None, "vectors": self.vectors, "version": cge.__version__}
        name = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
        for part in (graph.indptr, graph.indices, graph.weights):
            name.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        file = self.folder / f"{name.hexdigest()[:32]}.npz"
        if file.exists():
            with np.load(file, allow_pickle=False) as found:
                self.saved = float(found["seconds"])
                vectors: Array = found["vectors"]
            return vectors
        began = time.perf_counter()
        made = super()._vectors(graph)
        spent = time.perf_counter() - began
        self.folder.mkdir(parents=True, exist_ok=True)
        write_files({file: lambda stream: np.savez(stream, vectors=made, seconds=spent)})
        return made
