"""A stored graph: a folder of memory-mapped arrays that `graph.json` describes; opening it copies nothing.

| file | content |
|---|---|
| `indptr.npy`, `indices.npy` | compressed sparse rows, as in `Graph` |
| `weights.npy`, `types.npy` | weight and type of each entry, where edges have them |
| `x-0000.npy`, … | features, `(n, s)` float32: slabs of s columns |
| `ids.parquet` | node ids, ascending |
| `labels.parquet` | nodes and labels, where they were given |
| `graph.json` | format version, sizes, names, and size and SHA-256 of every other file |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.files.file_path import FilePath, file_path
from cge.data.stored.id_table import IdTable
from cge.data.stored.work_files import load_json, open_array, sha256
from cge.errors import FileFormatError
from cge.graph import Graph

FORMAT, FORMAT_VERSION = "cge-graph", 1
SLAB_COLUMNS = 16  # a row of a slab is one cache line
_HINT = "run 'cge ingest' again, or restore the folder from a copy"


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A stored graph; arrays are mapped when they are first used.

    Attributes
    ----------
    num_nodes, num_entries, num_features : int
        Sizes; an undirected edge has two entries.
    directed, self_loops : bool
        As in `Graph`, and whether entries from a node to itself were kept.
    ids : IdTable
        The node ids.
    fingerprint : str
        The SHA-256 of `graph.json`, which has that of every other file.
    """

    folder: Path
    metadata: dict[str, Any]
    fingerprint: str

    def __len__(self) -> int:
        return self.num_nodes

    @property
    def num_nodes(self) -> int:  # noqa: D102 - documented as attributes
        return int(self.metadata["nodes"])

    @property
    def num_entries(self) -> int:  # noqa: D102
        return int(self.metadata["entries"])

    @property
    def num_features(self) -> int:  # noqa: D102
        return int(self.metadata["features"])

    @property
    def directed(self) -> bool:  # noqa: D102
        return bool(self.metadata["directed"])

    @property
    def self_loops(self) -> bool:  # noqa: D102
        return bool(self.metadata["self_loops"])

    @cached_property
    def ids(self) -> IdTable:  # noqa: D102
        return IdTable(self.folder / "ids.parquet", self.metadata["ids"])

    @cached_property
    def indptr(self) -> Array:
        """Where the row of each node starts, `(n+1,)`."""
        return open_array(self.folder / "indptr.npy")

    @cached_property
    def indices(self) -> Array:
        """The column of each entry, `(m,)`."""
        return open_array(self.folder / "indices.npy")

    @cached_property
    def weights(self) -> Array | None:
        """The weight of each entry, `(m,)`, or None."""
        return open_array(self.folder / "weights.npy") if self.metadata["weighted"] else None

    @property
    def slab_names(self) -> list[str]:
        """The files of the features."""
        return [f"x-{number:04d}.npy" for number in range(-(-self.num_features // SLAB_COLUMNS))]

    def slab(self, number: int) -> Array:
        """Return a slab of features, `(n, s)`, memory-mapped."""
        return open_array(self.folder / self.slab_names[number])

    @property
    def row_bytes(self) -> int:
        """The bytes of the compressed sparse rows."""
        files = self.metadata["files"]
        return sum(files[name]["bytes"] for name in ("indptr.npy", "indices.npy", "weights.npy") if name in files)

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Compare files, by default all, with their SHA-256; a file that was changed raises `FileFormatError`."""
        for name in self.metadata["files"] if names is None else names:
            if sha256(self.folder / name) != self.metadata["files"][name]["sha256"]:
                problem = "the file was changed since 'cge ingest' wrote it"
                raise FileFormatError(self.folder / name, problem, hint=_HINT)

    def walk_graph(self) -> Graph:
        """Return a `Graph` of the memory-mapped rows alone, for walks; its ids are all 0 and take no memory."""
        ids = np.broadcast_to(np.zeros(1, np.int64), (self.num_nodes,))
        return _unchecked(
            indptr=self.indptr, indices=self.indices, node_ids=ids, directed=self.directed, weights=self.weights
        )

    def load(self) -> Graph:
        """Return a `Graph` whose rows are memory-mapped; features and ids are read into memory."""
        slabs = [self.slab(number) for number in range(len(self.slab_names))]
        features = None if not slabs else slabs[0] if len(slabs) == 1 else np.concatenate(slabs, axis=1)
        types = self.folder / "types.npy"
        return _unchecked(
            indptr=self.indptr,
            indices=self.indices,
            node_ids=self.ids.slice(0, self.num_nodes),
            directed=self.directed,
            weights=self.weights,
            edge_types=open_array(types) if self.metadata["type_names"] else None,
            edge_type_names=tuple(self.metadata["type_names"]),
            features=features,
            feature_names=tuple(self.metadata["feature_names"]),
        )


def _unchecked(**values: Any) -> Graph:
    """Return a graph of arrays that were checked when they were stored: to check them again would read them all."""
    graph = object.__new__(Graph)
    for each in fields(Graph):
        object.__setattr__(graph, each.name, values.get(each.name, each.default))
    return graph


def is_stored_graph(path: FilePath) -> bool:
    """Return whether a path is a folder with a `graph.json`."""
    return (Path(path) / "graph.json").is_file()


def open_graph(folder: FilePath) -> StoredGraph:
    """Open a folder that `cge ingest` has written; nothing is copied.

    Raises `FileFormatError` where a file is missing or has another size, or the format version is another one.
    """
    path = file_path(folder)
    try:
        metadata = load_json(path / "graph.json")
    except (ValueError, OSError):
        raise FileFormatError(path / "graph.json", "this is not readable JSON", hint=_HINT) from None
    if metadata is None:
        work = path / "work"
        hint = "run the same 'cge ingest' command again, which continues" if work.is_dir() else "give its folder"
        raise FileFormatError(path, "expected a stored graph, found no graph.json", hint=hint)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise FileFormatError(path / "graph.json", "this does not describe a stored graph", hint=_HINT)
    if metadata.get("format_version") != FORMAT_VERSION:
        problem = f"format version {metadata.get('format_version')}, this cge reads {FORMAT_VERSION}"
        raise FileFormatError(path, problem, hint="run 'cge ingest' again")
    for name, about in metadata["files"].items():
        size = (path / name).stat().st_size if (path / name).is_file() else None
        if size != about["bytes"]:
            problem = "is missing" if size is None else f"has {size:,} bytes instead of {about['bytes']:,}"
            raise FileFormatError(path / name, f"the file {problem}", hint=_HINT)
    return StoredGraph(path, metadata, sha256(path / "graph.json"))
