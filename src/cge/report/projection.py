"""Projections of an embedding to two dimensions, for a map."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.models.sparse_products import unit_rows

PROJECTIONS = {"pca": "the first two principal components", "umap": "UMAP"}


def check_projection(name: str) -> None:
    """Refuse an unknown projection, and one whose package is not installed."""
    if name not in PROJECTIONS:
        raise InputError(parameter="map", expected="'pca' or 'umap'", found=name)
    if name == "umap" and find_spec("umap") is None:
        problem = Message.of("{map} needs the package umap-learn", map="umap")
        hint = Message.of("run pip install 'cge[umap]', or use {map}", map="pca")
        raise InputError(problem, parameter="map", hint=hint)


def project(vectors: Array, name: str, seed: int) -> Array:
    """Return vectors, normalized to unit length, in two dimensions, `(n, 2)`.

    >>> np.abs(project(np.array([[1.0, 0, 0], [0, 2, 0], [0, 3, 0]]), "pca", 0)).round(2).tolist()
    [[0.94, 0.0], [0.47, 0.0], [0.47, 0.0]]
    """
    check_projection(name)
    unit = unit_rows(vectors)
    if name == "umap":
        import umap

        neighbors = max(min(15, len(unit) - 1), 2)  # 15 is UMAP's default
        reducer = umap.UMAP(n_components=2, n_neighbors=neighbors, random_state=seed, n_jobs=1)
        return np.asarray(reducer.fit_transform(unit))
    centered = unit - unit.mean(0)
    _, _, components = np.linalg.svd(centered, full_matrices=False)
    projected: Array = centered @ components[:2].T
    return projected if projected.shape[1] == 2 else np.column_stack([projected, np.zeros(len(projected))])
