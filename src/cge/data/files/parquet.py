"""Which format a file has, and Parquet tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cge.data.files.blocks import open_bytes
from cge.data.files.growing import Growing
from cge.data.files.interning import Names
from cge.data.files.text_fields import NUMBER, Field, Fields
from cge.data.files.tokenizer import INTEGER
from cge.errors import FileFormatError, format_value

__all__ = ["file_kind", "parquet_schema", "read_parquet_fields"]

Array = npt.NDArray[Any]

_KINDS = {
    "text": (".csv", ".tsv", ".tab", ".txt", ".text", ".dat", ".edges", ".edgelist", ".cites", ".content", ""),
    "parquet": (".parquet", ".pq"),
    "npy": (".npy",),
    "npz": (".npz",),
    "mtx": (".mtx",),
}
_OTHERS = {
    "pickles may run any code and are never opened; save the data as .npz or .parquet": (
        ".pkl",
        ".pickle",
        ".joblib",
        ".pt",
        ".pth",
    ),
    "spreadsheets are not read; save it as CSV": (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"),
    "only gzip is unpacked on the way; unpack it first": (".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz"),
    "this format is not read; convert it to an edge list, e.g. with NetworkX": (
        ".json",
        ".jsonl",
        ".graphml",
        ".gml",
        ".gexf",
        ".adjlist",
        ".net",
        ".dot",
        ".g6",
    ),
}


def file_kind(path: Path, allowed: Sequence[str]) -> str:
    """Tell by its suffix what a file holds: one of `allowed`, out of text, parquet, npy, npz and mtx."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next((one for one in reversed(suffixes) if one != ".gz"), "")
    other = next((problem for problem, known in _OTHERS.items() if suffix in known), None)
    if other is not None:
        raise FileFormatError(path, other)
    kind = next((kind for kind, known in _KINDS.items() if suffix in known), None)
    if kind is None or kind not in allowed:
        legal = ", ".join(one for kind in allowed for one in _KINDS[kind] if one)
        raise FileFormatError(
            path, f"the suffix {format_value(suffix)} is not one of {legal}; rename or convert the file"
        )
    return kind


# ---------------------------------------------------------------------- Parquet


def parquet_schema(path: Path) -> pa.Schema:
    """Return the names and types of the columns of a Parquet file."""
    with _parquet(path) as file:
        return file.schema_arrow


@contextmanager
def _parquet(path: Path) -> Iterator[pq.ParquetFile]:
    with open_bytes(path) as stream:
        try:
            with pq.ParquetFile(stream) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileFormatError(path, "this is no readable Parquet file; write or fetch it again") from None


def read_parquet_fields(path: Path, fields: Sequence[Field], names: Names, number_type: type = np.float64) -> Fields:
    """Read columns of a Parquet file batch by batch; the same result as `cge.data.files.text_fields.read_fields`.

    `lines` are row numbers, from 1.
    """
    fields = sorted(fields, key=lambda field: field.column)
    identifiers = [field for field in fields if field.kind != NUMBER]
    numeric = [field for field in fields if field.kind == NUMBER]
    stores = {field.column: Growing(np.int32) for field in identifiers}
    numbers, rows = Growing(number_type, len(numeric)), 0
    with _parquet(path) as file:
        titles = file.schema_arrow.names
        for batch in file.iter_batches(columns=[titles[field.column] for field in fields], batch_size=1 << 16):
            columns = {field.column: batch.column(titles[field.column]) for field in fields}
            for field in fields:
                if columns[field.column].null_count:
                    row = rows + int(np.flatnonzero(columns[field.column].is_null().to_numpy(zero_copy_only=False))[0])
                    raise FileFormatError(path, f"the {field.what} is missing in row {row + 1:,}")
            for field in identifiers:
                read = _integers if field.kind == INTEGER else _codes
                stores[field.column].append(read(path, columns[field.column], field, names))
            if numeric:
                values = [_numbers(path, columns[field.column], field, rows) for field in numeric]
                numbers.append(np.stack(values, axis=1))
            rows += len(batch)
    return Fields(tuple(stores[field.column].done() for field in identifiers), numbers.done(), np.arange(1, rows + 1))


def _integers(path: Path, column: pa.Array, field: Field, _: Names) -> Array:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise FileFormatError(path, f"expected integers as {field.what}, found {column.type}", hint=field.hint)
    try:
        values: Array = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise FileFormatError(path, f"expected integers as {field.what} ({error})", hint=field.hint) from None
    return values


def _codes(path: Path, column: pa.Array, field: Field, names: Names) -> Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (
        pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        raise FileFormatError(path, f"expected text or integers as {field.what}, found {column.type}")
    # A batch may be a slice of a larger array; Arrow's concatenation of one array packs it.
    packed = pa.concat_arrays([column.cast(pa.large_string())])
    _, offsets, text = packed.buffers()
    places = np.frombuffer(offsets, np.int64)[packed.offset : packed.offset + len(packed) + 1]
    content = np.frombuffer(text, np.uint8) if text is not None and text.size else np.empty(0, np.uint8)
    if not content[places[0] : places[-1]].all():
        raise FileFormatError(path, f"a {field.what} holds a zero byte; expected text")
    lengths = np.diff(places)
    if not lengths.all():
        raise FileFormatError(path, f"a {field.what} is empty")
    return names.intern(content, places[:-1], lengths)


def _numbers(path: Path, column: pa.Array, field: Field, rows: int) -> Array:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        raise FileFormatError(path, f"expected numbers as {field.what}, found {column.type}", hint=field.hint)
    values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(values) | ((values <= 0) & field.positive))
    if len(wrong):
        legal = "positive, finite numbers" if field.positive else "finite numbers"
        raise FileFormatError(
            path,
            f"expected {legal} as {field.what}, found {values[wrong[0]]} in row {rows + wrong[0] + 1:,}",
            hint=field.hint,
        )
    return values
