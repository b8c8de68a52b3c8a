"""Vectors of walks that several cells of a table read, made once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import cge
from cge.estimators.baselines import WalkClassifier
from cge.graph import Graph
from cge.store.whole import write_whole

__all__ = ["SharedVectors"]

Array = npt.NDArray[Any]


class SharedVectors(WalkClassifier):
    """Logistic regression on vectors of walks that are kept in `folder`: whoever comes first makes them.

    Vectors do not depend on labels and features, so that a file is named by the graph and by how it was walked.
    """

    folder: Path

    def _vectors(self, graph: Graph) -> Array:
        told = self._embedder().get_params() | {"threads": None, "vectors": self.vectors, "version": cge.__version__}
        name = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
        for part in (graph.indptr, graph.indices, graph.weights):
            name.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        file = self.folder / f"{name.hexdigest()[:32]}.npy"
        if file.exists():
            found: Array = np.load(file, allow_pickle=False)
            return found
        made = super()._vectors(graph)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole({file: lambda stream: np.save(stream, made, allow_pickle=False)})
        return made
