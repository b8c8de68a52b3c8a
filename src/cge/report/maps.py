"""Maps of an embedding: two numbers for each vector."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import InputError, Message
from cge.models.sparse_products import unit_rows

__all__ = ["MAPS", "flattened", "need_map"]

Array = npt.NDArray[Any]

MAPS = {"pca": "the first two principal components", "umap": "UMAP, which keeps near what is near"}


def need_map(name: str) -> None:
    """Refuse a map that there is not, or that cannot be drawn here."""
    if name not in MAPS:
        raise InputError(parameter="map", expected="'pca' or 'umap'", found=name)
    if name == "umap" and find_spec("umap") is None:
        problem = Message.of("{map} needs the package umap-learn", map="umap")
        hint = Message.of("run pip install 'cge[umap]', or use {map}", map="pca")
        raise InputError(problem, parameter="map", hint=hint)


def flattened(vectors: Array, name: str, seed: int) -> Array:
    """Return vectors, whose length does not matter, in two dimensions, `(n, 2)`.

    >>> np.abs(flattened(np.array([[1.0, 0, 0], [0, 2, 0], [0, 3, 0]]), "pca", 0)).round(2).tolist()
    [[0.94, 0.0], [0.47, 0.0], [0.47, 0.0]]
    """
    need_map(name)
    unit = unit_rows(vectors)
    if name == "umap":
        import umap

        neighbors = max(min(15, len(unit) - 1), 2)  # its default, where there are as many
        found: Array = np.asarray(
            umap.UMAP(n_components=2, n_neighbors=neighbors, random_state=seed, n_jobs=1).fit_transform(unit)
        )
        return found
    centered = unit - unit.mean(0)
    _, _, turned = np.linalg.svd(centered, full_matrices=False)
    across: Array = centered @ turned[:2].T
    return across if across.shape[1] == 2 else np.column_stack([across, np.zeros(len(across))])
