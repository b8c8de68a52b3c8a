"""Features for graphs without any: random projections of random walks, in closed form, at any size.

With P = D^(−1) G and a random matrix R `(n, d)`, the rows of P^k D R are projections of the distributions of walks of
k steps: nodes from which walks end at the same nodes have similar rows (Chen et al. 2019, "Fast and Accurate Network
Embeddings via Very Sparse Random Projection"). Most columns are of long walks, every fourth slab is of short ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS, StoredGraph, open_graph
from cge.data.stored.work_files import load_json, renamed, save_json, sha256
from cge.engine import Engine
from cge.errors import InputError
from cge.models.row_products import FileArray, mean_product
from cge.parallel import split_blocks
from cge.randomness import generator
from cge.training.dense_scale import ROW_RANGE
from cge.training.slab_columns import fill_scaled
from cge.training.slab_propagation import Progress, SlabTasks, run_tasks

# Steps of walks (long ones suit sparse graphs, short ones dense graphs), every how many slabs are of short walks, and
# the exponent of the degree: selected on validation labels by `scripts/select_projections.py`.
LONG, SHORT, SHORT_EVERY, EXPONENT = 32, 3, 4, 1.0


def add_projections(
    stored: StoredGraph,
    dim: int,
    *,
    work: Path,
    engine: Engine,
    memory: int,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress = lambda *_: None,
) -> StoredGraph:
    """Write `dim` features to a stored graph that has none, and return it; an interrupted call continues."""
    if stored.num_features:
        raise InputError(f"{stored.folder} has features already", hint="leave the projections out")
    tasks = _ProjectionTasks.of(stored, work, engine, memory, n_jobs)
    tasks.prepare(engine, progress)
    blocks = [(number, seed, stop - first) for number, (first, stop) in enumerate(split_blocks(dim, SLAB_COLUMNS))]
    run_tasks(engine, tasks.project, blocks, "projecting walks", progress)
    metadata = load_json(stored.folder / "graph.json") | {"features": dim}
    for number in range(len(blocks)):
        path = stored.folder / f"x-{number:04d}.npy"
        metadata["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    save_json(stored.folder / "graph.json", metadata)
    return open_graph(stored.folder)


class _ProjectionTasks(SlabTasks):
    def project(self, block: tuple[int, int, int]) -> None:
        """Write a slab of features."""
        number, seed, width = block
        path = self.stored.folder / f"x-{number:04d}.npy"
        if path.exists():
            return

        def random_rows(first: int, stop: int) -> Array:
            random = generator(seed, "projections", number, first // ROW_RANGE)
            return np.asarray(random.standard_normal((stop - first, width), np.float32))

        with renamed(path) as temporary, self._arrays(width, 2) as (current, other):
            result = FileArray.create(temporary, (self.stored.num_nodes, width), np.float32)
            fill_scaled(current, self.matrix.degree, EXPONENT, random_rows)
            for _ in range(SHORT if number % SHORT_EVERY == SHORT_EVERY - 1 else LONG):
                mean_product(self.matrix, current, other, self.blocks, self.n_jobs)
                current, other = other, current
            for first, stop in split_blocks(self.stored.num_nodes, ROW_RANGE):
                result[first:stop] = current[first:stop]
