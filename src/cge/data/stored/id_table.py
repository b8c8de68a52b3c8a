"""Sorted ids in a Parquet file: indices by bisection, read by ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cge.arrays import Array
from cge.errors import UnknownNodeError

GROUP_ROWS = 1 << 17  # ids in a row group, which is read at once


class IdWriter:
    """Writes ids, which ascend, to a Parquet file; `metadata` describes them for `IdTable`."""

    def __init__(self, path: Path, kind: pa.DataType) -> None:
        self.count, self.first_ids, self.is_range = 0, list[Any](), pa.types.is_integer(kind)
        self._rest = pa.array([], kind)
        self._writer = pq.ParquetWriter(path, pa.schema([("id", kind)]))

    def write(self, ids: pa.Array) -> None:
        """Append ids."""
        if self.is_range:
            expected = np.arange(self.count, self.count + len(ids))
            self.is_range = bool(np.array_equal(ids.to_numpy(), expected))
        self.count += len(ids)
        self._rest = pa.concat_arrays([self._rest, ids])
        while len(self._rest) >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def _write_group(self, size: int) -> None:
        group, self._rest = self._rest.slice(0, size), pa.concat_arrays([self._rest.slice(size)])
        self.first_ids.append(group[0].as_py())
        self._writer.write_table(pa.table({"id": group}), row_group_size=GROUP_ROWS)

    def close(self) -> dict[str, Any]:
        """Write the rest and return the metadata of the file."""
        if len(self._rest):
            self._write_group(len(self._rest))
        self._writer.close()
        return {"first_ids": self.first_ids, "range": self.is_range, "count": self.count}


class IdTable:
    """The ids of a stored graph; node i has the i-th id."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        self._path, self._first_ids = path, metadata["first_ids"]
        self.count, self.is_range = int(metadata["count"]), bool(metadata["range"])

    def __len__(self) -> int:
        return self.count

    @property
    def is_text(self) -> bool:
        """Whether ids are strings."""
        return bool(self._first_ids) and isinstance(self._first_ids[0], str)

    def slice(self, first: int, stop: int) -> Array:
        """Return the ids of the nodes `first` to `stop`."""
        if self.is_range:
            return np.arange(first, stop)
        groups = range(first // GROUP_ROWS, -(-stop // GROUP_ROWS))
        with pq.ParquetFile(self._path) as file:
            ids = file.read_row_groups(list(groups), ["id"])["id"].combine_chunks()
        start = first - groups.start * GROUP_ROWS if len(groups) else 0
        return np.asarray(ids.slice(start, stop - first).to_numpy(zero_copy_only=False))

    def find(self, values: Iterable[Any]) -> Array:
        """Return the indices of ids, −1 where there is no such node; reads the row groups in which they may be."""
        queries = np.asarray(list(values), object if self.is_text else None)
        indices = np.full(len(queries), -1, np.int64)
        same_kind = np.array([isinstance(value, str) == self.is_text for value in queries.tolist()], bool)
        places = np.flatnonzero(same_kind)
        if not len(places) or not self.count:
            return indices
        wanted = queries[places] if self.is_text else queries[places].astype(np.int64)
        if self.is_range:
            indices[places] = np.where((wanted >= 0) & (wanted < self.count), wanted, -1)
            return indices
        first_ids = np.array(self._first_ids, wanted.dtype)
        group_of = np.searchsorted(first_ids, wanted, side="right") - 1
        for group, ids in self._groups(np.unique(group_of[group_of >= 0]).tolist()):
            here = np.flatnonzero(group_of == group)
            position = pc.index_in(pa.array(wanted[here], ids.type), value_set=ids)
            position = position.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            indices[places[here]] = np.where(position >= 0, position + group * GROUP_ROWS, -1)
        return indices

    def find_all(self, values: Iterable[Any], where: str) -> Array:
        """Return the same; unknown ids raise `UnknownNodeError`, which names them and `where`."""
        items = list(values)
        indices = self.find(items)
        unknown = list(dict.fromkeys(items[place] for place in np.flatnonzero(indices < 0).tolist()))
        if unknown:
            first = self.slice(0, min(self.count, 2)).tolist()
            raise UnknownNodeError(where, unknown[:5], len(unknown), node_ids=first)
        return indices

    def _groups(self, groups: list[int]) -> Iterator[tuple[int, pa.Array]]:
        with pq.ParquetFile(self._path) as file:
            for group in groups:
                yield group, file.read_row_group(group, ["id"])["id"].combine_chunks()
