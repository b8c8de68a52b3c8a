"""Propagation of a stored graph, slab by slab of columns, from files into files: the tasks of an engine.

Propagation acts on each column alone, so that a task needs the rows of the graph and one slab. A task writes its result
under a temporary name and renames it, and a result that exists is not computed again: after an interruption, the same
call continues. `work` is the folder of the results; on a cluster all workers see it and the graph under the same paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS, StoredGraph, open_graph
from cge.data.stored.work_files import load_array, load_json, open_array, renamed, save_array, save_json
from cge.engine import Engine
from cge.errors import FileFormatError, InputError
from cge.models.row_products import (
    BlockSizes,
    FileArray,
    WalkMatrix,
    add_product,
    fit_blocks,
    horner,
    walk_matrix,
)
from cge.parallel import resolve_jobs, split_blocks
from cge.training.dense_scale import ROW_RANGE, column_scale, inverse_lengths, scaled_rows, squared_lengths
from cge.training.slab_columns import HopRows, fill_scaled, labeled_rows

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, eq=False)
class Output:
    """Columns to propagate: of the inputs times `matrix (f, s)`, with an exponent b and hop weights.

    Without a matrix, the result is the squared length of the propagated inputs of one slab, `number`, `(n,)`; with
    `reach` it is whether paths lead to a node with inputs, `(n, 1)`.
    """

    name: str
    number: int
    normalization: float
    hop_weights: tuple[float, ...]
    matrix: Array | None = None
    reach: bool = False

    @property
    def file(self) -> str:
        """The name of the result."""
        return f"{self.name}-{self.number:04d}.npy"


@dataclass(frozen=True)
class SlabTasks:
    """What tasks share: a stored graph, the folder of results, and the memory of a task; each opens the files anew."""

    graph: str
    fingerprint: str
    work: str
    memory: int
    n_jobs: int | None = None

    @classmethod
    def of(cls, stored: StoredGraph, work: Path, engine: Engine, memory: int, n_jobs: int | None) -> Self:
        """Return the tasks of a graph; tasks that run side by side share the threads, and on one machine the memory."""
        threads, tasks = resolve_jobs(n_jobs), engine.n_workers
        folders = str(stored.folder.resolve()), stored.fingerprint, str(work.resolve())
        return cls(*folders, memory, max(threads // tasks, 1))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send only the paths to workers, not what was opened."""
        return type(self), (self.graph, self.fingerprint, self.work, self.memory, self.n_jobs)

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return Path(self.work)

    @cached_property
    def stored(self) -> StoredGraph:
        """The graph; a worker that sees another one, or none, is refused."""
        return open_shared(self.graph, self.fingerprint)

    @cached_property
    def blocks(self) -> BlockSizes:
        """The sizes of blocks that fit in memory."""
        stored = self.stored
        return fit_blocks(self.memory, stored.num_nodes, stored.num_entries, stored.row_bytes, SLAB_COLUMNS)

    @cached_property
    def matrix(self) -> WalkMatrix:
        """P, mapped into memory where it fits."""
        stored, about = self.stored, load_json(self.folder / "walk.json")
        own_loops = open_array(self.folder / "own-loops.npy") if stored.self_loops else None
        degree = load_array(self.folder / "degree.npy")
        return WalkMatrix(*self._rows(), degree, float(about["loop_weight"]), own_loops)

    def _rows(self) -> tuple[Any, Any, Any]:
        stored = self.stored
        if self.blocks.in_memory:
            return stored.indptr, stored.indices, stored.weights
        weights = FileArray(stored.folder / "weights.npy") if stored.metadata["weighted"] else None
        return FileArray(stored.folder / "indptr.npy"), FileArray(stored.folder / "indices.npy"), weights

    # ------------------------------------------------------------------ preparation

    def prepare(self, engine: Engine, progress: Progress) -> None:
        """Compute degrees, and mean, standard deviation and lengths of the inputs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stored = self.stored
        if not (self.folder / "walk.json").exists():
            progress("reading rows", 0, None)
            names = {"indptr.npy", "indices.npy", "weights.npy"}
            stored.verify(sorted(names & stored.metadata["files"].keys()))
            matrix = walk_matrix(*self._rows(), stored.self_loops, self.blocks.rows)
            save_array(self.folder / "degree.npy", matrix.degree)
            if matrix.own_loops is not None:
                save_array(self.folder / "own-loops.npy", matrix.own_loops)
            save_json(self.folder / "walk.json", {"loop_weight": matrix.loop_weight})
        run_tasks(engine, self.measure, range(len(stored.slab_names)), "scaling inputs", progress)
        if not (self.folder / "lengths.npy").exists():
            save_array(self.folder / "lengths.npy", self._inverse_lengths())

    def measure(self, number: int) -> None:
        """Write mean and standard deviation of the columns of a slab, and the squared length of its scaled rows."""
        path = self.folder / f"squares-{number:04d}.npy"
        if path.exists():
            return
        self.stored.verify([self.stored.slab_names[number]])
        slab = self._slab(number)
        scale = column_scale(slab)
        save_array(self.folder / f"scale-{number:04d}.npy", scale)
        save_array(path, squared_lengths(slab, scale))

    def _slab(self, number: int) -> FileArray:
        return FileArray(self.stored.folder / self.stored.slab_names[number])

    def _inverse_lengths(self) -> Array:
        squares = np.zeros(self.stored.num_nodes)
        for number in range(len(self.stored.slab_names)):
            squares += load_array(self.folder / f"squares-{number:04d}.npy")
        return inverse_lengths(squares)

    @cached_property
    def lengths(self) -> Array:
        """One divided by the length of each row of scaled features, 0 where that is 0, `(n,)`, memory-mapped."""
        return open_array(self.folder / "lengths.npy")

    def inputs(self, number: int, first: int, stop: int) -> Array:
        """Return the inputs of some nodes, columns of one slab: scaled features with rows of unit length."""
        scale = load_array(self.folder / f"scale-{number:04d}.npy")
        return np.asarray(scaled_rows(self._slab(number), scale, first, stop) * self.lengths[first:stop, None])

    def dense_scale(self) -> tuple[Array, Array]:
        """Return mean and standard deviation of the features, `(f,)` each."""
        scales = [load_array(self.folder / f"scale-{number:04d}.npy") for number in range(len(self.stored.slab_names))]
        center, spread = np.concatenate(scales, axis=1)
        return center, spread

    # ------------------------------------------------------------------ tasks

    @contextmanager
    def _arrays(self, width: int, count: int) -> Iterator[list[Any]]:
        """Yield arrays `(n, width)` float32 to work in: in memory, or in temporary files."""
        shape = self.stored.num_nodes, width
        if self.blocks.in_memory:
            yield [np.empty(shape, np.float32) for _ in range(count)]
            return
        with TemporaryDirectory(dir=self.work, prefix="task-") as folder:
            yield [FileArray.create(Path(folder) / f"{k}.npy", shape, np.float32) for k in range(count)]

    def labeled_rows(self, kept: HopRows, nodes: Array, number: int) -> None:
        """Write the rows of `nodes`, ascending, of M_b^k X of a slab, `(places, k, s)`."""
        path = self.folder / f"rows-{number:04d}.npy"
        if path.exists():
            return
        width = self._slab(number).shape[1]
        result = np.empty((len(kept.places), len(nodes), width), np.float32)
        for low, high in split_blocks(width, self.blocks.width):
            rows = partial(self._columns, Output("", number, 0.0, ()), (low, high))
            with self._arrays(high - low, 2) as arrays:
                part = labeled_rows(self.matrix, kept, nodes, rows, arrays, self.blocks, self.n_jobs)
            result[:, :, low:high] = part
        save_array(path, result)

    def propagate(self, output: Output) -> None:
        """Write the propagated columns of an output, or the squared lengths of its rows."""
        path = self.folder / output.file
        if not path.exists():
            with renamed(path) as temporary:
                self._write_output(output, temporary)

    def _write_output(self, output: Output, path: Path) -> None:
        b, width, only_lengths = output.normalization, self._width(output), output.matrix is None and not output.reach
        squares = np.zeros(self.stored.num_nodes if only_lengths else 0)
        result = FileArray.create(path, (self.stored.num_nodes, 0 if only_lengths else width), np.float32)
        for low, high in split_blocks(width, self.blocks.width):
            with self._arrays(high - low, 3) as (inputs, total, other):
                fill_scaled(inputs, self.matrix.degree, -b, partial(self._columns, output, (low, high)))
                total = horner(self.matrix, inputs, [*output.hop_weights], (total, other), self.blocks, self.n_jobs)
                for first, stop in split_blocks(self.stored.num_nodes, ROW_RANGE):
                    part = total[first:stop] * (self.matrix.degree[first:stop, None] ** b).astype(np.float32)
                    if only_lengths:
                        for k in range(high - low):  # one after the other, in whatever groups they come
                            squares[first:stop] += np.square(part[:, k], dtype=np.float64)
                        continue
                    rows = result[first:stop]
                    rows[:, low:high] = part
                    result[first:stop] = rows
        if only_lengths:
            save_array(path, squares)

    def _width(self, output: Output) -> int:
        if output.reach:
            return 1
        return int(self._slab(output.number).shape[1] if output.matrix is None else output.matrix.shape[1])

    def _columns(self, output: Output, columns: tuple[int, int], first: int, stop: int) -> Array:
        """Return some columns of what is propagated, for a range of nodes."""
        low, high = columns
        if output.reach:
            return np.asarray(self.lengths[first:stop, None] > 0, np.float32)
        if output.matrix is None:
            return self.inputs(output.number, first, stop)[:, low:high]
        total = np.zeros((stop - first, high - low), np.float32)
        for number in range(len(self.stored.slab_names)):
            rows = slice(number * SLAB_COLUMNS, (number + 1) * SLAB_COLUMNS)
            part = np.ascontiguousarray(output.matrix[rows, low:high], np.float32)
            add_product(self.inputs(number, first, stop), part, total)
        return total


def open_shared(folder: str, fingerprint: str) -> StoredGraph:
    """Open the stored graph of a task; a worker that sees another one, or none, is refused."""
    try:
        stored = open_graph(folder)
    except FileFormatError:
        if Path(folder).exists():
            raise
        problem = f"a worker does not see the stored graph {folder}"
        raise InputError(problem, hint="put it in a folder that all machines share") from None
    if stored.fingerprint != fingerprint:
        problem = f"a worker sees another stored graph in {folder}"
        raise InputError(problem, hint="put it in a folder that all machines share")
    return stored


def run_tasks(
    engine: Engine, task: Callable[[Any], Any], blocks: Sequence[Any], name: str, progress: Progress
) -> list[Any]:
    """Run a task on blocks, show progress, and return the results."""
    results = []
    for result in engine.map(task, blocks):
        results.append(result)
        progress(name, len(results), len(blocks))
    return results
