"""The arithmetic of propagated slabs, in memory or in files, and the labeled rows of a graph in memory.

`cge.training.slab_propagation` runs the same functions on files, so that a fit has the same bytes either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS
from cge.graph import Graph
from cge.models.row_products import BlockSizes, WalkMatrix, mean_product, walk_matrix
from cge.parallel import split_blocks
from cge.training.dense_scale import ROW_RANGE, column_scale, inverse_lengths, scaled_rows, squared_lengths


@dataclass(frozen=True)
class HopRows:
    """Rows of M_b^k X that are kept: exponents b, each with its largest k; `places` are their numbers in files."""

    hops: tuple[tuple[float, int], ...]

    @property
    def places(self) -> dict[tuple[float, int], int]:
        """The place of each (b, k)."""
        pairs = [(b, k) for b, last in self.hops for k in range(last + 1)]
        return {pair: place for place, pair in enumerate(pairs)}


def fill_scaled(array: Any, degree: Array, exponent: float, rows: Callable[[int, int], Array]) -> None:
    """Write D^exponent x into an array, for x that is computed by ranges of rows."""
    for first, stop in split_blocks(len(degree), ROW_RANGE):
        factor = degree[first:stop, None] ** exponent
        array[first:stop] = (rows(first, stop) * factor).astype(np.float32)


def labeled_rows(
    matrix: WalkMatrix,
    kept: HopRows,
    nodes: Array,
    rows: Callable[[int, int], Array],
    arrays: Sequence[Any],
    blocks: BlockSizes,
    n_jobs: int | None,
) -> Array:
    """Return the rows of `nodes`, ascending, of M_b^k X, `(places, k, s)`; two `arrays (n, s)` are written to."""
    current, other = arrays
    result = np.empty((len(kept.places), len(nodes), current.shape[1]), np.float32)
    for b, last in kept.hops:
        fill_scaled(current, matrix.degree, -b, rows)
        factor = (matrix.degree[nodes, None] ** b).astype(np.float32)
        for k in range(last + 1):
            if k:
                mean_product(matrix, current, other, blocks, n_jobs)
                current, other = other, current
            taken = current.take(nodes, 0) if isinstance(current, np.ndarray) else current.take(nodes)
            result[kept.places[b, k]] = taken * factor
    return result


@dataclass(frozen=True)
class GraphSlabs:
    """The slabs of a graph in memory with dense features: what `SlabTasks` computes from the files of a stored one."""

    graph: Graph
    n_jobs: int | None

    def _slab(self, number: int) -> Array:
        features: Any = self.graph.features
        return np.ascontiguousarray(features[:, number * SLAB_COLUMNS : (number + 1) * SLAB_COLUMNS], np.float32)

    @cached_property
    def matrix(self) -> WalkMatrix:
        """P."""
        return walk_matrix(self.graph.indptr, self.graph.indices, self.graph.weights, self_loops=True)

    @cached_property
    def _scales(self) -> tuple[list[Array], Array]:
        """Mean and standard deviation of each slab, and the inverse lengths of rows."""
        features: Any = self.graph.features
        scales, squares = [], np.zeros(len(self.graph))
        for number in range(-(-features.shape[1] // SLAB_COLUMNS)):
            slab = self._slab(number)
            scales.append(column_scale(slab))
            squares += squared_lengths(slab, scales[-1])
        return scales, inverse_lengths(squares)

    @property
    def dense_scale(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the features, `(f,)` each."""
        center, spread = np.concatenate(self._scales[0], axis=1)
        return center, spread

    def labeled_rows(self, kept: HopRows, nodes: Array) -> Array:
        """Return the rows of `nodes`, ascending, of M_b^k X, `(places, k, f)`."""
        scales, lengths = self._scales
        parts = []
        for number, scale in enumerate(scales):
            slab = self._slab(number)

            def rows(first: int, stop: int, slab: Array = slab, scale: Array = scale) -> Array:
                return np.asarray(scaled_rows(slab, scale, first, stop) * lengths[first:stop, None])

            arrays = [np.empty(slab.shape, np.float32) for _ in range(2)]
            blocks = BlockSizes(slab.shape[1])
            parts.append(labeled_rows(self.matrix, kept, nodes, rows, arrays, blocks, self.n_jobs))
        return np.concatenate(parts, axis=2)
