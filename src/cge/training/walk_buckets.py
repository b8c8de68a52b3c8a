"""DeepWalk of a stored graph by buckets, whose tables of vectors may be larger than memory and on many machines.

Nodes are divided into P parts by their number modulo P, and so are the rows of both tables, one file each. Bucket
(i, j) are the pairs whose center is in part i and whose contexts and negatives are in part j: it needs the rows of part
i of the first table and of part j of the second one. The P buckets (i, i + s mod P) of a step s share no row, so they
are tasks that run at the same time (Lerer et al. 2019, "PyTorch-BigGraph"; there pairs are edges). Walks are a function
of the graph, the seed and their number: blocks of them are tasks, too.

A task writes new files and never changes those it reads. A task that is repeated writes the same bytes, and so does any
engine with any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import StoredGraph
from cge.data.stored.work_files import load_array, load_json, open_array, save_array, save_json
from cge.engine import Engine
from cge.parallel import split_blocks
from cge.randomness import generator, key
from cge.sampling import Walker
from cge.sampling.walk_kernels import alias_table
from cge.training.skipgram import train_bucket
from cge.training.slab_propagation import Progress, open_shared, run_tasks

_PART_BYTES = 1 << 29  # of a part of a table at most
_MIN_PARTS = 8  # so that as many tasks run at the same time
_WALK_BLOCK = 1 << 16  # walks of a block at most
_LAST_RATE = 1e-4  # final learning rate, relative to the first
_RANGE = 1 << 22  # entries that are read at once
_CENTER, _CONTEXT, _OTHER = 0, 1, 2  # parts of the nodes of a walk, in a bucket


def part_count(nodes: int, dim: int) -> int:
    """Return the number of parts: it depends on the size of the tables alone.

    >>> part_count(10**6, 128), part_count(10**8, 128)
    (8, 96)
    """
    return min(max(_MIN_PARTS, -(-4 * nodes * dim // _PART_BYTES)), max(nodes, 1))


@dataclass(frozen=True)
class WalkSettings:
    """The settings of DeepWalk that the result depends on."""

    dim: int
    walk_length: int
    walks_per_node: int
    window: int
    negatives: int
    epochs: int
    learning_rate: float
    random_state: int

    @property
    def passes(self) -> int:
        """How often every node starts a walk."""
        return self.walks_per_node * self.epochs


@dataclass(frozen=True)
class BucketTasks:
    """What tasks share: a stored graph, the folder of results, and settings; each opens the files anew."""

    graph: str
    fingerprint: str
    work: str
    settings: WalkSettings

    @classmethod
    def of(cls, stored: StoredGraph, work: Path, settings: WalkSettings) -> BucketTasks:
        """Return the tasks of a graph."""
        return cls(str(stored.folder.resolve()), stored.fingerprint, str(work.resolve()), settings)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send only paths and settings to workers, not what was opened."""
        return type(self), (self.graph, self.fingerprint, self.work, self.settings)

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return Path(self.work)

    @cached_property
    def stored(self) -> StoredGraph:
        """The graph; a worker that sees another one, or none, is refused."""
        return open_shared(self.graph, self.fingerprint)

    @cached_property
    def parts(self) -> int:
        """P."""
        return part_count(self.stored.num_nodes, self.settings.dim)

    @cached_property
    def walk_blocks(self) -> int:
        """The number of blocks of the walks of a pass."""
        return max(-(-self.stored.num_nodes // _WALK_BLOCK), 1)

    @cached_property
    def walker(self) -> Walker:
        """The walks of the graph."""
        how, graph = self.settings, self.stored.walk_graph()
        return Walker(graph, how.walk_length, how.walks_per_node, seed=how.random_state, n_jobs=1)

    def part_size(self, part: int) -> int:
        """Return the number of nodes of a part."""
        return len(range(part, self.stored.num_nodes, self.parts))

    def table(self, name: str, part: int, version: int) -> Path:
        """Return the file of a part of a table after `version` steps."""
        return self.folder / f"{name}-{part:04d}-{version:06d}.npy"

    # ------------------------------------------------------------------ tasks

    def prepare(self) -> None:
        """Count how often nodes are endpoints of entries: negatives are drawn in proportion to the power 0.75."""
        path, indices = self.folder / "in-degree.npy", self.stored.indices
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            count = np.zeros(self.stored.num_nodes, np.int64)
            for first, stop in split_blocks(len(indices), _RANGE):
                np.add.at(count, indices[first:stop], 1)
            save_array(path, count)

    def start_part(self, part: int) -> None:
        """Write the first vectors of a part: random ones, and zeros."""
        shape = self.part_size(part), self.settings.dim
        if not self.table("source", part, 0).exists():
            random = generator(self.settings.random_state, "vectors", part).random(shape, np.float32)
            save_array(self.table("target", part, 0), np.zeros(shape, np.float32))
            save_array(self.table("source", part, 0), (random - np.float32(0.5)) / np.float32(shape[1]))

    def walk_numbers(self, turn: int, block: int) -> Array:
        """Return the numbers of the walks of a block, whose start nodes are spread over the graph."""
        nodes = np.arange(block, self.stored.num_nodes, self.walk_blocks, dtype=np.int64)
        return nodes + (turn % self.settings.walks_per_node) * self.stored.num_nodes

    def walks_of(self, turn: int, block: int) -> Path:
        """Return the file of a block of walks."""
        return self.folder / f"walks-{turn:04d}-{block:06d}.npy"

    def sample(self, turn: int, block: int) -> None:
        """Write a block of the walks of a pass."""
        path = self.walks_of(turn, block)
        if not path.exists():
            epoch = turn // self.settings.walks_per_node
            save_array(path, self.walker.take(self.walk_numbers(turn, block), epoch=epoch))

    def negative_table(self, part: int) -> tuple[Array, Array, Array] | None:
        """Return rows, thresholds and aliases of the negatives of a part; None where no node of it has edges."""
        degree = open_array(self.folder / "in-degree.npy")[part :: self.parts]
        rows = np.flatnonzero(degree > 0)
        if not len(rows):
            return None
        threshold, alias = alias_table(degree[rows].astype(np.float64) ** 0.75)
        return rows, threshold, rows[alias]

    def train(self, step: int, part: int) -> None:
        """Train a bucket on the walks of a pass, and write its parts of both tables."""
        turn, shift = divmod(step, self.parts)
        other = (part + shift) % self.parts
        if self.table("source", part, step + 1).exists():
            return
        tables = load_array(self.table("source", part, step)), load_array(self.table("target", other, step))
        negatives = self.negative_table(other)
        for block in range(self.walk_blocks) if negatives is not None else ():
            walks = load_array(self.walks_of(turn, block))
            self._train_block(walks, turn, block, (part, other), tables, negatives)
        save_array(self.table("target", other, step + 1), tables[1])
        save_array(self.table("source", part, step + 1), tables[0])  # the last one: then the task is done

    def _train_block(
        self, walks: Array, turn: int, block: int, bucket: tuple[int, int], tables: tuple[Array, Array], negatives: Any
    ) -> None:
        how, total = self.settings, self.settings.passes * self.walk_blocks
        done = turn * self.walk_blocks + block
        fractions = done / total, (done + 1) / total
        first_rate, last_rate = (how.learning_rate * max(1 - fraction, _LAST_RATE) for fraction in fractions)
        epoch, in_epoch = divmod(turn, how.walks_per_node)
        first = in_epoch * self.stored.num_nodes + block * -(-self.stored.num_nodes // self.walk_blocks)
        numbered, nodes, parts = self._numbered(walks, bucket)
        train_bucket(
            numbered,
            first,
            tables,
            nodes,
            parts,
            negatives,
            window=how.window,
            learning_rates=(first_rate, last_rate),
            negatives=how.negatives,
            random_key=key(how.random_state, "negatives", epoch, bucket[1]),
        )

    def _numbered(self, walks: Array, bucket: tuple[int, int]) -> tuple[Array, tuple[Array, Array], tuple[int, int]]:
        """Return walks whose nodes are numbered for a bucket, part and row of each number, and the bucket's parts.

        Centers come first, then contexts where they are other nodes; the last number is that of all other nodes.
        """
        (center, context), same = bucket, bucket[0] == bucket[1]
        centers, contexts = self.part_size(center), 0 if same else self.part_size(context)
        row, part = walks // self.parts, walks % self.parts
        numbered = np.where(part == center, row, centers + contexts)
        if not same:
            numbered = np.where(part == context, row + centers, numbered)
        numbered = np.where(walks < 0, -1, numbered).astype(walks.dtype)
        part_of = np.repeat(np.array([_CENTER, _CONTEXT, _OTHER], np.int8), [centers, contexts, 1])
        rows = np.concatenate([np.arange(centers), np.arange(contexts), [0]])
        return numbered, (part_of, rows), (_CENTER, _CENTER if same else _CONTEXT)

    # ------------------------------------------------------------------ all steps

    def run(self, engine: Engine, progress: Progress) -> None:
        """Run all steps; those of an earlier, interrupted call are not repeated."""
        self.prepare()
        done = (load_json(self.folder / "steps.json") or {"done": 0})["done"]
        if not done:
            run_tasks(engine, self.start_part, range(self.parts), "starting vectors", progress)
        total = self.settings.passes * self.parts
        for step in range(done, total):
            turn, shift = divmod(step, self.parts)
            if shift == 0 or step == done:
                run_tasks(engine, partial(self.sample, turn), range(self.walk_blocks), "walking", progress)
            run_tasks(engine, partial(self.train, step), range(self.parts), f"step {step + 1} of {total}", progress)
            save_json(self.folder / "steps.json", {"done": step + 1})
            tables = [(path, 2) for name in ("source", "target") for path in self.folder.glob(f"{name}-*.npy")]
            walks = [(path, 1) for path in self.folder.glob("walks-*.npy")] if shift == self.parts - 1 else []
            for path, place in [*tables, *walks]:  # files of earlier steps
                if int(path.stem.split("-")[place]) <= (step if place == 2 else turn):
                    path.unlink()

    def vectors(self, first: int, stop: int) -> Array:
        """Return the vectors of a range of nodes, after all steps."""
        version, rows = self.settings.passes * self.parts, np.empty((stop - first, self.settings.dim), np.float32)
        for part in range(self.parts):
            start = first + (part - first) % self.parts
            if start < stop:
                table = open_array(self.table("source", part, version))
                rows[start - first :: self.parts] = table[start // self.parts : (stop - 1 - part) // self.parts + 1]
        return rows
