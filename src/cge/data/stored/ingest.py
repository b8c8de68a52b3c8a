"""Edge files, larger than memory, to a stored graph.

Stages, each of which continues after an interruption from the files it has finished in `work/`:

1. *chunks*: edges are read in chunks; each is written with its own sorted ids;
2. *ids*: the sorted ids of all chunks are merged, which numbers the nodes;
3. *partition*: the entries of each chunk are grouped by blocks of rows;
4. *blocks*: each block is sorted and its duplicates are merged;
5. *features* and *files*: slabs of columns, and the final arrays with their SHA-256.

The result depends on the files and the options alone, not on memory, chunks or interruptions.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cge.csr import index_dtype
from cge.data.files.dialect import TextOptions
from cge.data.files.edges import EdgeOptions
from cge.data.files.file_path import FilePath, expand_paths, file_path
from cge.data.files.labels import read_label_table
from cge.data.files.node_tables import MISSING_ROWS, read_node_list
from cge.data.stored.edge_chunks import EdgeChunk, EdgeFiles
from cge.data.stored.feature_slabs import FeatureFiles, write_slabs
from cge.data.stored.folder import FORMAT, FORMAT_VERSION, StoredGraph, open_graph
from cge.data.stored.id_runs import merge_runs, open_run, save_run
from cge.data.stored.id_table import IdTable, IdWriter
from cge.data.stored.row_blocks import Entries, concatenate, entries_of, entry_files, partition, sort_block
from cge.data.stored.work_files import (
    join_arrays,
    load_json,
    open_array,
    renamed,
    save_array,
    save_json,
    sha256,
    temporary_name,
)
from cge.engine import Engine, LocalEngine
from cge.errors import FileFormatError, InputError, Message, Spelling, disk_hint
from cge.parallel import resolve_jobs

Progress = Callable[[str, int, int | None], None]  # name of a stage, how much is done, of how much

_MIN_MEMORY = 64 << 20
_BASE_MEMORY = 300 << 20  # bytes of Python and its libraries
_CHUNK_BYTES, _ENTRY_BYTES, _ID_BYTES = 160, 64, 100  # of an edge of a chunk, an entry of a block, an id that is merged
_MAX_CHUNK_ROWS = 1 << 23


@dataclass(frozen=True)
class IngestOptions:
    """How edges are read and stored."""

    edges: EdgeOptions
    directed: bool = False
    self_loops: bool = False
    missing_features: str = "error"


def ingest(
    edges: FilePath | Sequence[FilePath],
    out: FilePath,
    *,
    features: FilePath | Sequence[FilePath] | None = None,
    labels: FilePath | None = None,
    nodes: FilePath | None = None,
    options: IngestOptions | None = None,
    memory: int = 4 << 30,
    n_jobs: int | None = None,
    progress: Progress = lambda *_: None,
) -> StoredGraph:
    """Write the edges of one or many files to a stored graph; an interrupted call continues when it is repeated.

    Parameters
    ----------
    edges : path or list of paths
        Tables of edges with the same columns: text, plain or gzip, or Parquet; `*` and `?` stand for several files.
    out : path
        The folder to write; it must be new, empty, or of an interrupted call.
    features : path or list of paths, optional
        Dense features: tables with a column of nodes, or one `.npy` array whose row i belongs to the i-th smallest id.
    labels, nodes : path, optional
        A table of nodes and labels, and one of all nodes, isolated ones included.
    memory : int
        Bytes that are used at most.
    """
    settings = options or IngestOptions(EdgeOptions())
    if settings.missing_features not in MISSING_ROWS:
        expected = "'error', 'zero' or 'mean'"
        raise InputError(parameter="missing_features", expected=expected, found=settings.missing_features)
    folder = file_path(out)
    if memory < _MIN_MEMORY:
        raise InputError(f"memory must be at least {_MIN_MEMORY >> 20} MB, found {memory >> 20} MB", parameter="memory")
    try:
        return _Ingest(
            expand_paths(edges), folder, expand_paths(features), labels, nodes, settings, memory, n_jobs, progress
        ).run()
    except OSError as error:
        if isinstance(error, FileFormatError):
            raise
        hint = Message(f"{disk_hint(error)} folder; the same ", Spelling("call", "command"), " continues")
        raise InputError(f"{folder} cannot be written ({error.strerror or error})", hint=hint) from None


class _Ingest:
    """The stages of one call, and what they share."""

    def __init__(
        self,
        edges: list[Path],
        folder: Path,
        features: list[Path],
        labels: FilePath | None,
        nodes: FilePath | None,
        options: IngestOptions,
        memory: int,
        n_jobs: int | None,
        progress: Progress,
    ) -> None:
        self.folder, self.work, self.options, self.progress = folder, folder / "work", options, progress
        self.labels, self.nodes = (None if path is None else file_path(path) for path in (labels, nodes))
        self.files, self.n_jobs = EdgeFiles.open(edges, options.edges), n_jobs
        text = TextOptions(comment=options.edges.text.comment)
        self.text_ids = not self.files.integer_ids
        self.features = FeatureFiles.open(features, self.text_ids, text) if features else None
        usable = max(memory - _BASE_MEMORY, memory // 4)
        self.max_rows = int(np.clip(usable // (2 * _CHUNK_BYTES), 1 << 12, _MAX_CHUNK_ROWS))
        self.engine: Engine = LocalEngine(min(resolve_jobs(n_jobs), 2))
        self.usable = usable // self.engine.n_workers
        inputs = [*edges, *features, *filter(None, (self.labels, self.nodes))]
        self.plan = {"version": FORMAT_VERSION, "max_rows": self.max_rows, "options": str(asdict(options))}
        self.plan["inputs"] = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in inputs]

    def run(self) -> StoredGraph:
        """Run the stages that are not finished."""
        if self._prepare():
            return open_graph(self.folder)
        count = self._done("chunks", self._write_chunks)["count"]
        ids = self._done("ids", partial(self._number_ids, count))
        block_rows, blocks = self._done("partition", partial(self._partition, count, ids["count"]))["blocks"]
        self._done("blocks", partial(self._sort_blocks, count, ids["count"], block_rows, blocks))
        table = IdTable(self.folder / "ids.parquet", ids)
        if self.features is not None:
            self._done("features", partial(self._write_features, table))
        self._finish(ids, blocks)
        return open_graph(self.folder)

    def _prepare(self) -> bool:
        """Create the folders, or continue in those of the same call; return whether it was complete already."""
        plan = load_json(self.work / "plan.json") if self.work.is_dir() else None
        if (self.folder / "graph.json").exists() and plan == self.plan:  # interrupted while it removed its files
            shutil.rmtree(self.work)
            return True
        if plan is not None and plan != self.plan:  # other files or options: start again
            shutil.rmtree(self.work)
            for path in self.folder.glob("*"):
                if path.suffix in (".npy", ".parquet", ".tmp"):
                    path.unlink()
            plan = None
        used = self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir()))
        if used and plan is None and not temporary_name(self.work / "plan.json").exists():
            raise InputError(f"{self.folder} exists and is not empty", hint="give another folder, or remove it")
        self.work.mkdir(parents=True, exist_ok=True)
        save_json(self.work / "plan.json", self.plan)
        return False

    def _done(self, stage: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of a stage, which is run unless it was finished before."""
        path = self.work / f"{stage}.json"
        result: dict[str, Any] | None = load_json(path)
        if result is None:
            result = run()
            save_json(path, result)
        return result

    # ------------------------------------------------------------------ stages

    def _write_chunks(self) -> dict[str, Any]:
        number, rows = 0, 0
        for chunk in self.files.chunks(self.max_rows):
            if not (self.work / f"chunk-{number}.json").exists():
                self._write_chunk(number, chunk)
            number, rows = number + 1, rows + len(chunk.source)
            self.progress("reading edges", rows, None)
        return {"count": number, "rows": rows}

    def _write_chunk(self, number: int, chunk: EdgeChunk) -> None:
        save_run(self.work / f"chunk-{number}.arrow", chunk.ids)
        parts = {"rows": chunk.source, "cols": chunk.target, "weights": chunk.weights, "types": chunk.types}
        for name, path in self._files(f"chunk-{number}").items():
            array: Any = parts[name]
            save_array(path, array)
        save_json(self.work / f"chunk-{number}.json", {"types": chunk.type_names})

    def _files(self, name: str) -> dict[str, Path]:
        return entry_files(self.work, name, self.files.weighted, self.files.typed)

    def _number_ids(self, count: int) -> dict[str, Any]:
        """Merge the ids of all chunks, of the node list and of features; write the number of each id of each chunk."""
        runs = [open_run(self.work / f"chunk-{number}.arrow") for number in range(count)]
        others = self._other_ids(runs)
        items, done = sum(map(len, runs)) + sum(map(len, others)), 0
        with ExitStack() as stack:
            writer = IdWriter(stack.enter_context(renamed(self.folder / "ids.parquet")), runs[0].type)
            paths = [stack.enter_context(renamed(self.work / f"numbers-{number}")) for number in range(count)]
            numbers = [stack.enter_context(path.open("wb")) for path in paths]
            for ids, parts in merge_runs([*runs, *others], max(self.usable // _ID_BYTES, 1 << 10)):
                writer.write(ids)
                for stream, part in zip(numbers, parts, strict=False):
                    stream.write(part.astype(np.int64).tobytes())
                done += sum(map(len, parts))
                self.progress("numbering ids", done, items)
            return writer.close()

    def _other_ids(self, runs: list[pa.Array]) -> list[pa.Array]:
        """Return the runs of ids that are not in edges: of the node list, and of features."""
        others = []
        if self.nodes is not None:
            text = TextOptions(comment=self.options.edges.text.comment)
            ids = np.unique(read_node_list(self.nodes, self.text_ids, text))
            others.append(pa.array(ids, runs[0].type))
        if self.features is not None and self.features.array is not None and not self.text_ids:
            size = len(self.features.array)
            if all(run[0].as_py() >= 0 and run[-1].as_py() < size for run in runs if len(run)):
                others.append(pa.array(np.arange(size)))
        elif self.features is not None:
            for _, keys, _ in self.features.chunks(self.text_ids, self.max_rows):
                others.append(pa.array(np.unique(keys.to_numpy(zero_copy_only=False)), runs[0].type))
        return others

    def _partition(self, count: int, num_nodes: int) -> dict[str, Any]:
        entries = load_json(self.work / "chunks.json")["rows"] * (1 if self.options.directed else 2)
        blocks = int(np.clip(2 * entries * _ENTRY_BYTES // self.usable, 1, max(num_nodes, 1)))
        block_rows = max(-(-num_nodes // blocks), 1)
        blocks = -(-num_nodes // block_rows) if num_nodes else 1
        type_names = self._type_names(count)
        task = partial(self._partition_chunk, index_dtype(num_nodes), block_rows, blocks, type_names)
        for done, _ in enumerate(self.engine.map(task, range(count)), 1):
            self.progress("grouping entries", done, count)
        return {"blocks": [block_rows, blocks], "type_names": type_names}

    def _type_names(self, count: int) -> list[str]:
        """Return the edge types, in the order of their first appearance in the chunks."""
        chunks = [load_json(self.work / f"chunk-{number}.json") for number in range(count)]
        return list(dict.fromkeys(name for chunk in chunks for name in chunk["types"]))

    def _partition_chunk(self, dtype: Any, block_rows: int, blocks: int, types: list[str], number: int) -> None:
        bounds_file = self.work / f"bounds-{number}.npy"
        if bounds_file.exists():
            return
        files = self._files(f"chunk-{number}")
        numbers = np.fromfile(self.work / f"numbers-{number}", np.int64).astype(dtype)
        codes = {name: open_array(path) for name, path in files.items()}
        if "types" in codes:
            chunk_types = load_json(self.work / f"chunk-{number}.json")["types"]
            codes["types"] = np.array([types.index(name) for name in chunk_types], np.int16)[codes["types"]]
        codes["rows"], codes["cols"] = numbers[codes["rows"]], numbers[codes["cols"]]
        entries = entries_of(Entries(**codes), self.options.directed, self.options.self_loops)
        grouped, bounds = partition(entries, block_rows, blocks)
        for name, path in self._files(f"entries-{number}").items():
            save_array(path, getattr(grouped, name))
        save_array(bounds_file, bounds)
        for path in files.values():
            path.unlink()

    def _sort_blocks(self, count: int, num_nodes: int, block_rows: int, blocks: int) -> dict[str, Any]:
        task = partial(self._sort_block, count, num_nodes, block_rows)
        for done, _ in enumerate(self.engine.map(task, range(blocks)), 1):
            self.progress("sorting rows", done, blocks)
        return {}

    def _sort_block(self, count: int, num_nodes: int, block_rows: int, block: int) -> None:
        sizes_file = self.work / f"sizes-{block}.npy"
        if sizes_file.exists():
            return
        parts = []
        for number in range(count):
            bounds = open_array(self.work / f"bounds-{number}.npy")
            arrays = {name: open_array(path) for name, path in self._files(f"entries-{number}").items()}
            parts.append(Entries(**arrays).take(slice(int(bounds[block]), int(bounds[block + 1]))))
        first = block * block_rows
        rows = sort_block(concatenate(parts), first, min(block_rows, num_nodes - first), 1)
        for name, part in (("indices", rows.indices), ("weights", rows.weights), ("types", rows.types)):
            if part is not None:
                save_array(self.work / f"{name}-{block}.npy", part)
        save_array(sizes_file, np.diff(rows.indptr))

    def _write_features(self, ids: IdTable) -> dict[str, Any]:
        self.progress("writing features", 0, None)
        files: Any = self.features
        max_rows = max(min(self.usable // (16 * files.width), self.max_rows), 1)
        write_slabs(self.folder, files, ids, self.options.missing_features, max_rows)
        return {}

    # ------------------------------------------------------------------ result

    def _finish(self, ids: dict[str, Any], blocks: int) -> None:
        """Join the blocks, hash all files and write `graph.json`, which makes the folder complete."""
        sizes = np.concatenate([open_array(self.work / f"sizes-{block}.npy") for block in range(blocks)])
        entries = int(sizes.sum())
        indptr = np.zeros(len(sizes) + 1, index_dtype(entries))
        np.cumsum(sizes, out=indptr[1:])
        save_array(self.folder / "indptr.npy", indptr)
        for name, present in (("indices", True), ("weights", self.files.weighted), ("types", self.files.typed)):
            if present:
                parts = [open_array(self.work / f"{name}-{block}.npy") for block in range(blocks)]
                join_arrays(self.folder / f"{name}.npy", parts)
        if self.labels is not None:
            self._write_labels(self.labels, IdTable(self.folder / "ids.parquet", ids))
        names = sorted(path.name for path in self.folder.iterdir() if path.suffix in (".npy", ".parquet"))
        described = {}
        for done, name in enumerate(names, 1):
            path = self.folder / name
            described[name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
            self.progress("computing hashes", done, len(names))
        features, stage = self.features, load_json(self.work / "partition.json")
        metadata = {"format": FORMAT, "format_version": FORMAT_VERSION, "nodes": ids["count"], "entries": entries}
        metadata |= {"directed": self.options.directed, "self_loops": self.options.self_loops}
        metadata |= {"weighted": self.files.weighted, "type_names": stage["type_names"] if self.files.typed else []}
        metadata |= {"features": 0 if features is None else features.width, "ids": ids, "files": described}
        metadata |= {"feature_names": [] if features is None else list(features.names)}
        metadata |= {"rows": load_json(self.work / "chunks.json")["rows"]}
        save_json(self.folder / "graph.json", metadata)
        shutil.rmtree(self.work)

    def _write_labels(self, path: Path, ids: IdTable) -> None:
        table = read_label_table(path, self.text_ids, TextOptions(comment=self.options.edges.text.comment))
        ids.find_all(table.nodes.tolist(), str(path))
        names = np.array(table.names, object)[table.classes]
        kind = pa.large_string() if self.text_ids else pa.int64()
        columns = {"node": pa.array(table.nodes, kind), "label": pa.array(names, pa.large_string())}
        pq.write_table(pa.table(columns), self.folder / "labels.parquet")
