"""Numbers for ids: sorted runs are merged by ranges of ids, in bounded memory, without a dictionary.

A run has the distinct ids of a chunk, ascending. A node's number is the rank of its id among all; strings are compared
by their UTF-8 bytes, which is the order of Python's strings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cge.arrays import Array
from cge.data.stored.work_files import renamed

_SAMPLES = 64  # ids of each run, for every range, from which the bounds of ranges are chosen


def save_run(path: Path, ids: pa.Array) -> None:
    """Write a run as an Arrow file."""
    batch = pa.record_batch([ids], names=["id"])
    with (
        renamed(path) as temporary,
        pa.OSFile(str(temporary), "wb") as stream,
        pa.ipc.new_file(stream, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def open_run(path: Path) -> pa.Array:
    """Return a run, memory-mapped."""
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)


def merge_runs(runs: Sequence[pa.Array], max_items: int) -> Iterator[tuple[pa.Array, list[Array]]]:
    """Yield the distinct ids of all runs, range by range, and the number of each id of each run, range by range.

    A range has about `max_items` ids of all runs. Numbers count from 0 over all ranges.

    >>> runs = [pa.array([1, 4, 9]), pa.array([2, 4])]
    >>> [(ids.to_pylist(), [numbers.tolist() for numbers in parts]) for ids, parts in merge_runs(runs, 100)]
    [([1, 2, 4, 9], [[0, 2, 3], [1, 2]])]
    """
    first, starts = 0, [0] * len(runs)
    for pivot in [*_pivots(runs, max_items), None]:
        stops = [len(run) if pivot is None else _position(run, pivot) for run in runs]
        slices = [run.slice(start, stop - start) for run, start, stop in zip(runs, starts, stops, strict=True)]
        ids = pc.unique(pa.chunked_array(slices, runs[0].type))
        ids = ids.take(pc.sort_indices(ids))
        numbers = [pc.index_in(part, value_set=ids).to_numpy(zero_copy_only=False) + np.int64(first) for part in slices]
        yield ids, numbers
        first, starts = first + len(ids), stops


def _pivots(runs: Sequence[pa.Array], max_items: int) -> list[Any]:
    """Return the first ids of all ranges but the first."""
    count = -(-sum(map(len, runs)) // max(max_items, 1))
    if count <= 1:
        return []
    samples: list[Any] = []
    for run in runs:
        places = np.unique(np.linspace(0, len(run) - 1, min(_SAMPLES * count, len(run)), dtype=np.int64))
        samples += run.take(pa.array(places)).to_pylist()
    samples.sort()
    pivots = [samples[len(samples) * k // count] for k in range(1, count)]
    return sorted(set(pivots))


def _position(run: pa.Array, pivot: Any) -> int:
    return bisect_left(range(len(run)), pivot, key=lambda place: run[place].as_py())
